"""A saved plan comes back as it was, or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.build import plan
from reconciler.engine.plan.file import PlanfileError
from reconciler.errors import Unknown
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    CreateTopic,
    DeleteTopic,
    Ignored,
    Reason,
    Refused,
    RestartMirror,
    StartMirror,
    StopMirror,
    Subject,
    Why,
)
from reconciler.model.environment.topology import Tombstone, Topology
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.plan import Edition, Plan
from reconciler.model.schemas import schema
from reconciler.replication.handover import canonical_json
from tests.support.builders import flow, topic, topology, world
from tests.support.worlds import LiveParts, live_parts, topologies


@pytest.mark.slow
@given(topologies(), live_parts)
def test_round_trip(wished: Topology, before: LiveParts) -> None:
    plan = before.build().plan(wished)
    text = planfile.dumps(plan)
    assert planfile.loads(text) == plan
    document = json.loads(text)
    shape = schema("plan")
    jsonschema.Draft202012Validator(shape).validate(document)
    assert document["digest"] == planfile.digest(plan)


def saved() -> Plan:
    """A plan with every kind of change and list."""
    wished = topology(
        topic("orders", partitions=4, configs={"retention.ms": "5"}),
        topic("pay", partitions=1),
        flow("east", "west", "orders", lanes=3),
        flow("east", "north", "new"),
    )
    seen = world("east", "west", "north")
    seen.clusters["east"].put("orders", 2)
    seen.clusters["west"].put("stray", 2)
    old = seen.clusters["west"].put("old", 2)
    wished = replace(wished, deletions=(Tombstone("west", "old", old.topic_id, "moved", "2099-01-31"),))
    seen.apply(topology(flow("east", "west", "orders")))
    live = seen.look(wished)
    other = LiveMirror("gone", JobState.RUNNING, "local-9", "0123456789abcdef")
    planned = plan(wished, replace(live, mirrors={**live.mirrors, "gone": other}), edition=Edition("abc", dirty=True))
    return replace(
        planned,
        refused=(Refused(Subject.of_text("a"), Reason(Why.DECLARED, "c"), "d"),),
        unknown=(Unknown("a", "b", "c", ("d", "e")),),
        ignored=(Ignored(Subject.of_text("a"), "b", "c"),),
    )


def edited(path: tuple[Any, ...], value: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(planfile.dumps(saved()))
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def test_every_kind_of_change_and_list_comes_back() -> None:
    plan = saved()
    kinds = {type(one.change) for one in plan.changes}
    assert kinds == {CreateTopic, AddPartitions, AlterConfigs, StartMirror, RestartMirror, StopMirror, DeleteTopic}
    assert plan.unmanaged
    assert planfile.loads(planfile.dumps(plan)) == plan


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("changes", 0, "change", "ref", "name"), "other"),
        (("basis", "observed"), []),
        (("refused",), []),
        (("verdict",), "No changes"),
        (("more",), 1),
    ],
)
def test_an_edited_plan_is_refused(path: tuple[Any, ...], value: object) -> None:
    document = edited(path, value)
    with pytest.raises(PlanfileError, match="not as it was written") as caught:
        planfile.loads(json.dumps(document))
    assert caught.value.exit_code == 1
    assert caught.value.todo


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no JSON"),
        ("[]", "no saved plan"),
        ('{"kind": "drift"}', "no saved plan"),
        ('{"kind": "plan", "format_version": 99}', "format version 99"),
        ('{"kind": "plan", "format_version": 1}', "not as it was written"),
        ('{"kind": "plan", "format_version": 1, "a": "\\ud800"}', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"kind": "plan", "format_version": NaN}', "cannot be read"),
        ('{"kind": "drift", "format_version": 1, "kind": "plan"}', "'kind' twice in one object"),
        ('{"kind": "plan", "format_version": ' + "1" * 5000 + "}", "cannot be read"),
    ],
)
def test_what_is_no_plan_is_reported_clearly(text: str, what: str) -> None:
    with pytest.raises(PlanfileError, match=what):
        planfile.loads(text)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("changes", 0, "change", "partitions"), "3"),
        (("changes", 0, "change", "role"), "unheard of"),
        (("changes", 0, "change", "kind"), "delete_topic"),
        (("changes", 0, "change"), None),
        (("changes", 0, "risk"), "unheard of"),
        (("basis", "extra"), 1),
        (("notes",), 5),
    ],
)
def test_a_plan_of_the_wrong_shape_with_the_right_digest_is_refused(path: tuple[Any, ...], value: object) -> None:
    document = edited(path, value)
    del document["digest"]
    digest = hashlib.sha256(canonical_json(document).encode()).hexdigest()
    with pytest.raises(PlanfileError, match="wrong shape"):
        planfile.loads(json.dumps({**document, "digest": digest}))


def test_layout_of_the_text_does_not_count() -> None:
    document = json.loads(planfile.dumps(saved()))
    assert planfile.loads(json.dumps(dict(reversed(document.items())))) == saved()
