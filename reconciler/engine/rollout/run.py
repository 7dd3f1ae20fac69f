"""Runs a rollout wave by wave: gates before the first, soak time after each, then the next wave.

A soak only counts time between two observations in a row in which all gates held, and that are close together: the time
between distant ones is unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from reconciler.engine.rollout.waves import GateScope, faults, scope_of, touched_by
from reconciler.errors import BlockedError, ReconcilerError
from reconciler.model.environment.rollout import Course, CourseWave
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.health import Fault, Sight
from reconciler.model.state.rollout_progress import ClusterRollout, Promotion, SoakState
from reconciler.text import time_words

POLL_SECONDS = 5.0
"""Seconds between observations while a wave soaks; ``WAITING_SECONDS`` while a gate is unmet."""
WAITING_SECONDS = 2.0
REPORT_EVERY_MS = 30_000


class RolloutIO(Protocol):
    """The world of a rollout. Only ``kept`` raises."""

    def look(self, scope: GateScope) -> Sight: ...

    def kept(self) -> Promotion:
        """The progress that the last run left. Raises ReconcilerError."""
        ...

    def keep(self, promotion: Promotion) -> str:
        """Writes the progress; returns why that failed, or empty."""
        ...

    def now_ms(self) -> int:
        """Time of a monotonic clock."""
        ...

    def wait(self, seconds: float) -> None:
        """At most this long; less if a stop is requested."""
        ...

    def closed(self) -> str:
        """Why nothing more may begin, or empty."""
        ...

    def note(self, about: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """``patient``: waits for gates and soaks; otherwise each call makes one observation, and the next call continues.
    ``gap_ms``: the longest time between two observations that counts as watched. ``ungated``: without gates and
    soaks."""

    patient: bool = True
    gap_ms: int = 30_000
    ungated: bool = False


class SoakVerdict(StrEnum):
    WAITING = "waiting"
    SOAKING = "soaking"
    PASSED = "passed"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Settling:
    """One wave after its changes. Times are milliseconds of a monotonic clock."""

    soak_ms: int
    """How long they must hold; ``wait_ms``: how long they may be unmet before that."""
    wait_ms: int
    gap_ms: int
    """Time between observations further apart counts as unwatched."""
    soaked_ms: int = 0
    """How long all gates have held without a break."""
    held_at: int | None = None
    """The last observation, if all gates held."""
    waits_since: int | None = None
    """When they stopped holding."""
    doubted: bool = False
    """A gate did not hold in the last observation of a soak; a single lost answer, or a lag that is briefly unknown,
    ends nothing."""
    verdict: SoakVerdict = SoakVerdict.WAITING

    @property
    def left_ms(self) -> int:
        return max(0, self.soak_ms - self.soaked_ms)


def looked(before: Settling, faults: Sequence[Fault], now: int) -> Settling:
    """Gates have ``wait_ms`` to hold after the wave; from then on, a gate that two observations in a row find unmet
    ends it."""
    if not faults:
        watched = 0
        if before.held_at is not None and now - before.held_at <= before.gap_ms:
            watched = max(0, now - before.held_at)
        soaked = before.soaked_ms + watched
        verdict = SoakVerdict.PASSED if soaked >= before.soak_ms else SoakVerdict.SOAKING
        return replace(before, soaked_ms=soaked, held_at=now, waits_since=None, doubted=False, verdict=verdict)
    if before.held_at is not None:
        return replace(before, held_at=None, doubted=True, verdict=SoakVerdict.WAITING)
    since = now if before.waits_since is None else before.waits_since
    verdict = SoakVerdict.BROKEN if before.doubted or now - since >= before.wait_ms else SoakVerdict.WAITING
    return replace(before, soaked_ms=0, waits_since=since, doubted=False, verdict=verdict)


class Conductor:
    """The ``WavePromotion`` of ``engine.apply.limits`` for plans with a rollout.

    Lives for one run of one plan; ``settlings`` may outlive it: by name, observations of soaking waves. ``halted``: why
    the rollout stopped, or empty. ``ended_by``: the signal that ended the run, and so halted it, or empty.
    """

    def __init__(
        self,
        plan: Plan,
        topology: Topology,
        world: RolloutIO,
        manner: RolloutOptions,
        settlings: dict[str, Settling] | None = None,
    ) -> None:
        assert plan.rollout is not None
        self.plan = plan
        self.course: Course = plan.rollout
        self.topology = topology
        self.world = world
        self.manner = manner
        self.promotion = Promotion(topology.environment)
        self.settlings = {} if settlings is None else settlings
        self.outcomes: dict[str, Outcome] = {}
        self.halted = ""
        self.ended_by = ""
        try:
            self.promotion = world.kept()
        except ReconcilerError:  # the progress of the last run is unknown, and ignored gates do not need it
            if not manner.ungated:
                raise

    def require_open(self) -> None:
        """Raises BlockedError while a gate is unmet, before anything begins. A running rollout waits for the gates of
        its last wave instead."""
        waves = [self.course.index(planned.wave) for planned in self.plan.changes]
        under_way = any(self.course.index(wave.name) < min(waves, default=0) for wave in self._pending())
        if self.manner.ungated or not waves or under_way:
            return
        if this_faults := self._faults():
            lines = "\n".join(f"  {fault}" for fault in this_faults)
            raise BlockedError(
                "nothing was applied, because gates of the rollout do not hold",
                lines,
                "Fix it and apply again. If the plan itself fixes it: apply --ignore-gates REASON.",
            )

    def begin(self, wave: str) -> str:
        """Waits for the waves before; returns why the changes of ``wave`` may not begin, or empty."""
        index = self.course.index(wave)

        # Waiting would not complete earlier waves, so their missing changes are checked before any soak.
        if why := self._unfinished(index) or self._settled(self.course.waves[:index]):
            return self._halt(f"wave {wave} may not begin: {why}")
        return self._moved(
            self.course.waves[index], ClusterRollout(wave, SoakState.BEGUN), f"wave {wave} may not begin"
        )

    def ended(self, wave: str, outcomes: Sequence[Outcome]) -> None:
        """The changes of ``wave`` ended with ``outcomes``; its soak begins."""
        self.outcomes |= {outcome.id: outcome for outcome in outcomes}
        if all(outcome.result is Result.DONE for outcome in outcomes):
            self._moved(self.course.wave(wave), ClusterRollout(wave, SoakState.SOAKING), f"wave {wave} is done")

    def conclude(self) -> None:
        """Waits for the gates and soaks of all completed waves."""
        if self.halted:
            return
        index = len(self.course.waves)
        if why := self._unfinished(index) or self._settled(self.course.waves):
            self._halt(why)

    def tend(self) -> str:
        """Continues soaks of earlier changes, whatever the plan has; returns why one is not over, or empty."""
        return self._settled(self.course.waves)

    def interrupted(self, by: str = "") -> None:
        if not self.halted and (self._pending() or self.promotion.halted):
            self.halted = f"{f'{by} ended the run' if by else 'interrupted'} before its waves were over"
            self.ended_by = by

    def _pending(self) -> list[CourseWave]:
        return [wave for wave in self.course.waves if self.promotion.pending(wave.clusters)]

    def _unfinished(self, index: int) -> str:
        names = self.course.names[:index]
        undone = [planned.id for planned in self.plan.changes if planned.wave in names and not self._done(planned.id)]
        if not undone:
            return ""
        waves = dict.fromkeys(planned.wave for planned in self.plan.changes if planned.id in undone)
        noun = "change was" if len(undone) == 1 else "changes were"
        return f"{len(undone)} {noun} not done in wave {', '.join(waves)}"

    def _done(self, change_id: str) -> bool:
        outcome = self.outcomes.get(change_id)
        return outcome is not None and outcome.result is Result.DONE

    def _settled(self, waves: Sequence[CourseWave]) -> str:
        """Why the soak of one of ``waves`` is not over, or empty."""
        for wave in waves:
            if self.promotion.pending(wave.clusters) and (why := self._settle(wave)):
                return why
        return ""

    def _settle(self, wave: CourseWave) -> str:
        """Waits until a wave has soaked, and records each change of its state; returns why it is not over, or empty."""
        if self.manner.ungated:
            return self._moved(wave, ClusterRollout(wave.name, SoakState.PASSED), f"wave {wave.name} is over")
        log = _SoakLog(self.world, wave)
        while True:
            if closed := self.world.closed():
                return closed
            all_faults = self._faults()
            state = looked(self._settling(wave), all_faults, self.world.now_ms())
            self.settlings[wave.name] = state
            log.about(state, all_faults)
            stand = SoakState.PASSED if state.verdict is SoakVerdict.PASSED else SoakState.SOAKING
            # After a kill, the next run must not count a doubted soak as undisturbed: the next observation might have
            # ended it.
            soaked = 0 if state.doubted else state.soaked_ms
            if why := self._moved(wave, ClusterRollout(wave.name, stand, soaked), f"wave {wave.name}"):
                return why
            if state.verdict is SoakVerdict.PASSED:
                del self.settlings[wave.name]
                return ""
            soaks = state.verdict is SoakVerdict.SOAKING
            if state.verdict is SoakVerdict.BROKEN:
                return f"gates do not hold after wave {wave.name}: {_listed(all_faults)}"
            if not self.manner.patient and soaks:
                return f"wave {wave.name} soaks for {time_words(state.left_ms / 1000)} more"
            if not self.manner.patient:
                return f"wave {wave.name} waits for its gates: {_listed(all_faults)}"
            self.world.wait(min(POLL_SECONDS, max(0.05, state.left_ms / 1000)) if soaks else WAITING_SECONDS)

    def _settling(self, wave: CourseWave) -> Settling:
        """The state after this process's last observation, else after the last run, which then needs at least one
        more."""
        gates, pending = self.course.gates, self.promotion.pending(wave.clusters)
        soaked = 0 if self.promotion.begun(pending) else self.promotion.soaked_ms(pending)
        fresh = Settling(wave.soak_ms, gates.wait_ms, self.manner.gap_ms, soaked)
        known = self.settlings.get(wave.name)
        if known is None or self.promotion.begun(pending) or known.verdict is SoakVerdict.BROKEN:
            return fresh
        return replace(known, soak_ms=wave.soak_ms, wait_ms=gates.wait_ms)

    def _faults(self) -> tuple[Fault, ...]:
        soaking = {name for wave in self.course.waves for name in self.promotion.pending(wave.clusters)}
        touched = touched_by(self.plan.changes, self.topology) | soaking
        undone = [planned for planned in self.plan.changes if not self._done(planned.id)]
        scope = scope_of(self.topology, touched, undone)
        return faults(self.course.gates, scope, self.world.look(scope))

    def _moved(self, wave: CourseWave, stand: ClusterRollout, doing: str) -> str:
        """Writes the progress of the clusters of ``wave``; returns why that failed, or empty."""
        before = self.promotion
        if stand.stand is not SoakState.BEGUN:  # only clusters that the wave changed soak
            self.promotion = before.set(before.pending(wave.clusters), stand)
        else:
            self.promotion = before.set(wave.clusters, stand)
        self.promotion = replace(self.promotion, halted="")
        if self.promotion == before:
            return ""
        if why := self.world.keep(self.promotion):
            self.promotion = before
            return self._halt(f"{doing}, and that could not be written down: {why}")
        return ""

    def _halt(self, why: str) -> str:
        self.halted = why
        if not self.world.closed() and self.manner.patient:
            self.promotion = replace(self.promotion, halted=why)
            self.world.keep(self.promotion)
        return why


class _SoakLog:
    """Reports progress, but not at every observation."""

    def __init__(self, world: RolloutIO, wave: CourseWave) -> None:
        self.world = world
        self.wave = wave
        self.last: tuple[SoakVerdict, tuple[Fault, ...]] | None = None
        self.at = 0

    def about(self, state: Settling, given_faults: tuple[Fault, ...]) -> None:
        now = self.world.now_ms()
        if self.last == (state.verdict, given_faults) and now - self.at < REPORT_EVERY_MS:
            return
        self.last, self.at = (state.verdict, given_faults), now
        if state.verdict is SoakVerdict.PASSED:
            self.world.note(f"wave {self.wave.name}", "passed, all gates hold")
        elif state.verdict is SoakVerdict.SOAKING:
            time_left = time_words(state.left_ms / 1000)
            self.world.note(f"wave {self.wave.name}", f"all gates hold, {time_left} of its soak are left")
        else:
            doing = "looking again at" if state.doubted else "waiting for"
            self.world.note(f"wave {self.wave.name}", f"{doing} gates: {_listed(given_faults)}")


def _listed(given_faults: Sequence[Fault]) -> str:
    return "; ".join(map(str, given_faults))
