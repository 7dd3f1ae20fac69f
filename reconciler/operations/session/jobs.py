"""Jobs beyond this machine: drivers in deploy mode cluster, and jobs without a status record."""

import time
from collections.abc import Callable, Mapping

from reconciler.backends.clusters.groups import Side
from reconciler.backends.mirror_jobs.status.records import (
    LISTEN_AT_MOST_SECONDS,
    LISTEN_SECONDS,
    StatusRecords,
    write_records,
)
from reconciler.errors import ClusterError, RunnerError, Unknown
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.model.live import LiveMirror
from reconciler.model.state.last_apply import Applied
from reconciler.replication.names import position_group, status_key
from reconciler.replication.runs.driver_records import ORDERS, RunOrders, run_key

Status = Callable[[str], LiveMirror | None]
LastApply = Callable[[], Applied | Unknown | None]


class UnseenJobs:
    """Decides whether a job without a status record is stopped or unknown. ``status``: reads the newest status record
    of a mirror. ``last_apply``: reads the record of the last apply."""

    def __init__(
        self,
        topology: Topology,
        records: Mapping[str, StatusRecords],
        principal: Principal,
        status: Status,
        last_apply: LastApply,
    ) -> None:
        self._topology = topology
        self._records = records
        self._principal = principal
        self._status = status
        self._last_apply = last_apply
        self._started_before: dict[str, str] = {}

    def here(self, mirror: str) -> Unknown | None:
        """The unknown state of a job with a process on this machine and no status record; None while it may be
        starting."""
        declared = self._topology.mirrors.get(mirror)
        if declared is None or not (missing := self._missing(declared)):
            return None
        error = f"its process runs, but {missing}, so what the job does cannot be seen"
        return Unknown(f"mirror {mirror}", error, "Run reconciler apply ENV, which creates the topic.")

    def require_heard(self, mirror: str) -> None:
        """For a job without a process on this machine and without a status record: waits once for a report. Raises
        RunnerError if the job was started before and cannot report, since it may still run elsewhere."""
        declared = self._topology.mirrors.get(mirror)
        if declared is None:
            return
        asked_before = mirror in self._started_before
        if not asked_before:
            self._started_before[mirror] = self._evidence(declared)
        if not (evidence := self._started_before[mirror]):
            return
        if missing := self._missing(declared):
            raise RunnerError(
                f"{missing}, and {evidence}",
                "Its job may run on another machine, and a second one must not be started beside it",
                "Run reconciler apply ENV --partial, which creates the topic and starts no job. A job that runs then "
                "reports within seconds; plan again, and a job that did not report is started.",
            )
        if not asked_before:
            patience = min(LISTEN_AT_MOST_SECONDS, LISTEN_SECONDS + 2 * declared.status_interval_ms / 1000)
            until = time.monotonic() + patience
            while self._status(mirror) is None and time.monotonic() < until:
                time.sleep(LISTEN_SECONDS / 5)

    def _missing(self, mirror: Mirror) -> str:
        records = self._records[self._topology.status_cluster(mirror)]
        missing = f"its status topic {records.topic} does not exist at {records.cluster.name}"
        return missing if records.topic_missing else ""

    def _evidence(self, mirror: Mirror) -> str:
        """Evidence that the mirror was started before, or empty: its positions, or the last apply if positions may not
        be read."""
        refused = set()
        for flow in self._topology.flows_of(mirror):
            try:
                marks = Side(self._topology.clusters[flow.target], self._principal).marks(flow.state_name)
                if not all(mark.foreign for mark in marks.values()):
                    return f"group {position_group(flow.state_name)} at {flow.target} holds its positions"
            except ClusterError:
                refused.add(flow.name)
        last = self._last_apply() if refused else None
        carried = sorted(refused & set(last.flows)) if isinstance(last, Applied) else []
        return f"flow {carried[0]} was applied before, and its positions cannot be read" if carried else ""


def order_stop(records: Mapping[str, StatusRecords], principal: Principal, reported: LiveMirror) -> None:
    """Orders a driver in deploy mode cluster to stop, from a machine that does not follow it, by a record on the
    cluster that keeps its status. Raises ClusterError."""
    for each in records.values():
        newest = each.read_all(int(time.time() * 1000)).get(reported.name)
        if isinstance(newest, LiveMirror) and newest.run == reported.run:
            key = run_key(status_key(each.environment, reported.name), reported.run, "orders")
            write_records(each.cluster, principal, {key: ORDERS.dumps(RunOrders(stop=True))})
