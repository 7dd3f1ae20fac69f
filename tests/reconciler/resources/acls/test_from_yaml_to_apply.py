"""Access from YAML to a plan and through an apply, on fake clusters."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reconciler.engine.explain import explain
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.file import dumps, loads, observe_again
from reconciler.environment.load import load
from reconciler.errors import ClusterError, ExitCode, Unknown
from reconciler.model.changes import About, Subject
from reconciler.model.plan import Result
from reconciler.model.principals import AccessRole, Operation, Unsupported
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.declared import explanation_text
from tests.support.access.acls import applied, env, gone, made, rule, rules
from tests.support.builders import world
from tests.support.paths import ROOT

ROLES = """
access:
  - {role: producer, principal: "User:orders-app", clusters: [east], topics: [orders, {prefix: pay.}]}
  - {role: consumer, principal: "User:billing", clusters: [east], topics: [orders], groups: [{prefix: billing-}]}
"""


def test_roles_come_to_the_least_that_works_and_are_read_as_roles() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    planned = seen.plan(env(ROLES))
    assert made(planned) == rules(
        "allow User:orders-app write topic orders",
        "allow User:orders-app write topic pay.*",
        "allow User:billing read topic orders",
        "allow User:billing read group billing-*",
    )
    text = plan_text(planned)
    assert "+ User:orders-app: producer on orders, pay.*: 2 rules; declared in 1.yaml:3:5" in text
    assert "allow User:orders-app write on topic prefix pay." in text
    applied(seen, env(ROLES))


def test_what_is_implied_already_is_no_drift() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules(
        "allow User:orders-app all topic orders",
        "allow User:orders-app write topic pay.*",
        "allow User:orders-app describe topic pay.*",
        "allow User:billing read topic orders",
        "allow User:billing read group billing-*",
    )
    planned = seen.plan(env(ROLES))
    assert planned.exit_code is ExitCode.DONE
    assert [str(one.acl) for one in planned.unmanaged_acls] == ["allow User:orders-app all on topic orders"]


def test_a_rule_that_leaves_git_is_deleted_only_when_an_earlier_run_made_it() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    applied(seen, env(ROLES))
    seen.clusters["east"].acls |= rules("allow User:stranger read topic orders")
    planned = seen.plan(env("access: []\n"))
    assert gone(planned) == seen.clusters["east"].acls - rules("allow User:stranger read topic orders")
    assert [str(one.acl) for one in planned.unmanaged_acls] == ["allow User:stranger read on topic orders"]
    applied(seen, env("access: []\n"))
    assert seen.clusters["east"].acls == rules("allow User:stranger read topic orders")


def test_rules_that_were_there_are_ours_once_an_apply_found_them_declared() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    there = seen.plan(env(ROLES))
    seen.clusters["east"].acls = made(there)
    assert not seen.plan(env("access: []\n")).changes, "nobody from here took them over yet"
    adopting = seen.plan(env(ROLES))
    assert not adopting.changes
    assert {each.acl for each in adopting.adopted_acls} == made(there)
    [note] = [note for note in adopting.notes if "there before" in note]
    assert note.startswith("4 declared access rules of east")
    assert loads(dumps(adopting)) == adopting
    assert seen.apply(env(ROLES)) == ()
    again = seen.plan(env(ROLES))
    assert not again.adopted_acls
    assert not again.notes
    revoked = seen.plan(env("access: []\n"))
    assert gone(revoked) == made(there)
    applied(seen, env("access: []\n"))
    assert not seen.clusters["east"].acls


def test_what_flows_derive_and_others_made_is_not_taken_over() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:stranger read topic orders")
    seen.clusters["east"].record_unreadable = Unknown("record", "denied", "")
    assert not seen.plan(env(ROLES)).adopted_acls, "what is ours is not known"
    seen.clusters["east"].record_unreadable = None
    assert not seen.plan(env(ROLES)).adopted_acls


def test_a_record_that_cannot_be_written_fails_no_apply() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = made(seen.plan(env(ROLES)))

    def refused(_: object) -> None:
        raise ClusterError("east", "denied", "may not write __reconciler")

    seen.clusters["east"].own_rules = refused  # type: ignore[assignment]
    assert seen.apply(env(ROLES)) == ()
    assert seen.plan(env(ROLES)).adopted_acls


def test_without_the_ownership_record_nothing_is_deleted_but_everything_listed() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    applied(seen, env(ROLES))
    seen.clusters["east"].owned.clear()
    planned = seen.plan(env("access: []\n"))
    assert not planned.changes
    assert len(planned.unmanaged_acls) == 4


def test_an_unreadable_ownership_record_is_unknown_and_deletes_nothing() -> None:
    seen = world()
    applied(seen, env(ROLES))
    seen.clusters["east"].record_unreadable = Unknown("record", "denied", "Allow it.")
    planned = seen.plan(env("access: []\n"))
    assert not planned.changes
    assert planned.exit_code is ExitCode.ERROR
    assert [one.subject for one in planned.unknown] == ["access east"]


def test_absent_deletes_what_no_run_of_ours_made() -> None:
    seen = world()
    seen.clusters["east"].acls = rules("allow User:old read topic orders", "allow User:old write topic orders")
    wished = env(
        """
access:
  - {principal: "User:old", clusters: [east], resource: topic, names: [orders], operations: [read], absent: true}
