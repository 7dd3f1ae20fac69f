"""Rights that a failover would miss on its way are asked for before anything is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from reconciler.backends.clusters.groups import Side
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.failover import FailoverCheck, Key, Level, Way
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.rights import GROUPS_ASKED, AskRights, StepNeeds, denied, hidden, rights_missing
from reconciler.resources.flows.routes import selector_of
from tests.support.builders import cluster, flow, topology

EAST = cluster("east")
SETS = StepNeeds(EAST, Principal.MIRROR, ("clicks", "orders"), ("billing", "shop"))
CHANGES = StepNeeds(EAST, Principal.APPLY, alters="the fence could not be taken back", writes="not paused")
READ = frozenset({"READ", "DESCRIBE"})
ALL = Rights(
    Principal.MIRROR,
    "User:m",
    "east:9092",
    operations={"clicks": READ, "orders": READ},
    groups={"billing": True, "shop": True},
    writes={"__mirror_status": True},
    cluster=frozenset({"ALTER"}),
)


def asking(answer: Rights) -> AskRights:
    return lambda *_: answer


def the(need: StepNeeds, answer: Rights, *, lost: bool = False) -> tuple[FailoverCheck, ...]:
    return denied([need], lost=lost, ask=asking(answer))


def test_with_every_right_nothing_is_reported() -> None:
    assert denied([SETS, CHANGES], lost=False, ask=asking(ALL)) == ()


@pytest.mark.parametrize(
    ("need", "answer", "words", "command"),
    [
        (SETS, replace(ALL, denied=frozenset({"orders"})), "may not read 1 topic (orders)", "Read --topic orders"),
        (SETS, replace(ALL, operations={"clicks": frozenset({"WRITE"}), "orders": READ}), "(clicks)", "--topic clicks"),
        (SETS, replace(ALL, groups={"billing": True, "shop": False}), "may not read 1 group (shop)", "--group shop"),
        (
            CHANGES,
            replace(ALL, cluster=frozenset({"DESCRIBE"})),
            "the fence could not be taken back",
            "Alter --cluster",
        ),
        (CHANGES, replace(ALL, writes={"__mirror_status": False}), "not paused", "Write --topic __mirror_status"),
    ],
)
def test_a_right_that_a_step_would_miss_stops_all_of_them(
    need: StepNeeds, answer: Rights, words: str, command: str
) -> None:
    (check,) = the(need, answer)
    assert (check.code, check.level) == ("rights", Level.STOPS)
    assert words in check.text
    assert " on east" in check.text
    assert command in check.todo


def test_what_can_be_moved_from_a_lost_origin_is_moved() -> None:
    one = replace(ALL, groups={"billing": True, "shop": False})
    none = replace(ALL, groups={"billing": False, "shop": False})
    assert [check.level for check in the(SETS, one, lost=True)] == [Level.WARNS]
    assert [check.level for check in the(SETS, none, lost=True)] == [Level.STOPS]


def test_an_unanswered_check_is_reported_and_stops_nothing() -> None:
    unknown = Unknown("cluster east", "it hung up", "Check it")
    for answer in (replace(ALL, failed=unknown), replace(ALL, groups=unknown)):
        (check,) = the(SETS, answer)
        assert (check.level, "it hung up" in check.text, check.todo) == (Level.WARNS, True, "Check it")
    (check,) = the(CHANGES, replace(ALL, writes=unknown))
    assert check.level is Level.WARNS


def test_of_very_many_groups_the_first_are_asked_for() -> None:
    asks: list[Ask] = []

    def ask(*given: object) -> Rights:
        asks.append(next(each for each in given if isinstance(each, Ask)))
        return ALL

    denied([replace(SETS, groups=tuple(f"g{number}" for number in range(1000)))], lost=False, ask=ask)
    assert [len(each.groups) for each in asks] == [GROUPS_ASKED]


@dataclass
class OneSide:
    name: str
    copied: Mapping[str, Sequence[Key]] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()
    principal: str = "mirror"

    def positions(self, of: str) -> Mapping[Key, int]:
        return dict.fromkeys(self.copied.get(of, ()), 7)

    def denied_topics(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.denied]

    def is_denied_group(self, _: str) -> bool:
        return False


@pytest.mark.parametrize("moved_from", ["", "first-name"])
def test_a_topic_that_a_flow_has_copied_and_the_origin_hides_stops_a_failover(moved_from: str) -> None:
    """Also of a flow that was renamed: its positions go on under its first name."""
    renamed = replace(flow("east", "west", "orders"), moved_from=moved_from)
    move = move_of(topology(renamed), Way.FAILOVER, renamed.name)
    east = OneSide("east", denied=frozenset({"orders"}))
    west = OneSide("west", {renamed.state_name: [("east.orders", 0), ("east.orders", 1)]})
    sides = cast(tuple[Side, Side], cast(Any, (east, west)))
    checks = list(hidden(move, sides, {renamed.name: renamed}, {renamed.name: selector_of(renamed)}, ["g"]))
    assert [(check.code, check.level) for check in checks] == [("hidden-topics", Level.STOPS)]
    assert "orders" in checks[0].text
    east.denied = frozenset()
    assert list(hidden(move, sides, {renamed.name: renamed}, {renamed.name: selector_of(renamed)}, ["g"])) == []


REPLACED = Ask(
    ("clicks", "orders"), creates=("kept",), groups=("mirror.f-back",), transactional_ids=("mirror.f-back.0",)
)
MAY = replace(
    ALL,
    operations=dict.fromkeys(REPLACED.topics, frozenset({"DELETE"})),
    creates={"kept": True},
    groups={"mirror.f-back": True},
    transactional_ids={"mirror.f-back.0": True},
)


@pytest.mark.parametrize(
    ("answer", "command"),
    [
        (MAY, ""),
        (replace(MAY, operations={**MAY.operations, "orders": READ}), "Delete --topic orders"),
        (replace(MAY, denied=frozenset({"clicks"})), "Delete --topic clicks"),
        (replace(MAY, creates={"kept": False}), "Create --topic kept"),
        (replace(MAY, groups={"mirror.f-back": False}), "Read --group mirror.f-back"),
        (replace(MAY, transactional_ids={"mirror.f-back.0": False}), "Write --transactional-id mirror.f-back.0"),
    ],
)
def test_what_replaces_topics_is_asked_for_its_rights(answer: Rights, command: str) -> None:
    checks = list(rights_missing([(EAST, Principal.APPLY, REPLACED, "DELETE")], asking(answer)))
    assert [check.level for check in checks] == ([Level.STOPS] if command else [])
    assert all(command in check.todo for check in checks)


def test_rights_that_could_not_be_asked_are_not_taken_for_given() -> None:
    answer = replace(MAY, failed=Unknown("cluster east", "no answer", "wait"))
    (check,) = rights_missing([(EAST, Principal.APPLY, REPLACED, "DELETE")], asking(answer))
    assert (check.level, "could not be asked" in check.text) == (Level.WARNS, True)
