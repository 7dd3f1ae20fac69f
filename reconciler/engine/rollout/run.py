"""Takes a plan through its waves: gates before the first, after each a soak in which they are watched, then the next.

Border: the world is a ``World``; how far it came is a ``Promotion`` that each step leaves there, before the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from reconciler.errors import BlockedError, ReconcilerError
from reconciler.healths import Fault, Sight
from reconciler.plans import Outcome, Plan, Result
from reconciler.promotions import ClusterStand, Promotion, Stand
from reconciler.rollout.advancing import Settling, Verdict, looked
from reconciler.rollout.judging import Scope, faults, scope_of, touched_by
from reconciler.rollouts import Course, CourseWave
from reconciler.sizes import time_words
from reconciler.topology import Topology

LOOK_SECONDS = 5.0
WAITING_SECONDS = 2.0
TOLD_EVERY_MS = 30_000
AGAIN = "Mend it and run apply again: it goes on from here."


class World(Protocol):
    """What a rollout asks of the world. Only ``kept`` raises."""

    def look(self, scope: Scope) -> Sight: ...

    def kept(self) -> Promotion:
        """As the last run left it. Raises ReconcilerError."""
        ...

    def keep(self, promotion: Promotion) -> str:
        """Why it could not be written, or empty. Written when it returns."""
        ...

    def now_ms(self) -> int:
        """Of a clock that only goes forward."""
        ...

    def wait(self, seconds: float) -> None:
        """Not longer than this; less when somebody wishes a stop."""
        ...

    def closed(self) -> str:
        """Why nothing further may be begun, or empty."""
        ...

    def note(self, about: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Manner:
    """``patient``: waits for gates and soaks; else one look a call, and the next call goes on. ``gap_ms``: the longest
    time between two looks that counts as watched. ``heedless``: gates and soaks are left out."""

    patient: bool = True
    gap_ms: int = 30_000
    heedless: bool = False


class Conductor:
    """The ``Promotion`` of ``applying.restraint`` for plans with a rollout. Lives as long as one run of one plan;
    ``settlings`` may outlive it: what was seen of waves that soak, by name of the wave."""

    def __init__(
        self, plan: Plan, topology: Topology, world: World, manner: Manner, settlings: dict[str, Settling] | None = None
    ) -> None:
        assert plan.rollout is not None
        self.plan = plan
        self.course: Course = plan.rollout
        self.topology = topology
        self.world = world
        self.manner = manner
        self.promotion = self._known()
        self.settlings = {} if settlings is None else settlings
        self.outcomes: dict[str, Outcome] = {}
        self.halted = ""
        """Why the rollout stands still, or empty."""

    def _known(self) -> Promotion:
        """Raises ReconcilerError when it is not known how far the last run came."""
        try:
            return self.world.kept()
        except ReconcilerError:
            if not self.manner.heedless:
                raise
            return Promotion(self.topology.environment)

    def require_open(self) -> None:
        """Raises BlockedError while a gate does not hold, before anything is begun. A rollout that is under way waits
        for the gates of its last wave instead."""
        waves = [self.course.index(one.wave) for one in self.plan.changes]
        under_way = any(self.course.index(wave.name) < min(waves, default=0) for wave in self._pending())
        if self.manner.heedless or not waves or under_way:
            return
        if found := self._faults():
            lines = "\n".join(f"  {one}" for one in found)
            raise BlockedError(
                "nothing was applied, because gates of the rollout do not hold",
                lines,
                "Mend it and apply again. When the plan itself mends it: apply --ignore-gates REASON.",
            )

    def begin(self, wave: str) -> str:
        """Why the changes of ``wave`` may not begin, or empty. Waits for what comes before it."""
        index = self.course.index(wave)
        if why := self._unfinished(index) or self._settled(self.course.waves[:index]):
            return self._halt(f"wave {wave} may not begin: {why}")
        return self._moved(self.course.waves[index], ClusterStand(wave, Stand.BEGUN), f"wave {wave} may not begin")

    def ended(self, wave: str, outcomes: Sequence[Outcome]) -> None:
        """The changes of ``wave`` came to ``outcomes``; its soak begins."""
        self.outcomes |= {one.id: one for one in outcomes}
        if all(one.result is Result.DONE for one in outcomes):
            self._moved(self.course.wave(wave), ClusterStand(wave, Stand.SOAKING), f"wave {wave} is done")

    def conclude(self) -> None:
        """Waits for the gates and the soak of all waves that are over."""
        if self.halted:
            return
        index = len(self.course.waves)
        if why := self._unfinished(index) or self._settled(self.course.waves):
            self._halt(why)

    def tend(self) -> str:
        """Goes on with soaks that earlier changes left, whatever the plan holds. Why one is not over, or empty."""
        return self._settled(self.course.waves)

    def interrupted(self) -> None:
        if not self.halted and (self._pending() or self.promotion.halted):
            self.halted = "interrupted before its waves were over"

    def _pending(self) -> list[CourseWave]:
        return [wave for wave in self.course.waves if self.promotion.pending(wave.clusters)]

    def _unfinished(self, index: int) -> str:
        names = self.course.names[:index]
        left = [one.id for one in self.plan.changes if one.wave in names and not self._done(one.id)]
        if not left:
            return ""
        waves = dict.fromkeys(one.wave for one in self.plan.changes if one.id in left)
        noun = "change was" if len(left) == 1 else "changes were"
        return f"{len(left)} {noun} not done in wave {', '.join(waves)}"

    def _done(self, change_id: str) -> bool:
        found = self.outcomes.get(change_id)
        return found is not None and found.result is Result.DONE

    def _settled(self, waves: Sequence[CourseWave]) -> str:
        """Why one of ``waves`` has not soaked to its end, or empty."""
        for wave in waves:
            if self.promotion.pending(wave.clusters) and (why := self._settle(wave)):
                return why
        return ""

    def _settle(self, wave: CourseWave) -> str:
        if self.manner.heedless:
            return self._moved(wave, ClusterStand(wave.name, Stand.PASSED), f"wave {wave.name} is over")
        told = _Told(self.world, wave)
        while True:
            if closed := self.world.closed():
                return closed
            found = self._faults()
            state = looked(self._settling(wave), found, self.world.now_ms())
            self.settlings[wave.name] = state
            told.about(state, found)
            stand = Stand.PASSED if state.verdict is Verdict.PASSED else Stand.SOAKING
            # Whoever goes on after a kill must not take it for undisturbed: the next look might have ended it.
            soaked = 0 if state.doubted else state.soaked_ms
            if why := self._moved(wave, ClusterStand(wave.name, stand, soaked), f"wave {wave.name}"):
                return why
            if state.verdict is Verdict.PASSED:
                del self.settlings[wave.name]
                return ""
            if state.verdict is Verdict.BROKEN or not self.manner.patient:
                return _why_not(wave, state, found)
            soaks = state.verdict is Verdict.SOAKING
            self.world.wait(min(LOOK_SECONDS, max(0.05, state.left_ms / 1000)) if soaks else WAITING_SECONDS)

    def _settling(self, wave: CourseWave) -> Settling:
        """As the last look of this process left it, else as the last run did: then at least one look is to come."""
        gates, pending = self.course.gates, self.promotion.pending(wave.clusters)
        soaked = 0 if self.promotion.begun(pending) else self.promotion.soaked_ms(pending)
        fresh = Settling(wave.soak_ms, gates.wait_ms, self.manner.gap_ms, soaked)
        known = self.settlings.get(wave.name)
        if known is None or self.promotion.begun(pending) or known.verdict is Verdict.BROKEN:
            return fresh
        return replace(known, soak_ms=wave.soak_ms, wait_ms=gates.wait_ms)

    def _faults(self) -> tuple[Fault, ...]:
        soaking = {name for wave in self.course.waves for name in self.promotion.pending(wave.clusters)}
        touched = touched_by(self.plan.changes, self.topology) | soaking
        left = [one for one in self.plan.changes if not self._done(one.id)]
        scope = scope_of(self.topology, touched, left)
        return faults(self.course.gates, scope, self.world.look(scope))

    def _moved(self, wave: CourseWave, stand: ClusterStand, doing: str) -> str:
        """Writes down where the clusters of ``wave`` stand. Why that failed, or empty."""
        before = self.promotion
        if stand.stand is not Stand.BEGUN:  # of a wave only what was touched has something to soak
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


class _Told:
    """Says what happens, but not with every look."""

    def __init__(self, world: World, wave: CourseWave) -> None:
        self.world = world
        self.wave = wave
        self.last: tuple[Verdict, tuple[Fault, ...]] | None = None
        self.at = 0

    def about(self, state: Settling, found: tuple[Fault, ...]) -> None:
        now = self.world.now_ms()
        if self.last == (state.verdict, found) and now - self.at < TOLD_EVERY_MS:
            return
        self.last, self.at = (state.verdict, found), now
        if state.verdict is Verdict.PASSED:
            self.world.note(f"wave {self.wave.name}", "passed, all gates hold")
        elif state.verdict is Verdict.SOAKING:
            left = time_words(state.left_ms / 1000)
            self.world.note(f"wave {self.wave.name}", f"all gates hold, {left} of its soak are left")
        else:
            doing = "looking again at" if state.doubted else "waiting for"
            self.world.note(f"wave {self.wave.name}", f"{doing} gates: {_listed(found)}")


def _why_not(wave: CourseWave, state: Settling, found: tuple[Fault, ...]) -> str:
    match state.verdict:
        case Verdict.SOAKING:
            return f"wave {wave.name} soaks for {time_words(state.left_ms / 1000)} more"
        case Verdict.WAITING:
            return f"wave {wave.name} waits for its gates: {_listed(found)}"
        case Verdict.BROKEN | Verdict.PASSED:
            return f"gates do not hold after wave {wave.name}: {_listed(found)}"


def _listed(found: Sequence[Fault]) -> str:
    return "; ".join(map(str, found))
