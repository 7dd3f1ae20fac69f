"""Parses how a flow is copied: ``start`` of its partitions, rate limit, going on after a loss."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.parse.record_filter import time_ms
from reconciler.environment.parse.values import Wrong
from reconciler.environment.yaml.entry import Reading
from reconciler.environment.yaml.locations import Places
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Scalar
from reconciler.errors import Problem
from reconciler.replication.handover import Start
from reconciler.replication.names import CONTINUABLE
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.text import sentence, size_bytes

LEAST_RATE = 1024
"""Bytes per second. One batch is the smallest piece that is copied, so less would only be a stutter."""


def read_start(reading: Reading) -> Start:
    node = reading.node("start")
    if not isinstance(node, YamlMapping):
        return Start(kind=str(reading.value("start", default="earliest")))
    given = [field for field in ("timestamp", "offsets") if field in node.entries]
    if len(given) != 1:
        problem = "start has both timestamp and offsets" if given else "start has neither timestamp nor offsets"
        why = "A partition starts at one place"
        reading.wrong(("start",), Wrong("bad-value", problem, why, "Write one of the two"))
        return Start()
    if given == ["offsets"]:
        return Start("offsets", None, _offsets(reading), str(reading.value("start", "otherwise", default="earliest")))
    if "otherwise" in node.entries:
        problem, why = "start.otherwise is combined with timestamp", "A timestamp is for every partition"
        reading.wrong(("start", "otherwise"), Wrong("bad-value", problem, why, "Remove it"))
    return _timestamp(reading)


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
                    "An offset that nothing reads would look as if it held",
                    "Correct the name, or remove it",
                )


def _offsets(reading: Reading) -> Mapping[str, Mapping[int, int]]:
    node = reading.node("start", "offsets")
    offsets: dict[str, Mapping[int, int]] = {}
    for topic, entry in sorted(node.entries.items()) if isinstance(node, YamlMapping) else ():
        each = entry.value.data
        if isinstance(each, dict):
            at = {int(p): int(offset) for p, offset in each.items() if isinstance(offset, int)}
            offsets[topic] = MappingProxyType(dict(sorted(at.items())))
    return MappingProxyType(offsets)


def read_rate_limit(reading: Reading) -> int | None:
    node = reading.node("rate_limit")
    if not isinstance(node, Scalar):
        return None
    try:
        rate = int(node.text) if re.fullmatch(r"[0-9]{1,19}", node.text) else size_bytes(node.text)
    except ValueError as error:
        problem, why = f'rate_limit is "{node.text}"', "Bytes per second are wanted here"
        todo = f"{sentence(error)}, without a time: it is per second"
        reading.wrong(("rate_limit",), Wrong("bad-size", problem, why, todo))
        return None
    if rate < LEAST_RATE:
        why = "One batch is the smallest piece that is copied, so less would be a stutter"
        todo = "Write 1KiB or more, or pause the flow with reconciler mirror pause"
        reading.wrong(("rate_limit",), Wrong("out-of-range", f"rate_limit is {node.text}", why, todo))
    return rate


def read_on_condition(reading: Reading) -> Mapping[str, str]:
    """Only what goes on: ``stop`` is the default of each, so that writing it down changes nothing."""
    node = reading.node("on_condition")
    if isinstance(node, YamlMapping):
        reactions = {code: entry.value.data for code, entry in node.entries.items()}
    else:
        reactions = dict.fromkeys(CONTINUABLE, reading.value("on_condition", default="stop"))
    return MappingProxyType({code: "continue" for code in sorted(reactions) if reactions[code] == "continue"})


def _timestamp(reading: Reading) -> Start:
    node = reading.node("start", "timestamp")
    assert isinstance(node, Scalar)
    moment = time_ms(node.text)
    if isinstance(moment, Wrong):
        description = f"start.timestamp is {moment.what}"
        reading.wrong(("start", "timestamp"), Wrong(moment.code, description, moment.why, moment.todo))
        return Start("earliest")
    return Start("timestamp", moment)
