"""After its job runs, a mirror counts as started once its flows copy; others are reported with the remedy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.errors import ClusterError, RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.operations.session.mirror_runners import AT_MOST_S, POLL_S, CopyWait
from reconciler.replication.status import FlowStatus, ReportedCondition
from tests.support.documents.live_values import condition as told
from tests.support.documents.live_values import pause

FLOW = FlowStatus("east-to-west", "f", "running", topics=1, partitions=4)


def condition(code: str, **more: Any) -> ReportedCondition:
    return told(code, f"what {code} says", f"do this about {code}", **more)


def mirror(*flows: FlowStatus, state: JobState = JobState.RUNNING, detail: str = "") -> LiveMirror:
    return LiveMirror("west", state, "app-1", "f", flows={flow.name: flow for flow in flows}, detail=detail)


@dataclass
class Watched:
    """What is seen of the mirror, look after look; the last one stays."""

    looks: list[LiveMirror | Exception]
    now: float = 0.0
    said: list[str] = field(default_factory=list)

    def observe(self, _: str) -> LiveMirror:
        seen = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(seen, Exception):
            raise seen
        return seen

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, started: LiveMirror) -> LiveMirror:
        return CopyWait(self.observe, self.said.append, lambda: self.now, self.sleep).until_copying(started)


@pytest.mark.parametrize(
    "flow",
    [
        FLOW,
        replace(FLOW, partitions=0, topics=0),
        replace(FLOW, state="paused", pauses=(pause(4, 4),), lag_unknown_partitions=4),
        replace(FLOW, conditions=(condition("groups_inexact", stops=False),)),
    ],
    ids=["copies", "no topic yet", "paused", "stops nothing"],
)
def test_what_copies_or_is_meant_not_to_is_not_waited_for(flow: FlowStatus) -> None:
    watched = Watched([RuntimeError("not looked at")])
    watched.run(mirror(flow))
    assert (watched.now, watched.said) == (0.0, [])


def test_lanes_that_have_not_reported_yet_are_waited_for() -> None:
    begins = replace(FLOW, lag_unknown_partitions=4)
    watched = Watched([mirror(replace(FLOW, state="starting")), mirror(begins), mirror(FLOW)])
    assert watched.run(mirror(begins)) == mirror(FLOW)
    assert watched.now <= 2.0


@pytest.mark.parametrize("code", ["lane_failed", "permission_denied", "target_unreachable", "same_cluster"])
def test_a_flow_that_stopped_is_no_start(code: str) -> None:
    stopped = mirror(replace(FLOW, state="degraded", conditions=(condition(code),)))
    with pytest.raises(RunnerError) as raised:
        Watched([stopped]).run(stopped)
    assert raised.value.what == (
        f"mirror west was started, but does not copy: flow east-to-west does not copy: {code}: what {code} says"
    )
    assert raised.value.todo == f"do this about {code}"
    assert f"conditions.md#{code}" in raised.value.why


def test_a_lane_that_failed_and_copies_in_the_end_is_a_start() -> None:
    failed = mirror(replace(FLOW, state="degraded", conditions=(condition("lane_failed"),)))
    watched = Watched([failed, failed, mirror(FLOW)])
    assert watched.run(failed) == mirror(FLOW)
    assert any("lane_failed" in line for line in watched.said) or watched.now < 3.0


def test_lanes_that_fail_again_and_again_copy_nothing_between_two_conditions() -> None:
    """Each new session reports a lag, and no condition."""
    behind = replace(FLOW, records_lag=100, retries=2)
    waits = replace(behind, conditions=(condition("target_unreachable", stops=False),))
    with pytest.raises(RunnerError, match="target_unreachable: what target_unreachable says"):
        Watched([mirror(behind), mirror(waits)]).run(mirror(replace(behind, retries=0)))
    with pytest.raises(RunnerError, match="lane_failed: its lanes failed 2 times, and nothing was copied"):
        Watched([mirror(behind)]).run(mirror(behind))
    copies = mirror(replace(behind, records_total=40))
    watched = Watched([mirror(behind), mirror(waits), copies])
    assert watched.run(mirror(behind)) == copies
    assert watched.now < AT_MOST_S
    held = mirror(replace(behind, pauses=(pause(1, 1),)))
    assert Watched([RuntimeError("not looked at")]).run(held) == held


def test_first_records_are_waited_for_and_none_is_no_failure() -> None:
    behind = mirror(replace(FLOW, records_lag=100, retries=0))
    silent = mirror(replace(FLOW, records_lag=100, retries=3, conditions=(condition("quota_throttled", stops=False),)))
    for seen in (behind, silent):
        watched = Watched([seen])
        assert watched.run(seen) == seen
        assert "whether flow east-to-west copies is not known yet" in watched.said[-1]


@pytest.mark.parametrize(("code", "partitions"), [("position_missing", 4), ("permission_denied", 0)])
def test_a_flow_of_which_every_partition_stalled_does_not_copy(code: str, partitions: int) -> None:
    """Of a topic that the target hides, the job knows no partition."""
    each = condition(code, topic="orders", partition=0)
    told = replace(FLOW, partitions=partitions, stalled_partitions=max(1, partitions))
    stopped = mirror(replace(told, state="degraded", conditions=(each,)))
    with pytest.raises(RunnerError, match=code):
        Watched([stopped]).run(stopped)


@pytest.mark.parametrize("code", ["source_unreachable", "provenance_not_yet_marked", "positions_undecided"])
def test_what_waits_for_others_is_reported_and_fails_nothing(code: str) -> None:
    waits = mirror(replace(FLOW, state="degraded", conditions=(condition(code),), lag_unknown_partitions=4))
    watched = Watched([waits])
    assert watched.run(waits) == waits
    assert f"whether flow east-to-west copies is not known yet; flow east-to-west waits: {code}" in watched.said[-1]
    assert watched.now > AT_MOST_S


@pytest.mark.parametrize("after_s", [30.0, 70.0])
def test_old_positions_are_waited_for_until_their_partitions_copy_or_stop(after_s: float) -> None:
    waits = mirror(replace(FLOW, state="degraded", conditions=(condition("positions_undecided"),)))
    lost = condition("position_missing", topic="orders", partition=0)
    stopped = mirror(replace(FLOW, state="degraded", conditions=(lost,), stalled_partitions=4))
    watched = Watched([*[waits] * int(after_s / POLL_S), mirror(replace(FLOW, state="starting")), stopped])
    with pytest.raises(RunnerError, match="position_missing"):
        watched.run(waits)
    assert watched.now > after_s + AT_MOST_S - 1


def test_a_job_that_crashes_at_once_is_no_start() -> None:
    crashed = mirror(FLOW, state=JobState.STARTING, detail="starts again after a crash: OutOfMemoryError")
    with pytest.raises(RunnerError, match="does not copy: its job is starting: starts again after a crash: OutOf"):
        Watched([crashed]).run(mirror(replace(FLOW, lag_unknown_partitions=4)))


def test_a_status_that_cannot_be_read_is_unknown() -> None:
    watched = Watched([ClusterError("west", "unreachable", "west does not answer")])
    started = mirror(replace(FLOW, lag_unknown_partitions=4))
    assert watched.run(started) == started
    assert "whether it copies is not known: west does not answer" in watched.said[-1]


def test_partitions_that_stopped_at_once_are_named_and_not_waited_for() -> None:
    stopped = (condition("position_foreign", topic="orders", partition=0),)
    flow = replace(FLOW, state="degraded", conditions=stopped, stalled_partitions=1, lag_unknown_partitions=1)
    watched = Watched([RuntimeError("not looked at")])
    watched.run(mirror(flow))
    assert watched.said == [
        "mirror west: flow east-to-west copies 3 of 4 partitions: position_foreign: what position_foreign says. "
        "do this about position_foreign"
    ]
