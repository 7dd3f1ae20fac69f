"""Writes imported positions into the YAML of flows as ``start: {offsets: ...}``; nothing else changes.

The result is loaded again and must differ from before in exactly these starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.environment.adopt.write import WIDTH, scalar
from reconciler.environment.load import load
from reconciler.environment.yaml.edit import keys_at, place_of, with_entry
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.handover import Start

Offsets = Mapping[str, Mapping[int, int]]


def merged(start: Start, offsets: Offsets) -> Start:
    """``start``, which is no timestamp, with these offsets over its own."""
    before = start.offsets or {}
    both = {topic: dict(before.get(topic, {})) | dict(offsets.get(topic, {})) for topic in {*before, *offsets}}
    return Start("offsets", None, both, start.otherwise or start.kind)


def written(start: Start, indent: int = 0) -> str:
    """``start: {offsets: ...}`` in flow style, over several lines where one is too long. ``indent``: of ``start``."""
    otherwise = f", otherwise: {start.otherwise}" if start.otherwise != "earliest" else ""
    topics = [
        f"{scalar(topic)}: {{{', '.join(f'{number}: {at}' for number, at in sorted(each.items()))}}}"
        for topic, each in sorted((start.offsets or {}).items())
    ]
    line = f"start: {{offsets: {{{', '.join(topics)}}}{otherwise}}}"
    if indent + len(line) <= WIDTH:
        return line
    inner = "\n" + " " * (indent + 2)
    return f"start: {{offsets: {{{inner}{f',{inner}'.join(topics)}}}{otherwise}}}"


def write_starts(texts: Mapping[str, str], topology: Topology, starts: Mapping[str, Offsets]) -> Mapping[str, str]:
    """``starts``: by flow. The whole new text of each file that changes.

    Raises ReconcilerError, with the lines to write yourself, if a flow cannot be edited here.
    """
    changed: dict[str, str] = {}
    flows = dict(topology.flows)
    for name, offsets in starts.items():
        flow = flows[name]
        flows[name] = replace(flow, start=merged(flow.start, offsets))
        if flows[name] == flow:
            continue
        file = flow.where.file
        text = {**texts, **changed}[file]
        candidate = _with_start(text, flows[name])
        if candidate is None or not _loads_as({**texts, **changed, file: candidate}, topology, flows):
            why = "It is written with an alias, or with comments inside of its start."
            todo = f"Write it yourself:\n{written(flows[name].start)}"
            raise ReconcilerError(f"flow {name} at {flow.where} cannot be edited here: no file was changed", why, todo)
        changed[file] = candidate
    return changed


def _loads_as(texts: Mapping[str, str], before: Topology, flows: Mapping[str, Flow]) -> bool:
    """Whether the files declare exactly what they did, but for these flows."""
    try:
        after = load(texts, before.environment)
    except TopologyError:
        return False
    return after == replace(before, flows=after.flows) and dict(after.flows) == dict(flows)


def _with_start(text: str, flow: Flow) -> str | None:
    """``text`` with another start of a flow, or one added; None if the present one holds comments or is an alias."""
    path = ("flows", flow.name)
    keys = list(keys_at(text, *path))
    place = place_of(text, *path, "start" if "start" in keys else keys[0]) if keys else None
    if place is None:
        return None
    start = written(flow.start, place.column)
    if "start" not in keys:
        return with_entry(text, start, *path)
    return None if "#" in text[place.key : place.end] else text[: place.key] + start + text[place.end :]
