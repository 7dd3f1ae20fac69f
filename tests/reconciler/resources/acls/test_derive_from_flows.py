"""Flow-derived access: readers of a source topic may read its remote topic, and no others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.errors import ExitCode
from reconciler.model.changes import CreateTopic, Stage
from reconciler.model.environment.flow_settings import AccessSync, Groups
from reconciler.model.environment.topology import Flow
from reconciler.model.live import LiveState
from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.render.plan.text import plan_text
from reconciler.replication.handover import Naming
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.derive_from_flows import FlowTopics, carriage_of, derive
from reconciler.resources.flows.routes import find_routes
from tests.support.access.acls import applied, env, gone, made, rule, rules
from tests.support.builders import flow, topic, topology, world

SYNC = AccessSync(enabled=True)
FLOW = """
flows:
  east-to-west: {source: east, target: west, topics: [%s], replication_factor: 1, access: {sync: true}}
"""


def carriage(one: Flow, *topics: str) -> FlowTopics:
    wished = topology(one, *(topic(name, "east", partitions=1) for name in topics))
    seen = world()
    live = LiveState({name: fake.read() for name, fake in seen.clusters.items()}, {})
    return carriage_of(one, find_routes(wished, live).routes, live)


def derived(one: Flow, *texts: str, topics: tuple[str, ...] = ()) -> set[AclBinding]:
    return {found for found, _ in derive(carriage(one, *topics), sorted(rules(*texts)))}


@pytest.mark.parametrize(
    ("patterns", "source", "target"),
    [
        ((".*",), "allow User:a read topic pay", "allow User:a read topic east.pay"),
        ((".*",), "allow User:a read topic pay*", "allow User:a read topic east.pay*"),
        ((".*",), "allow User:a read topic *", "allow User:a read topic east.*"),
        (("pay.*",), "allow User:a read topic pay.x*", "allow User:a read topic east.pay.x*"),
        (("pay.*", "orders.*"), "deny User:a read topic pay*", "deny User:a read topic east.pay*"),
        (
            (".*",),
            "allow User:a describe topic pay from 10.0.0.1",
            "allow User:a describe topic east.pay from 10.0.0.1",
        ),
        ((".*",), "allow User:* all topic pay", "allow User:* read topic east.pay"),
    ],
)
def test_default_naming(patterns: tuple[str, ...], source: str, target: str) -> None:
    assert rule(target) in derived(flow("east", "west", *patterns, access=SYNC), source)


@pytest.mark.parametrize("operation", ["write", "create", "delete", "alter", "alter_configs"])
def test_no_one_becomes_a_writer(operation: str) -> None:
    assert derived(flow("east", "west", access=SYNC), f"allow User:a {operation} topic pay") == set()


def test_all_allowed_is_reading_and_all_denied_is_no_reading() -> None:
    one = flow("east", "west", access=SYNC)
    assert derived(one, "allow User:a all topic pay") == rules(
        "allow User:a read topic east.pay", "allow User:a describe_configs topic east.pay"
    )
    assert derived(one, "deny User:a all topic pay") == rules(
        "deny User:a read topic east.pay",
        "deny User:a describe topic east.pay",
        "deny User:a describe_configs topic east.pay",
    )


def test_a_rule_wider_than_the_flow_becomes_one_rule_for_each_topic_it_carries() -> None:
    one = flow("east", "west", "pay\\.eu\\..*", access=SYNC)
    found = derived(one, "allow User:a read topic pay*", topics=("pay.eu.a", "pay.us.a", "pay.eu.b"))
    assert found == rules("allow User:a read topic east.pay.eu.a", "allow User:a read topic east.pay.eu.b")


def test_what_the_flow_excludes_stays_closed() -> None:
    one = flow("east", "west", ".*", exclude_topics=("pay\\.secret.*",), access=SYNC)
    found = derived(one, "allow User:a read topic pay*", topics=("pay.a", "pay.secret"))
    assert found == rules("allow User:a read topic east.pay.a")
    assert derived(one, "allow User:a read topic orders*") == rules("allow User:a read topic east.orders*")


def test_topics_the_flow_does_not_match_give_nothing() -> None:
    assert derived(flow("east", "west", "orders", access=SYNC), "allow User:a read topic pay") == set()


def test_identity_naming_keeps_names_but_never_opens_what_the_target_keeps_for_itself() -> None:
    one = flow("east", "west", ".*", naming=Naming("identity"), access=SYNC)
    assert derived(one, "allow User:a read topic pay*") == rules("allow User:a read topic pay*")
    assert derived(one, "allow User:a read topic *", topics=("pay",)) == rules("allow User:a read topic pay")
    assert derived(one, "allow User:a read topic _*", topics=("_pay",)) == rules("allow User:a read topic _pay")


@pytest.mark.usefixtures("own_policies")
def test_a_custom_policy_gives_literal_rules_for_topics_that_exist() -> None:
    one = flow("east", "west", ".*", naming=Naming("tests.support.policies:Suffixing"), access=SYNC)
    assert derived(one, "allow User:a read topic pa*") == set()
    assert derived(one, "allow User:a read topic pa*", topics=("pay", "orders")) == rules(
        "allow User:a read topic pay_from_east"
    )


def test_principals_are_renamed_where_the_flow_says_so() -> None:
    one = flow("east", "west", access=AccessSync(True, principals={"User:CN=a": "User:a"}))
    assert derived(one, "allow User:CN=a read topic pay") == rules("allow User:a read topic east.pay")


def test_group_rules_follow_on_request_for_readers_of_the_flow_only() -> None:
    sync = AccessSync(True, groups=True)
    one = flow("east", "west", access=sync, groups=Groups(include=("b.*", "x.*"), exclude=("billing-test",)))
    found = derived(
        one,
        "allow User:a read topic pay",
        "allow User:a read group billing",
        "allow User:a read group billing-test",
        "allow User:b read group billing",
        "allow User:a write topic pay",
    )
    assert found == rules("allow User:a read topic east.pay", "allow User:a read group billing")


NAMES = st.sampled_from(["pay", "pay.a", "pay.secret", "orders", "pa", "x.pay", "east.pay", "west.pay", "__x", "p"])
PATTERNS = st.sampled_from([".*", "pay.*", "pay\\..*", "orders", "p[a-z]+", "(?=pay).*", "pay|orders"])
PLACES = st.tuples(NAMES | st.just("*"), st.sampled_from(PatternType)).filter(lambda one: one != ("*", "prefixed"))


@pytest.mark.slow
@given(
    st.lists(PATTERNS, min_size=1, max_size=2),
    st.lists(st.sampled_from(["pay\\.secret", "p"]), max_size=1),
    st.sampled_from(["default", "identity"]),
    PLACES,
    st.frozensets(NAMES, max_size=6),
)
def test_every_remote_topic_is_readable_exactly_by_readers_of_its_source(
    include: list[str], exclude: list[str], policy: str, place: tuple[str, PatternType], present: frozenset[str]
) -> None:
    """Of the remote topics there are: no more and no fewer than the rule covers on the source."""
    one = flow("east", "west", *include, exclude_topics=tuple(exclude), naming=Naming(policy), access=SYNC)
    carried = carriage(one, *sorted(present))
    source = AclBinding(ResourceType.TOPIC, *place, "User:a", "*", Operation.READ, Permission.ALLOW)
    found = [acl for acl, _ in derive(carried, [source])]
    for name, remote in carried.topics.items():
        assert any(acl.covers_name(remote) for acl in found) == source.covers_name(name)
    # and of those there may be one day: nothing the flow does not carry, unless no flow ever carries it
    for name in ("pay.new", "pay.secret", "orders", "other", "p"):
        remote = name if policy == "identity" else f"east.{name}"
        if any(acl.covers_name(remote) for acl in found):
            assert source.covers_name(name)
            assert carried.selector.why_not(name) is None


def test_a_derived_rule_goes_when_its_source_rule_goes_and_only_if_the_flow_made_it() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders", "allow User:b read topic orders")
    seen.clusters["west"].acls = rules("allow User:b read topic east.orders")
    wished = env(FLOW % "orders")
    assert made(seen.plan(wished), "west") == rules("allow User:a read topic east.orders")
    assert "User:a: reads what flow east-to-west brings: 1 rule" in plan_text(seen.plan(wished))
    applied(seen, wished)
    seen.clusters["east"].acls.clear()
    planned = seen.plan(wished)
    assert gone(planned, "west") == rules("allow User:a read topic east.orders")
    assert planned.changes[0].change.reason.code == "source-rule-gone"
    applied(seen, wished)
    assert seen.clusters["west"].acls == rules("allow User:b read topic east.orders")


def test_switched_off_the_flow_takes_its_rules_back() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders")
    applied(seen, env(FLOW % "orders"))
    off = env((FLOW % "orders").replace(", access: {sync: true}", ""), "access: []\n")
    assert gone(seen.plan(off), "west") == rules("allow User:a read topic east.orders")


def test_two_flows_that_face_each_other_do_not_keep_a_rule_alive() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders")
    same: dict[str, Any] = {"naming": Naming("identity"), "access": SYNC, "replication_factor": 1}
    wished = topology(flow("east", "west", "orders", **same), flow("west", "east", "orders", **same))
    applied(seen, wished)
    seen.clusters["east"].acls.clear()
    assert gone(seen.plan(wished), "west") == rules("allow User:a read topic orders")


def test_rules_travel_over_two_hops() -> None:
    text = """
