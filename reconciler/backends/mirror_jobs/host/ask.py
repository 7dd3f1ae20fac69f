"""``MirrorRunner`` of a hosted mirror: writes its desired record, and waits until a host and the job confirm it.

It looks at no processes, so any machine can use it. The job's state comes from its own status record.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.backends.mirror_jobs.host.control_topic import ControlStore, LeaseWatch
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.state import mirror_control
from reconciler.replication.names import desired_key, host_key, presence_key

TAKEN_S = 20.0
"""Seconds within which a host must take up a desired record."""
AT_MOST_S = 900.0
POLL_S = 0.5
ATTEMPTS = 3

Progress = Callable[[str], None]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Asker:
    """The asking user and run, for the desired record."""

    who: str
    commit: str


class HostedMirror:
    """One hosted mirror. ``status``: reads its newest status record."""

    def __init__(
        self,
        environment: str,
        mirror: str,
        control: ControlStore,
        status: Callable[[], LiveMirror | None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._environment, self._mirror, self._control, self._status = environment, mirror, control, status
        self._clock, self._sleep, self._wall_ms = clock, sleep, wall_ms
        self._flow = "FLOW"
        """A flow of the mirror, for commands in messages."""

    def desired(self) -> mirror_control.DesiredMirror | None:
        """The desired record; None if it is missing or unreadable. Raises ClusterError."""
        try:
            return mirror_control.read_desired(self._value(self._control.read()), self._environment, self._mirror)
        except mirror_control.UnreadableRecordError:
            return None

    def is_kept(self) -> bool:
        """Whether a desired record asks hosts to run the mirror. An unreadable record counts as one that does."""
        value = self._value(self._control.read())
        try:
            desired = mirror_control.read_desired(value, self._environment, self._mirror)
        except mirror_control.UnreadableRecordError:
            return True
        return desired is not None and desired.state is mirror_control.DesiredState.RUNNING

    def observe(self) -> LiveMirror:
        """The state that the job reports, since a desired record proves nothing about a running job. ``detail``: the
        host's report."""
        reported, entries = self._status(), self._control.read()
        lease = self._lease(entries)
        words = [reported.detail] if reported is not None and reported.detail else []
        if lease is not None:
            report = lease.report
            said = f"{report.phase} generation {report.generation}{': ' if report.what else ''}{report.what}"
            words.append(f"kept by the host on {lease.machine} ({said})")
        elif self._value(entries) is not None:
            words.append("no host has it")
        detail = "; ".join(words)
        unkept = "" if lease is not None else "no mirror host keeps it: a crash would end it"
        if reported is None:
            return LiveMirror(self._mirror, JobState.ABSENT, detail=detail, unkept=unkept)
        return replace(reported, detail=detail, unkept=unkept)

    def run(self, handover: str, submission: mirror_control.Document, asker: Asker, progress: Progress) -> LiveMirror:
        """Returns once the job of this generation reports that it runs. Raises RunnerError."""
        document = json.loads(handover)
        generation = self._write(mirror_control.DesiredState.RUNNING, document, submission, asker)
        fingerprint = document["fingerprint"]
        progress(f"mirror {self._mirror}: generation {generation} is written, fingerprint {fingerprint}")

        def done(lease: mirror_control.HostLease) -> LiveMirror | None:
            # The host's word is not enough: it says what it started. Only the job reports that it copies by this
            # definition.
            reported = self._status()
            report = lease.report
            if (
                report.phase is mirror_control.HostPhase.RUNNING
                and reported is not None
                and reported.state is JobState.RUNNING
                and reported.application_id == report.application_id
                and reported.fingerprint == fingerprint
            ):
                return reported
            return None

        live_mirror = self._await(generation, done, progress)
        progress(f"mirror {self._mirror} runs as {live_mirror.application_id} on {live_mirror.host}")
        return live_mirror

    def stop(self, asker: Asker, progress: Progress) -> None:
        """Returns once the host reports that no process of the job is left. Raises RunnerError."""
        before = self.desired()
        handover, submission = (before.handover, before.submission) if before is not None else ({}, {})
        generation = self._write(mirror_control.DesiredState.STOPPED, handover, submission, asker)
        progress(f"mirror {self._mirror}: stopping (generation {generation}), open transactions are committed first")

        def done(lease: mirror_control.HostLease) -> bool | None:
            reported = self._status()
            runs = reported is not None and reported.state is JobState.RUNNING
            return True if lease.report.phase is mirror_control.HostPhase.STOPPED and not runs else None

        self._await(generation, done, progress)
        progress(f"mirror {self._mirror}: stopped")

    def _write(
        self,
        state: mirror_control.DesiredState,
        handover: mirror_control.Document,
        submission: mirror_control.Document,
        asker: Asker,
    ) -> int:
        """Writes the desired record; returns its generation. Raises ClusterError, RunnerError."""
        key = desired_key(self._environment, self._mirror)
        self._flow = next((str(flow["name"]) for flow in handover.get("flows", ())), self._flow)
        for _ in range(ATTEMPTS):
            entries = self._control.read()
            if self._control.missing:
                raise RunnerError(
                    f"mirror {self._mirror} cannot be handed to a host: its cluster has no control topic",
                    "Hosts read there what is desired.",
                    "Run reconciler apply ENV, which makes it for mirrors with hosted: true.",
                )
            value, lease = entries.get(key), self._lease(entries)

            # The new generation is above both the desired and the reported one, so that hosts see it as new even after
            # a lost record. Garbage, or the record of another environment, is overwritten; a later release's is not.
            try:
                desired = mirror_control.read_desired(value, self._environment, self._mirror)
            except mirror_control.UnreadableRecordError as error:
                if "format version" in str(error):
                    raise RunnerError(
                        f"mirror {self._mirror}: {error}",
                        "A later release of this program wrote it, and would not be understood.",
                        "Use that release.",
                    ) from None
                desired = None
            written = desired.generation if desired is not None else 0
            generation = max(written, lease.report.generation if lease is not None else 0) + 1
            record = mirror_control.DesiredMirror(
                self._environment,
                self._mirror,
                generation,
                state,
                str(handover.get("fingerprint", "")),
                handover,
                submission,
                asker.who,
                asker.commit,
                self._wall_ms(),
            )
            if self._control.swap(key, value, mirror_control.DESIRED.dumps(record)):
                return generation
            self._sleep(POLL_S)  # another writer's commit becomes visible a moment later
        raise RunnerError(
            f"mirror {self._mirror}: its desired record was changed by another writer meanwhile",
            "The lock of the environment should have kept that from happening.",
            "Run reconciler plan ENV to see what is left.",
        )

    def _await(
        self, generation: int, done: Callable[[mirror_control.HostLease], Answer | None], progress: Progress
    ) -> Answer:
        """Waits until ``done`` answers for this generation. Ends early if a host refuses it or cannot start the job,
        and if no host takes it up within ``TAKEN_S`` seconds. Raises RunnerError, and ClusterError if the control topic
        stays unreadable."""
        began, lines = self._clock(), WaitLines(progress, 0.0)
        sighting = LeaseWatch(None, began)
        moved, words = began, ""
        unread_until = began
        """Time of the last failed read, up to which a silence of hosts proves nothing."""
        while True:
            # A silent cluster does not mean a missing host.
            try:
                entries = self._control.read()
            except ClusterError as error:
                if self._clock() - began >= AT_MOST_S:
                    raise
                lines.show(f"mirror {self._mirror}: {error.what}")
                unread_until = self._clock()
                self._sleep(POLL_S)
                continue

            # A host's final report on this generation ends the wait, a refusal as well as a success.
            now = self._clock()
            value = entries.get(host_key(self._environment, self._mirror))
            sighting, lease = sighting.again(value, now), self._lease(entries)
            report = lease.report if lease is not None and lease.report.generation == generation else None
            if lease is not None and report is not None:
                if (answer := done(lease)) is not None:
                    return answer
                if report.phase is mirror_control.HostPhase.REFUSED:
                    raise RunnerError(
                        f"mirror {self._mirror}: {report.what} (host on {lease.machine})",
                        f"{report.why} The previous job continues.",
                        report.todo,
                    )
                if report.restarts:
                    raise RunnerError(
                        f"mirror {self._mirror} could not start on the host {lease.words}",
                        report.what or "Its application ended at once.",
                        "The host keeps trying, with a growing pause; its log has the cause. To stop it: reconciler"
                        f" mirror stop ENV {self._flow}.",
                    )

            # Waits while a live host has taken the generation up and its report changes.
            before = words
            if lease is None or sighting.is_free(lease, now):
                words = "waiting for a host"
                if now - max(unread_until, sighting.since) > TAKEN_S:
                    raise self._unanswered(entries, generation)
            elif report is None:
                words = f"the host on {lease.machine} has not taken it up yet"
            else:
                words = f"{report.phase} on {lease.machine}{': ' if report.what else ''}{report.what}"
                moved = now if words != before else moved
            if now - moved > AT_MOST_S:
                raise RunnerError(
                    f"mirror {self._mirror}: generation {generation} was not carried out in {now - began:.0f} s",
                    f"Last: {words}.",
                    "The host keeps trying; reconciler status ENV shows its state. To stop it: reconciler mirror"
                    f" stop ENV {self._flow}.",
                )
            lines.show(f"mirror {self._mirror}: {words}")
            self._sleep(POLL_S)

    def _unanswered(self, entries: Mapping[str, bytes], generation: int) -> RunnerError:
        """The error without a host's report. It names hosts by their presence records, because silence has several
        causes: no host runs, none accepts the mirror, or none may write."""
        asked = []
        for key, value in sorted(entries.items()):
            if key.startswith(presence_key(self._environment, "")):
                try:
                    asked.append(mirror_control.PRESENCE.loads(value, {"environment": self._environment}).words)
                except mirror_control.UnreadableRecordError:
                    asked.append(key)
        lease = self._lease(entries)
        if lease is not None:
            asked.append(f"{lease.words}, which had it last")
        return RunnerError(
            f"no host took mirror {self._mirror} within {TAKEN_S:.0f} s",
            f"Asked: {'; '.join(asked) or 'none, no host has announced itself'}. Generation {generation} stays written:"
            " a host that starts takes it up. No job is started on this machine.",
            "Start a host with reconciler mirror host ENV --accept FILE, or take it back with reconciler mirror"
            f" stop ENV {self._flow}. If one runs, its log says why it cannot write: its principal needs Write on"
            f" the control topic and on transactional ids that begin with mirror-host.{self._environment}. (reconciler"
            " doctor ENV checks both). To run the job on this machine, take hosted away.",
        )

    def _value(self, entries: Mapping[str, bytes]) -> bytes | None:
        return entries.get(desired_key(self._environment, self._mirror))

    def _lease(self, entries: Mapping[str, bytes]) -> mirror_control.HostLease | None:
        try:
            return mirror_control.read_lease(
                entries.get(host_key(self._environment, self._mirror)), self._environment, self._mirror
            )
        except mirror_control.UnreadableRecordError:
            return None
