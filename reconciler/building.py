"""From the parsed entries of the environment's files to nouns.

Border: given entries whose shape is right; notes problems of single values (units, secrets, times) and leaves the
entry out. Relations between entries are ``checking``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any

from reconciler.errors import Problem
from reconciler.places import Place, Step, locate
from reconciler.settings import Wrong, client_setting, has_reference, scalar_text, topic_config
from reconciler.shape import subject
from reconciler.sizes import duration_ms
from reconciler.topology import (
    Cluster,
    ConfigSync,
    Delivery,
    Flow,
    Groups,
    Isolation,
    Mirror,
    Naming,
    Principal,
    Start,
    Tombstone,
    Topic,
    TopicDefaults,
)
from reconciler.yaml_nodes import Mapping as YamlMapping
from reconciler.yaml_nodes import Node, Scalar, Sequence

MIN_INTERVAL_MS = 100


@dataclass(slots=True)
class Reading:
    """One entry being read. ``problems`` grows; the entry is usable when none came."""

    section: str
    name: str
    place: Place
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: tuple[Step, ...], wrong: Wrong) -> None:
        where = self.place.document.where(locate(self.place.entry, path))
        what = f"{subject((self.section, self.name))}: {wrong.what}"
        self.problems.append(Problem(wrong.code, where, what, wrong.why, wrong.todo))

    def node(self, *path: str) -> Node | None:
        """The node at a path of field names, or None when it is not written."""
        node: Node = self.place.entry.value
        for step in path:
            if not isinstance(node, YamlMapping) or step not in node.entries:
                return None
            node = node.entries[step].value
        return node

    def value(self, *path: str, default: Any) -> Any:
        """The plain value at a path. The schema has already seen to its type."""
        node = self.node(*path)
        if node is None:
            return default
        data = node.data
        return int(data) if isinstance(data, float) else data

    def texts(self, *path: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        node = self.node(*path)
        if not isinstance(node, Sequence):
            return default
        return tuple(item.text for item in node.items if isinstance(item, Scalar))

    def mapping(self, *path: str, each: Callable[[str, Node], str | Wrong]) -> Mapping[str, str]:
        node = self.node(*path)
        found: dict[str, str] = {}
        if isinstance(node, YamlMapping):
            for key, entry in node.entries.items():
                value = each(key, entry.value)
                if isinstance(value, Wrong):
                    self.wrong((*path, key), value)
                else:
                    found[key] = value
        return MappingProxyType(found)


VALUES: Mapping[str, tuple[tuple[tuple[str, ...], Callable[[str, Node], str | Wrong]], ...]] = MappingProxyType(
    {
        "clusters": (
            (("client",), client_setting),
            *((("principals", principal.value), client_setting) for principal in Principal),
            (("defaults", "configs"), topic_config),
        ),
        "topics": ((("configs",), topic_config),),
        "mirrors": ((("spark_conf",), lambda key, node: _spark_setting(key, node)),),
    }
)


def judge_values(reading: Reading) -> None:
    """Only notes the problems of single values: for entries whose shape is wrong elsewhere."""
    for path, each in VALUES.get(reading.section, ()):
        reading.mapping(*path, each=each)


def build_cluster(reading: Reading) -> Cluster:
    principals = {
        principal: reading.mapping("principals", principal.value, each=client_setting)
        for principal in Principal
        if reading.node("principals", principal.value) is not None
    }
    return Cluster(
        name=reading.name,
        bootstrap_servers=reading.texts("bootstrap_servers"),
        cluster_id=reading.value("cluster_id", default=None),
        region=reading.value("region", default=None),
        client=reading.mapping("client", each=client_setting),
        principals=MappingProxyType(principals),
        defaults=TopicDefaults(
            partitions=reading.value("defaults", "partitions", default=None),
            replication_factor=reading.value("defaults", "replication_factor", default=None),
            configs=reading.mapping("defaults", "configs", each=topic_config),
        ),
        where=reading.place.where,
    )


def build_topic(reading: Reading) -> Topic:
    return Topic(
        name=reading.name,
        clusters=reading.texts("clusters"),
        partitions=reading.value("partitions", default=None),
        replication_factor=reading.value("replication_factor", default=None),
        configs=reading.mapping("configs", each=topic_config),
        labels=reading.mapping("labels", each=_label),
        where=reading.place.where,
    )


def build_flow(reading: Reading) -> Flow:
    standard = ConfigSync()
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
        start=_start(reading),
        lanes=reading.value("lanes", default=2),
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
        labels=reading.mapping("labels", each=_label),
        where=reading.place.where,
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
        reading.wrong(path, Wrong("bad-duration", f'{name} is "{text}"', "It is not a time", _sentence(error)))
        return default
    if found < MIN_INTERVAL_MS:
        why = "Shorter intervals cost more than they tell"
        reading.wrong(path, Wrong("out-of-range", f"{name} is {text}", why, "Write 100ms or more"))
    return found


def _sentence(error: ValueError) -> str:
    text = str(error)
    return text[0].upper() + text[1:]


def _start(reading: Reading) -> Start:
    node = reading.node("start", "timestamp")
    if node is None:
        return Start(kind=str(reading.value("start", default="earliest")))
    assert isinstance(node, Scalar)
    if re.fullmatch(r"[0-9]{1,15}", node.text):
        return Start("timestamp", int(node.text))
    try:
        moment = datetime.fromisoformat(node.text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        what = f'start.timestamp is "{node.text}"'
        why = "Without a zone it would mean another moment on another machine" if moment else "It is not a time"
        todo = "Write a time with its zone such as 2026-01-01T00:00:00Z, or milliseconds since 1970"
        reading.wrong(("start", "timestamp"), Wrong("bad-timestamp", what, why, todo))
        return Start("earliest")
    return Start("timestamp", int(moment.astimezone(UTC).timestamp() * 1000))
