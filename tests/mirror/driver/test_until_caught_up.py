"""The mode that ends by itself: when it has caught up, when it gives up, and that nobody starts it again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import jsonschema
import pytest
from reconciler_mirror.board.board import Board
from reconciler_mirror.conditions.lane import lane_failed
from reconciler_mirror.driver.until_caught_up import GRACE_S, PATIENCE_S, CatchUp, CatchUpVerdict, Goal, goal_of
from reconciler_mirror.model.lane import Condition, Discovered, LaneProgress, PartitionProgress, PartitionSpec
from reconciler_mirror.report.status import Application, flow_state, record

from reconciler.backends.mirror_jobs.runner.supervisor import Supervisor
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.cluster import Key
from reconciler.render.console import seconds
from reconciler.replication.handover import HandoverError, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.names import ConditionCode
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.replication.runs.run_folders import GOAL, written
from reconciler.replication.secret_references import MissingReference
from reconciler.replication.status import document
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_spec import lane as any_lane
from tests.support.paths import SCHEMAS


@pytest.fixture
def settings() -> MirrorSettings:
    return parse(json.dumps(handover()))


class World:
    """A board with one flow of two partitions whose sources end at 100."""

    def __init__(self, settings: MirrorSettings, goal: Goal) -> None:
        self.flow = settings.flows[0]
        self.board = Board(settings.flows)
        specs = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in range(2))
        self.board.discovered(self.flow.name, Discovered(specs, (), 1, complete=True))
        self.board.taken_over(self.flow.name)
        slices = {lane: self.board.specs((self.flow.name, lane)) for lane in range(self.flow.lanes)}
        self.lanes = {spec.partition: lane for lane, mine in slices.items() for spec in mine}
        ends = {("orders", 0): 100, ("orders", 1): 100}
        self.board.set_goal(self.flow.name, ends)
        self.mode = CatchUp(goal, settings, self.board, None, {self.flow.name: ends})

    def at(self, *positions: int, end: int = 100, condition: Condition | None = None) -> None:
        for lane in set(self.lanes.values()):
            mine = [number for number, where in self.lanes.items() if where == lane]
            parts = tuple(PartitionProgress("orders", n, positions[n], end, positions[n]) for n in mine)
            told = (condition,) if condition is not None and condition.partition in mine else ()
            self.board.progress(LaneProgress(self.flow.name, lane, parts, told))

    def later(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> CatchUpVerdict | None:
        self.mode.look()
        now = time.monotonic() + seconds
        monkeypatch.setattr("reconciler_mirror.driver.until_caught_up.time.monotonic", lambda: now)
        return self.mode.look()


def test_it_ends_when_every_partition_is_at_the_end_the_source_had(settings: MirrorSettings) -> None:
    world = World(settings, Goal())
    world.at(100, 99, end=500)
    assert world.mode.look() is None
    world.at(100, 100, end=500)  # the source has grown meanwhile: that does not count
    verdict = world.mode.look()
    assert verdict is not None
    assert verdict.reached
    assert "200 records" in verdict.detail


def test_without_lag_for_a_while_ends_the_other_mode(settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings, Goal(calm_s=30.0))
    clock = [1000.0]
    monkeypatch.setattr("reconciler_mirror.driver.until_caught_up.time.monotonic", lambda: clock[0])
    world.at(100, 100)
    assert world.mode.look() is None
    clock[0] += 20
    world.at(100, 100, end=101)
    assert world.mode.look() is None  # a record came: the time begins anew
    world.at(101, 101, end=101)
    assert world.mode.look() is None
    clock[0] += 29
    world.at(101, 101, end=101)
    assert world.mode.look() is None
    clock[0] += 12
    assert world.mode.look() is None  # nothing was heard of the lanes meanwhile: that is no calm
    world.at(101, 101, end=101)
    assert world.mode.look() is None
    clock[0] += 29
    world.at(101, 101, end=101)
    assert world.mode.look() is None
    clock[0] += 2
    assert world.mode.look() is not None


def test_a_secret_that_is_replaced_just_now_ends_nothing(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's loop asks, so an error there would end the mirror without a last status record."""
    world = World(settings, Goal())
    world.mode = CatchUp(Goal(), settings, world.board)

    def absent(_: object) -> None:
        raise MissingReference("file:/run/secrets/kafka", "no such file")

    monkeypatch.setattr("reconciler_mirror.driver.until_caught_up.cluster_of", absent)
    world.at(100, 100)
    assert world.mode.look() is None


STOP = Condition("source_truncated", "text", "todo", "orders", 1, stops=True)


