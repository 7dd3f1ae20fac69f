"""Effects of a plan on rights: losses are reported and weighed, no principal locks itself out, nothing is invented."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.file import dumps, loads
from reconciler.engine.plan.select import without
from reconciler.errors import ExitCode
from reconciler.model.changes import CreateAcl, DeleteAcl, Risk
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan, ReadingGroup, Stakes
from reconciler.model.principals import Operation, Permission, ResourceType
from reconciler.render.plan.markdown import plan_markdown
from reconciler.render.plan.text import plan_text
from reconciler.resources.acls.authorizer.after_plan import MOST, lost_to_readers, with_readers
from tests.support.access.acls import rules
from tests.support.access.secured import PLAIN, ROLES, SECURE, env, ran, secured
from tests.support.builders import world


def told(plan: Plan) -> list[str]:
    return [
        f"{'+' if one.gained else '-'} {one.cluster} {one.principal} {','.join(one.operations)} "
        f"{one.resource} {','.join((*one.patterns, *one.names))}"
        for one in plan.shifts
    ]


def lock_outs(plan: Plan) -> list[str]:
    return [one.reason.text for one in plan.refused if one.reason.code == "locks-itself-out"]


def test_lost_rights_come_before_gained_ones_in_every_format() -> None:
    seen = world()
    seen.clusters["east"].put("pay.in")
    seen.clusters["east"].put("pay.out")
    seen.clusters["east"].acls |= rules("allow User:a read topic pay.*")
    wished = """
access:
  - {principal: "User:a", clusters: [east], resource: topic, names: [{prefix: pay.}], operations: [read], absent: true}
  - {role: producer, principal: "User:b", clusters: [east], topics: [pay.in]}
"""
    planned = seen.plan(env(PLAIN, wished))
    assert told(planned) == [
        "- east User:a describe,read topic pay.*,pay.in,pay.out",
        "+ east User:b describe,write topic pay.in",
    ]
    lines = [
        "east: User:a loses read on topic pay.* (now pay.in, pay.out)",
        "east: User:b gains write on topic pay.in",
    ]
    text, comment = plan_text(planned), plan_markdown(planned)
    for one in lines:
        assert one in text
    assert "User:a loses read" in comment
    assert text.index(lines[0]) < text.index(lines[1])
    assert loads(dumps(planned)) == planned
    assert json.loads(dumps(planned))["shifts"][0]["gained"] is False


def test_what_other_rules_still_allow_is_no_loss_and_no_risk() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls |= rules("allow User:a read topic orders", "allow User:* read topic *")
    wished = """
access: [{principal: "User:a", clusters: [east], resource: topic, names: [orders], operations: [read], absent: true}]
"""
    planned = seen.plan(env(PLAIN, wished))
    assert planned.shifts == ()
    assert [(one.risk, one.risk_why) for one in planned.changes] == [(Risk.LOW, "no one loses a right by it")]


@pytest.mark.parametrize(
    ("there", "rule", "gains"),
    [
        ("allow User:a read topic *", "operations: [describe]", False),
        ("allow User:* all topic ord*", "operations: [write]", False),
        ("allow User:a describe topic *", "operations: [read]", True),
        ("allow User:a read topic * from 10.0.0.1", "operations: [read]", True),
        ("deny User:a all topic orders", "operations: [read]", False),
    ],
)
def test_a_rule_by_which_nobody_gains_says_so(there: str, rule: str, gains: bool) -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls |= rules(there)
    wished = f'access: [{{principal: "User:a", clusters: [east], resource: topic, names: [orders], {rule}}}]'
    planned = seen.plan(env(PLAIN, wished))
    assert bool(planned.shifts) is gains
    assert ("no one gains a right by it" in plan_text(planned)) is not gains


def test_a_host_that_keeps_the_right_is_no_loser() -> None:
    seen = world()
    seen.clusters["east"].acls |= rules("allow User:a read topic orders", "deny User:b read topic orders from 10.0.0.9")
    wished = """
