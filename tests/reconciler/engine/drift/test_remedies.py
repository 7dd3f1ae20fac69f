"""Where a cluster that is not as git declares is behind a condition, its remedy is said, with both values."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.engine.diff import diff
from reconciler.engine.drift.causes import deviations_behind, has_remedy, with_remedies
from reconciler.engine.observe.verdict import verdict_of
from reconciler.model.changes import CreateAcl, Grant, Reason, Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.reports.health import Health, VerdictCause
from reconciler.replication.status import FlowStatus
from tests.support.access.acls import rules as parsed
from tests.support.builders import World, flow, topic, topology, world
from tests.support.documents.live_values import condition

DECLARED = topology(
    topic("orders", "east", partitions=3, replication_factor=1, configs={"max.message.bytes": "1048588"}),
    flow("east", "west", "orders", replication_factor=1),
)
REFUSED = "orders-0 is not copied further: east.orders refuses the record at source offset 494, 80075 bytes: "


def applied(declared: Topology = DECLARED) -> World:
    seen = world("east", "west")
    seen.apply(declared)
    return seen


def told(seen: World, code: str, text: str = REFUSED + "MESSAGE_TOO_LARGE", **place: Any) -> VerdictCause:
    found = condition(code, text, "Compare.", **place)
    job = FlowStatus("east-to-west", "f", "degraded", records_lag=5, conditions=(found,))
    mirror = LiveMirror("west", JobState.RUNNING, "app-1", flows={"east-to-west": job})
    live = LiveState(seen.look(DECLARED).clusters, {"west": mirror})
    verdict = verdict_of(DECLARED, live, "environments/prod")
    findings, _ = diff(DECLARED, live)
    [cause] = [
        c for c in with_remedies(verdict, DECLARED, live, findings.changes, "environments/prod").causes if c.code
    ]
    return cause


def test_a_limit_that_others_lowered_at_the_copy_is_named_with_both_values_and_the_command() -> None:
    seen = applied()
    seen.clusters["west"].topics["east.orders"].overrides["max.message.bytes"] = "50000"
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = "1"
    cause = told(seen, "record_refused", topic="orders", partition=0)
    assert "80075 bytes" in cause.text
    for words in ("west/east.orders max.message.bytes: live", "50000", "git declares", "1048588"):
        assert words in cause.todo
    assert cause.todo.endswith(": reconciler apply environments/prod")
    assert "retention" not in cause.todo, "it refuses no record for its size"


def test_a_limit_that_git_itself_wants_is_to_be_raised_there() -> None:
    cause = told(applied(), "record_refused", topic="orders", partition=0)
    assert cause.todo == (
        "west/east.orders takes 1,048,588 bytes (max.message.bytes), as git has it: raise it there, then "
        "reconciler apply environments/prod"
    )


def test_partitions_that_the_copy_lacks_and_a_copy_that_is_gone_are_named() -> None:
    seen = applied()
    seen.clusters["west"].topics["east.orders"].assignment.pop()
    cause = told(seen, "target_topic_smaller", "orders has 3 partitions", topic="orders")
    assert cause.todo == (
        "west/east.orders: live 2 partitions, git declares 3 partitions: reconciler apply environments/prod"
    )
    del seen.clusters["west"].topics["east.orders"]
    cause = told(seen, "target_topic_missing", "orders is not copied", topic="orders")
    assert "west/east.orders: live no topic, git declares 3 partitions" in cause.todo


def test_a_rule_of_a_topic_whose_name_only_begins_so_is_no_remedy() -> None:
    def behind(*rules: str) -> list[str]:
        cause = VerdictCause(Health.STOPPED, "flow east-to-west", "", "", code="permission_denied", topic="orders")
        grant = Grant("User:mirror: mirror", "declared")
        reason = Reason(Why.DECLARED, "declared")
        missing = [CreateAcl("east", acl, grant, reason) for acl in parsed(*rules)]
        return [each.subject for each in deviations_behind(cause, DECLARED, missing)]

    assert behind("allow User:mirror read topic ord", "allow User:mirror read topic orders.v2") == []
    for rule in ("orders", "ord*", "*"):
        assert len(behind(f"allow User:mirror read topic {rule}")) == 1, rule


@pytest.mark.parametrize("code", ["offsets_diverged", "lane_failed"])
def test_what_drift_does_not_cause_keeps_what_the_job_says(code: str) -> None:
    seen = applied()
    seen.clusters["west"].topics["east.orders"].overrides["max.message.bytes"] = "50000"
    assert told(seen, code, topic="orders", partition=0).todo == "Compare."


def test_nothing_is_compared_where_no_condition_could_come_from_it() -> None:
    live = LiveState(applied().look(DECLARED).clusters, {"west": LiveMirror("west", JobState.ABSENT)})
    assert not has_remedy(verdict_of(DECLARED, live))
