"""Internal topics of mirrors: what is kept there outlives any time for which nothing runs."""

from __future__ import annotations

from dataclasses import replace

from reconciler.model.environment.flow_settings import MirrorMakerTopics
from reconciler.model.environment.topology import Flow
from reconciler.replication.names import STATUS_TOPIC
from reconciler.resources.topics.internal import internal_topics
from tests.support.builders import flow, topology


def test_nothing_in_an_internal_topic_expires() -> None:
    """Pauses, offset maps, checkpoints: a mirror that was stopped for a month starts with all of them."""
    made: Flow = flow("east", "west", "orders")
    full = replace(
        made, groups=replace(made.groups, sync_offsets=True), mirrormaker_topics=MirrorMakerTopics(1_000, "source")
    )
    internal = internal_topics(topology(full))
    assert STATUS_TOPIC in {topic.ref.name for topic in internal}
    assert {topic.configs["cleanup.policy"] for topic in internal} == {"compact"}
    assert {topic.configs.get("retention.ms", "-1") for topic in internal} == {"-1"}
