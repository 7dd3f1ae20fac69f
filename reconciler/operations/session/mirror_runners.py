"""Chooses the owner of a mirror, a host or the runner of this machine, and passes orders to it.

After a start it waits, for a bounded time, until the flows copy or report why they do not. A running job may copy
nothing: its target lacks topics, its principal lacks rights, it crashes repeatedly. A flow that only waits (for a
pause, a silent source, provenance) is reported, and fails nothing.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.backends.clusters.groups import Side
from reconciler.backends.git import revision
from reconciler.backends.mirror_jobs.host.ask import Asker, HostedMirror
from reconciler.backends.mirror_jobs.host.control_topic import ControlTopic
from reconciler.backends.mirror_jobs.runner.replace import Progress
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.status.records import (
    LISTEN_AT_MOST_SECONDS,
    LISTEN_SECONDS,
    StatusRecords,
    write_records,
)
from reconciler.backends.state.lock import this_process
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import ClusterError, RunnerError, Unknown
from reconciler.model.copying import Copying, FlowLook, look
from reconciler.model.environment.topology import Mirror, Principal, Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.operations.session.moved_pauses import MovedPauses, moved_pauses
from reconciler.replication.names import position_group, runbook_of, status_key
from reconciler.replication.runs.driver_records import ORDERS, RunOrders, run_key
from reconciler.resources.mirrors.handover import submission_of
from reconciler.text import BRIEF, first_of

NO_RECORDS: Mapping[str, StatusRecords] = {}
AT_MOST_S = 20.0
"""Seconds to wait: a lane reports within seconds, and a failed lane may succeed at its next try."""
UNDECIDED_S = 90.0
"""Seconds to wait at most before those, while a takeover reads old positions again: it ends after 60 s, and only then
do partitions stop with ``position_missing`` or ``position_regressed``."""
POLL_S = 0.5


class MirrorRunners:
    """The ``MirrorRunner`` of an environment. It connects at the first question, and asks hosts only if it must: an
    environment without hosts waits for none."""

    def __init__(
        self,
        folder: Path,
        topology: Topology,
        principal: Principal,
        here: SparkRunner,
        seen: Callable[[], LiveState | None],
        records: Mapping[str, StatusRecords] = NO_RECORDS,
    ) -> None:
        """``here``: the runner of this machine. ``seen``: the session's last observation, None before the first.
        ``records``: cluster -> status records, which include pauses."""
        self._folder, self._topology, self._principal = folder, topology, principal
        self.here = here
        self._seen = seen
        self._records = records
        self._control: dict[str, ControlTopic] = {}

    def close(self) -> None:
        for control in self._control.values():
            control.close()

    def observe(self, mirror: str) -> LiveMirror:
        hosted = self._declared_hosted(mirror)
        return self.here.observe(mirror) if hosted is None else hosted.observe()

    def require_startable(self, mirrors: Iterable[str]) -> None:
        """Raises RunnerError for obstacles to starting a job, before anything is changed."""
        self.here.require_startable([name for name in mirrors if self._host_of(name) is None])

    def start(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """Returns once all flows copy, or wait for a reason that is no failure. Raises RunnerError, also if the job
        runs but does not copy."""
        return self._until_copying(mirror, handover, progress, self.here.start)

    def restart(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """Like ``start``; the running application copies until the new one takes over."""
        return self._until_copying(mirror, handover, progress, self.here.restart)

    def _until_copying(
        self, mirror: str, handover: str, progress: Progress, here: Callable[[str, str, Progress], LiveMirror]
    ) -> LiveMirror:
        """Starts the mirror, here or by a host, and waits until it copies. Pauses of a renamed flow move along, before
        its job begins."""
        moved = self._moved_pauses(self._topology.mirrors[mirror], progress)
        moved.carry(progress)
        # A host starts and replaces applications by itself: it only gets the desired hand-over.
        hosted = self._host_of(mirror)
        if hosted is None:
            started = here(mirror, handover, progress)
        else:
            submission = submission_of(self._topology.mirrors[mirror])
            started = hosted.run(handover, submission, self._asker(), progress)
        copying = CopyWait(self.observe, progress, docs_url=self._topology.rules.docs_url).until_copying(started)
        moved.forget()
        return copying

    def pauses_moved(self, mirror: str) -> tuple[str, ...]:
        """Words for a plan about pauses that move when the mirror starts."""
        said: list[str] = []
        try:
            moved = self._moved_pauses(self._topology.mirrors[mirror], said.append)
        except (ClusterError, RunnerError) as error:
            return (*said, f"{error.what}. {error.todo}")
        return (*said, *moved.lines())

    def _moved_pauses(self, mirror: Mirror, say: Callable[[str], None]) -> MovedPauses:
        return moved_pauses(self._topology, self._records, mirror, self.handover_before(mirror), say)

    def stop(self, mirror: str, progress: Progress) -> None:
        """Stops gracefully: the job commits open transactions and ends. Returns once it has ended."""
        hosted = self._host_of(mirror)
        if hosted is not None and hosted.is_kept():
            hosted.stop(self._asker(), progress)
        else:
            self.here.stop(mirror, progress)

    def on_this_machine(self, mirrors: Iterable[str]) -> SparkRunner:
        """The runner of this machine. Raises RunnerError if a host keeps one of ``mirrors``."""
        for mirror in mirrors:
            if self._host_of(mirror) is not None:
                raise RunnerError(
                    f"mirror {mirror} is kept by hosts, which cannot run it until it has caught up",
                    "Only a job on this machine ends by itself.",
                    "Stop it, take hosted away for the migration, and start it so from here.",
                )
        return self.here

    def handover_before(self, mirror: Mirror) -> Mapping[str, object]:
        """The last hand-over of the mirror's job, from its host or this machine; empty if unknown."""
        if (hosted := self._declared_hosted(mirror.name)) is not None:
            with suppress(ClusterError):
                desired = hosted.desired()
                if desired is not None and desired.handover:
                    return desired.handover
        return self.here.folder(mirror.name).read("handover.json")

    def _host_of(self, mirror: str) -> HostedMirror | None:
        """The host of a mirror; None if this machine runs it. A mirror that is declared ``hosted`` never runs here: if
        its host cannot announce itself, this raises ClusterError, rather than starting a second job."""
        if (hosted := self._declared_hosted(mirror)) is not None:
            return hosted
        if any(folder.supervisor_pid() for folder in (self.here.folder(mirror), self.here.other_folder(mirror))):
            return None

        # A host may still keep a mirror that was declared hosted before, or that another environment's files declared.
        topology, seen = self._topology, self._seen()
        declared = topology.mirrors.get(mirror)
        for cluster in [topology.status_cluster(declared)] if declared is not None else topology.clusters:
            live = seen.known(cluster) if seen is not None else None
            if seen is None or (live is not None and topology.clusters[cluster].own_topics.control in live.topics):
                with suppress(ClusterError):  # no host is declared, so a failed read stops nothing
                    hosted = self._on(cluster, mirror)
                    if hosted.is_kept():
                        return hosted
        return None

    def _declared_hosted(self, mirror: str) -> HostedMirror | None:
        declared = self._topology.mirrors.get(mirror)
        if declared is None or not declared.hosted:
            return None
        return self._on(self._topology.status_cluster(declared), mirror)

    def _on(self, cluster: str, mirror: str) -> HostedMirror:
        topology = self._topology
        control = self._control.setdefault(
            cluster, ControlTopic(topology.clusters[cluster], topology.environment, self._principal)
        )
        return HostedMirror(topology.environment, mirror, control, lambda: self.here.status(mirror))

    def _asker(self) -> Asker:
        return Asker(this_process("").who, revision(self._folder).commit)


