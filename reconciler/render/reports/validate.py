"""The report of ``validate``: how much is declared, or every problem with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from reconciler.errors import Problem, Where
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Plan
from reconciler.render.escape import lines_of
from reconciler.render.report_json import report_json
from reconciler.text import counted


def valid_text(place: str, topology: Topology, planned: Plan | None = None) -> str:
    """``environments/prod is valid: 2 clusters, 12 topics, 1 flow``. ``planned``: on the live clusters, if asked."""
    return lines_of([f"{place} is valid: {_declared(topology)}", *(() if planned is None else _live(planned))])


def valid_json(place: str, topology: Topology, planned: Plan | None = None) -> str:
    """As schemas/validation.schema.json."""
    if planned is None or not (planned.refused or planned.unknown):
        return _document(topology.environment, f"Valid: {_declared(topology)}", ())
    reasons = [*((f"{each.subject}: {each.error}", "unknown", each.todo) for each in planned.unknown)]
    reasons += [(each.reason.text, each.reason.code, each.todo) for each in planned.refused]
    problems = [Problem(code, Where(place), text, "", todo) for text, code, todo in reasons]
    verdict = f"Valid, and not to be applied to the live clusters: {counted(len(problems), 'problem')}"
    return _document(topology.environment, verdict, problems, int(planned.exit_code))


def _live(planned: Plan) -> Iterator[str]:
    if not (planned.refused or planned.unknown):
        yield "on the live clusters: nothing blocks a plan"
    for unknown in planned.unknown:
        yield f"  unknown: {unknown.subject}: {unknown.error}"
        yield f"    {unknown.todo}"
    for refusal in planned.refused:
        yield f"  blocked: {refusal.reason.text}  [{refusal.reason.code}]"
        yield f"    {refusal.todo}"


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
