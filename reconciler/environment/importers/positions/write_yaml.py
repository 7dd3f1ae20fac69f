"""Writes imported positions into the YAML of flows as ``start: {offsets: ...}``; nothing else changes.

The result is loaded again and must differ from before in exactly these starts.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from reconciler.environment.adopt.write import WIDTH, scalar
from reconciler.environment.load import load
from reconciler.environment.yaml.edit import keys_at, place_of, with_entry
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Topology, by_name
from reconciler.replication.handover import Start

Offsets = Mapping[str, Mapping[int, int]]


def merged(start: Start, offsets: Offsets) -> Start:
    """``start``, which is no timestamp, with these offsets over its own."""
    before = start.offsets or {}
    both = {topic: dict(before.get(topic, {})) | dict(offsets.get(topic, {})) for topic in {*before, *offsets}}
    return Start("offsets", None, both, start.otherwise or start.kind)


def written(start: Start, indent: int = 0) -> str:
    """``start: {offsets: ...}`` in flow style, on several lines if one would be too long. ``indent``: of ``start``."""
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
        file, path, candidate = flow.where.file, ("flows", name), None
        text = {**texts, **changed}[file]
        keys = list(keys_at(text, *path))
        place = place_of(text, *path, "start" if "start" in keys else keys[0]) if keys else None
        if place is not None and "start" not in keys:
            candidate = with_entry(text, written(flows[name].start, place.column), *path)
        elif place is not None and "#" not in text[place.key : place.end]:  # otherwise comments inside would be lost
            candidate = text[: place.key] + written(flows[name].start, place.column) + text[place.end :]

        # Only these flows may change: an anchor would carry ``start`` into others.
        after: Topology | None = None
        if candidate is not None:
            with suppress(TopologyError):
                after = load({**texts, **changed, file: candidate}, topology.environment)
        if candidate is None or after is None or after != replace(topology, flows=by_name(flows.values())):
            why = "It is written with an alias, or with comments inside of its start."
            todo = f"Write it yourself:\n{written(flows[name].start)}"
            raise ReconcilerError(f"flow {name} at {flow.where} cannot be edited here: no file was changed", why, todo)
        changed[file] = candidate
    return changed