"""
    )
    planned = seen.plan(wished)
    assert gone(planned) == rules("allow User:old read topic orders")
    applied(seen, wished)
    assert seen.clusters["east"].acls == rules("allow User:old write topic orders")


def test_a_cluster_without_authorizer_is_said_and_is_not_empty() -> None:
    seen = world()
    seen.clusters["east"].access_unreadable = Unsupported("the cluster has no authorizer (SECURITY_DISABLED)")
    planned = seen.plan(env(ROLES))
    assert not planned.changes
    assert planned.exit_code is ExitCode.DONE
    [ignored] = [one for one in planned.ignored if one.rule == "no-authorizer"]
    assert "User:billing: consumer on orders" in ignored.text


def test_rules_that_cannot_be_read_are_unknown_with_the_missing_right() -> None:
    seen = world()
    seen.clusters["east"].access_unreadable = Unknown(
        "access", "principal plan may not read", "Allow it: kafka-acls.sh"
    )
    planned = seen.plan(env(ROLES))
    assert planned.exit_code is ExitCode.ERROR
    assert (planned.unknown[0].subject, planned.unknown[0].todo) == ("access east", "Allow it: kafka-acls.sh")
    assert "User:billing: consumer on orders" in planned.unknown[0].detail


def test_a_rule_removed_outside_is_made_again_and_reported_as_such() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    applied(seen, env(ROLES))
    lost = rule("allow User:billing read topic orders")
    seen.clusters["east"].acls.discard(lost)
    planned = seen.plan(env(ROLES))
    assert made(planned) == {lost}
    assert planned.changes[0].change.reason.code == "removed-outside"


def test_a_saved_plan_is_stale_when_one_of_its_rules_moved_and_only_then() -> None:
    seen = world()
    wished = env(ROLES)
    planned = loads(dumps(seen.plan(wished)))
    seen.clusters["east"].acls |= rules("allow User:stranger read topic orders")
    assert still_true(planned, basis_now(planned, wished, seen.look(wished))) == ()
    seen.clusters["east"].acls |= rules("allow User:billing read topic orders")
    [moved] = still_true(planned, basis_now(planned, wished, seen.look(wished)))
    assert (moved.before, moved.after) == ("absent", "there")
    assert moved.subject == "acl east/allow User:billing read on topic orders"


def test_partly_refused_the_rest_is_done_and_the_next_apply_continues() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    refused = str(rule("allow User:billing read topic orders"))
    seen.clusters["east"].refuse(refused, "not today")
    outcomes = seen.apply(env(ROLES))
    assert sorted(one.result for one in outcomes) == [Result.DONE] * 3 + [Result.FAILED]
    seen.clusters["east"].accept(refused)
    applied(seen, env(ROLES))


@pytest.mark.parametrize("after", range(4))
def test_an_interrupted_apply_says_what_was_done_and_the_next_one_continues(after: int) -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].kill_after(after)
    outcomes = seen.apply(env(ROLES))
    assert [one.result for one in outcomes].count(Result.UNPROVEN) == after == len(seen.clusters["east"].acls)
    assert len(made(seen.plan(env(ROLES)))) == 4, "what nobody probed is planned again"
    applied(seen, env(ROLES))


def test_without_access_in_the_topology_no_one_looks_at_rules() -> None:
    seen = world()
    planned = seen.plan(env("topics: {orders: {clusters: [east], partitions: 1}}\n"))
    assert [one.acls for one in planned.basis.clusters] == [None, None]


def test_a_silent_cluster_does_not_hide_the_others() -> None:
    seen = world()
    seen.clusters["west"].fail_on(1, ClusterError("west", "unreachable", "no answer"))
    planned = seen.plan(env(ROLES))
    assert len(made(planned)) == 4
    assert planned.exit_code is ExitCode.ERROR


def test_a_slip_in_a_topic_name_is_pointed_at() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    planned = seen.plan(env(ROLES.replace("topics: [orders]", "topics: [ordres]")))
    assert any("names topic ordres" in note and "perhaps you mean orders" in note for note in planned.notes)


def test_observations_of_rules_need_no_topic() -> None:
    seen = world()
    wished = env(ROLES)
    [found] = observe_again([Subject(About.ACL, "east", "allow User:x read on topic orders")], seen.look(wished))
    assert found.text == "absent"


def test_explain_names_the_rule_the_flow_and_what_no_one_declared() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:late read topic orders", "allow User:late describe_configs topic *")
    flows = "flows: {f: {source: east, target: west, topics: [orders], replication_factor: 1, access: {sync: true}}}\n"
    wished = env(ROLES, flows)
    applied(seen, wished)
    text = explanation_text(explain(wished, "User:late", seen.look(wished)))
    assert "east: allow User:late read on topic orders: unmanaged" in text
    assert (
        "west: allow User:late read on topic east.orders: flow f derived it from"
        " east/allow User:late read on topic orders" in text
    )
    text = explanation_text(explain(wished, "west/east.orders", seen.look(wished)))
    assert "allow User:billing read on topic east.orders: flow f derived it from" in text
    assert "User:billing: consumer on orders, 1.yaml:4:5" in explanation_text(explain(wished, "east/orders"))


def test_the_page_about_access_loads() -> None:
    page = (ROOT / "docs" / "change" / "access.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    loaded = load({"access.yaml": text}, "test")
    assert len(loaded.access) == 10
    assert {one.role for one in loaded.access} >= set(AccessRole)


def test_roles_of_the_reconciler_name_own_topics_by_the_prefix_of_each_cluster() -> None:
    declared = env('access: [{role: reconciler-apply, principal: "User:ci", clusters: [east, west]}]')
    prefixed = replace(declared.clusters["west"], topic_prefix="team-a.")
    planned = world().plan(replace(declared, clusters={**declared.clusters, "west": prefixed}))
    written = {
        name: {acl.name for acl in made(planned, name) if acl.operation is Operation.WRITE} for name in ("east", "west")
    }
    assert "__reconciler" in written["east"]
    assert "team-a.__reconciler" in written["west"]
    assert "__reconciler" not in written["west"]
