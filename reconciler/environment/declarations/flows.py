"""``flows``: topics to copy, start of each partition, rate limits, losses after which to continue, record filters
(``where``) and headers."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.declarations.entry import MIN_INTERVAL_MS, Reading
from reconciler.environment.declarations.values import Wrong, label
from reconciler.environment.yaml.locations import Places, Step, unknown_name
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence
from reconciler.errors import Problem
from reconciler.model.environment import flow_settings
from reconciler.model.environment import topology as declared
from reconciler.replication.expressions import record_filter
from reconciler.replication.expressions.record_filter import PLACEHOLDERS, PROVENANCE_HEADER, AddedHeader, fault
from reconciler.replication.expressions.unfit import flags_of_a_part, unfit_for_values
from reconciler.replication.handover import Naming, Start
from reconciler.replication.names import CONTINUABLE
from reconciler.replication.policy import canonical_policy
from reconciler.resources.flows.names.carried import FlowNaming, policy_fault
from reconciler.text import moment_ms, nearest, sentence, size_bytes

Path = tuple[Step, ...]

HEARTBEATS_INTERVAL_MS = 1_000
MAX_DEPTH = 20
LEAST_RATE = 1024
"""Bytes per second. One batch is the smallest piece that is copied, so less would only be a stutter."""


def build_flow(reading: Reading) -> declared.Flow:
    # Only conditions with ``continue``: ``stop`` is the default, so declaring it must not change the fingerprint.
    """The flow of one entry. Absent fields get the defaults of this release, so that the hand-over and its fingerprint
    have every value, and a changed default is a visible edit."""
    node = reading.node("on_condition")
    if isinstance(node, YamlMapping):
        goes_on = {code for code, entry in node.entries.items() if entry.value.data == "continue"}
    else:
        goes_on = {*CONTINUABLE} if reading.value("on_condition", default="stop") == "continue" else set()
    standard, groups, of_tools = flow_settings.ConfigSync(), flow_settings.Groups(), "mirrormaker_topics"
    tests, carry = reading.node("where"), reading.value("provenance", default=None)
    beats, syncs = (reading.value(of_tools, field, default=False) for field in ("heartbeats", "offset_syncs"))
    return declared.Flow(
        name=reading.name,
        source=reading.value("source", default=""),
        target=reading.value("target", default=""),
        topics=reading.expressions("topics"),
        exclude_topics=reading.expressions("exclude_topics"),
        naming=Naming(
            policy=canonical_policy(reading.value("naming", "policy", default="default")),
            separator=reading.value("naming", "separator", default="."),
        ),
        replication_factor=reading.value("replication_factor", default=None),
        delivery=flow_settings.Delivery(reading.value("delivery", default="exactly_once")),
        isolation=flow_settings.Isolation(reading.value("isolation", default="read_committed")),
        start=_start(reading),
        lanes=reading.value("lanes", default=2),
        rate_limit=_rate_limit(reading),
        on_condition=MappingProxyType(dict.fromkeys(sorted(goes_on), "continue")),
        configs=flow_settings.ConfigSync(
            enabled=reading.value("sync_topic_configs", "enabled", default=standard.enabled),
            exclude=reading.expressions("sync_topic_configs", "exclude", default=standard.exclude),
            use_defaults_from=reading.value("sync_topic_configs", "use_defaults_from", default="target"),
            carry_undeclared_limits=reading.value("sync_topic_configs", "carry_undeclared_limits", default=False),
        ),
        groups=flow_settings.Groups(
            include=reading.expressions("groups", "include", default=groups.include),
            exclude=reading.expressions("groups", "exclude", default=groups.exclude),
            sync_offsets=reading.value("groups", "sync_offsets", default=False),
            interval_ms=reading.interval("groups", "interval", default=groups.interval_ms),
            follow_rewinds=reading.value("groups", "follow_rewinds", default=False),
            both_ways=reading.value("groups", "both_ways", default=False),
        ),
        mirrormaker_topics=flow_settings.MirrorMakerTopics(
            heartbeats=reading.interval(of_tools, "heartbeats_interval", default=HEARTBEATS_INTERVAL_MS)
            if beats
            else None,
            offset_syncs=reading.value(of_tools, "offset_syncs_location", default="source") if syncs else None,
            internal_separator=reading.value(of_tools, "internal_topic_separator", default=True),
        ),
        selection=None if tests is None else _selection(tests, reading),
        headers=_additions(reading),
        provenance=None if carry is None else flow_settings.Carry(carry),
        offsets=flow_settings.OffsetsKept(reading.value("offsets", default=flow_settings.OffsetsKept.TRANSLATED.value)),
        filler_limit=reading.value("filler_limit", default=None),
        objectives=_objectives(reading),
        access=flow_settings.AccessSync(
            enabled=reading.value("access", "sync", default=False),
            groups=reading.value("access", "groups", default=False),
            principals=reading.mapping("access", "principals", each=label),
        ),
        copies=None if (copies := reading.value("copies", default=None)) is None else flow_settings.CopyMode(copies),
        labels=reading.mapping("labels", each=label),
        where=reading.place.where,
    )


def _start(reading: Reading) -> Start:
    """Where partitions without a position begin. After a problem the default is returned, so that the rest of the entry
    is read."""
    node = reading.node("start")
    if not isinstance(node, YamlMapping):
        return Start(kind=str(reading.value("start", default="earliest")))
    given = [field for field in ("timestamp", "offsets") if field in node.entries]
    if len(given) != 1:
        problem = "start has both timestamp and offsets" if given else "start has neither timestamp nor offsets"
        why = "A partition starts at one place"
        reading.wrong(("start",), Wrong("bad-value", problem, why, "Write one of the two"))
        return Start()

    # Partitions are keys of YAML, so they come as text; the schema has checked that they are numbers.
    if given == ["offsets"]:
        topics = reading.node("start", "offsets")
        offsets: dict[str, Mapping[int, int]] = {}
        # Sorted, so that the hand-over and its fingerprint do not depend on the order in the file.
        for topic, entry in sorted(topics.entries.items()) if isinstance(topics, YamlMapping) else ():
            each = entry.value.data
            if isinstance(each, dict):
                at = {int(p): int(offset) for p, offset in each.items() if isinstance(offset, int)}
                offsets[topic] = MappingProxyType(dict(sorted(at.items())))
        otherwise = str(reading.value("start", "otherwise", default="earliest"))
        return Start("offsets", None, MappingProxyType(offsets), otherwise)

    if "otherwise" in node.entries:
        problem, why = "start.otherwise is combined with timestamp", "A timestamp is for every partition"
        reading.wrong(("start", "otherwise"), Wrong("bad-value", problem, why, "Remove it"))
    written = node.entries["timestamp"].value
    assert isinstance(written, Scalar)
    moment = _time(written.text, "start.timestamp", ("start", "timestamp"), reading)
    return Start("earliest") if moment is None else Start("timestamp", moment)


def _objectives(reading: Reading) -> flow_settings.Objectives | None:
    """None for an empty section."""
    written = {f"{name}_ms": reading.node("objectives", name) for name in ("rto", "rpo", "drill_every")}
    times = {
        field: reading.interval("objectives", field.removesuffix("_ms"), default=MIN_INTERVAL_MS)
        for field, node in written.items()
        if node is not None
    }
    return flow_settings.Objectives(**times) if times else None


def _rate_limit(reading: Reading) -> int | None:
    """Bytes per second; a number, or a size with a unit but without a time."""
    node = reading.node("rate_limit")
    if not isinstance(node, Scalar):
        return None
    try:
        rate = int(node.text) if re.fullmatch(r"[0-9]{1,19}", node.text) else size_bytes(node.text)
    except ValueError as error:
        problem, why = f'rate_limit is "{node.text}"', "It is a number of bytes per second"
        todo = f"{sentence(error)}, without a time: it is per second"
        reading.wrong(("rate_limit",), Wrong("bad-size", problem, why, todo))
        return None
    if rate < LEAST_RATE:
        why = "One batch is the smallest piece that is copied, so less would be a stutter"
        todo = "Write 1KiB or more, or pause the flow with reconciler mirror pause ENV FLOW"
        reading.wrong(("rate_limit",), Wrong("out-of-range", f"rate_limit is {node.text}", why, todo))
    return rate


def check_flows(topology: declared.Topology, places: Places) -> Iterator[Problem]:
    """Problems of single flows; ``validate`` finds loops and collisions of several flows."""
    for flow in topology.flows.values():
        yield from check_ends(topology, places, flow)
        if flow.source == flow.target:
            problem = f"flow {flow.name}: source and target are both {flow.source}"
            why = "Records would be copied into the cluster they come from"
            yield Problem("same-source-and-target", places.of(flow, "target"), problem, why, "Name two clusters")
        wrong = policy_fault(flow)
        if wrong:
            why = "Without it the names of remote topics are unknown"
            todo = "Check the import path, or use default or identity"
            yield Problem("bad-policy", places.of(flow, "naming", "policy"), f"flow {flow.name}: {wrong}", why, todo)


def check_ends(topology: declared.Topology, places: Places, flow: declared.Flow) -> Iterator[Problem]:
    for field, cluster in (("source", flow.source), ("target", flow.target)):
        if cluster:
            subject, where = f"flow {flow.name}: {field}", places.of(flow, field)
            yield from unknown_name(places, topology.clusters, cluster, subject, where)


def check_starts(travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """A start for a topic that the flow leaves out would never be read."""
    for travel in travels.values():
        flow = travel.flow
        for topic in flow.start.offsets or ():
            why = travel.selector.why_not(topic)
            if why is not None:
                yield Problem(
                    "start-topic-not-mirrored",
                    places.of(flow, "start", "offsets", topic),
                    f"flow {flow.name}: start.offsets names the topic {topic}, which the flow does not mirror: {why}",
                    "An offset that nothing reads would look as if it took effect",
                    "Correct the name, or remove it",
                )


# where and headers


def _time(text: str, field: str, path: Path, reading: Reading) -> int | None:
    """Milliseconds since 1970; None for a text that is no time, which is noted."""
    try:
        return moment_ms(text)
    except ValueError as error:
        todo = "Write a time with its zone such as 2026-01-01T00:00:00Z, or milliseconds since 1970"
        reading.wrong(path, Wrong("bad-timestamp", f'{field} is "{text}"', str(error), todo))
        return None


def _selection(node: Node, reading: Reading, path: Path = ("where",)) -> record_filter.Where:
    """Problems are noted; then the answer is not to be used."""
    assert isinstance(node, YamlMapping)
    if len(path) > MAX_DEPTH:
        reading.wrong(
            path, Wrong("bad-where", "where is nested too deeply", "No reviewer could follow it", "Write it flat")
        )
        return record_filter.AllOf(())
    # The schema has checked the shape of each test: one key, with what belongs to it. Only values are judged from here
    # on.
    ((kind, entry),) = node.entries.items()
    here, inner = (*path, kind), entry.value
    match kind, inner:
        case "all" | "any", Sequence(items=items):
            parts = tuple(_selection(item, reading, (*here, index)) for index, item in enumerate(items))
            return record_filter.AllOf(parts) if kind == "all" else record_filter.AnyOf(parts)
        case "not", YamlMapping():
            return record_filter.Not(_selection(inner, reading, here))
        case "header", YamlMapping(entries=fields):
            name = fields["name"].value if "name" in fields else None
            assert isinstance(name, Scalar)
            return record_filter.Header(name.text, _value_test(inner, reading, here))
        case "key", YamlMapping():
            return record_filter.Key(_value_test(inner, reading, here))
        case "timestamp", YamlMapping():
            return _between(inner, reading, here)
    raise AssertionError(kind)


def _value_test(node: YamlMapping, reading: Reading, path: Path) -> record_filter.ValueTest:
    """One test of a header's or key's bytes. A mistake becomes a problem, and a test that lets everything pass takes
    its place, so that the rest of the file is judged as well."""
    given = [key for key in node.entries if key != "name"]
    if len(given) != 1:
        problem = f"{path[-1]} has {' and '.join(given) or 'no test'}"
        todo = "Write one of equals, prefix, matches or exists; join several with all or any"
        reading.wrong(path, Wrong("bad-where", problem, "Each test asks one thing", todo))
        return record_filter.Exists(True)
    kind, value = given[0], node.entries[given[0]].value
    match kind, value:
        case "exists", Scalar():
            return record_filter.Exists(value.data is True)
        case "matches", Scalar(text=written):
            text = flags_of_a_part(written)
            if wrong := unfit_for_values(text):
                reading.wrong((*path, kind), Wrong(wrong.code, f'"{text}", {wrong.what}', wrong.why, wrong.todo))
            return record_filter.Matches(text)
        case "equals", _:
            return record_filter.Equals(_operand(value, reading, (*path, kind)))
        case _:
            return record_filter.Prefix(_operand(value, reading, (*path, kind)))


def _operand(node: Node, reading: Reading, path: Path) -> bytes:
    """Text, or bytes as hex digits."""
    if isinstance(node, Scalar):
        return node.text.encode()
    assert isinstance(node, YamlMapping)
    digits = node.entries["hex"].value
    assert isinstance(digits, Scalar)
    if len(digits.text) % 2:
        description = f'hex "{digits.text}" has {len(digits.text)} digits'
        reading.wrong(
            (*path, "hex"), Wrong("bad-where", description, "Two digits make a byte", "Add the missing digit")
        )
        return b""
    return bytes.fromhex(digits.text)


def _between(node: YamlMapping, reading: Reading, path: Path) -> record_filter.Timestamp:
    """``from`` counts, ``to`` does not (milliseconds). A range without a moment is refused, since no record could
    pass."""
    by_name: dict[str, int | None] = {}
    for side, entry in node.entries.items():
        assert isinstance(entry.value, Scalar)
        by_name[side] = _time(entry.value.text, f"timestamp.{side}", (*path, side), reading)
    low, high = by_name.get("from"), by_name.get("to")
    if low is not None and high is not None and low >= high:
        description = "timestamp.from is not before timestamp.to"
        reading.wrong(
            path, Wrong("bad-where", description, "No record could pass", "Exchange the two, or leave one out")
        )
    return record_filter.Timestamp(low, high)


def _additions(reading: Reading) -> tuple[AddedHeader, ...]:
    """``headers.add`` in its order."""
    node = reading.node("headers", "add")
    if not isinstance(node, YamlMapping):
        return ()
    headers = []
    for name, entry in node.entries.items():
        if not isinstance(entry.value, Scalar):
            continue
        path: Path = ("headers", "add", name)
        if name == PROVENANCE_HEADER:
            why = "It says which clusters a record has been on, and two-way flows rely on it"
            reading.wrong(path, Wrong("bad-added-header", f"the header {name} is added", why, "Choose another name"))
        elif bad := fault(entry.value.text):
            near = nearest(bad.strip("{}"), PLACEHOLDERS)
            todo = f"Perhaps you mean {{{near}}}" if near else "Write {{ and }} for braces"
            known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
            reading.wrong(path, Wrong("bad-added-header", f"the header {name} holds {bad}", f"Known are {known}", todo))
        headers.append(AddedHeader(name, entry.value.text))
    return tuple(headers)
