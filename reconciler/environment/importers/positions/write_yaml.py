"""Writes imported positions into the YAML of flows as ``start: {offsets: ...}``; nothing else changes.

The result is loaded again and must differ from before in exactly these starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, takewhile

from reconciler.environment.adopt.write import WIDTH, scalar
from reconciler.environment.load import load
from reconciler.environment.yaml.nodes import Entry, node_at
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.read import read
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

    Raises ReconcilerError, with the lines to write by hand, where a flow cannot be edited here.
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
        for candidate in _candidates(file, text, flows[name]):
            if _loads_as({**texts, **changed, file: candidate}, topology, flows):
                changed[file] = candidate
                break
        else:
            why = "It is written with an alias, or with comments inside of its start."
            todo = f"Write it by hand:\n{written(flows[name].start)}"
            raise ReconcilerError(f"flow {name} at {flow.where} cannot be edited here: no file was changed", why, todo)
    return changed


def _loads_as(texts: Mapping[str, str], before: Topology, flows: Mapping[str, Flow]) -> bool:
    """Do the files say exactly what they said, but for these flows?"""
    try:
        after = load(texts, before.environment)
    except TopologyError:
        return False
    return after == replace(before, flows=after.flows) and dict(after.flows) == dict(flows)


def _candidates(file: str, text: str, flow: Flow) -> Iterator[str]:
    root = read(file, text).root
    node = node_at(root, "flows", flow.name)
    if not isinstance(node, YamlMapping):
        return
    starts = list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
    if "start" in node.entries:
        yield from _replaced(text, starts, node.entries["start"], flow.start)
        return
    at = starts[node.line - 1] + node.column - 1
    if text[at : at + 1] == "{":
        inside = written(flow.start, node.column)
        yield f"{text[: at + 1]}{inside}{', ' if node.entries else ''}{text[at + 1 :]}"
        return
    lines = text.splitlines()
    # Before a key that has no comment above it, which would then seem to speak of the start.
    keys = sorted(node.entries.values(), key=lambda entry: entry.line)
    for key in (*reversed(keys[1:]), *keys[:1]):
        if key is keys[0] or not lines[key.line - 2].lstrip().startswith("#"):
            place = starts[key.line - 1] + key.column - 1
            gap = ("\r\n" if "\r\n" in text else "\n") + " " * (key.column - 1)
            yield f"{text[:place]}{written(flow.start, key.column - 1)}{gap}{text[place:]}"


def _replaced(text: str, starts: list[int], entry: Entry, start: Start) -> Iterator[str]:
    """The value of ``start`` exchanged, be it a word, in braces, or a block; with comments inside it stays."""
    key = starts[entry.line - 1] + entry.column - 1
    value = starts[entry.value.line - 1] + entry.value.column - 1
    if text[value : value + 1] == "{":
        end = _closing(text, value)
    elif isinstance(entry.value, YamlMapping):
        end = _end_of_block(text, starts, entry)
    else:
        end = value + len(entry.value.text) if hasattr(entry.value, "text") else -1
    if end > 0 and "#" not in text[key:end]:
        yield text[:key] + written(start, entry.column - 1) + text[end:]


def _closing(text: str, opening: int) -> int:
    """After the brace that closes the one at ``opening``; -1 for what quotes or is not closed."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return -1


def _end_of_block(text: str, starts: list[int], entry: Entry) -> int:
    """The end of the last line that is indented deeper than the key."""
    lines = text.splitlines()[entry.line :]
    deeper = list(takewhile(lambda line: not line.strip() or len(line) - len(line.lstrip()) >= entry.column, lines))
    while deeper and not deeper[-1].strip():
        deeper.pop()
    last = entry.line + len(deeper)
    return starts[last - 1] + len(text.splitlines()[last - 1])
