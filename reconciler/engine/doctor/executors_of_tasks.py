"""Doctor checks of the executors of a Spark cluster, as the mirror's tasks there have looked at their own machines."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.engine.doctor.check import Check
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.reports.doctor import Finding

TOLD = ("lane_without_task", "executor_unfit")
"""Conditions (docs/mirror/conditions.md) that say what is wrong with an executor, or that there is none."""
SHOWN = 3


def task_findings(mirror: Mirror, live: LiveMirror | Unknown | None) -> Iterator[Finding]:
    """``live``: by the newest status record; None: there is none. Of a mirror that does not run nothing is known: it
    takes an application, and cores, to look at an executor (decision 162)."""
    check = Check(f"mirror {mirror.name}", "executors")
    if isinstance(live, Unknown):
        yield check.unread(live)
    elif live is None or live.state not in (JobState.STARTING, JobState.RUNNING):
        state = "it has not run yet" if live is None else f"the mirror is {live.state}"
        text = f"nobody has looked at their packages, secrets and network: {state}"
        yield check.unknown(
            text,
            "",
            "Start it (reconciler apply), or let an application look: doctor --executors",
        )
    else:
        yield _seen(check, live)


def _seen(check: Check, live: LiveMirror) -> Finding:
    conditions = [each for flow in live.flows.values() for each in flow.conditions if each.code in TOLD]
    texts = list(dict.fromkeys(each.text or each.code for each in conditions))
    if texts:
        left = f"; and {len(texts) - SHOWN} more: reconciler status" if len(texts) > SHOWN else ""
        why = "lanes are copied by none of these executors, or by fewer than are wanted"
        todo = next((each.todo for each in conditions if each.todo), "See docs/mirror/spark-clusters.md")
        return check.problem("; ".join(texts[:SHOWN]) + left, why, todo)
    if live.state is JobState.STARTING or any(flow.state != "running" for flow in live.flows.values()):
        text = "its tasks have not said yet what they lack; not every flow runs"
        return check.unknown(text, "", "Ask again once reconciler status says that they run")
    return check.ok("its tasks have their packages, secrets, the control channel and all brokers")
