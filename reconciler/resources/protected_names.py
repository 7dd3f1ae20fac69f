"""Names of topics that Kafka, its companions or applications look after, and those that git protects from deletion.

Topics of applications (Kafka Streams, Connect, a schema registry) are recognised by the names that those programs give,
since a cluster reports nothing else about them. Connect's three may have any prefix, so they count where all three are
there.
"""

import re
from collections.abc import Collection, Iterable
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


STREAMS = "Kafka Streams"
CONNECT = "Kafka Connect"
REGISTRY = "a schema registry"
MIRRORMAKER = "MirrorMaker 2"

_STREAMS = re.compile(r".+-(changelog|repartition)|.+-KTABLE-.+-subscription-(registration|response)-.+|"
                      r".+-subscription-(registration|response)-[0-9]+-topic")  # fmt: skip
_REGISTRY = re.compile(r"_schemas|_schemas[._-].+|kafkasql-journal")
_MIRRORMAKER = re.compile(r"(.*[.-])?heartbeats|mm2-(configs|offsets|status)\..+\.internal|mm2.*[.-]internal")
_CONNECT = re.compile(r"(?P<worker>(.*[._-])?)(configs|config|offsets|offset|status)")
_CONNECT_ENDINGS = (("configs", "config"), ("offsets", "offset"), ("status",))


def owner_of(name: str, names: Collection[str]) -> str:
    """The program that owns topic ``name``, or empty. ``names``: all topics of its cluster."""
    if _STREAMS.fullmatch(name):
        return STREAMS
    if _REGISTRY.fullmatch(name):
        return REGISTRY
    if _MIRRORMAKER.fullmatch(name):
        return MIRRORMAKER
    if re.fullmatch(r"connect-(configs|offsets|status)", name) or _is_connects(name, names):
        return CONNECT
    return "another program" if is_protected(name) else ""


def _is_connects(name: str, names: Collection[str]) -> bool:
    """One of three topics of a worker, such as connect-cluster-offsets: each alone could belong to an application."""
    match = _CONNECT.fullmatch(name)
    if match is None or not match["worker"]:
        return False
    worker = match["worker"]
    return all(any(f"{worker}{ending}" in names for ending in endings) for endings in _CONNECT_ENDINGS)
