"""Every class of change belongs to one kind, and a change that no kind knows raises wherever it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.engine.apply.limits import Silent
from reconciler.engine.apply.run import apply, looked_up
from reconciler.engine.drift.causes import cause_of, differences
from reconciler.engine.kinds import KINDS, STATES, kind_of
from reconciler.engine.plan.file import change_document, dumps, observe_again, subjects
from reconciler.engine.plan.order import place_of
from reconciler.engine.plan.select import is_safe
from reconciler.model.changes import (
    CHANGES,
    About,
    Action,
    BaseChange,
    Change,
    KindName,
    Reason,
    Stage,
    Subject,
    Why,
)
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState
from reconciler.model.plan import Basis, Plan, Planned
from reconciler.model.reports.drift import History
from reconciler.render.plan.kinds import WORDS, headline, words_of
from reconciler.render.plan.outline import outline
from reconciler.resources.acls.probe.run import AclBatches
from tests.support.builders import cluster, world


@dataclass(frozen=True, slots=True)
class RegisterSchema(BaseChange):
    """Of a kind that nobody knows. Else it is a whole change."""

    kind = cast(KindName, "schemas")
    word = "register_schema"
    verb = "schema"
    action = Action.CREATE
    stage = Stage.TARGET_TOPICS
    cluster = "east"
    subject = Subject(About.OTHER, name="schema east/orders")
    id = "schema:east/orders"
    reason = Reason(Why.DECLARED, "declared")


@dataclass(frozen=True, slots=True)
class RenameTopic(RegisterSchema):
    """Of a kind that is known, which does not know it."""

    kind = KindName.TOPICS
    ref = TopicRef("east", "orders")


@dataclass(frozen=True, slots=True)
class MoveMirror(RegisterSchema):
    kind = KindName.MIRRORS


def planned(change: Change) -> Planned:
    return Planned(change.id, change, Stage.TARGET_TOPICS, "low", "", "reversible")


def plan_of(change: Change) -> Plan:
    return Plan(Basis("test", "0" * 64), (planned(change),))


def applied(change: Change) -> object:
    seen = world()
    return apply(plan_of(change), seen.clusters, seen.runner, {}, Silent())


def performed(change: Change) -> object:
    return KafkaCluster(cluster("east")).perform([planned(change)], lambda _: None)


def validated(change: Change) -> object:
    return KafkaCluster(cluster("east")).validate([cast(Any, change)])


def confirmed(change: Change) -> object:
    return list(looked_up([planned(change)], cast(Any, world().clusters), cast(AclBatches, None)))


EVERYWHERE: list[Callable[[Change], object]] = [
    kind_of,
    lambda change: subjects([change], ()),
    lambda change: place_of(change, ()),
    lambda change: is_safe(planned(change)),
    lambda change: differences(plan_of(change)),
    lambda change: cause_of(planned(change), History()),
    change_document,
    lambda change: dumps(plan_of(change)),
    headline,
    words_of,
    lambda change: outline(plan_of(change)),
    validated,
]
NAMES = ["kind_of", "subjects", "place_of", "is_safe", "differences", "cause_of", "change_document", "dumps"]
NAMES += ["headline", "words_of", "outline", "validate"]


@pytest.mark.parametrize("made", [RegisterSchema, RenameTopic, MoveMirror])
@pytest.mark.parametrize("give", EVERYWHERE, ids=NAMES)
def test_a_change_that_no_kind_knows_raises(give: Callable[[Change], object], made: type[Any]) -> None:
    with pytest.raises((TypeError, AssertionError)):
        give(made())


@pytest.mark.parametrize("give", [applied, performed, confirmed])
def test_a_change_of_an_unknown_kind_is_not_carried_out(give: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AssertionError)):
        give(RegisterSchema())


def test_a_mirror_is_never_said_to_be_done_for_a_change_that_is_none() -> None:
    with pytest.raises(TypeError, match="no change of a mirror"):
        applied(cast(Any, MoveMirror()))


@pytest.mark.parametrize("change", [RenameTopic(), MoveMirror()])
def test_clusters_are_asked_for_nothing_that_is_not_theirs(change: Any) -> None:
    with pytest.raises((TypeError, ValueError, AssertionError)):
        performed(change)


def test_every_class_of_change_belongs_to_one_kind() -> None:
    assert sorted(made.__name__ for kind in KINDS for made in kind.changes) == sorted(made.__name__ for made in CHANGES)
    assert [kind.name for kind in KINDS if any(made.kind is not kind.name for made in kind.changes)] == []


def test_there_is_one_record_a_kind_and_words_for_each() -> None:
    assert sorted(kind.name for kind in KINDS) == sorted(KindName)
    assert WORDS.keys() == set(KindName)


def test_each_class_has_a_word_of_its_own_and_says_what_it_is() -> None:
    assert len({made.word for made in CHANGES}) == len(CHANGES)
    for made in CHANGES:
        assert all(hasattr(made, part) for part in ("id", "cluster", "kind", "stage", "subject", "action", "reason"))
        assert made.id is not BaseChange.id, made


def test_what_a_plan_rests_on_is_observed_by_one_kind() -> None:
    assert len(STATES) == sum(len(kind.states) for kind in KINDS)
    with pytest.raises(KeyError):
        observe_again([Subject(About.FLOW, name="a")], LiveState({}, {}))


@pytest.mark.parametrize(
    "subject",
    [
        Subject(About.CLUSTER, "east"),
        Subject(About.MIRROR, name="west"),
        Subject(About.ENVIRONMENT, name="prod"),
        Subject(About.FLOW, name="east-to-west"),
        Subject(About.DECLARED, name="access rules of east"),
        Subject(About.PRUNE, name="with east"),
        Subject(About.ACLS, "east"),
        Subject(About.QUOTA, "east", "user a/b: c, client-id <default>"),
        Subject(About.QUOTA_STATE, "east", "user a: b, client-id c/d"),
        Subject(About.USER, "east", "CN=a, O=b/c d"),
        Subject(About.REASSIGNMENT, "east"),
        Subject(About.TOPIC_STATE, "east", "orders"),
        Subject(About.REPLICAS, "east", "orders"),
        Subject(About.BROKERS, "east"),
        Subject(About.ACL, "east", "allow User:a/b read on topic orders"),
        Subject(About.TOPIC, "east", "orders"),
        Subject(About.TOPIC, "east", "orders", "replication factor"),
        Subject(About.OTHER, name="something else\nof a later release"),
        Subject(About.OTHER),
    ],
    ids=str,
)
def test_the_text_of_a_subject_can_be_parsed(subject: Subject) -> None:
    assert Subject.of_text(str(subject)) == subject
