"""A cluster's policy that refuses the name of the lock's topic blocks the plan, and not only the apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from reconciler.backends.clusters.topics.write import NOT_LISTED
from reconciler.backends.state.home import lock_topic_refused
from reconciler.engine.plan.build import plan, with_broker_refusals
from reconciler.errors import ClusterError
from reconciler.model.changes import AlterQuota, CreateTopic, Subject, TopicChange
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.replication.names import LOCK_TOPIC
from tests.support.builders import cluster, topic, topology
from tests.support.fakes.cluster import FakeCluster


@dataclass
class Asked:
    """Answers what is asked of it."""

    answer: str | ClusterError = ""
    made: list[CreateTopic] = field(default_factory=list)

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[Subject, str]:
        assert isinstance(changes[0], CreateTopic)
        self.made.append(changes[0])
        if isinstance(self.answer, ClusterError):
            raise self.answer
        return {changes[0].subject: self.answer} if self.answer else {}


def made_plan(*there: str) -> tuple[LiveState, Plan]:
    east = FakeCluster("east")
    for name in there:
        east.put(name)
    live = LiveState({"east": east.read()}, {})
    return live, plan(topology(topic("orders", "east"), cluster("east")), live)


def refused(answer: str | ClusterError, *there: str) -> tuple[Mapping[str, str], Asked]:
    live, made = made_plan(*there)
    asked = Asked(answer)
    found = lock_topic_refused({"east": asked}, live, cluster("east"), made)  # type: ignore[dict-item]
    return {str(subject): words for subject, words in found.items()}, asked


def test_what_the_policy_says_is_known_before_an_apply() -> None:
    found, asked = refused("names begin with a letter")
    assert found == {f"east/{LOCK_TOPIC}": "names begin with a letter"}
    assert {each.ref.name for each in asked.made} == {LOCK_TOPIC}
    assert {config.key for config in asked.made[0].configs} >= {"cleanup.policy", "min.insync.replicas"}


@pytest.mark.parametrize("answer", ["", NOT_LISTED, ClusterError("east", "denied", "may not")])
def test_what_is_accepted_there_already_or_not_asked_blocks_nothing(answer: str | ClusterError) -> None:
    assert refused(answer)[0] == {}


def test_nothing_is_asked_where_it_is_there_or_nothing_would_be_applied() -> None:
    assert refused("no", LOCK_TOPIC)[1].made == []
    live, made = made_plan()
    asked = Asked("no")
    assert lock_topic_refused({"east": asked}, live, cluster("east"), replace(made, changes=())) == {}  # type: ignore[dict-item]
    assert asked.made == []


def test_the_plan_is_blocked_with_advice_that_can_work() -> None:
    _, made = made_plan()
    subject = Asked("no").validate([lock_topic()])
    [refusal] = with_broker_refusals(made, subject, {}).refused
    assert "Let the cluster's policy allow" in refusal.todo
    assert LOCK_TOPIC in refusal.todo
    assert "--create" not in refusal.todo


def lock_topic() -> CreateTopic:
    _, asked = refused("no")
    return asked.made[0]
