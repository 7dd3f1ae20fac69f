"""Decisions of a cut-over: the fence, what stops it, what is stale, which plan goes on; its files and pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.engine.plan.file import PlanfileError
from reconciler.environment.load import load
from reconciler.errors import BlockedError, ExitCode, ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow
from reconciler.model.principals import Unsupported
from reconciler.model.reports.cutover import (
    CutoverPlan,
    CutoverReport,
    CutoverSettings,
    FenceChosen,
    GroupSeen,
    MemberSeen,
    ProducerSeen,
    TopicSeen,
)
from reconciler.model.reports.failover import FailoverCheck, FailoverStep, Level, StepResult, Way
from reconciler.model.schemas import schema
from reconciler.model.state import cutover_journal
from reconciler.model.state.cutover_journal import CutoverState, cutover_key
from reconciler.operations.cutover.decide import (
    checks_of_fence,
    checks_of_left_out,
    checks_of_names,
    checks_of_offsets,
    checks_of_others,
    checks_of_probe,
    checks_of_topics,
    estimated_stop_s,
    fence_of,
    moved_since,
    of_failover,
    steps_of,
)
from reconciler.operations.cutover.plan import CutoverRequest, chosen_names, others
from reconciler.operations.cutover.run import exit_code, journal_of
from reconciler.operations.cutover.steps import fresh_journal
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.fence import written_by_mirrors
from reconciler.render.cutover import PLAN_FILE, page_in, plan_page, report_document, report_page
from reconciler.render.markup import Format
from reconciler.resources.acls.derive_from_flows import denial, mirror_principals
from tests.support.access.acls import rules
from tests.support.builders import flow, topology

MOVE = move_of(topology(flow("east", "west", "orders"), flow("west", "east", "orders")), Way.FAILOVER, "east-to-west")
TOPIC = TopicSeen(
    "orders", "east.orders", "id", 3, 120, 40.0, 80.0, ("User:shop",), (ProducerSeen("orders", 0, 7, 1, 5, "shop-tx"),)
)
GROUP = GroupSeen("billing", "classic", (MemberSeen("app", "/10.0.0.1"),), 3, 0, 0, True, 0)


def plan(**changes: object) -> CutoverPlan:
    made = CutoverPlan(
        "prod", "east-to-west", "east", "west", "", "", CutoverSettings(), 0, {"east": "e", "west": "w"}, "flow",
        (TOPIC,), (GROUP,), {"scores": "is a share group"}, FenceChosen(frozenset({denial("orders")})), "west-to-east",
        (FailoverCheck("origin", Level.FINE, "east answers"),), (), 11.0, (), {"switch": "runs /opt/hooks/dns"},
    )  # fmt: skip
    made = replace(made, **changes)  # type: ignore[arg-type]
    return replace(made, steps=tuple(steps_of(made)))


def test_a_fence_is_for_everyone_unless_it_would_stop_a_mirror() -> None:
    standing = frozenset(
        rules(
            "allow User:shop write topic orders",
            "allow User:etl all topic ord*",
            "allow User:reader read topic orders",
            "allow User:mirror write topic orders",
        )
    )
    assert fence_of(["orders"], standing, "east", {}, {"User:mirror"}).rules == {denial("orders")}
    spared = fence_of(["orders"], standing, "east", {"orders": "west-to-east"}, {"User:mirror"})
    assert spared.rules == {denial("orders", "User:shop"), denial("orders", "User:etl")}
    assert spared.spared == ("User:mirror",)
    mixed = fence_of(["orders", "bills"], standing, "east", {"orders": "back"}, {"User:mirror"})
    assert mixed == replace(spared, rules=spared.rules | {denial("bills")}), "no mirror writes the other"
    anyone = fence_of(
        ["orders"], standing | rules("allow User:* write topic *"), "east", {"orders": "back"}, {"User:mirror"}
    )
    assert not anyone.rules
    assert "would stop both" in anyone.obstacle
    alone = frozenset(rules("allow User:ANONYMOUS write topic *"))
    shared = fence_of(["orders"], alone, "east", {"orders": "back"}, {"User:ANONYMOUS"})
    assert not shared.rules
    assert "no rule lets anyone but User:ANONYMOUS write there" in shared.obstacle
    unnamed = fence_of(["orders"], standing, "east", {"orders": "back"}, ())
    assert not unnamed.rules
    assert "not known here" in unnamed.obstacle
    assert 'Add to access: {role: mirror, principal: "User:..."}' in unnamed.obstacle


def test_a_fence_names_and_spares_principals_by_the_subjects_of_their_certificates() -> None:
    shop, mirror = "User:CN=shop,OU=a b,O=Ünder Cover", "User:CN=mirror,O=Ünder Cover"
    standing = frozenset(rules("allow User:shop write topic orders"))
    (one,) = standing
    standing = frozenset(replace(one, principal=each) for each in (shop, mirror))
    secured = """
