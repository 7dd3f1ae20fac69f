"""Overrides that no file declares: left alone, counted as drift, or removed; and never a lower limit for a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.drift.causes import differences, drift_exit_code
from reconciler.engine.guards import guarded
from reconciler.engine.plan.build import plan
from reconciler.engine.plan.file import dumps, loads
from reconciler.engine.plan.select import known_part
from reconciler.errors import BlockedError, ExitCode, Unknown
from reconciler.model.changes import AlterConfigs, CreateTopic, Outside
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import Cluster, TopicDefaults, Topology, Undeclared
from reconciler.model.live import LiveState, Source
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import Cause
from reconciler.model.state.last_apply import Consent
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.drift import drift_text
from reconciler.resources.topics.limits import loses_earlier
from tests.support.builders import World, altered, changed, cluster, codes, flow, ids, rules, topic, topology, world


def with_policy(name: str, policy: Undeclared | None) -> Cluster:
    return cluster(name, defaults=TopicDefaults(undeclared=policy))


def edited(**overrides: str) -> World:
    """``orders`` on east, with an override that somebody set by hand."""
    seen = world("east")
    seen.clusters["east"].put("orders", 2).overrides.update(
        {key.replace("_", "."): value for key, value in (overrides or {"retention_ms": "60000"}).items()}
    )
    seen.clusters["east"].put("plain", 1)
    return seen


def declared(policy: Undeclared | None, **fields: Any) -> Topology:
    return topology(with_policy("east", policy), topic("orders", partitions=2, **fields))


@pytest.mark.parametrize("policy", [None, Undeclared.IGNORE])
def test_ignored_it_is_reported_and_counts_nowhere(policy: Undeclared | None) -> None:
    planned = edited().plan(declared(policy))
    assert (planned.changes, planned.outside, rules(planned.ignored)) == ((), (), {"undeclared-override"})
    assert (differences(planned), drift_exit_code(planned)) == ((), ExitCode.DONE)


def test_as_drift_it_counts_and_stays() -> None:
    seen = edited()
    planned = seen.plan(declared(Undeclared.DRIFT))
    assert (planned.changes, planned.ignored, planned.exit_code) == ((), (), ExitCode.DONE)
    [it] = differences(planned)
    assert (it.subject, it.kind, it.found, it.wished, it.cause) == (
        "east/orders retention.ms",
        "undeclared-override",
        "1m",
        "no override",
        Cause.EDITED_OUTSIDE,
    )
    assert drift_exit_code(planned) is ExitCode.CHANGES
    assert "east/orders retention.ms: in no file -> 1m" in plan_text(planned)
    assert "Drift: 1 difference\n" in drift_text(planned)
    assert "Changed outside" not in drift_text(planned), "what is a difference is not told twice"
    assert loads(dumps(planned)) == planned


def test_removed_it_is_a_change_with_its_risk_and_then_the_plan_is_empty() -> None:
    seen, wished = edited(), declared(Undeclared.REMOVE)
    planned = seen.plan(wished)
    change = altered(planned, "east/orders")["retention.ms"]
    assert (change.before, change.after) == ("60000", None)
    assert change.origin == "in no file, and undeclared is remove, falls back to 7d"
    seen.apply(wished, planned)
    assert seen.plan(wished).changes == ()
    assert seen.clusters["east"].topics["orders"].overrides == {}


def test_taking_off_a_longer_retention_is_high_risk() -> None:
    planned = edited(retention_ms="6048000000").plan(declared(Undeclared.REMOVE))
    assert [(one.risk, "retention.ms 70d -> 7d" in one.risk_why) for one in planned.changes] == [("high", True)]


def test_the_strongest_layer_decides_and_throttles_are_never_meant() -> None:
    seen = edited(retention_ms="60000", leader_replication_throttled_replicas="0:1")
    wished = declared(Undeclared.REMOVE, undeclared=Undeclared.IGNORE)
    assert seen.plan(wished).changes == ()
    wished = declared(Undeclared.IGNORE, undeclared=Undeclared.REMOVE)
    assert altered(seen.plan(wished), "east/orders").keys() == {"retention.ms"}


def test_a_class_gives_the_policy_to_its_topics() -> None:
    wished = declared(None, class_name="kept")
    rules = replace(wished.rules, classes={"kept": TopicDefaults(undeclared=Undeclared.DRIFT)})
    assert [one.kind for one in edited().plan(replace(wished, rules=rules)).outside] == [Outside.UNDECLARED]


def test_what_could_not_be_read_is_not_called_free_of_overrides() -> None:
    seen = edited()
    live = seen.look(declared(None)).known("east")
    assert live is not None
    blind = replace(live.topics["orders"], configs=Unknown("configs", "denied"))
    unread = LiveState({"east": replace(live, topics={"orders": blind})}, {})
    for policy, told in ((Undeclared.IGNORE, set()), (Undeclared.DRIFT, {"configs-unreadable"})):
        planned = plan(declared(policy), unread)
        assert ({one.rule for one in planned.ignored}, planned.unknown) == (told, ())
    removing = plan(declared(Undeclared.REMOVE), unread)
    assert [one.subject for one in removing.unknown] == ["east/orders configs"]


# what a copy is given


def mirrored(**source: str) -> World:
    """``orders`` declared on east, its copy on west as an apply left it, then a hand on the source."""
    seen = world()
    for side, name in (("east", "orders"), ("west", "east.orders")):
        seen.clusters[side].put(name, 2)
        seen.clusters[side].put("plain", 1)
    seen.clusters["east"].topics["orders"].overrides.update({key.replace("_", "."): v for key, v in source.items()})
    return seen


def flowing(sync: ConfigSync | None = None, policy: Undeclared | None = None, **fields: Any) -> Topology:
    carried = flow("east", "west", "orders", configs=sync or ConfigSync())
    return topology(with_policy("east", policy), topic("orders", partitions=2, **fields), carried)


COPY = "west/east.orders"


def limited(planned: Plan) -> list[str]:
    return [str(one.subject) for one in planned.refused if one.reason.code == "undeclared-lower-limit"]


@pytest.mark.parametrize("policy", [None, Undeclared.IGNORE, Undeclared.DRIFT])
def test_a_lower_limit_that_is_in_no_file_is_named_and_blocked(policy: Undeclared | None) -> None:
    seen = mirrored(retention_ms="60000")
    planned = seen.plan(flowing(policy=policy))
    assert limited(planned) == [f"{COPY} retention.ms"]
    assert planned.exit_code is ExitCode.BLOCKED
    text = planned.refused[0].reason.text
    assert (
        f"{COPY} retention.ms would go from 7d to 1m, as east/orders has it, and the source's value is in no file"
        in text
    )
    assert altered(planned, COPY)["retention.ms"].undeclared
    assert "retention.ms: 7d (broker default) -> 1m (source east/orders, in no file)" in plan_text(planned)
    with pytest.raises(BlockedError):
        seen.apply(flowing(policy=policy), planned)
    assert seen.clusters["west"].topics["east.orders"].overrides == {}
    assert "configs:west/east.orders" not in ids(known_part(planned).plan)
    assert loads(dumps(planned)) == planned


def test_where_the_source_is_cleaned_the_copy_has_nothing_to_follow() -> None:
    seen, wished = mirrored(retention_ms="60000"), flowing(policy=Undeclared.REMOVE)
    planned = seen.plan(wished)
    assert "configs:east/orders" in ids(planned)
    assert (limited(planned), altered(planned, COPY)) == ([], {})
    seen.apply(wished, planned)
    assert [one for one in seen.plan(wished).changes if isinstance(one.change, AlterConfigs)] == []


def test_agreed_to_it_is_carried() -> None:
    seen, wished = mirrored(retention_ms="60000"), flowing()
    planned = seen.plan(wished)
    agreed = guarded(planned, wished, seen.look(wished), None, Consent(first_contact=True, lower_limits=True))
    assert agreed.refused == ()
    seen.apply(wished, agreed)
    assert seen.clusters["west"].topics["east.orders"].overrides == {"retention.ms": "60000"}
    assert seen.plan(wished).changes == ()


def test_a_flow_may_say_once_that_limits_of_others_are_followed() -> None:
    planned = mirrored(retention_ms="60000").plan(flowing(ConfigSync(carry_undeclared_limits=True)))
    assert (limited(planned), altered(planned, COPY)["retention.ms"].undeclared) == ([], False)


@pytest.mark.parametrize(
    ("overrides", "blocked"),
    [
        ({"retention_ms": "6048000000"}, False),
        ({"retention_bytes": "1000"}, True),
        ({"max_message_bytes": "1000"}, True),
        ({"max_message_bytes": "9000000"}, False),
        ({"delete_retention_ms": "1"}, True),
        ({"cleanup_policy": "compact"}, True),
        ({"max_compaction_lag_ms": "1"}, True),
        ({"segment_ms": "1"}, False),
        ({"compression_type": "zstd"}, False),
    ],
)
def test_only_what_loses_or_refuses_records_earlier_is_blocked(overrides: dict[str, str], blocked: bool) -> None:
    planned = mirrored(**overrides).plan(flowing())
    assert bool(limited(planned)) is blocked
    assert len(altered(planned, COPY)) == 1


def test_a_declared_value_is_carried_as_ever() -> None:
    for wished in (flowing(configs={"retention.ms": "60000"}), flowing()):
        if not wished.topics["orders"].configs:
            east = replace(wished.clusters["east"], defaults=TopicDefaults(configs={"retention.ms": "60000"}))
            wished = replace(wished, clusters={**wished.clusters, "east": east})
        planned = mirrored().plan(wished)
        assert limited(planned) == []
        assert altered(planned, COPY)["retention.ms"].after == "60000"


def test_a_dynamic_default_of_the_source_cluster_is_in_no_file_either() -> None:
    seen = mirrored()
    seen.clusters["east"].broker_configs = {"retention.ms": ("60000", Source.CLUSTER)}
    assert limited(seen.plan(flowing())) == [f"{COPY} retention.ms"]


def test_the_copy_of_a_copy_is_blocked_as_well() -> None:
    seen = world("a", "b", "c")
    for where, name in (("a", "orders"), ("b", "a.orders"), ("c", "b.a.orders")):
        seen.clusters[where].put(name, 2)
        seen.clusters[where].put("plain", 1)
    seen.clusters["a"].topics["orders"].overrides["retention.ms"] = "60000"
    planned = seen.plan(topology(topic("orders", "a"), flow("a", "b", "orders"), flow("b", "c", "a.orders")))
    assert sorted(limited(planned)) == ["b/a.orders retention.ms", "c/b.a.orders retention.ms"]


def test_a_copy_that_is_yet_to_be_made_does_not_begin_with_such_a_limit() -> None:
    seen = mirrored(retention_ms="60000")
    del seen.clusters["west"].topics["east.orders"]
    planned = seen.plan(flowing())
    assert limited(planned) == [f"{COPY} retention.ms"]
    assert "would be 1m" in planned.refused[0].reason.text
    assert changed(planned, CreateTopic)[COPY].configs[0].undeclared
    of_others = topology(flow("east", "west", "orders"))
    assert codes(seen.plan(of_others)) == set(), "a source that others look after is followed from the beginning"


def test_an_override_of_the_copy_itself_goes_as_ever() -> None:
    """It was set on the copy, and nothing of the source is carried."""
    seen = mirrored()
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = "6048000000"
    planned = seen.plan(flowing())
    assert limited(planned) == []
    assert altered(planned, COPY)["retention.ms"].after is None


def test_the_cause_of_a_copy_that_differs_is_the_hand_on_its_source() -> None:
    planned = mirrored(max_message_bytes="1000").plan(flowing())
    [it] = [one for one in differences(planned) if one.subject.startswith(COPY)]
    assert it.cause is Cause.EDITED_OUTSIDE
    assert "source east/orders" in it.why
    assert "in no file" in it.why
    higher = mirrored(max_message_bytes="9000000").plan(flowing())
    assert [one.cause for one in differences(higher) if one.subject.startswith(COPY)] == [Cause.UNDETERMINED]


@pytest.mark.parametrize(
    ("key", "before", "after", "loses"),
    [
        ("retention.ms", "-1", "60000", True),
        ("retention.ms", "60000", "-1", False),
        ("retention.ms", "60000", None, True),
        ("cleanup.policy", "compact,delete", "compact", False),
        ("cleanup.policy", "compact", "compact,delete", True),
        ("min.insync.replicas", "1", "2", True),
        ("min.insync.replicas", "2", "1", False),
        ("unclean.leader.election.enable", "false", "true", True),
        ("message.timestamp.before.max.ms", "9223372036854775807", "60000", True),
        ("segment.bytes", "2", "1", False),
    ],
)
def test_what_loses_records_earlier(key: str, before: str | None, after: str | None, loses: bool) -> None:
    assert loses_earlier(key, before, after) is loses


def test_where_no_source_leads_no_one_knows_which_overrides_belong_to_a_remote_topic() -> None:
    seen = world()
    seen.clusters["east"].put("orders", retention_ms="60000")
    seen.clusters["west"].put("east.orders", retention_ms="60000")
    policy = with_policy("west", Undeclared.REMOVE)
    off = topology(policy, flow("east", "west", "orders", configs=ConfigSync(enabled=False)))
    assert altered(seen.plan(off), COPY) == {}
    kept_out = topology(policy, flow("east", "west", "orders", configs=ConfigSync(exclude=("retention.*",))))
    assert altered(seen.plan(kept_out), COPY)["retention.ms"].after is None
