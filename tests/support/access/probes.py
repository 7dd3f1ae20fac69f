"""An apply whose access changes are probed, and strangers who change rules meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reconciler.engine.apply.limits import ApplyLimits, Silent
from reconciler.engine.apply.run import apply
from reconciler.model.environment.topology import Topology
from reconciler.model.live import Made
from reconciler.model.plan import Outcome, Plan
from reconciler.model.principals import AclBinding
from reconciler.model.reports.probe import Probe
from reconciler.render.reports.apply import outcomes_text
from reconciler.resources.mirrors.handover import handovers
from tests.support.access.acls import rules
from tests.support.builders import World
from tests.support.fakes.prober import FakeProber

LOOK, BEFORE, DO, VIEWS, AFTER = range(2, 7)
"""Calls of a wave on its cluster, after the one look at its id: read, write down, do, read of each broker, strike."""


@dataclass
class Ran:
    outcomes: tuple[Outcome, ...]
    plan: Plan
    probes: list[Probe] = field(default_factory=list)

    @property
    def results(self) -> dict[str, str]:
        return {one.id.partition(": ")[2] or one.id: one.result.value for one in self.outcomes}

    @property
    def words(self) -> str:
        return outcomes_text(self.plan, self.outcomes, probes=self.probes)


class Heard(Silent):
    def __init__(self) -> None:
        self.probes: list[Probe] = []

    def probed(self, probe: Probe) -> None:
        self.probes.append(probe)


def run(
    seen: World,
    wished: Topology,
    *arranged: Callable[[], None],
    held: Callable[[], str] = str,
    patience: float = 0.1,
    **prober: Any,
) -> Ran:
    """``arranged`` once the plan is made, so that calls are counted from the begin of the apply. ``patience``: seconds
    that brokers have to show a change; more of it for a test in which they do, however busy the machine is."""
    planned, heard = seen.plan(wished), Heard()
    for one in arranged:
        one()
    caution = ApplyLimits(held=held, prober=FakeProber(wished, seen.clusters, **prober), patience=patience)
    outcomes = apply(planned, seen.clusters, seen.runner, handovers(wished), heard, caution)
    return Ran(outcomes, planned, heard.probes)


def strangers(seen: World, *texts: str, call: int = 5) -> Callable[[], None]:
    """They make these rules just before the brokers are asked what they show."""
    east = seen.clusters["east"]
    return lambda: east.at_call(call, lambda: east.acls.update(rules(*texts)))


def access_of(seen: World, name: str = "east") -> tuple[set[AclBinding], dict[AclBinding, Made]]:
    return set(seen.clusters[name].acls), dict(seen.clusters[name].owned)
