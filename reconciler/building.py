"""From the parsed entries of the environment's files to nouns.

Border: given entries whose shape is right; notes problems of single values (units, secrets, times) and leaves the
entry out. Relations between entries are ``checking``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from types import MappingProxyType

from reconciler.copying import read_on_condition, read_rate_limit, read_start
from reconciler.flow_syncs import AccessSync, ConfigSync, Groups, MirrorMakerTopics
from reconciler.reading import Reading, sentence
from reconciler.selecting import additions, selection
from reconciler.settings import Wrong, client_setting, has_reference, retention_step, scalar_text, topic_config
from reconciler.sizes import duration_ms
from reconciler.topology import (
    Carry,
    Delivery,
    Flow,
    Isolation,
    Mirror,
    Naming,
    Principal,
    Tombstone,
    Topic,
)
from reconciler.yaml_nodes import Node, Scalar

MIN_INTERVAL_MS = 100
HEARTBEATS_INTERVAL_MS = 1_000

VALUES: Mapping[str, tuple[tuple[tuple[str, ...], Callable[[str, Node], str | Wrong]], ...]] = MappingProxyType(
    {
        "clusters": (
            (("client",), client_setting),
            *((("principals", principal.value), client_setting) for principal in Principal),
            (("defaults", "configs"), topic_config),
            (("defaults", "lower_retention_by"), retention_step),
        ),
        "topics": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "defaults": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "classes": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "mirrors": ((("spark_conf",), lambda key, node: _spark_setting(key, node)),),
    }
)


def judge_values(reading: Reading) -> None:
    """Only notes the problems of single values: for entries whose shape is wrong elsewhere."""
    for path, each in VALUES.get(reading.section, ()):
        reading.mapping(*path, each=each)


def build_topic(reading: Reading) -> Topic:
    return Topic(
        name=reading.name,
        clusters=reading.texts("clusters"),
        partitions=reading.value("partitions", default=None),
        replication_factor=reading.value("replication_factor", default=None),
        configs=reading.mapping("configs", each=topic_config),
        labels=reading.mapping("labels", each=_label),
        class_name=reading.value("class", default=""),
        lower_retention_by=reading.mapping("lower_retention_by", each=retention_step),
        where=reading.place.where,
    )


def build_flow(reading: Reading) -> Flow:
    standard, tests, carry = ConfigSync(), reading.node("where"), reading.value("provenance", default=None)
    return Flow(
        name=reading.name,
        source=reading.value("source", default=""),
        target=reading.value("target", default=""),
        topics=reading.texts("topics"),
        exclude_topics=reading.texts("exclude_topics"),
        naming=Naming(
            policy=reading.value("naming", "policy", default="default"),
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
            exclude=reading.texts("sync_topic_configs", "exclude", default=standard.exclude),
            use_defaults_from=reading.value("sync_topic_configs", "use_defaults_from", default="target"),
        ),
        groups=Groups(
            include=reading.texts("groups", "include", default=Groups().include),
            exclude=reading.texts("groups", "exclude", default=Groups().exclude),
            sync_offsets=reading.value("groups", "sync_offsets", default=False),
            interval_ms=_interval(reading, ("groups", "interval"), Groups().interval_ms),
            follow_rewinds=reading.value("groups", "follow_rewinds", default=False),
        ),
        mirrormaker_topics=_mirrormaker_topics(reading),
        selection=None if tests is None else selection(tests, reading.wrong),
        headers=additions(reading.node("headers", "add"), reading.wrong),
        provenance=None if carry is None else Carry(carry),
        access=_access_sync(reading),
        labels=reading.mapping("labels", each=_label),
        where=reading.place.where,
    )


def _mirrormaker_topics(reading: Reading) -> MirrorMakerTopics:
    at = "mirrormaker_topics"
    beats = reading.value(at, "heartbeats", default=False)
    syncs = reading.value(at, "offset_syncs", default=False)
    return MirrorMakerTopics(
        heartbeats=_interval(reading, (at, "heartbeats_interval"), HEARTBEATS_INTERVAL_MS) if beats else None,
        offset_syncs=reading.value(at, "offset_syncs_location", default="source") if syncs else None,
        internal_separator=reading.value(at, "internal_topic_separator", default=True),
    )


def _access_sync(reading: Reading) -> AccessSync:
    return AccessSync(
        enabled=reading.value("access", "sync", default=False),
        groups=reading.value("access", "groups", default=False),
        principals=reading.mapping("access", "principals", each=_label),
    )


def build_mirror(reading: Reading) -> Mirror:
    """``flows`` is empty when the entry names none; ``loading`` fills them in."""
    return Mirror(
        name=reading.name,
        flows=tuple(sorted(reading.texts("flows"))),
        master=reading.value("master", default="local[2]"),
        parallelism=reading.value("parallelism", default=2),
        spark_conf=reading.mapping("spark_conf", each=_spark_setting),
        refresh_interval_ms=_interval(reading, ("refresh_interval",), 5_000),
        status_interval_ms=_interval(reading, ("status_interval",), 2_000),
        metrics_port=reading.value("metrics_port", default=0),
        metrics_host=reading.value("metrics_host", default="127.0.0.1"),
        where=reading.place.where,
    )


def build_tombstone(reading: Reading) -> Tombstone:
    return Tombstone(
        cluster=reading.value("cluster", default=""),
        topic=reading.value("topic", default=""),
        topic_id=reading.value("topic_id", default=""),
        reason=reading.value("reason", default=""),
        expires=_day(reading, "expires"),
        where=reading.place.where,
    )


def _day(reading: Reading, name: str) -> str:
    text = str(reading.value(name, default=""))
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        why = "No calendar has this day"
        reading.wrong((name,), Wrong("bad-date", f"{name} is {text}", why, "Write a day such as 2026-01-31"))
        return ""


def _label(_: str, node: Node) -> str:
    return scalar_text(node) if isinstance(node, Scalar) else ""


def _spark_setting(key: str, node: Node) -> str | Wrong:
    if not isinstance(node, Scalar):
        return ""  # the schema has said so
    if has_reference(node.text):
        return Wrong(
            "reference-not-here",
            f"{key} holds a reference",
            "References are resolved in client settings only",
            "Write the value itself, or let Spark read the secret from its own place",
        )
    return scalar_text(node)


def _interval(reading: Reading, path: tuple[str, ...], default: int) -> int:
    text, name = reading.value(*path, default=None), ".".join(path)
    if text is None:
        return default
    try:
        found = duration_ms(text)
    except ValueError as error:
        reading.wrong(path, Wrong("bad-duration", f'{name} is "{text}"', "It is not a time", sentence(error)))
        return default
    if found < MIN_INTERVAL_MS:
        why = "Shorter intervals cost more than they tell"
        reading.wrong(path, Wrong("out-of-range", f"{name} is {text}", why, "Write 100ms or more"))
    return found
