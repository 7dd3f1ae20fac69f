"""Entries that count for the whole environment, from YAML to nouns: classes, protections, the limit of a shrink.

Border: as ``building``: one entry at a time, with its shape already seen to.
"""

from __future__ import annotations

from reconciler.building_clusters import build_defaults
from reconciler.reading import Reading
from reconciler.topology import AuditTopic, Protection, ShrinkLimit, TopicDefaults


def build_class(reading: Reading) -> tuple[str, TopicDefaults]:
    return reading.name, build_defaults(reading)


def build_protection(reading: Reading) -> Protection:
    return Protection(reading.name, reading.place.where)


def build_audit(reading: Reading) -> AuditTopic:
    return AuditTopic(
        reading.value("topic", default=""), reading.value("cluster", default=""), where=reading.place.where
    )


def build_shrink_limit(reading: Reading) -> ShrinkLimit:
    standard = ShrinkLimit()
    return ShrinkLimit(
        reading.value("percent", default=standard.percent), reading.value("least", default=standard.least)
    )
