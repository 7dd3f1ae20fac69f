"""The hand-over from the reconciler as frozen settings. Secrets stay references. Format: schemas/mirror.schema.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror import record_work
from mirror.lanes import Endpoint
from mirror.record_work import NO_WORK, RecordWork
from replication.groups import GroupSelector, make_group_selector
from replication.policy import TopicSelector, make_selector

FORMAT_VERSION = 1
MOST_LANES = 64
MOST_PORT = 65_535


class HandoverError(ValueError):
    """The hand-over cannot be used: what is wrong and what to do, in one paragraph."""


@dataclass(frozen=True, slots=True)
class StatusPlace:
    cluster: Endpoint
    topic: str
    key: str


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Whose offsets are kept on the target, and how often the source's groups are read. ``returning``: the flow that
    carries the target's records into the same topics of the source, empty when there is none."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    interval_ms: int
    follow_rewinds: bool
    returning: str = ""

    def selector(self) -> GroupSelector:
        """Raises HandoverError for a pattern that cannot be used."""
        try:
            return make_group_selector(self.include, self.exclude)
        except re.error as error:
            raise HandoverError(f"A pattern for groups: {error}. Mend the flow's groups and run apply.") from error


@dataclass(frozen=True, slots=True)
class MirrorMakerTopics:
    """MirrorMaker 2's internal topics beside the groups' checkpoints; None: not that one. ``offset_syncs``: side
    (``source`` or ``target``) and name. ``separator``: in internal names, when it is not the naming's (KIP-949)."""

    heartbeats_ms: int | None = None
    offset_syncs: tuple[str, str] | None = None
    separator: str | None = None


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """``start_timestamp_ms`` only with ``start_kind`` timestamp. ``start_offsets`` by source topic and partition count
    whatever the kind, for partitions without a position. ``rate_limit``: bytes per second, None for no limit.
    ``continue_on``: conditions after which a partition goes on behind what is lost. ``groups`` None: no offsets are
    synced.
    """

    name: str
    fingerprint: str
    source: Endpoint
    target: Endpoint
    topics: tuple[str, ...]
    exclude_topics: tuple[str, ...]
    naming_policy: str
    naming_separator: str
    delivery: str
    isolation: str
    start_kind: str
    start_timestamp_ms: int | None
    lanes: int
    groups: GroupSettings | None = None
    start_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    rate_limit: int | None = None
    continue_on: frozenset[str] = frozenset()
    work: RecordWork = NO_WORK
    mirrormaker: MirrorMakerTopics = MirrorMakerTopics()

    def selector(self) -> TopicSelector:
        """Raises HandoverError for a pattern or policy that cannot be used."""
        try:
            return make_selector(
                self.topics,
                self.exclude_topics,
                self.naming_policy,
                self.naming_separator,
                self.source.cluster,
                self.target.cluster,
                heartbeats=self.mirrormaker.heartbeats_ms is not None,
            )
        except (re.error, ValueError) as error:
            raise HandoverError(
                f"Flow {self.name}: {error}. Mend the flow's topics or naming and run apply."
            ) from error


@dataclass(frozen=True, slots=True)
class Settings:
    """``metrics_port`` 0: no metrics are served."""

    environment: str
    mirror: str
    fingerprint: str
    parallelism: int
    refresh_interval_ms: int
    status_interval_ms: int
    status: StatusPlace
    flows: tuple[FlowSettings, ...]
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"


