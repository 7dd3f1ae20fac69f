"""Names of topics that belong to Kafka, its companions or applications, or that git protects from deletion.

Topics of applications (Kafka Streams, Connect, a schema registry) are recognised by name, since a cluster reports
nothing else about them. Connect's three topics may have any prefix, so they count only together.
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
"""Expressions for names of topics that Kafka, MirrorMaker 2, Connect, a schema registry and our mirror depend on."""

STATE_OF_APPLICATIONS = (r".+-changelog", r".+-repartition")
"""State topics of Kafka Streams: git never declares them, so a prune would mistake them for leftovers."""


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
    """Whether a built-in rule protects the topic."""
    return expressions(BUILT_IN).match(topic)


def protection_of(topic: str, own: Iterable[Protection]) -> Protected | None:
    """The rule that protects ``topic`` from deletion; None without one."""
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

_FORMS = {
    STREAMS: re.compile(r".+-(changelog|repartition)|.+-KTABLE-.+-subscription-(registration|response)-.+|"
                        r".+-subscription-(registration|response)-[0-9]+-topic"),
    REGISTRY: re.compile(r"_schemas|_schemas[._-].+|kafkasql-journal"),
    MIRRORMAKER: re.compile(r"(.*[.-])?heartbeats|mm2-(configs|offsets|status)\..+\.internal|mm2.*[.-]internal"),
}  # fmt: skip
_CONNECT = re.compile(r"(?P<worker>(.*[._-])?)(configs|config|offsets|offset|status)")
_CONNECT_ENDINGS = (("configs", "config"), ("offsets", "offset"), ("status",))


def owner_of(name: str, names: Collection[str]) -> str:
    """The program that owns topic ``name``, or empty. ``names``: all topics of its cluster."""
    if (owner := next((owner for owner, forms in _FORMS.items() if forms.fullmatch(name)), None)) is not None:
        return owner
    if re.fullmatch(r"connect-(configs|offsets|status)", name) or _is_connects(name, names):
        return CONNECT
    return "another program" if is_protected(name) else ""


def _is_connects(name: str, names: Collection[str]) -> bool:
    """Whether the topic is one of the three of a worker, such as connect-cluster-offsets; one alone could be an
    application's."""
    match = _CONNECT.fullmatch(name)
    if match is None or not match["worker"]:
        return False
    worker = match["worker"]
    return all(any(f"{worker}{ending}" in names for ending in endings) for endings in _CONNECT_ENDINGS)
