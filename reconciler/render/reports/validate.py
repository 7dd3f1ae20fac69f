"""What ``validate`` prints: how much is declared, or every problem with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.counts import counted
from reconciler.errors import Problem
from reconciler.topology import Topology

FORMAT_VERSION = 1


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
    told = {
        "format_version": FORMAT_VERSION,
        "kind": "validation",
        "environment": environment,
        "verdict": verdict,
        "exit_code": 1 if problems else 0,
        "problems": [_problem(one) for one in problems],
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def _problem(one: Problem) -> Mapping[str, Any]:
    place = {"file": one.where.file, "line": one.where.line, "column": one.where.column}
    return {"code": one.code, **place, "what": one.what, "why": one.why, "todo": one.todo}
