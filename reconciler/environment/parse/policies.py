"""Parses classes, protections and the shrink limit of an environment."""

from __future__ import annotations

from reconciler.environment.parse.clusters import build_defaults
from reconciler.environment.yaml.entry import Reading
from reconciler.model.environment.topology import AuditTopic, Protection, ShrinkLimit, TopicDefaults
from reconciler.replication.expressions.unfit import flags_of_a_part


def build_class(reading: Reading) -> tuple[str, TopicDefaults]:
    return reading.name, build_defaults(reading)


def build_protection(reading: Reading) -> Protection:
    return Protection(flags_of_a_part(reading.name), reading.place.where)


def build_audit(reading: Reading) -> AuditTopic:
    topic, cluster = (reading.value(field, default="") for field in ("topic", "cluster"))
    return AuditTopic(topic, cluster, where=reading.place.where)


def build_shrink_limit(reading: Reading) -> ShrinkLimit:
    standard = ShrinkLimit()
    percent = reading.value("percent", default=standard.percent)
    return ShrinkLimit(percent, reading.value("least", default=standard.least))


def build_docs_url(reading: Reading) -> str:
    return str(reading.value(default=""))
