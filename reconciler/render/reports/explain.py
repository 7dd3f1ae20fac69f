"""The report of ``explain`` as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reconciler.model.reports.explain import (
    ExplainedValue,
    Explanation,
    FlowDetails,
    MirrorDetails,
    RuleAnswer,
    TopicAnswer,
)
from reconciler.render.escape import lines_of
from reconciler.render.style import PLAIN, Style
from reconciler.text import columns, counted

FORMAT_VERSION = 1


def explanation_text(explanation: Explanation, style: Style = PLAIN) -> str:
    parts = [list(_topic(answer, style)) for answer in explanation.topics]
    parts += [list(_flow(flow, style)) for flow in explanation.flows]
    parts += [list(_mirror(mirror, style)) for mirror in explanation.mirrors]
    users = "SCRAM credentials of", explanation.users
    for title, rules in (("principal", explanation.access), ("quotas of", explanation.quotas), users):
        if rules:
            parts.append([style.paint("bold", f"{title} {explanation.subject}"), *_access(rules)])
    if not explanation.asked:
        parts.append(["From git alone; no cluster was asked."])
    if explanation.unknown:
        told = [f"  {each.subject}: {'. '.join(filter(None, (each.error, each.todo)))}" for each in explanation.unknown]
        parts.append([style.paint("alarm", "Not known, so this is from git alone:"), *told])
    return "\n".join(map(lines_of, parts))


def explanation_json(explanation: Explanation) -> str:
    """As schemas/reports/explanation.schema.json."""
    head = {"format_version": FORMAT_VERSION, "kind": "explanation", "exit_code": int(explanation.exit_code)}
    return json.dumps({**head, **asdict(explanation)}, indent=2) + "\n"


def _topic(answer: TopicAnswer, style: Style) -> Iterator[str]:
    file = answer.declared.rpartition(":")[0]
    reason = answer.reason.replace(file, answer.declared) if answer.declared else answer.reason
    yield f"{style.paint('bold', f'topic {answer.ref}')}: {reason}"
    if answer.live:
        yield f"  {answer.live}"
    rows = [(_key(each), each.wished or "-", each.live and f"live {each.live}", _from(each)) for each in answer.values]
    yield from _table(rows)
    if answer.flows:
        yield f"  flows from {answer.ref.cluster}"
    for flow in answer.flows:
        carries = f"carries it as {flow.remote}" if flow.remote else "does not"
        yield f"    {flow.flow} {carries}: {flow.rule}"
    if answer.hops:
        yield "  its names"
    yield from (f"    {'  ' * (hop.depth - 1)}{hop.source} is {hop.remote}, by flow {hop.flow}" for hop in answer.hops)
    if answer.access:
        yield f"  access, {counted(len(answer.access), 'rule')}"
        yield from _access(answer.access)


def _access(rules: Sequence[RuleAnswer]) -> Iterator[str]:
    for rule_answer in rules:
        where = f", {rule_answer.where}" if rule_answer.where else ""
        state = "" if rule_answer.state in ("", "there") else f" [{rule_answer.state}]"
        yield f"    {rule_answer.cluster}: {rule_answer.rule}{state}: {rule_answer.because}{where}"


def _key(value: ExplainedValue) -> str:
    """It begins a line, where CI would obey ``::error::``."""
    return value.key if value.key[:1].isalnum() else repr(value.key)


def _from(value: ExplainedValue) -> str:
    text = f"{value.because}, {value.where}" if value.where else value.because
    return f"{text}; over {' and '.join(value.overridden)}" if value.overridden else text


def _flow(flow: FlowDetails, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', f'flow {flow.name}')}{f' ({flow.declared})' if flow.declared else ''}"
    yield f"  carried by mirror {flow.mirror}; fingerprint of the flow {flow.fingerprint}"
    yield from _table(flow.settings)
    yield f"  carries {counted(len(flow.carried), 'topic')}"
    yield from style.cut([f"    {answer.topic} as {answer.remote}: {answer.rule}" for answer in flow.carried])
    if flow.left:
        yield f"  leaves {counted(len(flow.left), 'topic')}"
    yield from style.cut([f"    {answer.topic}: {answer.rule}" for answer in flow.left])


def _mirror(mirror: MirrorDetails, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', f'mirror {mirror.name}')}{f' ({mirror.declared})' if mirror.declared else ''}"
    if mirror.flows:
        yield f"  writes its status to {mirror.status_cluster}; fingerprint of the mirror {mirror.fingerprint}"
    if mirror.live:
        yield f"  its job: {mirror.live}"
    yield from _table(mirror.settings)


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    return (f"  {line}" for line in columns(rows))
