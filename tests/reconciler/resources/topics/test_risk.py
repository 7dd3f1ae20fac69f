"""The risk of a change, found without looking at all topics for each of many changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.changes import AlterConfigs, ConfigChange, Reason, Risk, Role, Why
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import ConfigValue, LiveCluster, LivePartition, LiveState, LiveTopic, Source
from reconciler.resources.kind import world_of
from reconciler.resources.topics.kind import assess
from tests.support.builders import flow, topic, topology, world

OWN, USUAL = ConfigValue("100", Source.TOPIC), ConfigValue("7", Source.CLUSTER)


class Watched(dict[str, LiveTopic]):
    """Counts how often all of it is looked at."""

    looks = 0

    def values(self) -> Any:
        self.looks += 1
        return super().values()

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()


def live_topic(name: str, configs: Mapping[str, ConfigValue] | Unknown) -> LiveTopic:
    return LiveTopic(name, f"id-{name}", (LivePartition(0, 1, (1,), (1,)),), configs)


def losing(name: str, after: str | None = None) -> AlterConfigs:
    change = ConfigChange("retention.ms", "100", Source.TOPIC, after, "git")
    return AlterConfigs(TopicRef("east", name), f"id-{name}", (change,), Role.DECLARED, Reason(Why.DECLARED, "y"))


def state(topics: dict[str, LiveTopic]) -> LiveState:
    return LiveState({"east": LiveCluster("east", "id", (), topics), "west": Unknown("cluster west", "silent")}, {})


def test_a_copy_of_an_applications_topic_names_the_flow_that_would_make_it() -> None:
    seen = world("east", "north", "west")
    for name in ("east", "north"):
        seen.clusters[name].put("_schemas")
    wished = topology(*(flow(name, "west", "_schemas", replication_factor=1) for name in ("east", "north")))
    made = {one.change.subject.name: one.risk_why for one in seen.plan(wished).changes}
    for name in ("east", "north"):
        assert f"exclude_topics of flow {name}-to-west," in made[f"{name}._schemas"]


def test_a_topic_whose_configs_are_not_known_may_be_compacted() -> None:
    seen = world("east")
    seen.clusters["east"].put("orders", 2)
    wished = topology(topic("orders", partitions=4))
    assert [one.risk for one in seen.plan(wished).changes] == [Risk.MEDIUM]
    seen.clusters["east"].configs_unreadable = Unknown("configs", "no answer")
    [growth] = seen.plan(wished).changes
    assert growth.risk == Risk.HIGH
    assert "may be compacted" in growth.risk_why


def test_all_topics_are_checked_once_however_many_lose_an_override() -> None:
    topics = Watched({f"t{n}": live_topic(f"t{n}", {"retention.ms": OWN}) for n in range(50)})
    topics["last"] = live_topic("last", {"retention.ms": USUAL})
    live = state(topics)
    against = world_of(topology(), live)
    found = [assess(losing(f"t{n}"), against) for n in range(50)]
    assert {one.risk for one in found} == {Risk.HIGH}
    assert all("-> 7" in one.why for one in found)
    assert topics.looks == 1


def test_a_value_that_is_set_needs_no_look_at_others() -> None:
    topics = Watched({"t": live_topic("t", {"retention.ms": OWN})})
    live = state(topics)
    assert assess(losing("t", "200"), world_of(topology(), live)).risk is Risk.LOW
    assert topics.looks == 0


def test_an_unknown_remaining_value_counts_as_the_worst() -> None:
    hidden = live_topic("hidden", Unknown("configs of east/hidden", "denied"))
    live = state({"t": live_topic("t", {"retention.ms": OWN}), "hidden": hidden})
    against = world_of(topology(), live)
    found = assess(losing("t"), against)
    assert (found.risk, "may keep less" in found.why) == (Risk.HIGH, True)
    assert not against.fallbacks("west")