def test_a_condition_that_stays_ends_it_with_what_to_do(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(settings, Goal())
    world.at(100, 50, condition=STOP)
    assert world.later(monkeypatch, GRACE_S - 1) is None
    verdict = world.later(monkeypatch, 3)
    assert verdict is not None
    assert not verdict.reached
    assert "source_truncated: text. todo" in verdict.detail


@pytest.mark.parametrize("code", ["authentication_failed", "permission_denied", "secret_missing", "lane_failed"])
def test_a_lane_that_fails_again_and_again_ends_it(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, code: ConditionCode
) -> None:
    """Nothing of the lane is copied meanwhile, so its flow is degraded and not running."""
    world = World(settings, Goal())
    failed = lane_failed(any_lane(0), code, "broker h:1 refused SCRAM")
    for number in set(world.lanes.values()):
        parts = tuple(PartitionProgress("orders", n, 50, 100) for n, where in world.lanes.items() if where == number)
        world.board.progress(LaneProgress(world.flow.name, number, parts, (failed,)))
    [view] = world.board.view()
    assert flow_state(view, "running") == "degraded"
    assert world.later(monkeypatch, GRACE_S - 1) is None
    verdict = world.later(monkeypatch, 3)
    assert verdict is not None
    assert not verdict.reached
    assert "broker h:1 refused SCRAM" in verdict.detail
    assert "by itself" not in verdict.detail


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_ends_nothing_and_holds_nothing_up(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    world = World(settings, Goal())
    world.at(100, 50, condition=STOP)
    assert world.mode.look() is None
    now = time.time() + hours * 3600
    monkeypatch.setattr("reconciler_mirror.driver.until_caught_up.time.time", lambda: now)
    assert world.mode.look() is None
    assert world.later(monkeypatch, GRACE_S + 1) is not None


def test_a_condition_of_a_partition_that_is_done_does_not_matter(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(settings, Goal())
    world.at(50, 100, condition=STOP)
    assert world.later(monkeypatch, GRACE_S + 1) is None


def test_a_cluster_that_is_away_gets_more_patience(settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings, Goal())
    world.at(100, 50, condition=Condition("target_unavailable", "text", "todo", "orders", 1, stops=True))
    assert world.later(monkeypatch, GRACE_S + 1) is None
    assert world.later(monkeypatch, PATIENCE_S) is not None


def test_what_is_paused_can_never_be_caught_up_with(settings: MirrorSettings) -> None:
    world = World(settings, Goal())
    world.at(100, 50)
    world.board.set_pauses([Pause(Scope(world.flow.name, "orders", 0), 1, "ann", "")])
    assert world.mode.look() is None
    world.board.set_pauses([Pause(Scope(world.flow.name, "orders", 1), 1, "ann", "")])
    verdict = world.mode.look()
    assert verdict is not None
    assert "is paused" in verdict.detail


@pytest.mark.parametrize("calm_s", [0.0, 5.0])
@pytest.mark.parametrize("code", ["target_topic_missing", "target_topic_smaller", "permission_denied"])
def test_topics_that_have_no_lane_are_not_caught_up_with(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, code: ConditionCode, calm_s: float
) -> None:
    """Nothing of them is behind, since nothing of them is known; that is not the same as copied."""
    world = World(settings, Goal(calm_s=calm_s))
    told = Condition(code, "audit is not copied", "todo", "audit", stops=True)
    specs = world.board.discovered_now(world.flow.name).specs
    world.board.discovered(world.flow.name, Discovered(specs, (told,), 2, complete=True))
    world.at(100, 100)
    assert world.later(monkeypatch, GRACE_S - 1) is None
    verdict = world.later(monkeypatch, 3)
    assert verdict is not None
    assert not verdict.reached
    assert f"{code}: audit is not copied. todo" in verdict.detail


def test_everything_in_the_way_is_reported_at_once_and_what_to_do_once(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it would cost a round a topic. A job that ends does not go on by itself, whatever a condition says."""
    world = World(settings, Goal())
    todo = "Run reconciler apply, which creates it; copying starts automatically."
    names = [f"audit.{number}" for number in range(12)]
    told = tuple(Condition("target_topic_missing", f"{name} is not copied", todo, name, stops=True) for name in names)
    specs = world.board.discovered_now(world.flow.name).specs
    world.board.discovered(world.flow.name, Discovered(specs, told, 13, complete=True))
    world.at(100, 50, condition=STOP)
    verdict = world.later(monkeypatch, GRACE_S + 3)
    assert verdict is not None
    assert verdict.detail.startswith(
        f"flow {world.flow.name} cannot be caught up with: "
        "target_topic_missing: audit.0 is not copied. target_topic_missing: audit.1 is not copied. "
    )
    assert verdict.detail.endswith(
        "audit.7 is not copied. And 5 more, see reconciler status ENV. Run reconciler apply, which creates it."
    )


@pytest.mark.parametrize(
    ("todo", "left"),
    [
        ("Give WRITE on a.b at the target; copying resumes automatically.", "Give WRITE on a.b at the target."),
        ("Check h:1, h:2 (group mirror.x). It is retried automatically.", "Check h:1, h:2 (group mirror.x)."),
        ("The lane is retried automatically.", ""),
        ("Run it (the doctor prints it; a.b-c).", "Run it (the doctor prints it; a.b-c)."),
    ],
)
def test_what_to_do_says_nothing_of_a_job_that_continues(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, todo: str, left: str
) -> None:
    world = World(settings, Goal())
    world.at(100, 50, condition=Condition("record_refused", "text.", todo, "orders", 1, stops=True))
    verdict = world.later(monkeypatch, GRACE_S + 3)
    assert verdict is not None
    assert verdict.detail.partition("with: ")[2] == f"record_refused: text. {left}".strip()


def test_open_transactions_of_the_source_are_not_waited_for_and_reported(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in them, and behind them, is not copied, and the end must not look as if it were."""
    world = World(settings, Goal())
    world.mode = CatchUp(Goal(), settings, world.board)
    ends = {False: (130, 100), True: (100, 110)}  # the second one ended, or grew, meanwhile

    async def resolve(
        _source: object, keys: Iterable[Key], kind: str, _time: object, *, committed: bool
    ) -> dict[Key, int]:
        assert kind == "latest"
        return {key: ends[committed][key[1]] for key in keys}

    monkeypatch.setattr("reconciler_mirror.driver.until_caught_up.start_offsets", resolve)
    monkeypatch.setenv("SECRET", "x")
    world.at(100, 110, end=110)
    verdict = world.mode.look()
    assert verdict is not None
    assert verdict.reached
    told = document(record(settings, Application("app", 1, "host", 2), "running", world.board.view(), 5))
    assert told["flows"][world.flow.name]["catch_up"] == {
        "partitions": 2, "done": 2, "offsets_left": 0, "offsets_undecided": 30
    }  # fmt: skip
    schema = json.loads((SCHEMAS / "status.schema.json").read_text())
    jsonschema.validate(told, schema)


def test_the_goal_is_read_from_the_run_directory_and_absent_by_default(tmp_path: Path) -> None:
    assert goal_of(written(tmp_path, GOAL)) is None
    (tmp_path / GOAL).write_text('{"flows": ["f"], "calm_s": 2}')
    assert goal_of(written(tmp_path, GOAL)) == Goal(frozenset({"f"}), 2.0)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[" * 100_000, '{"flows": "f", "calm_s": 2}', '{"flows": [], "calm_s": NaN}',
     '{"flows": [], "calm_s": 1' + "0" * 400 + "}", '{"flows": [], "calm_s": "2"}', '{"flows": [1], "calm_s": 2}'],
)  # fmt: skip
def test_a_goal_that_cannot_be_read_is_not_taken_for_none(text: str) -> None:
    """The job would never end, and the command that waits for it would not."""
    with pytest.raises(
        HandoverError, match=r"goal of the job cannot be read: .* reconciler mirror start ENV --until-caught-up"
    ):
        goal_of(text)


@pytest.mark.parametrize(("code", "state"), [(0, "stopped"), (1, "failed"), (137, "failed")])
def test_the_supervisor_starts_a_job_with_a_goal_once(tmp_path: Path, code: int, state: str) -> None:
    script = f"open('runs','a').write('x'); open('driver.json','w').write('{{}}'); raise SystemExit({code})"
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {script}"]
    (tmp_path / "command.json").write_text(json.dumps(command))
    (tmp_path / "goal.json").write_text("{}")
    Supervisor(tmp_path).run()
    assert (tmp_path / "runs").read_text() == "x"
    assert json.loads((tmp_path / "supervisor.json").read_text())["state"] == state


def test_a_time_without_a_unit_is_reported() -> None:
    assert seconds("--lag-zero-for", "30s") == 30.0
    with pytest.raises(ReconcilerError, match=r"--lag-zero-for is (.*\n)*.*a duration such as"):
        seconds("--lag-zero-for", "30")
