"""The driver's side of a run on a real broker: its definition, orders and reports."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.cluster_mode import record_run
from reconciler_mirror.cluster_mode.record_run import RecordRun, RunTopic
from reconciler_mirror.driver.driver import DriverOutcome, Exit
from reconciler_mirror.report.status import Application
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.handover import Endpoint, HandoverError, StatusPlace
from reconciler.replication.runs.driver_records import (
    NO_DEFINITION,
    ORDERS,
    PARTS,
    REPORT,
    DriverReport,
    RunAddress,
    RunDefinition,
    RunOrders,
    dumps_definition,
)
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

TOPIC = f"status-of-runs-{os.getpid()}"
WHO = Application("application_7", 5, "node7", 4711, "r1")


@pytest.fixture(scope="module")
def cluster(plain: Sandbox) -> ClusterHandle:
    west = plain["west"]
    admin = AdminClient(west.client())
    admin.create_topics([NewTopic(TOPIC, 3, 1, config={"cleanup.policy": "compact"})])[TOPIC].result(30)
    return west


@pytest.fixture
def place(cluster: ClusterHandle) -> StatusPlace:
    client = cluster.client()
    servers = tuple(client.pop("bootstrap.servers").split(","))
    return StatusPlace(Endpoint(cluster.name, servers, client), TOPIC, f"test/m{uuid.uuid4().hex[:6]}")


@pytest.fixture
def topic(place: StatusPlace) -> Iterator[RunTopic]:
    """As the follower has it."""
    topic = RunTopic(place).start()
    assert topic.await_known(30)
    yield topic
    topic.close()


@pytest.fixture
def opened() -> Iterator[list[RunTopic]]:
    topics: list[RunTopic] = []
    yield topics
    for topic in topics:
        topic.close()


def driver(place: StatusPlace, definition: RunDefinition, opened: list[RunTopic]) -> RecordRun:
    topic = RunTopic(place).start()
    opened.append(topic)
    return RecordRun(RunAddress(place, "r1", definition.digest), topic)


def report(topic: RunTopic) -> DriverReport | None:
    value = topic.value("r1", "report")
    return REPORT.loads(value) if value else None


def test_a_run_from_its_definition_to_its_end(place: StatusPlace, topic: RunTopic, opened: list[RunTopic]) -> None:
    definition = RunDefinition('{"a": "b"}' + " " * 3_000_000, '{"flows": ["a"], "calm_s": 2.5}', True, ("a", "b"))
    assert topic.write("r1", "definition", dumps_definition(definition)) == ""
    run = driver(place, definition, opened)
    assert run.handover() == definition.handover
    goal, where = run.goal(), run.place()
    assert goal is not None
    assert (goal.flows, goal.calm_s) == (frozenset({"a"}), 2.5)
    assert (where.needs, where.is_current(), where.predecessor_left(), run.stop_asked()) == (("a", "b"),) + (False,) * 3

    run.announce(WHO, "it gets ready")
    until(lambda: (told := report(topic)) and (told.application_id, told.phase) == ("application_7", "it gets ready"))
    before = report(topic)
    until(lambda: (told := report(topic)) and before and told.beat > before.beat)

    where.take()
    assert where.is_current()
    until(lambda: (told := report(topic)) and told.taken)
    topic.write("r1", "orders", ORDERS.dumps(RunOrders("f", predecessor_left=True)))
    until(where.predecessor_left)
    assert not run.stop_asked()
    topic.write("r1", "orders", ORDERS.dumps(RunOrders("f", replaced=True)))
    until(lambda: not where.is_current())
    where.leave()
    until(lambda: (told := report(topic)) and told.left)
    topic.write("r1", "orders", ORDERS.dumps(RunOrders("f", stop=True)))
    until(run.stop_asked)

    assert run.ended(DriverOutcome("superseded", Exit.SUPERSEDED, "by another"), signalled=False) == 0, (
        "YARN must not start it again"
    )
    until(lambda: (told := report(topic)) and (told.exit_code, told.detail) == (3, "by another"))
    last = report(topic)
    time.sleep(record_run.BEAT_S + 0.5)
    assert report(topic) == last, "nothing is said after the last word"
    topic.delete("r1")
    until(lambda: not any(topic.value("r1", part) for part in PARTS))


def test_failure_is_reported_and_is_the_exit_code(place: StatusPlace, topic: RunTopic, opened: list[RunTopic]) -> None:
    definition = RunDefinition("{}")
    topic.write("r1", "definition", dumps_definition(definition))
    run = driver(place, definition, opened)
    run.handover()
    assert run.ended(DriverOutcome("failed", Exit.FAILED, "no memory"), signalled=False) == 1
    until(lambda: (told := report(topic)) and (told.exit_code, told.detail) == (1, "no memory"))


@pytest.mark.parametrize(("ordered", "code"), [(True, 0), (False, 1)])
def test_a_signal_alone_is_no_wish_to_stop(
    place: StatusPlace, topic: RunTopic, opened: list[RunTopic], ordered: bool, code: int
) -> None:
    """Else a mirror would stay stopped after its node was drained, or its container preempted."""
    definition = RunDefinition("{}")
    topic.write("r1", "definition", dumps_definition(definition))
    if ordered:
        topic.write("r1", "orders", ORDERS.dumps(RunOrders("f", stop=True)))
    run = driver(place, definition, opened)
    run.handover()
    until(lambda: run.stop_asked() == ordered)
    assert run.ended(DriverOutcome("stopped", Exit.STOPPED), signalled=True) == code
    until(lambda: (told := report(topic)) and told.exit_code == code)


def test_without_a_definition_it_was_withdrawn(place: StatusPlace, opened: list[RunTopic], topic: RunTopic) -> None:
    run = driver(place, RunDefinition("{}"), opened)
    with pytest.raises(HandoverError, match="run r1 was withdrawn"):
        run.handover()
    assert run.ended(DriverOutcome("failed", Exit.FAILED), signalled=False) == NO_DEFINITION
    assert report(topic) is None, "its submitter has removed its records, and nobody would again"


def test_a_definition_that_others_else_wrote_is_refused(
    place: StatusPlace, topic: RunTopic, opened: list[RunTopic]
) -> None:
    topic.write("r1", "definition", dumps_definition(RunDefinition('{"another": 1}')))
    with pytest.raises(HandoverError, match="another writer wrote it"):
        driver(place, RunDefinition("{}"), opened).handover()
    topic.write("r1", "definition", b"\0garbage")
    with pytest.raises(HandoverError, match="cannot be read"):
        driver(place, RunDefinition("{}"), opened).handover()


def test_garbage_for_orders_is_no_order(place: StatusPlace, topic: RunTopic, opened: list[RunTopic]) -> None:
    run = driver(place, RunDefinition("{}"), opened)
    topic.write("r1", "orders", b"{]")
    assert opened[0].await_known(30)
    until(lambda: opened[0].value("r1", "orders") == b"{]")
    assert run.orders() == RunOrders()


def test_runs_of_other_mirrors_are_not_seen(place: StatusPlace, topic: RunTopic) -> None:
    other = RunTopic(StatusPlace(place.cluster, TOPIC, f"{place.key}x")).start()
    assert other.write("r1", "orders", b"x") == ""
    assert other.await_known(30)
    until(lambda: other.value("r1", "orders") == b"x")
    assert topic.write("r2", "orders", b"y") == ""
    until(lambda: topic.value("r2", "orders") == b"y")
    assert topic.values("orders") == {"r2": b"y"}
    other.close()


def test_a_cluster_out_of_reach_is_said_and_is_no_silence_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_run, "KNOWN_S", 3.0)
    endpoint = Endpoint("west", ("127.0.0.1:1",), {"sasl.password": "${env:NO_SUCH_SECRET}"})
    topic = RunTopic(StatusPlace(endpoint, TOPIC, "test/m")).start()
    with pytest.raises(HandoverError, match=r"127\.0\.0\.1:1.*NO_SUCH_SECRET"):
        RecordRun(RunAddress(StatusPlace(endpoint, TOPIC, "test/m"), "r1", ""), topic).handover()
    assert topic.write("r1", "orders", b"") != ""
    topic.close()
    topic = RunTopic(StatusPlace(Endpoint("west", ("127.0.0.1:1",)), TOPIC, "test/m")).start()
    assert not topic.await_known(6.0)
    assert topic.trouble
    topic.close()
