"""What the gates of a rollout say of clusters and jobs, and the record of what they saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.rollout.waves import GateScope, faults
from reconciler.errors import Unknown
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.replicas import ReassignmentInFlight
from reconciler.model.reports.health import ClusterHealth, Short, Sight, lacks_replicas
from reconciler.model.state.rollout_progress import ClusterRollout, Promotion, SoakState, dumps, loads
from reconciler.replication.status import FlowStatus
from tests.support.documents.live_values import condition, pause

SCOPE = GateScope(("east",), {"west": ("east-to-west",)})


def mirror(**fields: object) -> LiveMirror:
    told = FlowStatus("east-to-west", "f", "running", seconds_lag=1.0, records_lag=3)
    state = fields.pop("state", JobState.RUNNING)
    return LiveMirror("west", state, flows={"east-to-west": replace(told, **fields)})  # type: ignore[arg-type]


def told(gates: Gates, sight: Sight, scope: GateScope = SCOPE) -> list[str]:
    return [str(one) for one in faults(gates, scope, sight)]


WELL = ClusterHealth("east", 3)


@pytest.mark.parametrize(
    ("sight", "words"),
    [
        (Sight({"east": WELL}, {"west": mirror()}), None),
        (Sight({"east": Unknown("cluster east", "no answer")}, {"west": mirror()}), "could not be read: no answer"),
        (Sight({}, {"west": mirror()}), "could not be read"),
        (Sight({"east": replace(WELL, offline=("a-0", "a-1"))}, {"west": mirror()}), "2 offline partitions, at most 0"),
        (Sight({"east": WELL}, {"west": mirror(state=JobState.FAILED)}), "its job is failed"),
        (Sight({"east": WELL}, {"west": Unknown("mirror west", "no answer")}), "its state could not be read"),
        (Sight({"east": WELL}, {"west": mirror(seconds_lag=61.0)}), "61 s behind (3 records), at most 60 s allowed"),
        (Sight({"east": WELL}, {"west": mirror(seconds_lag=None)}), "lag is not known yet"),
        (
            Sight({"east": WELL}, {"west": mirror(seconds_lag=61.0, pauses=(pause(1, 1),))}),
            None,
        ),
        (
            Sight({"east": WELL}, {"west": mirror(conditions=(condition("x", "y"),))}),
            "1 condition stop copying, such as x: y",
        ),
        (Sight({"east": WELL}, {"west": mirror(conditions=(condition("x", "y", stops=False),))}), None),
    ],
)
def test_what_gates_ask(sight: Sight, words: str | None) -> None:
    found = told(Gates(), sight)
    assert len(found) == (words is not None), found
    assert words is None or words in found[0]


def test_a_job_that_hangs_is_not_taken_at_its_last_word() -> None:
    hung = replace(mirror(), late_ms=61_000)
    assert told(Gates(), Sight({"east": WELL}, {"west": replace(hung, late_ms=60_000)})) == []
    (fault,) = told(Gates(), Sight({"east": WELL}, {"west": hung}))
    assert "the report of its job is 61 s late, at most 60 s allowed" in fault
    paused = replace(mirror(pauses=(pause(1, 1),)), late_ms=61_000)
    assert told(Gates(), Sight({"east": WELL}, {"west": paused})) == []


def test_gates_may_be_wider_or_left_out() -> None:
    ill = Sight({"east": replace(WELL, offline=("a-0",))}, {"west": mirror(state=JobState.ABSENT, seconds_lag=99.0)})
    wide = Gates(offline_partitions=1, lag_ms=None, mirrors=MirrorGate.IGNORED)
    assert told(wide, ill) == []
    assert told(Gates(offline_partitions=1), ill, replace(SCOPE, pending=frozenset({"west"}))) == []


def test_a_job_that_does_not_run_has_no_lag_that_counts() -> None:
    """Where mirrors are ignored, the lag gate alone is left to ask for it; its last figure is of another time."""
    gone = Sight({"east": WELL}, {"west": mirror(state=JobState.ABSENT, seconds_lag=1.0)})
    assert told(Gates(mirrors=MirrorGate.IGNORED), gone) == [
        "flow east-to-west: its lag is not known: its job is absent, at most 60 s allowed"
    ]
    assert told(Gates(), gone) == ["mirror west: its job is absent, not running"], "said once"


def test_a_replica_that_is_being_copied_is_not_missing() -> None:
    one = Short("a", 0, (1, 2, 3), (1, 2))
    assert lacks_replicas(one, None)
    assert not lacks_replicas(one, ReassignmentInFlight("a", 0, (1, 2, 3), adding=(3,)))
    assert lacks_replicas(one, ReassignmentInFlight("a", 0, (1, 2, 3), adding=(1,)))


def test_the_record_comes_back_as_it_was_written() -> None:
    one = Promotion("e", 5, "ada", "why", {"east": ClusterRollout("canary", SoakState.SOAKING, 7)})
    assert loads(dumps(one)) == one
    for bad in (b"", b"[]", b"{}", dumps(one).replace(b"soaking", b"boiling"), dumps(one).replace(b":1,", b":2,")):
        with pytest.raises(ValueError, match="no record of a rollout"):
            loads(bad)
