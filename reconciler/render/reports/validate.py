"""The report of ``validate``: how much is declared, or every problem with its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.render.report_json import report_json
from reconciler.text import counted


def valid_text(place: str, topology: Topology) -> str:
    """``environments/prod is valid: 2 clusters, 12 topics, 1 flow``."""
    return f"{place} is valid: {_declared(topology)}"


def valid_json(topology: Topology) -> str:
    """As schemas/validation.schema.json."""
    return _document(topology.environment, f"Valid: {_declared(topology)}", ())


def problems_json(environment: str, problems: Sequence[Problem]) -> str:
    """As schemas/validation.schema.json."""
    return _document(environment, f"Not valid: {counted(len(problems), 'problem')}", problems)


def _declared(topology: Topology) -> str:
    counts = (len(topology.clusters), "cluster"), (len(topology.topics), "topic"), (len(topology.flows), "flow")
    return ", ".join(counted(count, word) for count, word in counts)


def _document(environment: str, verdict: str, problems: Sequence[Problem]) -> str:
    documents = [
        {"code": each.code, **asdict(each.where), "what": each.what, "why": each.why, "todo": each.todo}
        for each in problems
    ]
    return report_json("validation", environment, verdict=verdict, exit_code=1 if problems else 0, problems=documents)
