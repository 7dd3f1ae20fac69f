"""Reads the hand-over with which a mirror job starts, and reports every problem of an unusable one."""

from collections import Counter
from collections.abc import Iterator

from reconciler.kafka.address import host_port
from reconciler.replication import handover
from reconciler.replication.json_codec import MalformedError, parsed
from reconciler.replication.offsets import same

MOST_PORT = 65_535


def parse(text: str) -> handover.MirrorSettings:
    """Raises HandoverError, which names each field that is wrong, and its value."""
    try:
        given = parsed(text)
    except ValueError as error:
        raise handover.HandoverError(
            f"The hand-over is not JSON: {error}. Write it again with reconciler apply ENV."
        ) from error
    # The version first: fields of another release would be reported as faults of this document.
    version = given.pop("format_version", None) if isinstance(given, dict) else None
    if version != handover.FORMAT_VERSION:
        raise handover.HandoverError(
            f"The hand-over has format_version {version!r}; this mirror job reads {handover.FORMAT_VERSION}. "
            "Reconciler and mirror job come from different releases: install one release of both and run apply."
        )
    try:
        settings = handover.CODEC.decoded(handover.MirrorSettings, given)
    except MalformedError as error:
        problem = f"The hand-over is malformed: {error}. Write it again with reconciler apply ENV."
        raise handover.HandoverError(problem) from error
    if problems := list(_problems(settings)):
        raise handover.HandoverError(
            f"The hand-over cannot be used: {'; '.join(problems)}. Write it again with reconciler apply ENV."
        )
    return settings


def _problems(settings: handover.MirrorSettings) -> Iterator[str]:
    """All problems at once, with field names: a manually edited or foreign hand-over would otherwise fail one field at
    a time, each after a start of Spark."""
    yield from _low("parallelism", settings.parallelism, 1)
    yield from _low("refresh_interval_ms", settings.refresh_interval_ms, 100)
    yield from _low("status_interval_ms", settings.status_interval_ms, 100)
    yield from _low("metrics_port", settings.metrics_port, 0)
    if settings.metrics_port > MOST_PORT:
        yield f"metrics_port is {settings.metrics_port}; {MOST_PORT} is the highest port"
    if (channel := settings.channel) is not None and not 0 <= channel.first_port <= channel.last_port <= MOST_PORT:
        yield f"channel has the ports {channel.first_port} to {channel.last_port}; they go up, to {MOST_PORT} at most"
    if not settings.flows:
        yield "it has no flows"
    names = Counter(flow.name for flow in settings.flows)
    yield from (f"it names the flow {name} twice" for name, count in names.items() if count > 1)
    yield from _servers(settings.status.cluster)
    for flow in settings.flows:
        yield from (f"flow {flow.name}: {problem}" for problem in _problems_of_flow(flow))


def _problems_of_flow(flow: handover.FlowSettings) -> Iterator[str]:
    """Checks that types cannot express: limits, choices, and fields that depend on each other. The reconciler has
    checked all of them; a job may get the file of another release, or one that was edited manually."""
    start, internal = flow.start, flow.mirrormaker
    yield from _low("lanes", flow.lanes, 1)
    if flow.lanes > handover.MOST_LANES:
        yield f"lanes is {flow.lanes}; {handover.MOST_LANES} is the limit"
    yield from _strange("delivery", flow.delivery, "exactly_once", "at_least_once")
    yield from _strange("isolation", flow.isolation, "read_committed", "read_uncommitted")
    yield from _strange("start.kind", start.kind, "earliest", "latest", handover.AGAIN, "timestamp", "offsets")
    if start.kind == "timestamp" and start.timestamp_ms is None:
        yield "it starts at a timestamp but start.timestamp_ms is None"
    if start.kind == "offsets":
        yield from _strange("start.otherwise", start.otherwise, "earliest", "latest", handover.AGAIN)
        if start.offsets is None:
            yield "it starts at offsets but lacks the field start.offsets"
    for (topic, partition), offset in flow.start_offsets.items():
        yield from _low(f"start.offsets of {topic}-{partition}", offset, 0)
    if flow.groups is not None:
        yield from _low("groups.interval_ms", flow.groups.interval_ms, 100)
    if internal.heartbeats_ms is not None:
        yield from _low("mirrormaker_topics.heartbeats_ms", internal.heartbeats_ms, 100)
    if internal.offset_syncs is not None:
        yield from _strange("mirrormaker_topics.offset_syncs.side", internal.offset_syncs.side, "source", "target")
    if flow.rate_limit is not None:
        yield from _low("rate_limit", flow.rate_limit, 1)
    # The same offsets need every record in its own place, so nothing may add, drop or repeat one.
    yield from _strange("offsets", flow.offsets, handover.TRANSLATED, handover.SAME)
    if flow.keeps_offsets:
        asked = {"where": flow.where, "headers": flow.headers, "provenance": flow.provenance}
        yield from (
            f"offsets is {handover.SAME!r} beside {work}, which moves offsets" for work, given in asked.items() if given
        )
        if flow.delivery != "exactly_once" or flow.isolation != "read_committed":
            both = f"{flow.delivery} and {flow.isolation}"
            yield f"offsets is {handover.SAME!r} with {both}; it goes with {same.ONLY} alone"
    if flow.filler_limit is not None:
        yield from _low("filler_limit", flow.filler_limit, 0)
    if flow.provenance is not None:
        yield from _strange("provenance.carry", flow.provenance.carry, handover.LOCAL, handover.FORWARD)
    yield from _servers(flow.source)
    yield from _servers(flow.target)


def _servers(endpoint: handover.Endpoint) -> Iterator[str]:
    """Checks bootstrap servers: at least one, each HOST:PORT."""
    if not endpoint.bootstrap_servers:
        yield f"cluster {endpoint.cluster} has no bootstrap servers"
    for server in endpoint.bootstrap_servers:
        try:
            host_port(server)
        except ValueError as error:
            yield f"cluster {endpoint.cluster}: the bootstrap server {error}"


def _low(name: str, value: int, least: int) -> Iterator[str]:
    if value < least:
        yield f"{name} is {value}; it must be a whole number of at least {least}"


def _strange(name: str, value: str | None, *words: str) -> Iterator[str]:
    if value not in words:
        yield f"{name} is {value!r}; it must be one of {', '.join(words)}"
