"""Parses flows from YAML: names, groups, intervals, MirrorMaker topics, access sync."""

from __future__ import annotations

from reconciler.environment.parse.flow_start import read_on_condition, read_rate_limit, read_start
from reconciler.environment.parse.record_filter import additions, selection
from reconciler.environment.parse.values import label
from reconciler.environment.yaml.entry import Reading
from reconciler.model.environment.flows import AccessSync, ConfigSync, Groups, MirrorMakerTopics, OffsetsKept
from reconciler.model.environment.topology import Carry, Delivery, Flow, Isolation
from reconciler.replication.handover import Naming
from reconciler.replication.policy import canonical_policy

HEARTBEATS_INTERVAL_MS = 1_000


def build_flow(reading: Reading) -> Flow:
    standard, tests, carry = ConfigSync(), reading.node("where"), reading.value("provenance", default=None)
    return Flow(
        name=reading.name,
        source=reading.value("source", default=""),
        target=reading.value("target", default=""),
        topics=reading.expressions("topics"),
        exclude_topics=reading.expressions("exclude_topics"),
        naming=Naming(
            policy=canonical_policy(reading.value("naming", "policy", default="default")),
            separator=reading.value("naming", "separator", default="."),
        ),
        replication_factor=reading.value("replication_factor", default=None),
        delivery=Delivery(reading.value("delivery", default="exactly_once")),
        isolation=Isolation(reading.value("isolation", default="read_committed")),
        start=read_start(reading),
        lanes=reading.value("lanes", default=2),
        rate_limit=read_rate_limit(reading),
        on_condition=read_on_condition(reading),
        configs=ConfigSync(
            enabled=reading.value("sync_topic_configs", "enabled", default=standard.enabled),
            exclude=reading.expressions("sync_topic_configs", "exclude", default=standard.exclude),
            use_defaults_from=reading.value("sync_topic_configs", "use_defaults_from", default="target"),
            carry_undeclared_limits=reading.value("sync_topic_configs", "carry_undeclared_limits", default=False),
        ),
        groups=Groups(
            include=reading.expressions("groups", "include", default=Groups().include),
            exclude=reading.expressions("groups", "exclude", default=Groups().exclude),
            sync_offsets=reading.value("groups", "sync_offsets", default=False),
            interval_ms=reading.interval("groups", "interval", default=Groups().interval_ms),
            follow_rewinds=reading.value("groups", "follow_rewinds", default=False),
            both_ways=reading.value("groups", "both_ways", default=False),
        ),
        mirrormaker_topics=_mirrormaker_topics(reading),
        selection=None if tests is None else selection(tests, reading.wrong),
        headers=additions(reading.node("headers", "add"), reading.wrong),
        provenance=None if carry is None else Carry(carry),
        offsets=OffsetsKept(reading.value("offsets", default=OffsetsKept.TRANSLATED.value)),
        filler_limit=reading.value("filler_limit", default=None),
        access=AccessSync(
            enabled=reading.value("access", "sync", default=False),
            groups=reading.value("access", "groups", default=False),
            principals=reading.mapping("access", "principals", each=label),
        ),
        labels=reading.mapping("labels", each=label),
        where=reading.place.where,
    )


def _mirrormaker_topics(reading: Reading) -> MirrorMakerTopics:
    at = "mirrormaker_topics"
    beats = reading.value(at, "heartbeats", default=False)
    syncs = reading.value(at, "offset_syncs", default=False)
    return MirrorMakerTopics(
        heartbeats=reading.interval(at, "heartbeats_interval", default=HEARTBEATS_INTERVAL_MS) if beats else None,
        offset_syncs=reading.value(at, "offset_syncs_location", default="source") if syncs else None,
        internal_separator=reading.value(at, "internal_topic_separator", default=True),
    )
