"""Gates, soaks and going on: what lies between two waves, under a clock that only tests move."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.engine.apply.limits import ApplyLimits, Silent
from reconciler.engine.apply.run import apply
from reconciler.engine.loop import Round
from reconciler.engine.rollout.run import Conductor, RolloutOptions, Settling, looked
from reconciler.engine.rollout.waves import GateScope, code_of
from reconciler.errors import BlockedError, ExitCode
from reconciler.model.environment.rollout import Gates, Rollout, RolloutWave
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.health import ClusterHealth, Short, Sight
from reconciler.model.state.rollout_progress import Promotion, SoakState, dumps, loads
from reconciler.render.reports.apply import round_lines
from reconciler.resources.mirrors.handover import handovers
from tests.support.builders import World, cluster, topic, topology, world

SOAK = 20_000
WAIT = 60_000


def wished(partitions: int = 1) -> Topology:
    """Two clusters with a topic each, and no flow: gates are about clusters."""
    waves = (RolloutWave("canary", clusters=("east",)), RolloutWave("rest", clusters=("west",), soak_ms=10_000))
    made = topology(
        cluster("east"), cluster("west"), topic("a", "east", partitions=partitions), topic("b", "west", partitions=1)
    )
    return replace(made, rollout=Rollout(waves, SOAK, Gates(wait_ms=WAIT)))


class KilledError(BaseException):
    """As SIGKILL: nobody catches it."""


@dataclass
class Course:
    """A ``conducting.World`` that outlives runs, with a diary: looks, changes, and where runs began."""

    seen: World = field(default_factory=world)
    at: int = 0
    sick: set[str] = field(default_factory=set)
    record: bytes = b""
    written: int = 0
    unwritable: str = ""
    stop: str = ""
    kill_at: int = -1
    falls_sick_at: int = -1
    calls: int = 0
    diary: list[tuple[str, str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def _called(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise KilledError

    def look(self, scope: GateScope) -> Sight:
        self._called()
        if 0 <= self.falls_sick_at <= self.at:
            self.sick = {"east"}
        bad = self.sick & set(scope.clusters)
        self.diary.append(("sick" if bad else "well", "", self.at))
        short = (Short("a", 0, (1, 2), (1,)),)
        return Sight({name: ClusterHealth(name, 2, (), short if name in bad else ()) for name in scope.clusters}, {})

    def kept(self) -> Promotion:
        return loads(self.record) if self.record else Promotion("test")

    def keep(self, promotion: Promotion) -> str:
        self._called()
        if not self.unwritable:
            self.record = dumps(promotion)
            self.written += 1
        self._called()
        return self.unwritable

    def now_ms(self) -> int:
        return self.at

    def wait(self, seconds: float) -> None:
        self._called()
        self.at += int(seconds * 1000)

    def closed(self) -> str:
        return self.stop

    def note(self, about: str, text: str) -> None:
        self.notes.append(f"{about}: {text}")


class Diary(Silent):
    def __init__(self, course: Course, plan: Plan) -> None:
        self.course = course
        self.waves = {one.id: one.wave for one in plan.changes}

    def outcome(self, outcome: Outcome) -> None:
        if outcome.result is Result.DONE:
            self.course.diary.append(("change", self.waves[outcome.id], self.course.at))


def run(course: Course, want: Topology, manner: RolloutOptions | None = None) -> tuple[Sequence[Outcome], Conductor]:
    """One apply. Raises KilledError, BlockedError."""
    course.diary.append(("run", "", course.at))
    plan = course.seen.plan(want)
    conductor = Conductor(plan, want, course, manner or RolloutOptions())
    conductor.require_open()
    caution = ApplyLimits(promotion=conductor)
    seen = course.seen
    outcomes = apply(plan, seen.clusters, seen.runner, handovers(want), Diary(course, plan), caution)
    return outcomes, conductor


def code(want: Topology, course: Course, ended: tuple[Sequence[Outcome], Conductor], plan: Plan) -> ExitCode:
    outcomes, conductor = ended
    alone = ExitCode.DONE if all(one.result is Result.DONE for one in outcomes) else ExitCode.PARTIAL
    return code_of(alone, plan, outcomes, conductor.halted)


def check(diary: Sequence[tuple[str, str, int]]) -> None:
    """No change of a later wave before every earlier one soaked to its end, watched, with all gates holding."""
    soaks, soaked, last_well, before = {"canary": SOAK, "rest": 10_000}, dict[str, int](), None, ""
    for kind, wave, at in diary:
        again, before = before == kind, kind
        if kind == "run":
            last_well = None
        elif kind == "sick":
            last_well, soaked = None, dict.fromkeys(soaked, 0) if again else soaked
        elif kind == "well":
            if last_well is not None:
                soaked = {name: had + at - last_well for name, had in soaked.items()}
            last_well = at
        else:
            assert last_well is not None, "gates were seen to hold in this run"
            for earlier in soaked:
                if earlier < wave:  # canary < rest
                    assert soaked[earlier] >= soaks[earlier]
            soaked[wave] = 0


def test_canary_soaks_then_rest_then_rest_soaks() -> None:
    course = Course()
    outcomes, conductor = run(course, wished())
    assert {one.result for one in outcomes} == {Result.DONE}
    assert conductor.halted == ""
    check(course.diary)
    changes = [(wave, at) for kind, wave, at in course.diary if kind == "change"]
    assert changes == [("canary", 0), ("rest", SOAK)]
    assert course.at == SOAK + 10_000
    assert loads(course.record).pending(("east", "west")) == ()
    assert any("20 s of its soak are left" in one for one in course.notes)


def test_gates_that_do_not_hold_block_before_anything_is_done() -> None:
    course = Course(sick={"west"})
    with pytest.raises(BlockedError) as refused:
        run(course, wished())
    assert refused.value.exit_code == 3
    assert "cluster west: 1 under-replicated partition, at most 0 allowed: a-0 (1 of 2 in sync)" in str(refused.value)
    assert course.seen.clusters["east"].topics == {}
    assert course.written == 0


def test_a_gate_that_breaks_in_the_soak_halts_and_the_next_run_soaks_again() -> None:
    course = Course(falls_sick_at=10_000)
    want = wished()
    plan = course.seen.plan(want)
    outcomes, conductor = run(course, want)
    assert {one.id: one.result.value for one in outcomes} == {"create:east/a": "done", "create:west/b": "skipped"}
    assert "gates do not hold after wave canary: cluster east: 1 under-replicated partition" in outcomes[1].error
    assert code(want, course, (outcomes, conductor), plan) is ExitCode.PARTIAL
    assert loads(course.record).halted == conductor.halted
    course.falls_sick_at, course.sick = -1, set()
    began = course.at
    outcomes, conductor = run(course, want)
    assert conductor.halted == ""
    assert course.at == began + SOAK + 10_000
    assert loads(course.record).halted == ""
    check(course.diary)


def test_one_look_that_fails_ends_nothing() -> None:
    course = Course(falls_sick_at=10_000)
    wait = course.wait

    def heals(seconds: float) -> None:
        wait(seconds)
        if course.sick:
            course.falls_sick_at, course.sick = -1, set()

    course.wait = heals  # type: ignore[method-assign]
    _, conductor = run(course, wished())
    assert conductor.halted == ""
    assert course.at == SOAK + 10_000 + 7_000, "the time around the look that failed does not count"
    assert any("looking again at gates: cluster east" in one for one in course.notes)
    check(course.diary)


def test_a_gate_has_time_to_hold_after_a_wave() -> None:
    course = Course()
    want = wished()
    waited: list[float] = []
    wait = course.wait

    def heals(seconds: float) -> None:
        waited.append(seconds)
        wait(seconds)
        if course.at >= 30_000:
            course.sick = set()

    course.wait = heals  # type: ignore[method-assign]
    keep = course.keep

    def falls_ill(promotion: Promotion) -> str:
        if course.at == 0 and promotion.clusters["east"].stand is SoakState.SOAKING:
            course.sick = {"east"}
        return keep(promotion)

    course.keep = falls_ill  # type: ignore[method-assign]
    _, conductor = run(course, want)
    assert conductor.halted == ""
    assert course.at == 30_000 + SOAK + 10_000
    check(course.diary)


def test_a_gate_that_never_holds_ends_the_waiting() -> None:
    course = Course()
    keep = course.keep

    def falls_ill(promotion: Promotion) -> str:
        course.sick = {"east"}
        return keep(promotion)

    course.keep = falls_ill  # type: ignore[method-assign]
    _, conductor = run(course, wished())
    assert course.at == WAIT
    assert "gates do not hold after wave canary" in conductor.halted


def test_the_last_soak_counts_although_every_change_is_done() -> None:
    course = Course(falls_sick_at=SOAK + 5_000)
    want = wished()
    plan = course.seen.plan(want)
    outcomes, conductor = run(course, want)
    assert {one.result for one in outcomes} == {Result.DONE}
    assert "after wave rest" in conductor.halted
    assert code(want, course, (outcomes, conductor), plan) is ExitCode.PARTIAL
    course.falls_sick_at, course.sick = -1, set()
    began = course.at
    outcomes, conductor = run(course, want)
    assert (tuple(outcomes), conductor.halted) == ((), "")
    assert course.at == began + 10_000, "an empty plan finishes the soak"


def test_a_failed_change_keeps_later_waves_away() -> None:
    course = Course()
    course.seen.clusters["east"].refuse("a", "no")
    outcomes, conductor = run(course, wished())
    assert [one.result.value for one in outcomes] == ["failed", "skipped"]
    assert "1 change was not done in wave canary" in conductor.halted
    course.seen.clusters["east"].accept("a")
    _, conductor = run(course, wished())
    assert conductor.halted == ""
    check(course.diary)


def test_no_wave_begins_unless_that_is_written_down() -> None:
    course = Course(unwritable="no leader")
    outcomes, conductor = run(course, wished())
    assert {one.result for one in outcomes} == {Result.SKIPPED}
    assert "no leader" in conductor.halted
    assert course.seen.clusters["east"].topics == {}


def test_a_wished_stop_ends_a_soak_and_the_next_run_continues_with_what_is_left() -> None:
    course = Course()
    want = wished()
    wait = course.wait

    def stops(seconds: float) -> None:
        wait(seconds)
        course.stop = "asked to stop" if course.at == 15_000 else ""

    course.wait = stops  # type: ignore[method-assign]
    _, conductor = run(course, want)
    assert "asked to stop" in conductor.halted
    course.stop = ""
    began = course.at
    _, conductor = run(course, want)
    assert conductor.halted == ""
    assert course.at == began + 10_000 + 10_000, "10 of 20 s of canary were written down, then 10 s of rest"
    check(course.diary)


def test_one_look_a_round_never_waits() -> None:
    """As ``run`` does it: each round looks once, and goes on when the soak is over."""
    course = Course()
    want, known = wished(), dict[str, Settling]()
    for _ in range(12):
        plan = course.seen.plan(want)
        conductor = Conductor(plan, want, course, RolloutOptions(patient=False, gap_ms=12_000), known)
        conductor.require_open()
        before = course.at
        seen = course.seen
        apply(plan, seen.clusters, seen.runner, handovers(want), Diary(course, plan), ApplyLimits(promotion=conductor))
        assert course.at == before
        course.at += 5_000
    assert "b" in course.seen.clusters["west"].topics
    assert loads(course.record).pending(("east", "west")) == ()
    check(course.diary)


def test_time_in_which_no_one_looked_does_not_count() -> None:
    state = Settling(soak_ms=10_000, wait_ms=0, gap_ms=3_000)
    for now, soaked in ((0, 0), (3_000, 3_000), (6_001, 3_000), (9_000, 5_999)):
        state = looked(state, (), now)
        assert state.soaked_ms == soaked


def test_a_round_that_waits_says_so_without_alarm() -> None:
    want = wished()
    plan = world().plan(want)
    skipped = tuple(
        Outcome(one.id, Result.SKIPPED, "not begun: wave canary soaks for 5 s more") for one in plan.changes
    )
    lines = list(round_lines(Round(1, 0.0, 0.1, plan, skipped)))
    assert [(level, event) for level, event, _ in lines] == [("info", "waits"), ("info", "round")]
    assert lines[0][2] == {"changes": 2, "first": [one.id for one in plan.changes], "why": skipped[0].error}


def test_ungated_goes_in_order_and_asks_no_one() -> None:
    course = Course(sick={"east", "west"})
    outcomes, conductor = run(course, wished(), RolloutOptions(ungated=True))
    assert {one.result for one in outcomes} == {Result.DONE}
    assert conductor.halted == ""
    assert [kind for kind, _, _ in course.diary] == ["run", "change", "change"]
    assert course.at == 0


@pytest.mark.parametrize("kill_at", range(1, 45))
def test_killed_at_any_moment_no_gate_is_skipped(kill_at: int) -> None:
    course = Course(kill_at=kill_at)
    want = wished(2)
    try:
        run(course, want)
    except KilledError:
        course.at += 3_600_000
        _, conductor = run(course, want)
        assert conductor.halted == ""
    check(course.diary)
    assert course.seen.plan(want).changes == ()
    assert loads(course.record).pending(("east", "west")) == ()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.lists(st.integers(0, 90_000), max_size=2))
@example([15], [5001])  # between a second look that sees a gate broken and what it writes down
def test_killed_again_and_again_between_illnesses(kills: list[int], illnesses: list[int]) -> None:
    course = Course()
    want = wished(2)
    for number, calls in enumerate([*kills, 0]):
        course.kill_at = course.calls + calls if calls else -1
        course.falls_sick_at = course.at + illnesses[number] if number < len(illnesses) else -1
        course.sick = set()
        with contextlib.suppress(KilledError, BlockedError):
            run(course, want)
    check(course.diary)


def test_a_renamed_wave_keeps_what_its_clusters_have_to_soak() -> None:
    course = Course(kill_at=6)
    want = wished()
    with pytest.raises(KilledError):
        run(course, want)
    assert loads(course.record).pending(("east",)) == ("east",)
    assert want.rollout is not None
    first, second = want.rollout.waves
    renamed = replace(want, rollout=replace(want.rollout, waves=(replace(first, name="early"), second)))
    began = course.at
    _, conductor = run(course, renamed)
    assert conductor.halted == ""
    assert course.at >= began + 10_000 + SOAK - 5_000
