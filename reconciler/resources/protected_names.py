"""Protected names: what nothing may delete, since Kafka and its companions need it or git protects it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.model.environment.topology import Protection
from reconciler.replication.expressions.match import expressions

BUILT_IN = (
    r"__.*",
    r"_schemas",
    r"_confluent.*",
    r"mm2.*[.-]internal",
    r".*\.checkpoints\.internal",
    r"(.*[.-])?heartbeats",
    r"connect-(configs|offsets|status)",
)
"""Whole names of topics that Kafka, MirrorMaker 2, Connect, a schema registry and our own mirror live on."""

STATE_OF_APPLICATIONS = (r".+-changelog", r".+-repartition")
"""Kafka Streams keeps its state in these: git never declares them, so a prune would take them for left over."""


@dataclass(frozen=True, slots=True)
class Protected:
    """Why a name is protected. ``place`` is a file and line, or empty for a built-in rule."""

    pattern: str
    place: str = ""

    def __str__(self) -> str:
        return (
            f"protected: '{self.pattern}' ({self.place})" if self.place else f"the built-in protection '{self.pattern}'"
        )


def is_protected(topic: str) -> bool:
    """By the built-in rules alone."""
    return expressions(BUILT_IN).match(topic)


def protection_of(topic: str, own: Iterable[Protection]) -> Protected | None:
    """The rule that protects ``topic`` from every deletion."""
    if built_in := expressions(BUILT_IN).first(topic):
        return Protected(built_in)
    hit = next((protection for protection in own if expressions([protection.pattern]).match(topic)), None)
    return Protected(hit.pattern, f"{hit.where.file}:{hit.where.line}") if hit else None


def is_state_of_an_application(topic: str) -> bool:
    return expressions(STATE_OF_APPLICATIONS).match(topic)
