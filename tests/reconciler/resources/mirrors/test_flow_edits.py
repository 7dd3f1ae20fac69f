"""Each edit of a flow says what it does to records, in both directions; no field of the hand-over is forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from reconciler.engine.edits.compare import compare
from reconciler.engine.plan.summary import verdict
from reconciler.model.changes import FlowEdit, RestartMirror, Risk
from reconciler.model.environment.flow_settings import (
    Carry,
    Delivery,
    Groups,
    Isolation,
    MirrorMakerTopics,
    OffsetsKept,
)
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Topology
from reconciler.model.plan import Plan
from reconciler.replication.expressions.record_filter import AddedHeader, read
from reconciler.replication.handover import FlowSettings, Naming, Start
from reconciler.replication.policy import canonical_policy
from reconciler.resources.mirrors.flow_edits import EDITS, UNVERIFIED, flow_edits, mirror_edits
from reconciler.resources.mirrors.handover import flow_handover, mirror_handover
from tests.support.builders import cluster, flow, topic, topology, world

OF = flow("east", "west", "orders", replication_factor=1)
FILTER = read({"timestamp": {"from": 1, "to": None}})

EDITED: Mapping[str, tuple[Flow, Flow]] = {
    "topics": (OF, replace(OF, topics=("orders", "pay"))),
    "exclude_topics": (OF, replace(OF, exclude_topics=("x",))),
    "naming": (OF, replace(OF, naming=Naming("identity", "."))),
    "delivery": (OF, replace(OF, delivery=Delivery.AT_LEAST_ONCE)),
    "isolation": (OF, replace(OF, isolation=Isolation.READ_UNCOMMITTED)),
    "start": (OF, replace(OF, start=Start("latest"))),
    "lanes": (OF, replace(OF, lanes=4)),
    "groups": (OF, replace(OF, groups=Groups(sync_offsets=True))),
    "mirrormaker_topics": (OF, replace(OF, mirrormaker_topics=MirrorMakerTopics(heartbeats=1000))),
    "rate_limit": (OF, replace(OF, rate_limit=1_000_000)),
    "continue_on": (OF, replace(OF, on_condition={"source_truncated": "continue"})),
    "where": (OF, replace(OF, selection=FILTER)),
    "headers": (OF, replace(OF, headers=(AddedHeader("from", "east"),))),
    "provenance": (OF, replace(OF, provenance=Carry.LOCAL)),
    "offsets": (OF, replace(OF, offsets=OffsetsKept.SAME)),
    "filler_limit": (OF, replace(OF, filler_limit=5)),
}
OLD = tuple(map(canonical_policy, ("default-before-4.0", "identity-before-4.0")))
TLS = {"security.protocol": "SSL"}
UNCHECKED = {"ssl.endpoint.identification.algorithm": "none"}
NOT_OF_A_FLOW = {"name", "fingerprint", "moved_from", "source", "target"}


def edits(before: Flow, after: Flow, *others: Cluster) -> list[FlowEdit]:
    def wished(of: Flow) -> Topology:
        return topology(topic("orders"), of, *others)

    return list(flow_edits(flow_handover(wished(before), before), flow_handover(wished(after), after)))


def test_every_field_of_the_hand_over_has_words() -> None:
    assert set(EDITS) == {each.name for each in fields(FlowSettings)}
    assert set(EDITED) == set(EDITS) - NOT_OF_A_FLOW


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_an_edit_says_something_in_both_directions(name: str, back: bool) -> None:
    before, after = EDITED[name][::-1] if back else EDITED[name]
    [edit] = edits(before, after)
    assert edit.flow == "east-to-west"
    assert edit.short
    assert edit.why
    assert edit.setting == {"continue_on": "on_condition"}.get(name, name)


@pytest.mark.parametrize(
    ("name", "back", "risk", "words"),
    [
        ("delivery", False, Risk.HIGH, "stay twice"),
        ("delivery", True, Risk.MEDIUM, "transactions"),
        ("isolation", False, Risk.HIGH, "aborted transactions"),
        ("isolation", True, Risk.MEDIUM, "waits behind"),
        ("naming", False, Risk.HIGH, "copied again"),
        ("where", False, Risk.HIGH, "left out from now on"),
        ("where", True, Risk.MEDIUM, "do not come"),
        ("start", True, Risk.LOW, "copied from their first record"),
        ("start", False, Risk.MEDIUM, "copied from their first record"),
        ("offsets", True, Risk.HIGH, "no way back"),
        ("continue_on", False, Risk.HIGH, "copying continues by itself"),
        ("rate_limit", False, Risk.MEDIUM, "falls behind"),
        ("rate_limit", True, Risk.LOW, "more load"),
        ("groups", True, Risk.MEDIUM, "after a failover"),
        ("provenance", True, Risk.HIGH, "no longer marked"),
    ],
)
def test_what_it_does_to_records_has_its_risk(name: str, back: bool, risk: Risk, words: str) -> None:
    before, after = EDITED[name][::-1] if back else EDITED[name]
    [edit] = edits(before, after)
    assert edit.risk is risk
    assert words in edit.why


@pytest.mark.parametrize(
    ("before", "after", "words", "risk"),
    [
        (Naming("identity", "."), Naming("identity", "-"), "copies keep their names", Risk.MEDIUM),
        (Naming("default", "."), Naming("default", "-"), "copied again", Risk.HIGH),
        (Naming("default", "."), Naming(OLD[0], "."), "not copied any more", Risk.MEDIUM),
        (Naming(OLD[1], "."), Naming("identity", "."), "first record", Risk.MEDIUM),
        (Naming(OLD[1], "."), Naming("default", "."), "copied again", Risk.HIGH),
    ],
)
def test_a_naming_that_keeps_names_copies_nothing_again(before: Naming, after: Naming, words: str, risk: Risk) -> None:
    [edit] = edits(replace(OF, naming=before), replace(OF, naming=after))
    assert (words in edit.why, edit.risk) == (True, risk)


def test_another_pace_of_heartbeats_changes_no_topic() -> None:
    slow, fast = (replace(OF, mirrormaker_topics=MirrorMakerTopics(heartbeats=pace)) for pace in (5000, 1000))
    [edit] = edits(slow, fast)
    assert edit.risk is Risk.LOW


@pytest.mark.parametrize(
    ("before", "after", "short", "risk"),
    [
        ("orders", "orders|pay", "more topics travel", Risk.LOW),
        (r"flights(\..*)?", r"(flights|trains)(\..*)?", "more topics travel", Risk.LOW),
        ("orders|pay", "pay.*|orders", "more topics travel", Risk.LOW),
        ("orders.*", "orders", "fewer topics travel", Risk.MEDIUM),
        ("orders|pay", "[p]ay|orders", "the same topics travel", Risk.LOW),
        ("orders|pay", "orders|log", "other topics travel", Risk.MEDIUM),
        # a word boundary has no automaton: not known
        (r"orders\b.*", r"orders\b.*|pay", "other topics travel", Risk.MEDIUM),
    ],
)
def test_only_topics_that_can_stop_matching_are_warned_of(before: str, after: str, short: str, risk: Risk) -> None:
    [edit] = edits(replace(OF, topics=(before,)), replace(OF, topics=(after,)))
    assert (edit.short, edit.risk) == (short, risk)
    assert ("missing for good" in edit.why) == (risk is Risk.MEDIUM)


def test_an_excluded_expression_that_grows_takes_topics_away() -> None:
    before, after = (
        replace(OF, topics=(".*",), exclude_topics=("a",)),
        replace(OF, topics=(".*",), exclude_topics=("a.*",)),
    )
    assert [edit.short for edit in (*edits(before, after), *edits(after, before))] == [
        "fewer topics travel",
        "more topics travel",
    ]


SYNCED = Groups(sync_offsets=True)


@pytest.mark.parametrize(
    ("before", "after", "setting", "risk", "words"),
    [
        (Start(), Start("again"), "start", Risk.HIGH, "also where the remote topic has it already"),
        (Start("latest"), Start("again"), "start", Risk.HIGH, "also where the remote topic has it already"),
        (Start(), Start("offsets", None, {"orders": {0: 5}}, "again"), "start", Risk.HIGH, "already"),
        (Start("again"), Start(), "start", Risk.LOW, "only while the flow has no position"),
        (Start("again"), Start("latest"), "start", Risk.MEDIUM, "copied from their first record"),
        (Start(), Start("offsets", None, {"orders": {0: 5}}), "start", Risk.MEDIUM, "left out"),
        (Start("offsets", None, {"orders": {0: 5}}), Start(), "start", Risk.LOW, "only while the flow has no position"),
        (SYNCED, replace(SYNCED, follow_rewinds=True), "groups.follow_rewinds", Risk.MEDIUM, "set back on the target"),
        (replace(SYNCED, follow_rewinds=True), SYNCED, "groups.follow_rewinds", Risk.MEDIUM, "does not read again"),
        (SYNCED, replace(SYNCED, both_ways=True), "groups.both_ways", Risk.MEDIUM, "on the source are written over"),
        (replace(SYNCED, both_ways=True), SYNCED, "groups.both_ways", Risk.MEDIUM, "read it again"),
        (SYNCED, replace(SYNCED, interval_ms=90_000), "groups.interval", Risk.LOW, "in the last 90 s"),
        (SYNCED, replace(SYNCED, include=("a",)), "groups", Risk.MEDIUM, "no longer match"),
        (replace(SYNCED, include=("a",)), SYNCED, "groups", Risk.MEDIUM, "those that match now are written over"),
        (SYNCED, replace(SYNCED, include=(".*", "a")), "groups", Risk.LOW, "the same groups match"),
    ],
)
def test_one_setting_of_start_or_groups_has_the_words_of_that_setting(
    before: Start | Groups, after: Start | Groups, setting: str, risk: Risk, words: str
) -> None:
    was, now = (
        replace(OF, groups=each) if isinstance(each, Groups) else replace(OF, start=each) for each in (before, after)
    )
    [edit] = edits(was, now)
    assert (edit.setting, edit.risk) == (setting, risk)
    assert words in edit.why


def test_groups_that_follow_rewinds_from_the_first_say_both() -> None:
    first, second = edits(OF, replace(OF, groups=replace(SYNCED, follow_rewinds=True)))
    assert (first.setting, second.setting) == ("groups", "groups.follow_rewinds")


def test_another_cluster_and_another_address_are_distinguished() -> None:
    [other] = edits(OF, replace(OF, target="north"), cluster("north"), cluster("west"))
    assert (other.setting, other.risk) == ("target", Risk.HIGH)
    old, new = (topology(topic("orders"), OF, cluster("west", bootstrap_servers=(at,))) for at in ("a:1", "b:1"))
    [moved] = flow_edits(flow_handover(old, OF), flow_handover(new, OF))
    assert (moved.setting, moved.risk) == ("target", Risk.MEDIUM)


IDENTITY = replace(OF, naming=Naming("identity", "."))


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("before", "after", "short", "risk"),
    [
        (("a", "ID"), ("a", "OTHER"), "another cluster", Risk.HIGH),
        (("a", "ID"), ("b", "ID"), "has another name", Risk.LOW),
        (("a", ""), ("b", "ID"), "another cluster", Risk.HIGH),
        (("a", ""), ("a", "ID"), None, None),
    ],
)
def test_a_cluster_is_reported_by_its_id_where_it_is_declared(
    side: str, before: tuple[str, str], after: tuple[str, str], short: str | None, risk: Risk | None
) -> None:
    """Two clusters that changed their places in the files were "another address", and a new alias another cluster."""
    entries = []
    for alias, cluster_id in (before, after):
        of = replace(IDENTITY, source=alias) if side == "source" else replace(IDENTITY, target=alias)
        entries.append(flow_handover(topology(topic("orders"), of, cluster(alias, cluster_id=cluster_id)), of))
    found = list(flow_edits(*entries))
    assert [(each.setting, each.risk) for each in found] == ([(side, risk)] if short else [])
    assert all(short in each.short for each in found if short)


def test_another_name_of_a_source_names_other_copies() -> None:
    entries = [
        flow_handover(topology(topic("orders"), of, cluster(of.source, cluster_id="ID")), of)
        for of in (OF, replace(OF, source="oost"))
    ]
    [edit] = flow_edits(*entries)
    assert (edit.risk, "copied again from their first record, into new topics" in edit.why) == (Risk.HIGH, True)


def planned(before: Flow, after: Flow, *, known: bool = True) -> Plan:
    """Of a job that runs with ``before``."""
    seen, was = world("east", "west"), topology(topic("orders", partitions=1), before)
    seen.apply(was)
    previous: dict[str, Any] = {"west": mirror_handover(was, was.mirrors["west"])} if known else {}
    return seen.plan(topology(topic("orders", partitions=1), after), previous=previous)


def test_a_restart_has_the_risk_of_what_it_is_for() -> None:
    made = planned(*EDITED["delivery"])
    [restart] = made.changes
    assert isinstance(restart.change, RestartMirror)
    assert restart.risk == Risk.HIGH
    assert restart.risk_why.startswith("flow east-to-west, delivery: after a crash")
    assert restart.reversibility.startswith("irreversible")
    assert verdict(made) == "1 change: restarts mirror west (records can come twice); 1 HIGH risk"


def test_a_harmless_restart_still_says_so() -> None:
    [restart] = planned(*EDITED["lanes"]).changes
    assert restart.risk == Risk.MEDIUM
    assert restart.risk_why == "copying pauses while the job restarts; no record is lost or doubled"


def test_what_is_not_known_is_not_harmless() -> None:
    [restart] = planned(*EDITED["delivery"], known=False).changes
    assert "no record is lost" not in restart.risk_why
    assert "not known here" in restart.risk_why


USUAL = Mirror("west", ("east-to-west",), metrics_port=9404)


@pytest.mark.parametrize(
    ("after", "setting", "words"),
    [
        (replace(USUAL, metrics_port=0), "metrics_port", "no alert of it fires"),
        (replace(USUAL, metrics_port=9405), "metrics_port", "at port 9405"),
        (replace(USUAL, metrics_host="0.0.0.0"), "metrics_host", "without a login"),
        (replace(USUAL, parallelism=1), "parallelism", "falls behind"),
        (replace(USUAL, refresh_interval_ms=86_400_000), "refresh_interval", "new topics and partitions wait"),
        (replace(USUAL, status_interval_ms=600_000), "status_interval", "last known"),
    ],
)
def test_settings_of_the_mirror_that_do_more_than_restart_it_say_so(after: Mirror, setting: str, words: str) -> None:
    before, now = (mirror_handover(topology(topic("orders"), OF, each), each) for each in (USUAL, after))
    [edit] = mirror_edits(before, now)
    assert (edit.setting, edit.risk) == (setting, Risk.MEDIUM)
    assert words in edit.why
    assert not list(mirror_edits(now, before)) or setting == "metrics_port"


@pytest.mark.parametrize("weaker", [{}, {"security.protocol": "SASL_PLAINTEXT"}, {**TLS, **UNCHECKED}])
def test_a_connection_that_is_verified_no_longer_is_a_high_risk(weaker: dict[str, str]) -> None:
    before, after = (topology(topic("orders"), OF, cluster("east", client=client)) for client in (TLS, weaker))
    [edit] = flow_edits(flow_handover(before, OF), flow_handover(after, OF))
    assert (edit.setting, edit.risk, edit.why) == ("source", Risk.HIGH, UNVERIFIED)
    [back] = flow_edits(flow_handover(after, OF), flow_handover(before, OF))
    assert back.risk is Risk.MEDIUM
    changed = [field for item in compare(before, after).items for field in item.fields]
    assert [field.risk for field in changed] == [Risk.HIGH]