@dataclass(frozen=True, slots=True)
class CopyWait:
    """Waits until a started mirror copies. ``observe``: as in ``MirrorRunner``."""

    observe: Callable[[str], LiveMirror]
    progress: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    at_most_s: float = field(default=AT_MOST_S)
    docs_url: str = ""

    def until_copying(self, started: LiveMirror) -> LiveMirror:
        """Returns the mirror once every flow copies, or waits for a reason that is no failure. Raises RunnerError if
        the job has started but does not copy."""
        mirror, began, seen = started.name, self.clock(), started
        undecided_until = began + UNDECIDED_S
        lines, unread = WaitLines(self.progress, clock=self.clock), ""
        while True:
            looks = tuple(map(look, seen.flows.values()))
            waiting = [each for each in looks if each.copying is not Copying.YES]
            runs = seen.state is JobState.RUNNING
            if runs and not waiting:
                for each in looks:
                    if each.why:
                        self.progress(f"mirror {mirror}: {each.words}. {each.todo}")
                return seen

            if runs and any(each.code == "positions_undecided" for each in waiting):
                began = max(began, min(self.clock(), undecided_until))

            # Time is up. An ended job, or a flow that reports that it cannot copy, fails the start. An unknown is only
            # reported: the job may copy, and a failed apply would suggest that nothing was started.
            if self.clock() - began > self.at_most_s:
                if unread:
                    self.progress(f"mirror {mirror}: whether it copies is not known: {unread}")
                    return started
                if not runs:
                    raise RunnerError(
                        f"mirror {mirror} was started, but does not copy: its job is {seen.state}"
                        f"{': ' if seen.detail else ''}{seen.detail}",
                        "It ran for a moment and ended; it is started again until it is stopped.",
                        "Fix what its log says, then run apply again. To stop it: reconciler mirror stop ENV"
                        f" {next(iter(seen.flows), 'FLOW')}.",
                    )
                if failed := [each for each in looks if each.copying is Copying.NO]:
                    runbooks = dict.fromkeys(f"Runbook: {runbook_of(each.code, self.docs_url)}" for each in failed)
                    raise RunnerError(
                        f"mirror {mirror} was started, but does not copy: {_words(failed)}",
                        "\n".join(["Its job keeps trying; reconciler status ENV shows its state.", *runbooks]),
                        "\n".join(dict.fromkeys(each.todo for each in failed if each.todo)),
                    )
                for each in waiting:
                    self.progress(f"mirror {mirror}: whether flow {each.flow} copies is not known yet; {each.words}")
                return seen

            # A silent status cluster is no failure of the job, so the last report counts until a new one arrives.
            lines.show(f"mirror {mirror}: {_words(waiting) if runs else f'it is {seen.state}: {seen.detail}'}")
            self.sleep(POLL_S)
            try:
                seen, unread = self.observe(mirror), ""
            except (ClusterError, RunnerError) as error:
                unread = error.what


def _words(looks: Iterable[FlowLook]) -> str:
    return first_of([each.words for each in looks], BRIEF)


# Jobs beyond this machine: drivers in deploy mode cluster, and jobs without a status record.

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
        # Waited for once in a session: every later question about the same mirror gets the answer at once.
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
    cluster that keeps its status. Raises ClusterError if that one does not answer: another one is not needed."""
    ordered, silent = False, None
    for each in records.values():
        try:
            newest = each.read_all(int(time.time() * 1000)).get(reported.name)
        except ClusterError as error:
            silent = error
            continue
        if isinstance(newest, LiveMirror) and newest.run == reported.run:
            key = run_key(status_key(each.environment, reported.name), reported.run, "orders")
            write_records(each.cluster, principal, {key: ORDERS.dumps(RunOrders(stop=True))})
            ordered = True
    if silent is not None and not ordered:
        raise silent