access:
  - {principal: "User:a", clusters: [east], resource: topic, names: [orders], operations: [read], absent: true}
  - {principal: "User:a", clusters: [east], resource: topic, names: [orders], operations: [read], hosts: [10.0.0.1]}
  - {principal: "User:b", clusters: [east], resource: topic, names: [orders], operations: [read]}
"""
    text = plan_text(seen.plan(env(PLAIN, wished)))
    assert "User:a loses read on topic orders from any host but 10.0.0.1" in text
    assert "User:b gains read on topic orders from any host but 10.0.0.9" in text


def test_a_rule_in_place_of_one_that_goes_is_not_said_to_be_of_no_use() -> None:
    seen = world()
    seen.clusters["east"].acls |= rules("allow User:a read topic *")
    wished = """
access:
  - {principal: "User:a", clusters: [east], resource: topic, names: ["*"], operations: [read], absent: true}
  - {principal: "User:a", clusters: [east], resource: topic, names: [orders], operations: [read]}
"""
    planned = seen.plan(env(PLAIN, wished))
    assert len(planned.changes) == 2
    assert "no one gains" not in plan_text(planned)


def test_a_real_loss_is_medium_risk() -> None:
    (change,) = taken_from_a_reader()[0].changes
    assert change.risk == Risk.MEDIUM


def taken_from_a_reader() -> tuple[Plan, LiveState]:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls |= rules("allow User:a read topic orders", "allow User:a read group mine*")
    wished = env(
        PLAIN,
        """
access: [{principal: "User:a", clusters: [east], resource: topic, names: [orders], operations: [read], absent: true}]
""",
    )
    return seen.plan(wished), seen.look(wished)


def test_active_groups_of_the_loser_are_named_and_make_it_high_risk() -> None:
    planned, live = taken_from_a_reader()
    assert lost_to_readers(planned, live) == [TopicRef("east", "orders")]
    groups = (
        ReadingGroup("mine-1", "Stable", 3, 7),
        ReadingGroup("mine-2", "Empty", 0, 7),
        ReadingGroup("other", "Stable", 2, 0),
    )
    weighed = with_readers(planned, live, {TopicRef("east", "orders"): Stakes(readers=groups)})
    assert [one.group for one in weighed.shifts[0].readers] == ["mine-1"], "only one that it may use has members"
    assert weighed.changes[0].risk == Risk.HIGH
    assert "read now by mine-1 (3 members)" in plan_text(weighed)


def test_who_reads_is_not_known_without_the_right_and_blocks_nothing() -> None:
    planned, live = taken_from_a_reader()
    answer = Stakes(unknown=("who reads it: this principal may not ask (GROUP_AUTHORIZATION_FAILED)",))
    weighed = with_readers(planned, live, {TopicRef("east", "orders"): answer})
    assert weighed.shifts[0].readers == ()
    assert "not known: who reads it: this principal may not ask" in plan_text(weighed)
    assert weighed.exit_code is ExitCode.CHANGES
    assert weighed.changes[0].risk == Risk.MEDIUM


def test_questions_are_capped_and_the_rest_is_reported() -> None:
    planned, live = taken_from_a_reader()
    east = live.known("east")
    assert east is not None
    names = [f"t{number:03}" for number in range(MOST + 5)]
    topics = {name: replace(east.topics["orders"], name=name) for name in names}
    live = LiveState({**live.clusters, "east": replace(east, topics=topics)}, live.mirrors)
    many = replace(planned, shifts=(replace(planned.shifts[0], names=tuple(names)),))
    asked = lost_to_readers(many, live)
    assert len(asked) == MOST
    weighed = with_readers(many, live, dict.fromkeys(asked, Stakes(readers=())))
    assert weighed.shifts[0].unknown == (f"who reads more than {MOST} topics was not asked",)


DENIED = """
access:
  - {principal: "User:*", clusters: [CLUSTER], resource: RESOURCE, NAMES operations: [OPERATION], permission: deny}
