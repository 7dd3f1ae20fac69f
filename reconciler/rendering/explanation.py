"""The answer to ``explain`` as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reconciler.counts import counted
from reconciler.explanation import Explanation, FlowAnswer, FlowDetails, MirrorDetails, RuleAnswer, TopicAnswer, Value
from reconciler.rendering.style import SHOWN, Style

FORMAT_VERSION = 1


def explanation_text(found: Explanation, style: Style | None = None) -> str:
    chosen = style or Style()
    parts = [list(_topic(one, chosen)) for one in found.topics]
    parts += [list(_flow(one, chosen)) for one in found.flows]
    parts += [list(_mirror(one, chosen)) for one in found.mirrors]
    if found.access:
        parts.append([chosen.paint("bold", f"principal {found.subject}"), *_access(found.access)])
    if found.quotas:
        parts.append([chosen.paint("bold", f"quotas of {found.subject}"), *_access(found.quotas)])
    if found.users:
        parts.append([chosen.paint("bold", f"SCRAM credentials of {found.subject}"), *_access(found.users)])
    if not found.asked:
        parts.append(["Told from git alone; no cluster was asked."])
    if found.unknown:
        told = [f"  {one.subject}: {one.error}" for one in found.unknown]
        parts.append([chosen.paint("alarm", "Not known, so told from git alone:"), *told])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def explanation_json(found: Explanation) -> str:
    """As schemas/explanation.schema.json."""
    head = {"format_version": FORMAT_VERSION, "kind": "explanation", "exit_code": int(found.exit_code)}
    return json.dumps({**head, **asdict(found)}, indent=2) + "\n"


def _topic(one: TopicAnswer, style: Style) -> Iterator[str]:
    reason = one.reason.replace(one.declared.rpartition(":")[0], one.declared) if one.declared else one.reason
    yield f"{style.paint('bold', f'topic {one.ref}')}: {reason}"
    if one.live:
        yield f"  {one.live}"
    rows = [
        (value.key, value.wished or "-", f"live {value.live}" if value.live else "", _from(value))
        for value in one.values
    ]
    yield from _table([tuple(cell for cell in row) for row in rows])
    if one.flows:
        yield f"  flows from {one.ref.cluster}"
    yield from (f"    {_answer(answer)}" for answer in one.flows)
    if one.hops:
        yield "  its names"
    yield from (f"    {'  ' * (hop.depth - 1)}{hop.source} is {hop.remote}, by flow {hop.flow}" for hop in one.hops)
    if one.access:
        yield f"  access, {counted(len(one.access), 'rule')}"
        yield from _access(one.access)


def _access(rules: Sequence[RuleAnswer]) -> Iterator[str]:
    for one in rules:
        where = f", {one.where}" if one.where else ""
        state = "" if one.state in ("", "there") else f" [{one.state}]"
        yield f"    {one.cluster}: {one.rule}{state}: {one.because}{where}"


def _from(value: Value) -> str:
    told = f"{value.because}, {value.where}" if value.where else value.because
    return f"{told}; over {' and '.join(value.overridden)}" if value.overridden else told


def _answer(answer: FlowAnswer) -> str:
    if answer.remote:
        return f"{answer.flow} carries it as {answer.remote}: {answer.rule}"
    return f"{answer.flow} does not: {answer.rule}"


def _flow(one: FlowDetails, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', f'flow {one.name}')}{f' ({one.declared})' if one.declared else ''}"
    yield f"  carried by mirror {one.mirror}; fingerprint of the flow {one.fingerprint}"
    yield from _table(list(one.settings))
    yield f"  carries {counted(len(one.carried), 'topic')}"
    yield from _cut([f"    {answer.topic} as {answer.remote}: {answer.rule}" for answer in one.carried], style)
    if one.left:
        yield f"  leaves {counted(len(one.left), 'topic')}"
    yield from _cut([f"    {answer.topic}: {answer.rule}" for answer in one.left], style)


def _mirror(one: MirrorDetails, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', f'mirror {one.name}')}{f' ({one.declared})' if one.declared else ''}"
    if one.flows:
        yield f"  writes its status to {one.status_cluster}; fingerprint of the mirror {one.fingerprint}"
    if one.live:
        yield f"  its job: {one.live}"
    yield from _table(list(one.settings))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        yield f"  {'  '.join(cells)}".rstrip()


def _cut(lines: list[str], style: Style) -> list[str]:
    if style.full or len(lines) <= SHOWN:
        return lines
    return [*lines[:SHOWN], f"    and {len(lines) - SHOWN} more"]
