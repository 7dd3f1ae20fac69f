"""Offsets of a flow's groups on both sides: read when a page asks for them, and cached for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.failover import Way
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.survey import Survey
from reconciler.render.live.groups import Standings

KEPT_SECONDS = 15.0


def survey_groups(topology: Topology, flow: str) -> Standings:
    """Both sides as `failover --dry-run` reads them, as the principal `mirror`. Raises ReconcilerError."""
    survey = Survey(topology, move_of(topology, Way.FAILOVER, flow))
    survey.try_origin()
    groups, unsupported = survey.groups()
    lost = survey.lost.error if survey.lost is not None else ""
    return Standings(int(time.time() * 1000), survey.move, groups, unsupported, lost)


class StandingsReader:
    """One read at a time for all pages: each costs both clusters work."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        survey: Callable[[Topology, str], Standings] = survey_groups,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topology = topology
        self._survey = survey
        self._clock = clock
        self._asking = threading.Lock()
        self._kept: dict[str, tuple[float, Standings | Unknown]] = {}

    def of(self, flow: str) -> Standings | Unknown:
        with self._asking:
            topology = self._topology()
            self._kept = {
                name: kept
                for name, kept in self._kept.items()
                if name in topology.flows and self._clock() - kept[0] < KEPT_SECONDS
            }
            if flow not in self._kept:
                if flow not in topology.flows:
                    return Unknown(f"flow {flow}", "no such flow is declared", "Choose one of those that are.")
                self._kept[flow] = self._clock(), self._asked(topology, flow)
            return self._kept[flow][1]

    def _asked(self, topology: Topology, flow: str) -> Standings | Unknown:
        try:
            return self._survey(topology, flow)
        except ReconcilerError as error:
            return Unknown.of(f"flow {flow}", error)