"""


@pytest.mark.parametrize(
    ("cluster", "resource", "names", "operation", "who"),
    [
        ("east", "cluster", "", "alter", "User:apply"),
        ("west", "cluster", "", "describe", "User:plan"),
        ("east", "topic", "names: [orders],", "alter_configs", "User:apply"),
        ("east", "topic", 'names: ["*"],', "all", "User:mirror"),
        ("west", "topic", "names: [{prefix: east.}],", "write", "User:mirror"),
        ("east", "topic", "names: [__reconciler],", "write", "User:apply"),
        ("west", "group", 'names: ["*"],', "read", "User:mirror"),
        ("west", "transactional_id", "names: [{prefix: mirror.}],", "write", "User:mirror"),
        ("east", "transactional_id", "names: [reconciler.test],", "write", "User:apply"),
    ],
)
def test_a_denial_that_hits_ourselves_is_refused_with_the_rule(
    cluster: str, resource: str, names: str, operation: str, who: str
) -> None:
    seen = ran(secured())
    text = DENIED.replace("CLUSTER", cluster).replace("RESOURCE", resource)
    text = text.replace("NAMES", names).replace("OPERATION", operation).removeprefix("\naccess:\n")
    planned = seen.plan(secured(roles=f"{ROLES}{text}"))
    assert planned.exit_code is ExitCode.BLOCKED
    (found,) = [one for one in lock_outs(planned) if who in one]
    (denial,) = [one.change.acl for one in planned.changes if isinstance(one.change, CreateAcl)]
    assert denial.permission is Permission.DENY
    assert f"'{denial}' denies it" in found


def test_the_transactional_ids_of_a_renamed_flow_are_those_of_its_first_name() -> None:
    renamed = "topics: {orders: {clusters: [east], partitions: 1}}\nmirrors: {west: {}}\n"
    renamed += (
        "flows: {now: {source: east, target: west, topics: [orders]}}\nmoved: [{flow: now, from: east-to-west}]\n"
    )
    text = DENIED.replace("CLUSTER", "west").replace("RESOURCE", "transactional_id").replace("OPERATION", "write")
    text = text.replace("NAMES", "names: [{prefix: mirror.}],").removeprefix("\naccess:\n")
    planned = ran(env(SECURE, renamed, f"access:{ROLES}")).plan(env(SECURE, renamed, f"access:{ROLES}{text}"))
    (found,) = lock_outs(planned)
    assert "write on transactional_id mirror.east-to-west.0: " in found


def test_a_role_that_leaves_git_while_its_principal_works_with_it_is_refused() -> None:
    seen = ran(secured())
    planned = seen.plan(secured(roles="\n".join(ROLES.splitlines()[:-1]) + "\n"))
    assert any(isinstance(one.change, DeleteAcl) for one in planned.changes)
    found = lock_outs(planned)
    assert len(found) == 2, "on each cluster"
    assert "alter on cluster: 'allow User:apply alter on cluster' goes and no rule that is left allows it" in found[0]
    assert [str(one.subject) for one in planned.refused if str(one.subject).startswith("access ")] == [
        "access east",
        "access west",
    ]


def test_the_same_right_by_another_rule_is_no_lock_out() -> None:
    seen = ran(secured())
    for name in ("east", "west"):
        everything = ("topic *", "cluster kafka-cluster", "group *", "transactional_id *")
        seen.clusters[name].acls |= rules(*(f"allow User:apply all {one}" for one in everything))
    planned = seen.plan(secured(roles="\n".join(ROLES.splitlines()[:-1]) + "\n"))
    assert any(isinstance(one.change, DeleteAcl) for one in planned.changes)
    assert lock_outs(planned) == []


def test_a_plan_is_stale_once_the_rule_is_gone_that_keeps_us_in() -> None:
    seen = ran(secured())
    spare = rules("allow User:apply all cluster kafka-cluster")
    seen.clusters["east"].acls |= spare
    gone = '  - {principal: "User:apply", clusters: [east], resource: cluster, operations: [alter], absent: true}\n'
    roles = ROLES.replace(
        '{role: reconciler-apply, principal: "User:apply", clusters: [east, west]}',
        '{role: reconciler-apply, principal: "User:apply", clusters: [west]}',
    )
    wished = secured(roles=roles.rstrip() + "\n" + gone)
    saved = seen.plan(wished)
    needed = [one for one in lock_outs(saved) if "on cluster" in one]
    assert needed == []
    assert still_true(saved, basis_now(saved, wished, seen.look(wished))) == ()
    seen.clusters["east"].acls -= spare
    (moved,) = still_true(saved, basis_now(saved, wished, seen.look(wished)))
    assert moved.subject == "acl east/allow User:apply all on cluster"


def test_another_principal_may_lose_what_it_likes() -> None:
    seen = ran(secured())
    seen.clusters["east"].acls |= rules("allow User:old-apply alter cluster kafka-cluster")
    gone = """
  - {principal: "User:old-apply", clusters: [east], resource: cluster, operations: [alter], absent: true}