clusters: {north: {bootstrap_servers: ["north:9092"]}}
flows:
  one: {source: east, target: west, topics: [orders], replication_factor: 1, access: {sync: true}}
  two: {source: west, target: north, topics: ["east\\\\..*"], replication_factor: 1, access: {sync: true}}
"""
    seen = world("east", "west", "north")
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders")
    planned = seen.plan(env(text))
    assert made(planned, "north") == rules("allow User:a read topic west.east.orders")
    applied(seen, env(text))


def test_denials_come_before_the_remote_topic_and_what_needs_them_waits() -> None:
    seen = world()
    seen.clusters["east"].put("pay.secret")
    seen.clusters["east"].acls = rules("allow User:a read topic pay*", "deny User:a read topic pay.secret")
    planned = seen.plan(env(FLOW % '"pay.*"'))
    assert planned.changes[0].stage == Stage.DENIALS
    denial = planned.changes[0].id
    [create] = [one for one in planned.changes if isinstance(one.change, CreateTopic) and one.change.depth]
    [grant] = [one for one in planned.changes if one.id.startswith("create-acl:west: allow")]
    assert denial in create.needs
    assert denial in grant.needs
    seen.clusters["west"].refuse("deny User:a read on topic east.pay.secret", "no")
    seen.apply(env(FLOW % '"pay.*"'))
    assert "east.pay.secret" not in seen.clusters["west"].topics
    assert seen.clusters["west"].acls == set()


def test_while_one_side_is_silent_nothing_is_taken_back() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders")
    wished = env(FLOW % "orders")
    applied(seen, wished)
    seen.clusters["east"].put("hidden")
    seen.clusters["east"].hide("orders", "hidden")
    seen.clusters["east"].acls.clear()
    planned = seen.plan(wished)
    assert gone(planned, "west") == set()
    assert "access-in-doubt" in {one.rule for one in planned.ignored}


def test_the_mirror_and_the_reconciler_keep_their_rules_to_themselves() -> None:
    access = """