clusters:
  east: {bootstrap_servers: ['e:1'], client: {security.protocol: SSL}}
  west: {bootstrap_servers: ['w:1'], client: {security.protocol: SSL}}
flows:
  there: {source: east, target: west, topics: [orders], naming: {policy: identity}, provenance: local}
  back: {source: west, target: east, topics: [orders], naming: {policy: identity}, provenance: local}
access:
"""
    entry = f'  - {{role: mirror, principal: "{mirror}", flows: [back]}}\n'
    spared = mirror_principals(load({"e.yaml": secured + entry}, "e"), "east")
    fence = fence_of(["orders"], standing, "east", {"orders": "back"}, spared)
    assert fence == FenceChosen(frozenset({denial("orders", shop)}), (mirror,))


@pytest.mark.parametrize("read", [Unsupported("the cluster has no authorizer"), Unknown("access", "no right", "Allow")])
def test_where_rules_cannot_be_had_there_is_no_fence_and_it_is_said(read: Unsupported | Unknown) -> None:
    chosen = fence_of(["orders"], read, "east", {}, {"User:mirror"})
    assert not chosen.rules
    [check] = checks_of_fence(chosen, MOVE, read, ["orders"])
    assert check.level is Level.WARNS
    assert "Stop the producers yourself" in check.todo
    assert plan(fence=chosen).steps[0].text.startswith("no fence: ")


def test_limits_of_a_fence_are_reported_before() -> None:
    standing = frozenset(rules("allow User:shop write topic orders"))
    chosen = fence_of(["orders", "bare"], standing, "east", {}, {"User:mirror"})
    checks = checks_of_fence(chosen, MOVE, standing, ["orders", "bare"])
    codes = {check.code: check.text for check in checks}
    assert "super users of east" in codes["fence-limits"]
    assert "anything on bare" in codes["bare-topics"]


def test_flows_that_a_cut_over_cuts_off_are_named_with_their_topics() -> None:
    """Three regions and a hub: what third clusters bring to the origin, and what else is copied from there."""
    there, back = flow("east", "west", "orders", r"north\.orders"), flow("west", "east", "orders")
    to_hub, from_north = flow("east", "hub", "orders"), flow("north", "east", "orders")
    topics = [TOPIC, replace(TOPIC, topic="north.orders", copy="east.north.orders")]

    def told(*flows: Flow) -> dict[str, str]:
        declared = topology(there, *flows)
        move = move_of(declared, Way.FAILOVER, "east-to-west")
        writers = written_by_mirrors(declared, "east", [each.topic for each in topics])
        checks = checks_of_others(*others(declared, move, topics, writers), move)
        return {check.code: check.text for check in checks}

    assert told(back) == {}
    assert "flow east-to-hub copies orders from east, too: what clients write on west" in told(to_hub)["other-flows"]
    assert "other-flows" in told(to_hub, back), "it comes back as west.orders, which does not go on to the hub"
    assert not told(flow("east", "hub", "orders", r"west\.orders"), back)
    assert not told(to_hub, flow("west", "hub", "orders"))
    brought = "flow north-to-east brings north.orders to east: what it brings once east-to-west is paused"
    assert brought in told(from_north)["filled-topics"]


def test_a_mirror_that_does_not_copy_stops_a_cut_over() -> None:
    checks = (
        FailoverCheck("job", Level.WARNS, "the mirror is stopped"),
        FailoverCheck("paused", Level.WARNS, "ann paused it"),
        FailoverCheck("condition", Level.WARNS, "orders-0 is not copied", "Run reconciler apply ENV."),
        FailoverCheck("lag", Level.STOPS, "9 offsets are not copied", "Let it run, or pass --accept-loss"),
        FailoverCheck("members-origin", Level.WARNS, "3 members"),
        FailoverCheck("members-destination", Level.WARNS, "1 member"),
    )
    counted = {check.code: check for check in of_failover(checks, "east-to-west", some=False)}
    levels = {code: check.level for code, check in counted.items()}
    assert levels == {
        "job": Level.STOPS, "paused": Level.STOPS, "condition": Level.STOPS, "lag": Level.STOPS,
        "members-destination": Level.WARNS,
    }  # fmt: skip
    assert "reconciler mirror start ENV east-to-west" in counted["job"].todo
    assert "reconciler mirror resume ENV east-to-west" in counted["paused"].todo
    assert counted["condition"].todo == "Run reconciler apply ENV.", "the condition's own words"
    assert "--accept-loss" not in counted["lag"].todo, "a cut-over has no such option"


def test_a_probe_that_could_not_write_before_proves_nothing() -> None:
    allowed = [("orders", 0), ("orders", 1)]
    assert not list(checks_of_probe({"orders": 2}, allowed, "User:app", "east"))
    (check,) = checks_of_probe({"orders": 3, "bills": 1, "empty": 0}, allowed, "User:app", "east")
    assert (check.code, check.level) == ("probe", Level.WARNS)
    assert "User:app, the probe of east, may not write bills, orders now either" in check.text


LABELLED = """
clusters: {east: {bootstrap_servers: ['e:1']}, west: {bootstrap_servers: ['w:1']}}
topics:
  orders.eu: {clusters: [east], labels: {owner: shop}}
  orders: {clusters: [east, west], labels: {owner: shop}}
  bills: {clusters: [east], labels: {owner: money}}
  theirs: {clusters: [west], labels: {owner: shop}}
