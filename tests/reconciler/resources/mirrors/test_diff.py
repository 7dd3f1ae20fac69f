"""A mirror job restarts exactly when its hand-over differs, and the plan says why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.engine.plan.build import plan
from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import RestartMirror, StartMirror, StopMirror
from reconciler.model.environment.topology import Flow, Mirror, Topology
from reconciler.model.live import JobState
from reconciler.replication.status import ReportedCondition
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import World, flow, ids, topic, topology, world


def running(one: Flow, *more: Flow) -> tuple[World, Topology]:
    """A world in which the topology is applied and its mirror runs."""
    seen, wished = world(), topology(one, *more)
    for name in ("orders", "pay", "log"):
        seen.clusters["east"].put(name)
    seen.apply(wished)
    return seen, wished


def told(seen: World) -> dict[str, dict[str, object]]:
    return {name: json.loads(text) for name, text in seen.runner.handovers.items()}


def test_equal_and_running_is_no_change() -> None:
    seen, wished = running(flow("east", "west", "orders"))
    planned = seen.plan(wished)
    assert ids(planned) == []


def test_a_spark_cluster_that_lets_everybody_in_is_noted_and_not_refused() -> None:
    wished = topology(flow("east", "west", "orders"), Mirror("west", ("east-to-west",), master="spark://h:7077"))
    planned = world().plan(wished)
    assert "start:west" in ids(planned)
    (note,) = [note for note in planned.notes if "spark.authenticate" in note]
    assert note.startswith("mirror west uses spark://h:7077 without spark.authenticate: anyone who reaches the ports")
    secret = {"spark.authenticate.secret": "${env:A}"}
    known = replace(wished.mirrors["west"], spark_conf=secret)
    noted = world().plan(topology(flow("east", "west", "orders"), known)).notes
    assert not any("spark.authenticate" in note for note in noted)


@pytest.mark.parametrize("state", [JobState.ABSENT, JobState.STOPPED, JobState.FAILED, JobState.STALE])
def test_a_job_that_does_not_run_is_started(state: JobState) -> None:
    seen, wished = running(flow("east", "west", "orders"))
    seen.runner.jobs["west"] = replace(seen.runner.jobs["west"], state=state, detail="out of memory")
    planned = seen.plan(wished)
    assert ids(planned) == ["start:west"]
    change = planned.changes[0].change
    assert isinstance(change, StartMirror)
    assert (state is JobState.FAILED) == ("out of memory" in change.reason.text)


def test_a_job_that_is_starting_is_not_as_declared_and_is_waited_for() -> None:
    seen, wished = running(flow("east", "west", "orders"))
    starting = replace(seen.runner.jobs["west"], state=JobState.STARTING, started_at_ms=1_795_000_000_000)
    seen.runner.jobs["west"] = replace(starting, detail="Spark has no core")
    planned = seen.plan(wished)
    assert (ids(planned), planned.exit_code) == (["start:west"], ExitCode.CHANGES)
    change = planned.changes[0].change
    assert isinstance(change, StartMirror)
    assert str(change.reason.text) == (
        "its job is starting since 2026-11-18 11:06:40 UTC and does not copy yet: Spark has no core; "
        "apply waits until it runs"
    )
    assert change.because == ("flow east-to-west: east to west",)
    nobody_sees = Unknown("mirror west", "its status topic is gone")
    seen.runner.jobs["west"] = replace(starting, unseen=nobody_sees)
    assert ids(seen.plan(wished)) == [], "whether it runs is unknown; starting it again would stop it"


def test_a_job_that_starts_with_another_definition_is_replaced() -> None:
    seen, _ = running(flow("east", "west", "orders"))
    seen.runner.jobs["west"] = replace(seen.runner.jobs["west"], state=JobState.STARTING)
    assert ids(seen.plan(topology(flow("east", "west", "orders", lanes=4)))) == ["restart:west"]


def test_a_changed_flow_restarts_once_and_names_field_values_and_topics() -> None:
    seen, _ = running(flow("east", "west", "orders", "log"))
    planned = seen.plan(topology(flow("east", "west", "orders", "pay", lanes=4)), previous=told(seen))
    assert ids(planned) == ["create:west/east.pay", "restart:west"]
    change = planned.changes[-1].change
    assert isinstance(change, RestartMirror)
    assert change.because == (
        "flow east-to-west: lanes 2 -> 4",
        'flow east-to-west: topics ["log", "orders"] -> ["orders", "pay"]',
        "flow east-to-west: now also mirrors 1 topic: east/pay",
        "flow east-to-west: no longer mirrors 1 topic: east/log; what was copied stays",
    )
    assert planned.changes[-1].needs == ("create:west/east.pay",)


def test_a_renamed_flow_and_a_topic_that_moves_are_reported_to_wait_for_their_positions() -> None:
    seen, _ = running(flow("east", "west", "orders", name="old"), flow("east", "west", "pay", "log", name="kept"))
    now = topology(flow("east", "west", "orders", "log", name="new"), flow("east", "west", "pay", name="kept"))
    change = seen.plan(now, previous=told(seen)).changes[-1].change
    assert isinstance(change, RestartMirror)
    waits = [line for line in change.because if "waits" in line]
    assert [line.split("; ")[0].split(", which")[0] for line in waits] == [
        "flow new: waits with 1 topic: east/log until it takes over the positions of flow kept",
        "flow new: waits with 1 topic: east/orders until it takes over the positions of flow old",
    ]
    assert "mirror seek ENV new --topic T --from-flow old" in waits[1]


def test_without_the_old_hand_over_the_job_reports_which_flow_changed() -> None:
    kept, gone = flow("east", "west", "orders", name="kept"), flow("east", "west", "pay", name="gone")
    seen, wished = running(kept, gone, flow("east", "west", "log", name="moved"))
    now = topology(kept, flow("east", "west", "log", name="moved", lanes=3), flow("east", "west", "x", name="new"))
    change = seen.plan(now).changes[-1].change
    assert isinstance(change, RestartMirror)
    assert change.because[:2] == ("flow new: added", "flow gone: removed")
    assert change.because[2].startswith("flow moved: changed, fingerprint ")
    assert len(change.because) == 3
    settings = replace(wished, mirrors={"west": replace(wished.mirrors["west"], parallelism=9)})
    change = seen.plan(settings).changes[-1].change
    assert isinstance(change, RestartMirror)
    assert change.because == (
        "no flow changed; parallelism, intervals, metrics, channel, deployment, master or spark_conf did",
    )


def test_an_old_hand_over_of_another_start_is_not_believed() -> None:
    seen, _ = running(flow("east", "west", "orders"))
    other = topology(flow("east", "west", "something else"))
    previous = {"west": mirror_handover(other, other.mirrors["west"])}
    change = seen.plan(topology(flow("east", "west", "pay")), previous=previous).changes[-1].change
    assert isinstance(change, RestartMirror)
    assert "something else" not in "".join(change.because)


def test_a_new_topic_that_already_matches_needs_no_restart_and_the_plan_says_so() -> None:
    seen, wished = running(flow("east", "west", ".*"))
    seen.clusters["east"].put("fresh")
    planned = seen.plan(wished)
    assert ids(planned) == ["create:west/east.fresh"]
    assert planned.notes == ("mirror west keeps running: one of its topics changes, its definition does not",)


def test_a_plan_without_changes_says_which_flow_does_not_copy() -> None:
    seen, wished = running(flow("east", "west", "orders"))
    [job] = seen.runner.jobs.values()
    refused = ReportedCondition(
        code="record_refused", text="t", todo="d", since_ms=1, stops=True, topic="orders", partition=0
    )
    stopped = replace(job.flows["east-to-west"], state="degraded", conditions=(refused,))
    seen.runner.jobs["west"] = replace(job, flows={"east-to-west": stopped})
    planned = seen.plan(wished)
    assert (ids(planned), planned.notes) == (
        [],
        (
            "flow east-to-west: record_refused on orders-0. A plan does not change that; what does: "
            "reconciler status ENV",
        ),
    )


def test_a_plan_that_ends_what_stops_a_flow_says_so() -> None:
    """A partition that grew at the source stops until its copy has grown, which this plan does."""
    seen, wished = running(flow("east", "west", "orders"))
    [job] = seen.runner.jobs.values()
    smaller, refused = (
        ReportedCondition(code=code, text="t", todo="d", since_ms=1, stops=True, topic="orders", partition=0)
        for code in ("target_topic_smaller", "record_refused")
    )

    def notes(*conditions: ReportedCondition) -> str:
        stopped = replace(job.flows["east-to-west"], state="degraded", conditions=conditions)
        seen.runner.jobs["west"] = replace(job, flows={"east-to-west": stopped})
        return "\n".join(seen.plan(wished).notes)

    assert "target_topic_smaller on orders-0. A plan does not change that" in notes(smaller)
    seen.clusters["east"].topics["orders"].assignment.append((1,))
    assert "target_topic_smaller on orders-0. It ends with the change of west/east.orders" in notes(smaller)
    both = notes(smaller, refused)
    assert "record_refused on orders-0. A plan does not change that" in both
    assert "target_topic_smaller" not in both


def test_labels_and_factors_change_without_a_restart() -> None:
    seen, _ = running(flow("east", "west", "orders"))
    assert ids(seen.plan(topology(flow("east", "west", "orders", labels={"a": "b"}, replication_factor=1)))) == []


def test_a_mirror_that_cannot_be_observed_is_unknown() -> None:
    seen, wished = running(flow("east", "west", "orders"))
    live = replace(seen.look(wished), mirrors={"west": Unknown("mirror west", "no status")})
    planned = plan(wished, live)
    assert (ids(planned), [one.subject for one in planned.unknown]) == ([], ["mirror west"])


def test_a_mirror_that_left_git_is_stopped() -> None:
    seen, wished = running(flow("east", "west", "orders"))
    without = replace(wished, flows={}, mirrors={})
    planned = plan(without, seen.look(wished))
    assert [type(one.change) for one in planned.changes] == [StopMirror]


def test_two_mirrors_on_one_target_share_the_status_topic() -> None:
    one, two = flow("east", "west", "orders", name="a"), flow("east", "west", "pay", name="b")
    planned = world().plan(topology(one, two, Mirror("first", ("a",)), Mirror("second", ("b",)), topic("x", "west")))
    internal = ["create:west/__mirror_offsets", "create:west/__mirror_status"]
    assert ids(planned) == [*internal, "create:west/x", "start:first", "start:second"]
    assert all(set(internal) <= set(p.needs) for p in planned.changes if p.id.startswith("start:"))