access:
  - {role: mirror, principal: "User:mirror"}
  - {role: reconciler-plan, principal: "User:plan", clusters: [east, west]}
"""
    seen = world()
    seen.clusters["east"].put("orders")
    wished = env(FLOW % "orders", access)
    planned = seen.plan(wished)
    assert made(planned, "east") >= rules("allow User:mirror read topic orders")
    assert made(planned, "west") >= rules(
        "allow User:mirror write topic east.*",
        "allow User:mirror write transactional_id mirror.east-to-west.*",
        "allow User:mirror read group mirror.east-to-west",
    )
    assert not {acl for acl in made(planned, "west") if acl.principal == "User:plan" and "east." in acl.name}
    [start] = [one for one in planned.changes if one.id == "start:west"]
    assert {one for one in start.needs if "User:mirror" in one} == {
        one.id for one in planned.changes if "User:mirror" in one.id
    }
    applied(seen, wished)


def test_a_mirror_may_describe_the_groups_it_syncs_and_the_positions_of_flows_whose_copies_it_meets() -> None:
    access = """
access:
  - {role: mirror, principal: "User:one", flows: [east-to-west]}
  - {role: mirror, principal: "User:both"}
"""
    same = "{source: %s, target: %s, topics: [orders], naming: {policy: identity}, provenance: local%s}\n"
    flows = "flows:\n  east-to-west: " + same % ("east", "west", ", groups: {sync_offsets: true}")
    flows += "  west-to-east: " + same % ("west", "east", "")
    seen = world()
    seen.clusters["east"].put("orders")
    planned = seen.plan(env(flows, access))
    groups = {acl for acl in made(planned, "east") if acl.resource is ResourceType.GROUP}
    assert groups == rules(
        "allow User:one describe group *",
        "allow User:one describe group mirror.west-to-east",
        "allow User:both describe group *",
        "allow User:both read group mirror.west-to-east",
    )


def test_syncing_access_does_not_restart_the_mirror() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.apply(env((FLOW % "orders").replace(", access: {sync: true}", "")))
    planned = seen.plan(env(FLOW % "orders"))
    assert planned.exit_code is ExitCode.DONE


@pytest.mark.parametrize(
    "there",
    [
        "allow User:a read topic *",
        "allow User:a all topic east.*",
        "allow User:* read topic east.or*",
        "allow User:* all topic *",
    ],
)
def test_what_the_target_grants_already_is_not_written_again(there: str) -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders", "allow User:b read topic orders")
    seen.clusters["west"].acls = rules(there)
    wished = env(FLOW % "orders")
    needed = set() if "User:*" in there else rules("allow User:b read topic east.orders")
    assert made(seen.plan(wished), "west") == needed
    applied(seen, wished)
    seen.clusters["west"].acls.discard(rule(there))  # what it granted is granted by the flow from then on
    assert rule("allow User:a read topic east.orders") in made(seen.plan(wished), "west")


@pytest.mark.parametrize(
    "there",
    [
        "allow User:a describe topic *",
        "allow User:a read topic *  from 10.0.0.1",
        "allow User:a read topic east.orders.v*",
        "deny User:a read topic *",
        "allow User:c read topic *",
        "allow User:a read group *",
    ],
)
def test_what_the_target_does_not_grant_is_written(there: str) -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders")
    seen.clusters["west"].acls = rules(there)
    assert made(seen.plan(env(FLOW % "orders")), "west") == rules("allow User:a read topic east.orders")


def test_rules_of_those_whom_we_log_in_as_do_not_travel() -> None:
    logins = """