"""
    planned = seen.plan(secured(roles=ROLES.rstrip() + gone))
    assert lock_outs(planned) == []
    assert told(planned) == ["- east User:old-apply alter,describe cluster kafka-cluster"]


def test_a_flow_that_leaves_git_takes_the_rights_of_its_job_along() -> None:
    seen = ran(secured())
    planned = seen.plan(env(SECURE, "topics: {orders: {clusters: [east], partitions: 1}}", f"access:{ROLES}"))
    assert any(isinstance(one.change, DeleteAcl) for one in planned.changes)
    assert lock_outs(planned) == []


def test_an_unnamed_principal_is_reported_as_unchecked() -> None:
    seen = world()
    seen.clusters["east"].acls |= rules("allow User:a alter cluster kafka-cluster")
    hidden = SECURE.replace("sasl.username: apply", 'sasl.username: "${env:WHO}"')
    wished = """
access: [{principal: "User:a", clusters: [east], resource: cluster, operations: [alter], absent: true}]
"""
    planned = seen.plan(env(hidden, wished))
    (note,) = [one for one in planned.notes if "not checked whether" in one]
    assert "the apply principal keeps its rights on east" in note


def test_an_entry_of_the_role_names_a_principal_whose_login_is_hidden() -> None:
    hidden = SECURE.replace("sasl.username: apply", 'sasl.username: "${env:WHO}"')
    seen = ran(env(hidden, f"access:{ROLES}"))
    deny = '  - {principal: "User:apply", clusters: [east], resource: cluster, operations: [alter], permission: deny}\n'
    planned = seen.plan(env(hidden, f"access:{ROLES}{deny}"))
    assert len(lock_outs(planned)) == 1


def test_the_first_rule_of_a_topic_is_pointed_out() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].put("other")
    seen.clusters["east"].acls |= rules("allow User:z read topic oth*")
    wished = 'access: [{role: producer, principal: "User:b", clusters: [east], topics: [orders, other, new]}]'
    (note,) = [one for one in seen.plan(env(PLAIN, wished)).notes if "no access rule" in one]
    assert "1 topic of east had no access rule and will have one (orders)" in note


def test_operations_are_reported_once() -> None:
    seen = world()
    wished = """
access: [{principal: "User:b", clusters: [east], resource: topic, names: ["*"], operations: [all]}]
"""
    planned = seen.plan(env(PLAIN, wished))
    (gained,) = planned.shifts
    assert Operation.WRITE in gained.operations
    assert gained.resource is ResourceType.TOPIC
    assert "User:b gains every operation on topic * (none there yet)" in plan_text(planned)


def test_a_partial_run_reports_nothing_about_the_whole() -> None:
    planned = taken_from_a_reader()[0]
    (change,) = planned.changes
    assert without(planned, {}).plan.shifts == planned.shifts
    assert without(planned, {change.id: "held"}).plan.shifts == ()