def parse(text: str) -> Settings:
    """Raises HandoverError, which names the field."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise HandoverError(f"The hand-over is not JSON: {error}. Write it again with reconciler apply.") from error
    version = given.get("format_version") if isinstance(given, dict) else None
    if version != FORMAT_VERSION:
        raise HandoverError(
            f"The hand-over has format_version {version!r}; this mirror job reads {FORMAT_VERSION}. Reconciler and "
            "mirror job come from different releases: install one release of both and run apply."
        )
    try:
        return _settings(given)
    except KeyError as error:
        raise HandoverError(f"The hand-over lacks the field {error}. Write it again with reconciler apply.") from error
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, HandoverError):
            raise
        raise HandoverError(f"The hand-over is malformed: {error}. Write it again with reconciler apply.") from error


def _settings(given: Mapping[str, Any]) -> Settings:
    _only(given, {"format_version", *Settings.__slots__}, "hand-over")
    port = _at_least(given, "metrics_port", 0) if "metrics_port" in given else 0
    if port > MOST_PORT:
        raise HandoverError(f"The hand-over's metrics_port is {port}; {MOST_PORT} is the highest port.")
    place = given["status"]
    flows = tuple(_flow(flow) for flow in given["flows"])
    if not flows:
        raise HandoverError("The hand-over has no flows. Write it again with reconciler apply.")
    twice = {flow.name for flow in flows if [f.name for f in flows].count(flow.name) > 1}
    if twice:
        raise HandoverError(f"The hand-over names a flow twice: {', '.join(sorted(twice))}.")
    return Settings(
        environment=str(given["environment"]),
        mirror=str(given["mirror"]),
        fingerprint=str(given["fingerprint"]),
        parallelism=_at_least(given, "parallelism", 1),
        refresh_interval_ms=_at_least(given, "refresh_interval_ms", 100),
        status_interval_ms=_at_least(given, "status_interval_ms", 100),
        status=StatusPlace(_endpoint(place["cluster"]), str(place["topic"]), str(place["key"])),
        flows=flows,
        metrics_port=port,
        metrics_host=str(given.get("metrics_host", "127.0.0.1")),
    )


def _flow(given: Mapping[str, Any]) -> FlowSettings:
    start, naming = given["start"], given["naming"]
    lanes = _at_least(given, "lanes", 1)
    if lanes > MOST_LANES:
        raise HandoverError(f"Flow {given['name']} has {lanes} lanes; {MOST_LANES} is the limit.")
    stamp = start.get("timestamp_ms")
    kind = _one_of(start, "kind", ("earliest", "latest", "timestamp", "offsets"))
    offsets = _offsets(given["name"], start) if kind == "offsets" else {}
    if kind == "offsets":
        kind = _one_of(start, "otherwise", ("earliest", "latest"))
    if kind == "timestamp" and not isinstance(stamp, int):
        raise HandoverError(f"Flow {given['name']} starts at a timestamp but start.timestamp_ms is {stamp!r}.")
    return FlowSettings(
        name=str(given["name"]),
        fingerprint=str(given["fingerprint"]),
        source=_endpoint(given["source"]),
        target=_endpoint(given["target"]),
        topics=tuple(map(str, given["topics"])),
        exclude_topics=tuple(map(str, given["exclude_topics"])),
        naming_policy=str(naming["policy"]),
        naming_separator=str(naming["separator"]),
        delivery=_one_of(given, "delivery", ("exactly_once", "at_least_once")),
        isolation=_one_of(given, "isolation", ("read_committed", "read_uncommitted")),
        start_kind=kind,
        start_timestamp_ms=stamp if kind == "timestamp" else None,
        lanes=lanes,
        start_offsets=offsets,
        rate_limit=_at_least(given, "rate_limit", 1) if "rate_limit" in given else None,
        continue_on=frozenset(map(str, given.get("continue_on", ()))),
        groups=_groups(given["groups"]) if "groups" in given else None,
        work=record_work.read(given),
        mirrormaker=_mirrormaker(given.get("mirrormaker_topics")),
    )


def _groups(given: Mapping[str, Any]) -> GroupSettings:
    return GroupSettings(
        tuple(map(str, given["include"])),
        tuple(map(str, given["exclude"])),
        _at_least(given, "interval_ms", 100),
        bool(given["follow_rewinds"]),
        str(given.get("returning", "")),
    )


def _offsets(flow: str, start: Mapping[str, Any]) -> Mapping[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for topic, each in start["offsets"].items():
        for partition, offset in each.items():
            if not isinstance(offset, int) or offset < 0:
                raise HandoverError(f"Flow {flow} starts {topic}-{partition} at offset {offset!r}, which is none.")
            found[topic, int(partition)] = offset
    return found


def _mirrormaker(given: Mapping[str, Any] | None) -> MirrorMakerTopics:
    if given is None:
        return MirrorMakerTopics()
    syncs = given["offset_syncs"]
    return MirrorMakerTopics(
        heartbeats_ms=None if given["heartbeats_ms"] is None else _at_least(given, "heartbeats_ms", 100),
        offset_syncs=None if syncs is None else (_one_of(syncs, "side", ("source", "target")), str(syncs["topic"])),
        separator=given["separator"],
    )


def _endpoint(given: Mapping[str, Any]) -> Endpoint:
    servers = tuple(map(str, given["bootstrap_servers"]))
    if not servers:
        raise HandoverError(f"Cluster {given['name']} has no bootstrap servers.")
    return Endpoint(str(given["name"]), servers, {str(k): str(v) for k, v in given["client"].items()})


def _only(given: Mapping[str, Any], known: set[str], where: str) -> None:
    strange = sorted(set(given) - known)
    if strange:
        raise HandoverError(f"The {where} has fields this mirror job does not know: {', '.join(strange)}.")


def _at_least(given: Mapping[str, Any], field: str, least: int) -> int:
    value = given[field]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise HandoverError(f"The hand-over's {field} is {value!r}; it must be a whole number of at least {least}.")
    return value


def _one_of(given: Mapping[str, Any], field: str, words: tuple[str, ...]) -> str:
    value = given[field]
    if value not in words:
        raise HandoverError(f"The hand-over's {field} is {value!r}; it must be one of {', '.join(words)}.")
    return str(value)