flows: {east-to-west: {source: east, target: west, topics: ['orders.*']}}
"""


def test_a_wave_is_chosen_by_label_or_by_a_file(tmp_path: Path) -> None:
    named, settings = load({"a.yaml": LABELLED}, "prod"), CutoverSettings()
    move = move_of(named, Way.FAILOVER, "east-to-west")

    def chosen(**choice: Any) -> list[str]:
        return chosen_names(named, move, CutoverRequest("east-to-west", settings, **choice))

    assert chosen() == []
    assert chosen(topics="or.*") == []
    assert chosen(label="owner=shop") == ["orders", "orders.eu"]
    (file := tmp_path / "wave").write_text("orders\r\n\n  bills \norders\n")
    assert chosen(names=file) == ["bills", "orders"]
    (tmp_path / "empty").write_text("\n")
    for choice, words in (
        ({"label": "owner=shop", "topics": "or.*"}, "exclude each other"),
        ({"label": "shop"}, "is no KEY=VALUE"),
        (
            {"label": "owner=nobody"},
            "declared with owner=nobody.*Values of owner there: money, shop",
        ),
        ({"label": "team=a"}, "No topic of east has team at all"),
        ({"names": tmp_path / "absent"}, "cannot be read"),
        ({"names": tmp_path / "empty"}, "names no topic"),
    ):
        with pytest.raises(ReconcilerError) as error:
            chosen(**choice)
        assert re.search(words, str(error.value), re.DOTALL), error.value
    (check,) = checks_of_names(["bills"], move)
    assert (check.code, check.level) == ("names", Level.WARNS)
    assert "east-to-west does not carry bills, chosen by name: it stays where it is" in check.text
    assert not list(checks_of_names([], move))


def test_open_transactions_and_topics_that_producers_lack_are_reported() -> None:
    codes = {check.code: check.text for check in checks_of_topics([TOPIC], {"east.orders"}, ["east.orders"], MOVE)}
    assert "shop-tx in orders-0 from 5 on" in codes["transactions"]
    assert "west has no topic orders" in codes["producer-topics"]
    assert "shared-topics" in codes
    assert [check.code for check in checks_of_topics([], set(), [], MOVE)] == ["topics"]


def test_positions_that_no_group_has_are_reported_where_copies_have_other_offsets() -> None:
    [check] = checks_of_offsets(MOVE)
    assert check.level is Level.WARNS
    assert "outside of Kafka (databases, checkpoints of Flink or Spark) are of east" in check.text
    assert "offsets translate says" in check.todo


def test_groups_that_stay_behind_are_named() -> None:
    [check] = checks_of_left_out({"connect-sink": "excluded", "etl": "not chosen by --groups"}, MOVE)
    assert check.level is Level.WARNS
    assert "2 groups read these topics and are not moved: connect-sink (a connector of Kafka Connect, exc" in check.text
    assert not list(checks_of_left_out({}, MOVE))


def test_the_estimate_follows_lag_and_rate() -> None:
    settings = CutoverSettings(hold_s=5)
    assert estimated_stop_s([replace(TOPIC, left=90)], settings) == 11.0
    assert estimated_stop_s([replace(TOPIC, left=8_000)], settings) == 110.0
    assert estimated_stop_s([replace(TOPIC, left=8_000, copy_rate=0.0)], settings) is None
    assert estimated_stop_s([replace(TOPIC, left=None)], settings) is None


def test_changes_since_the_plan_are_reported_with_both_values() -> None:
    assert not list(moved_since(plan(), replace(plan(), stop_s=99.0, made_ms=7)))
    now = plan(
        clusters={"east": "other", "west": "w"}, flow_digest="changed",
        topics=(replace(TOPIC, partitions=4), replace(TOPIC, topic="fresh")),
        groups=(replace(GROUP, group="late"),), fence=FenceChosen(obstacle="no authorizer"),
        hooks={"switch": "runs /opt/hooks/other"},
    )  # fmt: skip
    moved = {each.subject: (each.before, each.after) for each in moved_since(plan(), now)}
    assert moved["cluster east"] == ("e", "other")
    assert moved["topic orders"] == ("3 partitions id id", "4 partitions id id")
    assert moved["topic fresh"][0] == "absent"
    assert moved["group billing"] == ("classic", "absent")
    assert moved["fence"] == (str(denial("orders")), "no authorizer")
    assert moved["hook switch"] == ("runs /opt/hooks/dns", "runs /opt/hooks/other")
    assert "flow east-to-west" in moved


def test_a_plan_goes_on_with_its_own_journal_and_beside_no_other() -> None:
    mine = fresh_journal(plan(), "mine", "ann", 0)
    assert journal_of(plan(), "mine", ()) is None
    assert journal_of(plan(), "mine", [mine]) is mine
    assert journal_of(plan(), "mine", [replace(mine, state=CutoverState.TAKEN_BACK)]) is None
    assert journal_of(plan(), "other", [replace(mine, state=CutoverState.DONE)]) is None
    with pytest.raises(BlockedError, match="flow east-to-west: it has come to step none, by plan mine"):
        journal_of(replace(plan(), groups_expression="b.*"), "other", [mine])
    beside = replace(mine, flow="east-to-hub", plan="theirs")
    with pytest.raises(BlockedError, match="a cut-over of east-to-hub by ann is under way and moves orders"):
        journal_of(plan(), "mine", [beside])
    assert journal_of(plan(), "mine", [replace(beside, topics=("prices",))]) is None
    assert journal_of(plan(), "mine", [replace(beside, origin="south")]) is None
    back = replace(mine, flow="west-to-east", origin="west", plan="theirs", topics=("east.orders",))
    assert journal_of(plan(), "mine", [back]) is None
    with pytest.raises(BlockedError, match=r"a cut-over of west-to-east by ann is under way and moves east\.orders"):
        journal_of(plan(), "mine", [back], ["west-to-east"])
    assert journal_of(plan(), "mine", [replace(back, topics=("prices",))], ["west-to-east"]) is None
    waves = [replace(mine, plan=name, state=CutoverState.DONE) for name in ("first", "mine", "last")]
    assert journal_of(plan(), "mine", waves) == waves[1], "a later wave hides none"
    assert len({cutover_key("prod", wave.flow, wave.plan) for wave in waves}) == 3


def test_a_plan_of_the_same_choice_goes_on_where_the_file_is_lost() -> None:
    of_some = replace(plan(), topics_expression="orders|o'1")
    journal = fresh_journal(of_some, "lost", "ann", 0)
    assert journal_of(of_some, "anew", [journal]) is journal
    assert journal_of(of_some, "anew", [replace(journal, state=CutoverState.DONE)]) is None
    others = (
        plan(),
        replace(of_some, groups_expression="billing"),
        replace(of_some, topics=(replace(TOPIC, topic="o"),)),
    )
    for another in others:
        with pytest.raises(BlockedError) as refused:
            journal_of(another, "anew", [journal])
        assert "cutover plan ENV east-to-west --topics 'orders|o'\"'\"'1' --out FILE" in refused.value.todo
    own = replace(journal, plan="anew", state=CutoverState.DONE)
    with pytest.raises(BlockedError, match="by plan lost"):
        journal_of(of_some, "anew", [journal, own])


def test_the_release_before_reads_a_journal_with_an_added_field() -> None:
    """It reads every journal, also of cut-overs that are done: one field more would keep it from all others."""
    journal = fresh_journal(plan(), "mine", "ann", 0)
    document = json.loads(cutover_journal.dumps(journal)) | {"added": 1}
    assert cutover_journal.loads(json.dumps(document).encode()) == journal
    with pytest.raises(ValueError, match="format version 2"):
        cutover_journal.loads(json.dumps(document | {"format_version": 2}).encode())


def test_a_plan_file_is_read_back_and_no_other() -> None:
    text = PLAN_FILE.dumps(plan())
    assert PLAN_FILE.loads(text) == plan()
    jsonschema.validate(json.loads(text), schema("cutover-plan"))
    assert json.loads(text)["digest"] == PLAN_FILE.digest(plan())
    for broken in (text.replace("orders", "others"), text[:-9], "[]", "{}", '{"kind": "cutoverplan"}'):
        with pytest.raises(PlanfileError):
            PLAN_FILE.loads(broken)


REPORT = CutoverReport(
    "apply", plan(), (FailoverStep("fence", StepResult.DONE, "1 deny rule made"),), (), (GROUP,), 6.5, 9.0
)


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (REPORT, ExitCode.DONE),
        (replace(REPORT, findings=("written behind the fence",)), ExitCode.PARTIAL),
        (replace(REPORT, groups=(replace(GROUP, note="it has members there"),)), ExitCode.PARTIAL),
        (replace(REPORT, steps=(*REPORT.steps, FailoverStep("drain", StepResult.FAILED, "a\nb"))), ExitCode.PARTIAL),
        (replace(REPORT, steps=(FailoverStep("before", StepResult.FAILED, "a"),), untouched=True), ExitCode.ERROR),
        (replace(REPORT, steps=(FailoverStep("verify-fence", StepResult.FAILED, "a"),)), ExitCode.PARTIAL),
        (CutoverReport("rollback", plan(), (), own={"orders-0": 4}), ExitCode.BLOCKED),
        (CutoverReport("rollback", plan(), ()), ExitCode.DONE),
        (CutoverReport("apply", plan(), ()), ExitCode.DONE),
    ],
)
def test_a_report_has_an_exit_code_and_a_document(report: CutoverReport, code: ExitCode) -> None:
    assert exit_code(report) is code
    jsonschema.validate(json.loads(report_document(report, int(code))), schema("cutover"))
    text, *others = (page_in(form, report_page(report), str) for form in (Format.TEXT, Format.MARKDOWN, Format.HTML))
    assert all((text, *others))
    if report.own:
        assert "has 4 records of its own in orders-0: this is a failback" in text
    if not report.steps and not report.own:
        done = {"apply": "by this plan is done", "rollback": "by this plan is to be taken back"}
        assert done[report.command] in text


def test_a_plan_shows_who_writes_who_reads_and_the_way_back_of_each_step() -> None:
    text = page_in(Format.TEXT, plan_page(plan()), str)
    for part in (
        "Would move 1 topic and 1 group from east to west: 0 records read again, 0 missed; writes stop for about 11 s",
        "shop-tx", "may write by rules: User:shop", "1 member: app /10.0.0.1", "scores is a share group",
        "deny User:* write on topic orders", "clients get the address of west: runs /opt/hooks/dns",
        "back by cutover rollback",
    ):  # fmt: skip
        assert part in text, part
    assert "**Would move" in page_in(Format.MARKDOWN, plan_page(plan()), str)
    assert "<h1>Would move" in page_in(Format.HTML, plan_page(plan()), str)


def test_some_topics_are_not_cut_over_under_a_pause_of_the_whole_flow() -> None:
    """Seen: 1,216 of 1,216 offsets were left after the patience of the drain, with producers off."""
    checks = [FailoverCheck("lag", Level.WARNS, "1,216 offsets are not copied and nothing copies them")]
    assert [check.level for check in of_failover(checks, "f", some=True)] == [Level.STOPS]
    assert [check.level for check in of_failover(checks, "f", some=False)] == [Level.WARNS], "a whole flow is resumed"