clusters:
  east:
    bootstrap_servers: ["east:9092"]
    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: plan, sasl.password: "${env:P}"}
    principals: {mirror: {sasl.username: mirror, sasl.password: "${env:M}"}}
  west: {bootstrap_servers: ["west:9092"]}
"""
    seen = world()
    seen.clusters["east"].put("orders")
    ours = ("allow User:plan read topic orders", "allow User:mirror read topic orders")
    seen.clusters["east"].acls = rules("allow User:a read topic orders", *ours)
    wished = load({"a.yaml": logins, "b.yaml": FLOW % "orders"}, "test")
    assert made(seen.plan(wished), "west") == rules("allow User:a read topic east.orders")
    # what an earlier release made stays: a mirror may live by it
    applied(seen, env(FLOW % "orders"))
    assert gone(seen.plan(wished), "west") == set()


acl_rules = st.builds(
    AclBinding,
    st.just(ResourceType.TOPIC),
    st.sampled_from(["pay", "pay.x", "p", "*"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:a", "User:b", "User:*"]),
    st.sampled_from(["*", "192.0.2.1"]),
    st.sampled_from([Operation.READ, Operation.DESCRIBE, Operation.ALL, Operation.WRITE, Operation.ALTER_CONFIGS]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
).filter(lambda acl: acl.name != "*" or acl.pattern is PatternType.LITERAL)


@given(acl_rules, acl_rules, st.lists(acl_rules, max_size=3), st.booleans())
def test_a_rule_that_another_covers_decides_nothing(
    wider: AclBinding, narrow: AclBinding, others: list[AclBinding], everyone: bool
) -> None:
    if not wider.covers(narrow):
        return
    without, beside = (Rulebook.of(some, (), everyone) for some in ([wider, *others], [wider, narrow, *others]))
    for who, operation, name, host in itertools.product(
        ("User:a", "User:b", "User:c"),
        (Operation.READ, Operation.DESCRIBE, Operation.WRITE, Operation.DESCRIBE_CONFIGS),
        ("pay", "pay.x", "pay.xy", "p", "q"),
        ("192.0.2.1", "192.0.2.2"),
    ):
        asked = AccessRequest(who, operation, ResourceType.TOPIC, name, host)
        assert without.allows(asked) == beside.allows(asked), asked
