"""What follows a driver on the cluster, against records and a cluster of its own, with a clock that jumps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from reconciler_mirror.cluster_mode import follow
from reconciler_mirror.cluster_mode.follow import Folder, Follower

from reconciler.replication.runs.driver_records import (
    ORDERS,
    REPORT,
    DriverReport,
    Part,
    RunDefinition,
    RunOrders,
    loads_definition,
)
from reconciler.replication.runs.run_folders import SECOND, current, make_current, place_of, settle

HANDOVER = '{"fingerprint": "f1"}'
DIGEST = RunDefinition(HANDOVER).digest


@dataclass
class World:
    """The status topic and the cluster in one; after each wait, of a fifth of a second, ``act`` does something."""

    now: float = 1000.0
    records: dict[tuple[str, Part], bytes] = field(default_factory=dict)
    moved: dict[tuple[str, Part], float] = field(default_factory=dict)
    trouble: str = ""
    refused: str = ""
    """Why no record can be written."""
    known: bool = True
    submitted: list[str] = field(default_factory=list)
    killed: list[tuple[str, str]] = field(default_factory=list)
    exit_code: int | None = None
    """Of spark-submit."""
    application_id: str = ""
    act: Callable[[World], None] = lambda world: None
    waits: int = 0

    # as RunTopic

    def await_known(self, patience_s: float) -> bool:
        return self.known

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits += 1
        assert self.waits < 5000, "it never ends"
        self.act(self)

    def value(self, run: str, part: Part) -> bytes | None:
        return self.records.get((run, part))

    def values(self, part: Part) -> Mapping[str, bytes]:
        return {run: value for (run, each), value in self.records.items() if each == part}

    def silent_s(self, run: str, part: Part) -> float:
        return self.now - self.moved.get((run, part), 0.0)

    def write(self, run: str, part: Part, value: bytes | None, patience_s: float = 10.0) -> str:
        if self.refused:
            return self.refused
        if value is None:
            self.records.pop((run, part), None)
        else:
            self.records[run, part] = value
        self.moved[run, part] = self.now
        return ""

    def delete(self, run: str) -> None:
        for part in ("definition", "orders", "report"):
            self.records.pop((run, part), None)

    # as the cluster

    def submit(self, run: str, digest: str) -> World:
        assert digest == loads_definition(self.records[run, "definition"]).digest
        self.submitted.append(run)
        return self

    def kill(self, run: str, application_id: str) -> None:
        self.killed.append((run, application_id))

    def ended(self) -> int | None:
        return self.exit_code

    def why(self) -> str:
        return "spark-submit says so"

    # as drivers

    @property
    def run(self) -> str:
        return self.submitted[-1]

    def report(self, run: str = "", **changes: object) -> None:
        run = run or self.run
        value = self.records.get((run, "report"))
        before = REPORT.loads(value) if value else DriverReport(DIGEST, "node7", 4711, "application_1", 5)
        after = replace(before, beat=before.beat + 1, **changes)  # type: ignore[arg-type]
        self.write(run, "report", REPORT.dumps(after))

    def orders(self, run: str = "") -> RunOrders:
        value = self.records.get((run or self.run, "orders"))
        return ORDERS.loads(value) if value else RunOrders()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "m"
    for folder in (home, home / SECOND):
        folder.mkdir()
        (folder / "handover.json").write_text(HANDOVER)
    settle(home, home, ())
    return home


def follower(world: World, folder: Path, said: list[str] | None = None) -> Follower:
    lines = said if said is not None else []
    return Follower(Folder(place_of(folder)), world, world, lines.append, clock=lambda: world.now)


def driver_of(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "driver.json").read_text())
    return found


def living(world: World) -> None:
    """A driver that beats, and leaves when it is told to."""
    if world.submitted and world.waits % 5 == 0:
        orders = world.orders()
        if orders.stop or orders.replaced:
            world.report(left=True, exit_code=0 if orders.stop else 3)
        else:
            world.report()


def test_a_driver_is_submitted_shown_in_the_folder_and_stopped(home: Path) -> None:
    said: list[str] = []

    def act(world: World) -> None:
        living(world)
        if world.waits == 50:
            assert driver_of(home)["application_id"] == "application_1"
            assert driver_of(home)["driver"] == {"host": "node7", "pid": 4711}
            (home / "stop").touch()

    world = World(act=act)
    assert follower(world, home, said).run() == 0
    assert "application_1 runs on node7, process 4711" in said
    assert world.records == {}, "nothing of the run is left"
    assert world.killed == []


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_exit_code_is_the_drivers(home: Path, code: int) -> None:
    said: list[str] = []
    world = World(act=lambda world: world.report(exit_code=code, detail="because"))
    assert follower(world, home, said).run() == code
    assert ("The mirror job cannot run: because" if code == 1 else "because") in said


def test_what_ended_before_spark_was_up_is_not_shown_as_a_driver(home: Path) -> None:
    """The supervisor starts again only what had once reached Spark."""
    world = World(act=lambda world: world.report(application_id="", exit_code=1, detail="too little memory"))
    assert follower(world, home).run() == 1
    assert not (home / "driver.json").exists()


def test_a_driver_that_ended_without_a_word_is_reported_by_spark_submit(home: Path) -> None:
    said: list[str] = []

    def act(world: World) -> None:
        world.exit_code = 13

    assert follower(World(act=act), home, said).run() == 1
    assert said[-1] == "The mirror job cannot run: spark-submit says so"


def test_a_driver_lives_on_where_spark_submit_is_gone(home: Path) -> None:
    """The ResourceManager may be out of reach for its client alone."""

    def act(world: World) -> None:
        living(world)
        world.exit_code = 1 if world.waits > 20 else None
        if world.waits == 500:
            (home / "stop").touch()

    world = World(act=act)
    assert follower(world, home).run() == 0
    assert world.now > 1000.0 + 100


@pytest.mark.parametrize(("exit_code", "most"), [(1, 12.0), (None, 40.0), (0, 40.0)])
def test_a_silent_driver_is_dead(home: Path, exit_code: int | None, most: float) -> None:
    """A cluster notices the loss of a machine after minutes, and its client waits for that."""
    said: list[str] = []

    def act(world: World) -> None:
        if world.waits <= 20:
            living(world)
        elif world.waits == 21:
            world.exit_code = exit_code

    world = World(act=act)
    assert follower(world, home, said).run() == 1
    assert world.now - 1000.0 - 4.0 < most
    assert "has said nothing for" in said[-1]
    assert world.killed == ([] if exit_code else [(world.run, "application_1")]), "its executors would keep their place"


def test_a_driver_that_hangs_is_killed_when_it_is_to_stop(home: Path) -> None:
    def act(world: World) -> None:
        if world.killed:
            world.exit_code = 137
        elif world.waits % 5 == 0:
            world.report()
        if world.waits == 10:
            (home / "stop").touch()

    world = World(act=act)
    assert follower(world, home).run() == 0
    assert world.killed == [(world.run, "application_1")]
    assert follow.KILL_AFTER_S < world.now - 1002 < 45.0, "before the supervisor loses patience"


def test_a_submission_that_waits_for_its_place_is_withdrawn_at_once(home: Path) -> None:
    def act(world: World) -> None:
        world.application_id = "application_9"
        if world.waits == 10:
            (home / "stop").touch()
        if world.killed:
            world.exit_code = 1

    world = World(act=act)
    assert follower(world, home).run() == 0
    assert world.killed == [(world.run, "application_9")]
    assert world.records == {}
    assert world.now < 1010


def test_a_follower_that_was_killed_is_followed_by_one_that_follows(home: Path) -> None:
    said: list[str] = []

    def act(world: World) -> None:
        if world.waits % 5 == 0:
            world.report("r0", exit_code=0 if world.orders("r0").stop else None)
        if world.waits == 60:
            (home / "stop").touch()

    world = World(act=act)
    world.write("r0", "definition", b"")
    world.write("r0", "orders", ORDERS.dumps(RunOrders("another")))
    world.report("r0", taken=True)
    assert follower(world, home, said).run() == 0
    assert said[0] == "a driver runs with this definition already; following run r0"
    assert world.submitted == []


@pytest.mark.parametrize(
    "changes",
    [{"definition": "another"}, {"exit_code": 0}, {"left": True}],
    ids=["another definition", "it has ended", "it is leaving"],
)
def test_any_other_driver_is_not_followed(home: Path, changes: Mapping[str, object]) -> None:
    world = World(act=lambda world: world.report(world.run if world.submitted else "r0", exit_code=None))
    world.report("r0", **changes)

    def act(world: World) -> None:
        world.report("r0")
        if world.submitted:
            world.report(exit_code=0)

    world.act = act
    assert follower(world, home).run() == 0
    assert len(world.submitted) == 1
    assert ("r0", "report") in world.records, "it lives: its records are its own"


def test_a_dead_driver_is_not_waited_for_and_its_records_are_removed(home: Path) -> None:
    world = World()
    for part in ("definition", "orders"):
        world.write("r0", part, b"{}")
    world.report("r0")
    world.act = lambda world: world.report(exit_code=0) if world.submitted else None
    assert follower(world, home).run() == 0
    assert world.records == {}
    assert 6.0 <= world.now - 1000.0 < 8.0, "as long as a living one would take to say so"


def test_a_submission_no_one_follows_any_more_is_withdrawn_before_another(home: Path) -> None:
    """Its driver may get its place an hour later, and would take over then."""
    world = World(act=lambda world: world.report(exit_code=0))
    world.write("r0", "definition", b"")
    assert follower(world, home).run() == 0
    assert world.value("r0", "definition") is None
    assert world.now == pytest.approx(1000.2), "there is nobody to wait for"


def test_another_follower_takes_it_over_and_this_one_leaves_the_driver_alone(home: Path) -> None:
    """A host that was frozen and comes back is told to end what it keeps; another host keeps it now."""
    said: list[str] = []

    def act(world: World) -> None:
        living(world)
        if world.waits == 20:
            world.write(world.run, "orders", ORDERS.dumps(replace(world.orders(), follower="another")))
            (home / "stop").touch()

    world = World(act=act)
    assert follower(world, home, said).run() == 0
    assert said[-1] == f"run {world.run} is followed by another process (another) now"
    assert world.orders() == RunOrders("another")
    assert (world.run, "report") in world.records


def test_an_order_from_another_machine_stops_it(home: Path) -> None:
    def act(world: World) -> None:
        living(world)
        if world.waits == 20:
            world.write(world.run, "orders", ORDERS.dumps(RunOrders(stop=True)))

    assert follower(World(act=act), home).run() == 0


def test_the_new_driver_takes_the_place_of_the_old_one(home: Path) -> None:
    """The old one is told that it is replaced; the new one, once that has left its lanes."""
    second = home / SECOND
    settle(second, home, ("a",))
    assert current(home) == home
    (home / "driver.json").write_text(json.dumps({"pid": 1}))  # some process that lives
    seen: list[str] = []

    def act(world: World) -> None:
        definition = loads_definition(world.records[world.run, "definition"])
        assert (definition.beside, definition.needs) == (True, ("a",))
        if world.waits < 10:
            world.report()
            assert current(home) == home
        elif world.waits == 10:
            world.report(taken=True)
        elif world.waits == 12:
            assert current(home) == second, "the point of no return"
            assert not world.orders().predecessor_left
            (home / "left").touch()
        elif world.waits == 14:
            assert world.orders().predecessor_left
            seen.append("gone on")
            make_current(home, home)  # now this one is replaced
        elif world.waits == 16:
            assert world.orders().replaced
            world.report(left=True, exit_code=3)

    assert follower(World(act=act), second).run() == 3
    assert seen == ["gone on"]
    assert (second / "left").exists(), "whoever replaces it continues"


def test_without_the_status_topic_nothing_is_submitted(home: Path) -> None:
    said: list[str] = []
    world = World(known=False, trouble="no broker answers")
    assert follower(world, home, said).run() == 1
    assert said == ["The mirror job cannot run: the status topic could not be read in 120 s: no broker answers"]
    world = World(refused="it is read only")
    assert follower(world, home, said).run() == 1
    assert said[-1] == "The mirror job cannot run: the status topic did not take its definition: it is read only"
    assert world.submitted == []


def test_orders_that_could_not_be_written_are_written_later(home: Path) -> None:
    def act(world: World) -> None:
        living(world)
        if world.waits == 10:
            world.refused = "no broker answers"
            (home / "stop").touch()
        if world.waits == 30:
            assert not world.orders().stop
            world.refused = ""

    assert follower(World(act=act), home).run() == 0
