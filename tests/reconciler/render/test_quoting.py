"""What others call their principals, users and groups stays one word on one line, wherever it is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.changes.not_done import UnmanagedAcl
from reconciler.model.plan import AccessShift, Plan
from reconciler.model.principals import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    entity,
    user_words,
    word,
)
from reconciler.render.markup import Style
from reconciler.render.plan.sections import shift_sections
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.drift import drift_text
from reconciler.text import quoted
from tests.support.builders import topic, topology, world

FORGED = "User:x\x1b[2J\nBlocked (9): nothing is applied"
RULE = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, FORGED, "*", Operation.READ, Permission.ALLOW
)  # fmt: skip


def planned() -> Plan:
    return world().plan(topology(topic("orders", partitions=1)))


@pytest.mark.parametrize("hidden", ["\x1b[31mred", "a\x9b2J", "a\u202eb", "a\nb", "a\u200bb", "\U000e0041"])
def test_what_does_not_print_is_reported_by_its_number(hidden: str) -> None:
    for told in (quoted(hidden), word(hidden), user_words(hidden), str(entity({"user": hidden}))):
        assert told.isprintable()
        assert '"' in told


@given(st.text(), st.text())
def test_two_names_never_read_alike(one: str, other: str) -> None:
    assert (word(one) == word(other)) == (one == other)


@pytest.mark.parametrize("text", [partial(plan_text, style=Style(full=True)), drift_text])
def test_a_principal_of_others_forges_no_line(text: Callable[[Plan], str]) -> None:
    told = text(replace(planned(), unmanaged_acls=(UnmanagedAcl("east", RULE),)))
    [line] = [one for one in told.split("\n") if "Blocked" in one]
    assert line == r'  east: "User:x\u001b[2J\nBlocked (9): nothing is applied": allow read on topic orders'


def test_who_gains_what_is_reported_in_one_line() -> None:
    shift = AccessShift("east", FORGED, True, ResourceType.GROUP, (Operation.READ,), ("a, b", "c\n"), ("d e*",), 0, "*")
    [section] = shift_sections(replace(planned(), shifts=(shift,)))
    assert section.items[0].text == (
        r'east: "User:x\u001b[2J\nBlocked (9): nothing is applied" gains read on group "d e*", "a, b", "c\n"'
    )
