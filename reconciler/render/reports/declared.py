"""Reports on declarations in git: ``validate``, all problems with their places; ``explain``, the reason for a value."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reconciler.errors import Problem, Where
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Plan
from reconciler.model.reports.explain import Explanation, FlowDetails, RuleAnswer, TopicAnswer
from reconciler.render.markup import FORMAT_VERSION, PLAIN, Style, lines_of, report_json
from reconciler.text import columns, counted


def valid_text(place: str, topology: Topology, planned: Plan | None = None) -> str:
    """``environments/prod is valid: 2 clusters, 12 topics, 1 flow``. ``planned``: against the live clusters, if
    requested."""
    lines = [f"{place} is valid: {_declared(topology)}"]
    if planned is not None and not (planned.refused or planned.unknown):
        lines.append("on the live clusters: nothing blocks a plan")
    for unknown in planned.unknown if planned is not None else ():
        lines += [f"  unknown: {unknown.words}", f"    {unknown.todo}"]
    for refusal in planned.refused if planned is not None else ():
        lines += [f"  blocked: {refusal.reason.text}  [{refusal.reason.code}]", f"    {refusal.todo}"]
    return lines_of(lines)


def valid_json(place: str, topology: Topology, planned: Plan | None = None) -> str:
    """As schemas/validation.schema.json."""
    if planned is None or not (planned.refused or planned.unknown):
        return _document(topology.environment, f"Valid: {_declared(topology)}", ())
    reasons = [*((f"{each.subject}: {each.error}", "unknown", each.todo) for each in planned.unknown)]
    reasons += [(each.reason.text, each.reason.code, each.todo) for each in planned.refused]
    problems = [Problem(code, Where(place), text, "", todo) for text, code, todo in reasons]
    verdict = f"Valid, and not to be applied to the live clusters: {counted(len(problems), 'problem')}"
    return _document(topology.environment, verdict, problems, int(planned.exit_code))


def problems_json(environment: str, problems: Sequence[Problem]) -> str:
    """As schemas/validation.schema.json."""
    return _document(environment, f"Not valid: {counted(len(problems), 'problem')}", problems)


def _declared(topology: Topology) -> str:
    counts = (len(topology.clusters), "cluster"), (len(topology.topics), "topic"), (len(topology.flows), "flow")
    return ", ".join(counted(count, word) for count, word in counts)


def _document(environment: str, verdict: str, problems: Sequence[Problem], exit_code: int | None = None) -> str:
    documents = [
        {"code": each.code, **asdict(each.where), "what": each.what, "why": each.why, "todo": each.todo}
        for each in problems
    ]
    code = exit_code if exit_code is not None else 1 if problems else 0
    return report_json("validation", environment, verdict=verdict, exit_code=code, problems=documents)


def explanation_text(explanation: Explanation, style: Style = PLAIN) -> str:
    parts = [list(_topic(answer, style)) for answer in explanation.topics]
    parts += [list(_flow(flow, style)) for flow in explanation.flows]
    for mirror in explanation.mirrors:
        declared = f" ({mirror.declared})" if mirror.declared else ""
        lines = [f"{style.paint('bold', f'mirror {mirror.name}')}{declared}"]
        if mirror.flows:
            prints = f"fingerprint of the mirror {mirror.fingerprint}"
            lines.append(f"  writes its status to {mirror.status_cluster}; {prints}")
        lines += [f"  its job: {mirror.live}"] if mirror.live else []
        parts.append([*lines, *_table(mirror.settings)])
    users = "SCRAM credentials of", explanation.users
    for title, rules in (("principal", explanation.access), ("quotas of", explanation.quotas), users):
        if rules:
            parts.append([style.paint("bold", f"{title} {explanation.subject}"), *_access(rules)])
    if not explanation.asked:
        parts.append(["From git alone; no cluster was asked."])
    if explanation.unknown:
        unknown = [
            f"  {each.subject}: {'. '.join(filter(None, (each.error, each.todo)))}" for each in explanation.unknown
        ]
        parts.append([style.paint("alarm", "Not known, so this is from git alone:"), *unknown])
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
    rows = []
    for value in answer.values:
        # The key begins a line, where CI would obey ``::error::``.
        key = value.key if value.key[:1].isalnum() else repr(value.key)
        origin = f"{value.because}, {value.where}" if value.where else value.because
        origin += f"; over {' and '.join(value.overridden)}" if value.overridden else ""
        rows.append((key, value.wished or "-", value.live and f"live {value.live}", origin))
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


def _flow(flow: FlowDetails, style: Style) -> Iterator[str]:
    yield f"{style.paint('bold', f'flow {flow.name}')}{f' ({flow.declared})' if flow.declared else ''}"
    yield f"  carried by mirror {flow.mirror}; fingerprint of the flow {flow.fingerprint}"
    yield from _table(flow.settings)
    yield f"  carries {counted(len(flow.carried), 'topic')}"
    yield from style.cut([f"    {answer.topic} as {answer.remote}: {answer.rule}" for answer in flow.carried])
    if flow.left:
        yield f"  leaves {counted(len(flow.left), 'topic')}"
    yield from style.cut([f"    {answer.topic}: {answer.rule}" for answer in flow.left])


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    return (f"  {line}" for line in columns(rows))
