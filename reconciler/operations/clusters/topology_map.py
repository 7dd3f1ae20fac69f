"""``map``: the environment drawn from git, from its clusters and jobs, and with a saved plan."""

from __future__ import annotations

from pathlib import Path

from reconciler.engine.topology_map import topology_map
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Principal
from reconciler.model.plan import Plan
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.operations.apply.run import read_plan
from reconciler.operations.controller.rollout_world import lock_of, standing
from reconciler.operations.session.session import open_session, read_topology


def draw(env: Path, plan_file: Path | None, offline: bool) -> TopologyMap:
    """``offline``: no cluster is asked. Raises ReconcilerError for a plan of another environment."""
    topology = read_topology(env)
    plan = _saved(plan_file, topology.environment) if plan_file is not None else None
    if offline:
        return topology_map(topology, None, plan)
    with open_session(env, Principal.PLAN) as session:
        live = session.observe()
        status = standing(session, live, lock_of(session, live)) if topology.rollout is not None else None
        return topology_map(session.topology, live, plan, status.promotion if status is not None else None)


def _saved(path: Path, environment: str) -> Plan:
    plan = read_plan(path, "Without it there is nothing to draw on the map.")
    if plan.basis.environment != environment:
        raise ReconcilerError(
            f"{path} is a plan of environment {plan.basis.environment}, and the map is of {environment}",
            "Its changes would be drawn on clusters that they are not for.",
            f"Name the folder of {plan.basis.environment}, or save a plan of {environment}.",
        )
    return plan
