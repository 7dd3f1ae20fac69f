"""Owns one mirror on this host by its lease: carries out the desired record, restarts after a crash, releases the
lease.

No method waits. ``step`` is called about once a second with the contents of the control topic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from reconciler.backends.mirror_jobs.host.accept import AllowList, HostRefusal
from reconciler.backends.mirror_jobs.host.control_topic import ControlStore, LeaseWatch
from reconciler.backends.mirror_jobs.host.jobs import JobLook, Jobs
from reconciler.backends.mirror_jobs.runner.supervisor import FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_AFTER_S
from reconciler.errors import ReconcilerError
from reconciler.model.state.mirror_control import (
    LEASE,
    DesiredMirror,
    DesiredState,
    HostLease,
    HostPhase,
    HostReport,
    UnreadableRecordError,
    read_desired,
    read_lease,
)
from reconciler.replication.json_codec import parsed
from reconciler.replication.names import desired_key, host_key

_MOST_WORDS = 1_000
"""Limit for a refusal, which quotes the refused record: if the lease record became too large to write, the host would
lose its lease."""
RENEWALS = 3
"""Renewals of a lease within its length, so that it survives two failed writes."""


@dataclass(frozen=True, slots=True)
class HostProcess:
    """Identity of this host in its records."""

    id: str
    """Unique to this process: after a restart it is another host."""
    machine: str
    pid: int
    version: str
    """Of this program."""


class Keeper:
    """One mirror of one environment. ``clock``: monotonic seconds; ``wall_ms``: time of day, shown to users."""

    def __init__(
        self,
        host: HostProcess,
        environment: str,
        mirror: str,
        accepted: AllowList,
        control: ControlStore,
        jobs: Jobs,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        say: Callable[[str], None],
    ) -> None:
        self._host, self._environment, self._mirror = host, environment, mirror
        self._accepted, self._control, self._jobs = accepted, control, jobs
        self._clock, self._wall_ms, self._say = clock, wall_ms, say
        # The lease: its key, and since when another host's record has not changed. The age is measured by this
        # machine's clock, so clocks of hosts may differ.
        self._key = host_key(environment, mirror)
        self._sighting = LeaseWatch(None, clock())
        self.lease: HostLease | None = None
        """The last lease that this host wrote; None while it does not own the mirror."""
        self._written: bytes | None = None
        self._replaced: bytes | None = None
        """The value before it, which a read may still return: a commit becomes visible to readers a moment later."""
        self._renewed = 0.0
        self._begun = 0
        """The last generation that this host began."""
        self._restarts = 0
        self._pause_s = FIRST_PAUSE_S
        self._again_at: float | None = None
        self._started_at = 0.0

    def step(self, entries: Mapping[str, bytes]) -> None:
        """One turn. ``entries``: the control topic, just read; the topic exists. Raises ClusterError."""
        now, value = self._clock(), entries.get(self._key)
        self._sighting = self._sighting.again(value, now)
        desired, refusal = None, None
        try:
            desired = read_desired(
                entries.get(desired_key(self._environment, self._mirror)), self._environment, self._mirror
            )
        except UnreadableRecordError as error:
            why = "A host does nothing that it does not understand; running jobs continue."
            todo = "Run reconciler apply ENV, which writes a new record; upgrade this host where a later release did."
            refusal = HostRefusal(str(error), why, todo)

        # Checks whether the mirror is still ours. A deleted or unreadable lease record is written again.
        try:
            held = read_lease(value, self._environment, self._mirror)
        except UnreadableRecordError:
            held = None
        if self.lease is not None and value not in (self._written, self._replaced):
            if _holder(value) in ("", self._host.id):
                self._written = value
            else:
                # The new holder's application fences the lanes of ours, so ours can only end.
                by = held.words if held is not None else "a host of a later release"
                self._say(f"mirror {self._mirror}: given up: {by} has it now")
                self.lease, self._written, self._replaced = None, None, None
                self._jobs.end()
        if self.lease is None and not self._takes(held, desired, refusal, now):
            return

        # A changed report is written at once; an unchanged one only when the lease is due for renewal.
        report, lease = self._act(desired, refusal, now), self.lease
        if lease is not None and (report != lease.report or now - self._renewed >= lease.lease_ms / 1000 / RENEWALS):
            self._write(replace(lease, beat=lease.beat + 1, report=report))

    def leave(self) -> None:
        """Releases the lease, so that another host takes over from the running application. Raises ClusterError."""
        if self.lease is not None:
            self._write(replace(self.lease, released=True, report=replace(self.lease.report, phase=HostPhase.LEAVING)))

    def taken_by_other(self, control: ControlStore) -> bool:
        """Whether another host owns the mirror now; False while the lease cannot be read."""
        try:
            holder = _holder(control.read().get(self._key))
        except ReconcilerError:
            return False
        return holder not in ("", self._host.id)

    def _takes(
        self, held: HostLease | None, desired: DesiredMirror | None, refusal: HostRefusal | None, now: float
    ) -> bool:
        """Takes a free lease; returns whether this host owns the mirror. A host that refuses the desired record takes
        the lease only to report that."""
        if desired is None and refusal is None:
            return False
        done = held.report.generation if held is not None else 0
        refused = refusal or (self._accepted.refusal(desired, done) if desired is not None else None)
        free = self._sighting.is_free(held, now)
        handed_on = held is not None and held.report.phase is HostPhase.REFUSED and refused is None
        if not free and not handed_on:
            return False
        if refused is not None and held is not None and held.report.phase is HostPhase.REFUSED and not held.released:
            return False  # another host has already reported it
        lease = HostLease(
            self._environment,
            self._mirror,
            self._host.id,
            held.epoch + 1 if held is not None else 1,
            0,
            self._host.machine,
            self._host.pid,
            self._host.version,
            self._wall_ms(),
            report=HostReport(done),
        )
        # Compare-and-set against the last read value: of two hosts that see a free lease, only one write succeeds.
        self._written = self._sighting.value
        if not self._write(lease):
            return False
        self._begun, self._restarts, self._pause_s, self._again_at = 0, 0, FIRST_PAUSE_S, None
        self._say(f"mirror {self._mirror}: taken, epoch {lease.epoch}")
        return True

    def _act(self, desired: DesiredMirror | None, refusal: HostRefusal | None, now: float) -> HostReport:
        """Acts on the desired record, and returns the report. Refusals come first: a refused definition is not started,
        and a running application continues."""
        before = self.lease.report if self.lease is not None else HostReport()
        look = self._jobs.look()
        if desired is None and refusal is None:
            return replace(before, what="nothing is desired any more: the record is gone; running jobs continue")
        if desired is not None:
            refusal = self._accepted.refusal(desired, before.generation)
        if refusal is not None or desired is None:
            return self._refused(refusal, desired, before, look)
        if desired.state is DesiredState.RUNNING:
            return self._run(desired, look, now)
        self._begun, self._again_at = desired.generation, None
        if look.alive:
            self._jobs.end()
        phase = HostPhase.STOPPING if look.alive or look.busy else HostPhase.STOPPED
        return HostReport(desired.generation, phase, look.application_id, "", look.words)

    def _refused(
        self, refusal: HostRefusal | None, desired: DesiredMirror | None, before: HostReport, look: JobLook
    ) -> HostReport:
        """The report of a refusal. When an older generation is refused, the last reported number is kept, because later
        records are compared with it."""
        generation = max(desired.generation, before.generation) if desired is not None else before.generation
        report = HostReport(generation, HostPhase.REFUSED, look.application_id, look.fingerprint)
        if refusal is not None:
            most = _MOST_WORDS
            report = replace(report, what=refusal.what[:most], why=refusal.why[:most], todo=refusal.todo[:most])
        if before.what != report.what:
            self._say(f"mirror {self._mirror}: {report.what}. {report.todo}")
        return report

    def _run(self, desired: DesiredMirror, look: JobLook, now: float) -> HostReport:
        """One turn for a mirror that has to run: starts its application, starts it again after a pause, or only reports
        it."""
        if look.busy:
            return self._report(desired, HostPhase.STARTING, look)
        if desired.generation != self._begun:
            self._restarts, self._pause_s, self._again_at = 0, FIRST_PAUSE_S, None
            self._begun = desired.generation
            if not (look.alive and look.fingerprint == desired.fingerprint):
                return self._begin(desired, look, now)
        if look.alive and look.fingerprint == desired.fingerprint:
            self._again_at = None
            if now - self._started_at > STEADY_AFTER_S:
                self._pause_s = FIRST_PAUSE_S
            return self._report(desired, HostPhase.RUNNING if look.ready else HostPhase.STARTING, look)

        # After a crash, or after a failed start beside an application of the old definition, which keeps running.
        if self._again_at is None:
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            self._again_at = now + self._pause_s
            self._restarts += 1
            self._say(f"mirror {self._mirror}: starts again in {self._pause_s:.0f} s. {look.failed}".rstrip())
        if now >= self._again_at:
            return self._begin(desired, look, now)
        why = look.failed or "its application has ended"
        return self._report(desired, HostPhase.PAUSING, replace(look, words=why))

    def _begin(self, desired: DesiredMirror, look: JobLook, now: float) -> HostReport:
        self._again_at, self._started_at = None, now
        self._say(f"mirror {self._mirror}: generation {desired.generation} begins, fingerprint {desired.fingerprint}")
        self._jobs.begin(desired)
        return self._report(desired, HostPhase.STARTING, replace(look, application_id="", words="submitted"))

    def _report(self, desired: DesiredMirror, phase: HostPhase, look: JobLook) -> HostReport:
        """The report, with ``words`` of the job only until it runs: later they would be stale."""
        return HostReport(
            desired.generation,
            phase,
            look.application_id,
            look.fingerprint,
            look.words if phase is not HostPhase.RUNNING else "",
            restarts=self._restarts,
        )

    def _write(self, lease: HostLease) -> bool:
        """Writes the lease. False: another host has written it since; the next turn reads that."""
        lease = replace(lease, renewed_ms=self._wall_ms())
        value, began = LEASE.dumps(lease), self._clock()
        if not self._control.swap(self._key, self._written, value):
            return False
        self.lease, self._replaced, self._written, self._renewed = lease, self._written, value, began
        return True


def _holder(value: bytes | None) -> str:
    """The host in a lease record, even of a later format; empty if it names none."""
    try:
        document = parsed(value or b"")
    except ValueError:
        return ""
    holder = document.get("host") if isinstance(document, dict) else None
    return holder if isinstance(holder, str) else ""
