"""Parses topics and their deletions (tombstones): the fields of a topic in YAML.

Shapes are right by then; problems of single values are noted and the entry is left out.
"""

from __future__ import annotations

from datetime import date

from reconciler.environment.parse.clusters import read_undeclared
from reconciler.environment.parse.values import Wrong, label, retention_step, topic_config
from reconciler.environment.yaml.entry import Reading
from reconciler.model.environment.topology import Tombstone, Topic


def build_topic(reading: Reading) -> Topic:
    return Topic(
        name=reading.name,
        clusters=reading.texts("clusters"),
        partitions=reading.value("partitions", default=None),
        replication_factor=reading.value("replication_factor", default=None),
        configs=reading.mapping("configs", each=topic_config),
        labels=reading.mapping("labels", each=label),
        class_name=reading.value("class", default=""),
        lower_retention_by=reading.mapping("lower_retention_by", each=retention_step),
        undeclared=read_undeclared(reading),
        where=reading.place.where,
    )


def build_tombstone(reading: Reading) -> Tombstone:
    return Tombstone(
        cluster=reading.value("cluster", default=""),
        topic=reading.value("topic", default=""),
        topic_id=_as_kafka_prints(reading.value("topic_id", default="")),
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


def _as_kafka_prints(topic_id: str) -> str:
    """Clients of other languages print it in the other alphabet of base64."""
    return topic_id.rstrip("=").replace("+", "-").replace("/", "_")
