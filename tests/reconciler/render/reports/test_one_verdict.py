"""Whatever clusters and jobs report, `status`, its JSON and exit code, `--watch` and the live page give one verdict. It
is never better than what is known, and each command in it is one that the program takes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from typer.main import get_command

from reconciler.cli.main import app
from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.topology_map import moved_on, topology_map
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Mirror, Topology
from reconciler.model.live import LAG_LATE_MS, JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.health import Health, Verdict, worst
from reconciler.model.reports.topology_map import State
from reconciler.render.live.pages import regions
from reconciler.render.live.view import JobsSeen, LivePage, LiveReading, LiveView
from reconciler.render.reports.status import StatusInputs, check_code, status_json, status_text
from reconciler.render.reports.watch import watch_frame
from reconciler.replication.names import CONDITION_CODES, WAITING
from reconciler.replication.status import ConditionCount, FlowStatus, PauseCounts
from tests.support.builders import flow, topology
from tests.support.commands import commands_in, take
from tests.support.documents.live import NOW_MS, seen_view
from tests.support.documents.live_values import condition, live_cluster, live_topic, pause

PROGRAM: Any = get_command(app)
FOLDER = "environments/prod"
DECLARED = topology(flow("east", "west", "orders"), flow("east", "west", "clicks", name="click-stream"))
HOSTED = replace(DECLARED, mirrors={"west": Mirror("west", ("click-stream", "east-to-west"), hosted=True)})
BARE = replace(DECLARED, flows={}, mirrors={})
_TODO = "Continue: reconciler mirror seek ENV FLOW --topic orders --partition 0 --to 7. Then reconciler apply ENV"
_conditions = st.builds(
    lambda code, stops, place: condition(code, "t.", _TODO, stops=stops, **place),
    st.sampled_from(CONDITION_CODES),
    st.booleans(),
    st.sampled_from([{}, {"topic": "orders"}, {"topic": "orders", "partition": 3}]),
)
_pauses = st.builds(
    lambda reason, place: pause(6, 4, reason, **place),
    st.sampled_from(["", "maintenance", "failover to west; started for it: back"]),
    st.sampled_from([{}, {"topic": "orders"}, {"topic": "orders", "partition": 3}]),
)


@st.composite
def _flows(draw: st.DrawFn, name: str) -> FlowStatus:
    lag = draw(st.sampled_from([None, 0, 7]))
    conditions = tuple(draw(st.lists(_conditions, max_size=2)))
    pauses = tuple(draw(st.lists(_pauses, max_size=2)))
    more: dict[str, Any] = {}
    cut = draw(st.booleans())
    if conditions and cut:
        code = draw(st.sampled_from(CONDITION_CODES))
        more["condition_counts"] = (ConditionCount(code, code in WAITING, len(conditions) + 5),)
    if pauses and cut:
        more["pause_counts"] = PauseCounts(len(pauses) + 3, 9, 9)
    return FlowStatus(
        name,
        "f" * 16,
        state=draw(st.sampled_from(["unknown", "starting", "running", "running", "degraded", "paused", "stopped"])),
        partitions=6,
        records_lag=lag,
        seconds_lag=None if lag is None else float(lag),
        records_lag_at_least=draw(st.sampled_from([0, 3])) if lag is None else lag,
        lag_unknown_partitions=draw(st.integers(0, 2)) if lag is None else 0,
        stalled_partitions=draw(st.sampled_from([0, 0, 1])),
        resuming_partitions=draw(st.sampled_from([0, 0, 2])),
        conditions=conditions,
        pauses=pauses,
        **more,
    )


@st.composite
def _mirrors(draw: st.DrawFn, name: str) -> LiveMirror | Unknown:
    if draw(st.integers(0, 5)) == 0:
        return Unknown(draw(st.sampled_from(["cluster west", "mirror west"])), "no answer", "See reconciler apply ENV")
    names = draw(st.lists(st.sampled_from(["east-to-west", "click-stream"]), unique=True))
    state = draw(st.sampled_from([JobState.RUNNING, JobState.RUNNING, *JobState]))
    return LiveMirror(
        name,
        state,
        "app-1",
        "f" * 16,
        draw(st.sampled_from([None, NOW_MS - 60_000])),
        NOW_MS - 1_000,
        3,
        draw(st.sampled_from(["", "host m1"])),
        MappingProxyType({each: draw(_flows(each)) for each in names}),
        late_ms=draw(st.sampled_from([0, 0, LAG_LATE_MS + 1])),
        gone=draw(st.booleans()),
        unkept=draw(st.sampled_from(["", "", "its supervisor is gone"])),
        unseen=draw(st.sampled_from([None, None, Unknown("mirror west", "its process cannot be seen", "Wait.")])),
    )


def _clusters(draw: st.DrawFn, name: str) -> LiveCluster | Unknown:
    if draw(st.integers(0, 3)) == 0:
        return Unknown(f"cluster {name}", "no answer", "Check that the brokers run, or reconciler doctor ENV.")
    leader = draw(st.sampled_from([1, 1, -1]))
    return live_cluster(name, {"orders": live_topic("orders", leader=leader)})


@st.composite
def _lives(draw: st.DrawFn) -> LiveState:
    mirrors = {"west": draw(_mirrors("west"))}
    if draw(st.booleans()):
        mirrors["stray"] = draw(_mirrors("stray"))
    return LiveState({name: _clusters(draw, name) for name in ("east", "west")}, mirrors)


def _all_is_well(declared: Topology, live: LiveState) -> bool:
    """By another way than the verdict: every declared flow is copied now by all that is known."""
    for name, mirror in live.as_reported().mirrors.items():
        if isinstance(mirror, Unknown):
            return False
        wanted = declared.mirrors[name].flows if name in declared.mirrors else ()
        if mirror.state is not JobState.RUNNING:
            if wanted or (declared is BARE and mirror.state is not JobState.STOPPED) or _says_anything(mirror):
                return False
            continue
        flows = mirror.flows.values()
        if not mirror.lag_is_current or mirror.unkept or not {*wanted} <= {*mirror.flows} or _says_anything(mirror):
            return False
        if any(each.records_lag is None or each.stalled_partitions or each.state != "running" for each in flows):
            return False
        if name not in declared.mirrors and declared is not BARE:
            return False
    answers = [cluster for cluster in live.clusters.values() if isinstance(cluster, LiveCluster)]
    return len(answers) == len(live.clusters) and not any(any(cluster.partitions_amiss) for cluster in answers)


def _says_anything(mirror: LiveMirror) -> bool:
    return any(flow.conditions or flow.pauses or flow.resuming_partitions for flow in mirror.flows.values())


def _view(declared: Topology, live: LiveState) -> LiveView:
    view = seen_view()
    clusters, jobs = view.clusters.value, view.jobs.value
    assert clusters is not None
    assert jobs is not None
    seen = LiveReading(replace(clusters, clusters=live.clusters), NOW_MS)
    return replace(
        view, topology=declared, folder=FOLDER, clusters=seen, jobs=LiveReading(JobsSeen(live.mirrors, {}), NOW_MS)
    )


def _headline_of_page(declared: Topology, live: LiveState, page: LivePage) -> str:
    [head] = [part.html for part in regions(_view(declared, live), page, NOW_MS, None) if part.name == "head"]
    return head


@given(st.sampled_from([DECLARED, HOSTED, BARE]), _lives())
@example(DECLARED, LiveState({}, {}))
def test_all_that_shows_the_environment_has_one_verdict(declared: Topology, live: LiveState) -> None:
    found = verdict_of(declared, live, FOLDER)
    inputs = StatusInputs(None, verdict=found, check=True)
    text = status_text(declared, live, NOW_MS, inputs)
    told = json.loads(status_json(declared, live, NOW_MS, inputs))
    word = found.health.value
    assert text.startswith(f"{word}: ")
    assert (told["health"]["state"], told["verdict"]) == (word, text.split("\n")[0])
    assert told["exit_code"] == check_code(found.health)
    assert f"<h1>{word}: " in _headline_of_page(declared, live, LivePage())
    console = Console(width=400)
    with console.capture() as shown:
        console.print(watch_frame(declared, live, "12:00:00", width=400))
    assert f"12:00:00  {word}: " in shown.get()


@given(st.sampled_from([DECLARED, HOSTED]), _lives(), st.booleans())
def test_the_map_draws_each_flow_as_the_verdict_says(declared: Topology, live: LiveState, moves: bool) -> None:
    found = verdict_of(declared, live)
    drawn = topology_map(declared, live)
    if moves:  # the live page
        drawn = moved_on(topology_map(declared, LiveState({}, {})), declared, live)
    job_of = {flow: name for name, mirror in declared.mirrors.items() for flow in mirror.flows}
    for each in drawn.flows:
        health = worst((found.of(f"flow {each.name}"), found.of(f"mirror {job_of[each.name]}")))
        if health is Health.STOPPED:
            assert each.state in (State.PROBLEM, State.UNKNOWN), (each, found)
        elif each.state is State.IDLE:
            assert health is not Health.OK
        elif each.state is State.OK:
            assert health in (Health.OK, Health.DEGRADED), (each, found)  # a job that is not kept running copies
        assert (each.records_lag is None) or health is not Health.UNKNOWN or each.state is not State.OK


@given(st.sampled_from([DECLARED, HOSTED, BARE]), _lives())
def test_a_verdict_is_never_better_than_what_is_known(declared: Topology, live: LiveState) -> None:
    found = verdict_of(declared, live, FOLDER)
    reported = live.as_reported()
    if found.health is Health.OK:
        assert _all_is_well(declared, reported)
    for name, mirror in reported.mirrors.items():
        if not isinstance(mirror, LiveMirror) or mirror.state is not JobState.RUNNING:
            continue
        if name in declared.mirrors or declared is BARE:
            _holds_of_flows(mirror, found)


def _holds_of_flows(mirror: LiveMirror, found: Verdict) -> None:
    for each in mirror.flows.values():
        health = found.of(f"flow {each.name}")
        waits = each.records_lag is None or each.stalled_partitions or each.lag_unknown_partitions
        codes = {code for code, _ in each.counted_conditions}
        if any(stops for _, stops in each.counted_conditions) or (waits and codes & {*WAITING}):
            assert health is Health.STOPPED
        elif mirror.lag_is_current and waits and each.state == "running" and not each.resuming_partitions:
            assert health in (Health.UNKNOWN, Health.STOPPED)


@given(st.sampled_from([DECLARED, HOSTED]), _lives())
def test_each_command_is_one_that_the_program_takes_with_the_names_filled_in(
    declared: Topology, live: LiveState
) -> None:
    for cause in verdict_of(declared, live, FOLDER).causes:
        assert cause.text
        assert not re.search(r"\bENV\b|\bFLOW\b", cause.todo), cause
        for words in commands_in(cause.todo, PROGRAM):
            assert {FOLDER, "FOLDER"} & {*words}, cause
            take(PROGRAM, words)
