"""``copies: read_only``: whom rules let write, loses that on remote topics; the mirror never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.explain import explain
from reconciler.errors import ClusterError, ExitCode, TopologyError, Unknown
from reconciler.model.changes import CreateAcl, CreateTopic
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiftedCopies, Made
from reconciler.model.plan import Plan
from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType, Unsupported
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.declared import explanation_text
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.derive_from_flows import denial, write_denials
from tests.support.access.acls import applied, env, gone, made, rule, rules
from tests.support.builders import World, world

FLOW = """
flows:
  east-to-west: {source: east, target: west, topics: [orders, pay], replication_factor: 1%s}
"""
MIRROR = """
access:
  - {role: mirror, principal: "User:mirror"}
"""
SAME = ", naming: {policy: identity}"
KEPT = ", copies: read_only"


def kept(more: str = SAME, rest: str = MIRROR) -> Topology:
    return env(FLOW % f"{more}{KEPT}", rest)


def started(*acls: str, rest: str = MIRROR) -> World:
    """With a mirror that has what it needs, and ``acls`` of others on west."""
    seen = world()
    seen.clusters["east"].put("orders")
    applied(seen, env(FLOW % SAME, rest))
    seen.clusters["west"].acls |= rules(*acls)
    return seen


def open_copies(planned: Plan, code: str) -> list[str]:
    return [each.text for each in planned.ignored if each.rule == code]


def test_writers_by_any_rule_are_denied_by_name_and_the_mirror_is_not() -> None:
    seen = started(
        "allow User:app write topic orders",
        "allow User:etl all topic ord*",
        "allow User:root write topic *",
        "allow User:near write topic order",
        "allow User:reader read topic orders",
    )
    planned = seen.plan(kept())
    assert made(planned, "west") == {denial("orders", f"User:{who}") for who in ("app", "etl", "root")}
    text = plan_text(planned)
    assert "User:app: may not write what flow east-to-west brings: 1 rule" in text
    assert "west: User:app loses write on topic orders" in text
    assert "super users" in text
    applied(seen, kept())
    told = explanation_text(explain(kept(), "west/orders", seen.look(kept())))
    assert "flow east-to-west derived it from west/allow User:etl all on topic prefix ord" in told


def test_under_default_names_only_remote_topics_are_kept() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    applied(seen, env(FLOW % "", MIRROR))
    seen.clusters["west"].put("orders")
    seen.clusters["west"].acls |= rules("allow User:app write topic *", "allow User:b write topic east.*")
    assert made(seen.plan(kept("")), "west") == {denial("east.orders", f"User:{who}") for who in ("app", "b")}


def test_a_new_copy_is_denied_before_it_is_made() -> None:
    seen = started("allow User:root write topic *")
    applied(seen, kept())
    seen.clusters["east"].put("pay")
    planned = seen.plan(kept())
    denied = next(one.id for one in planned.changes if isinstance(one.change, CreateAcl))
    copy = next(one for one in planned.changes if isinstance(one.change, CreateTopic))
    assert denied in copy.needs
    applied(seen, kept())
    assert denial("pay", "User:root") in seen.clusters["west"].acls


@pytest.mark.parametrize("without", [env(FLOW % SAME, MIRROR), env(FLOW % f"{SAME}, copies: writable", MIRROR)])
def test_without_the_key_the_denials_go_and_no_other(without: Topology) -> None:
    seen = started("allow User:app write topic orders", "deny User:intern write topic orders")
    applied(seen, kept())
    planned = seen.plan(without)
    assert gone(planned, "west") == {denial("orders", "User:app")}
    assert "keeps this writer off its copies no longer" in plan_text(planned)
    applied(seen, without)
    assert rule("deny User:intern write topic orders") in seen.clusters["west"].acls


def test_written_writable_takes_them_back_where_no_access_is_declared() -> None:
    seen = started("allow User:app write topic orders", rest="topics: {}\n")
    applied(seen, env(FLOW % f"{SAME}{KEPT}"))
    assert denial("orders", "User:app") in seen.clusters["west"].acls
    assert not gone(seen.plan(env(FLOW % SAME)), "west"), "rules are not read"
    assert gone(seen.plan(env(FLOW % f"{SAME}, copies: writable")), "west") == {denial("orders", "User:app")}


def test_a_denial_goes_with_the_rule_that_it_denies_in_one_plan() -> None:
    """A rule that this plan takes away needs no denial, and a denial without such a rule is left over."""
    producer = '  - {role: producer, principal: "User:app", clusters: [east, west], topics: [orders]}\n'
    seen = started()
    applied(seen, kept(rest=f"{MIRROR}{producer}"))
    assert denial("orders", "User:app") in seen.clusters["west"].acls
    planned = seen.plan(kept())
    assert gone(planned, "west") == {denial("orders", "User:app"), rule("allow User:app write topic orders")}
    assert not made(planned, "west")
    applied(seen, kept())


def test_a_denial_that_someone_removed_is_drift() -> None:
    seen = started("allow User:app write topic orders")
    applied(seen, kept())
    seen.clusters["west"].acls.discard(denial("orders", "User:app"))
    planned = seen.plan(kept())
    assert made(planned, "west") == {denial("orders", "User:app")}
    assert planned.changes[0].change.reason.code == "removed-outside"


def test_a_denial_that_was_there_is_taken_over_and_a_declared_or_wider_one_is_enough() -> None:
    seen = started("allow User:app write topic orders", "deny User:app write topic orders")
    planned = seen.plan(kept())
    assert not planned.changes
    assert [(each.acl, each.maker) for each in planned.adopted_acls] == [
        (denial("orders", "User:app"), "flow east-to-west")
    ]
    seen.apply(kept())
    assert gone(seen.plan(env(FLOW % SAME, MIRROR)), "west") == {denial("orders", "User:app")}

    wider = started("allow User:app write topic orders", "deny User:app all topic *")
    assert not wider.plan(kept()).changes


def test_what_a_rule_for_everyone_opens_is_said_and_not_denied() -> None:
    seen = started("allow User:* write topic ord*", "allow User:app write topic orders")
    planned = seen.plan(kept())
    assert made(planned, "west") == {denial("orders", "User:app")}
    [text] = open_copies(planned, "copies-open")
    assert "anyone may write orders, since 'allow User:* write on topic prefix ord' names no principal" in text


def test_declared_users_are_denied_what_a_rule_for_everyone_lets_them_write() -> None:
    users = """
users:
  - {name: app, clusters: [west], version: 0}
  - {name: mirror, clusters: [west], version: 0}
  - {name: gone, clusters: [west], absent: true}
"""
    seen = started("allow User:* write topic orders")
    planned = seen.plan(env(FLOW % f"{SAME}{KEPT}", MIRROR, users))
    assert made(planned, "west") == {denial("orders", "User:app")}
    assert "anyone but declared users may write orders" in open_copies(planned, "copies-open")[0]


def test_what_is_not_known_makes_and_deletes_nothing() -> None:
    seen = started("allow User:app write topic orders")
    west = seen.clusters["west"]
    west.access_unreadable = Unsupported("the cluster has no authorizer (SECURITY_DISABLED)")
    planned = seen.plan(env(FLOW % f"{SAME}{KEPT}"))
    assert "nothing keeps other writers off its copies" in open_copies(planned, "no-authorizer")[0]
    west.access_unreadable = Unknown("access", "may not read", "Allow it.")
    planned = seen.plan(env(FLOW % f"{SAME}{KEPT}"))
    assert planned.exit_code is ExitCode.ERROR
    west.access_unreadable = None
    applied(seen, kept())
    west.record_unreadable = Unknown("record", "denied", "Allow it.")
    assert not seen.plan(kept()).changes, "what a failover has lifted is not known"
    west.record_unreadable = None
    seen.clusters["east"].fail_on(1, ClusterError("east", "unreachable", "no answer"))
    assert not gone(seen.plan(kept()), "west"), "which topics are copies is not known"


def test_what_a_failover_lifted_is_not_denied_again_until_the_failback() -> None:
    seen = started("allow User:app write topic orders")
    applied(seen, kept())
    west = seen.clusters["west"]
    west.acls.discard(denial("orders", "User:app"))
    west.owned.pop(denial("orders", "User:app"))
    for entry in (LiftedCopies("east-to-west"), LiftedCopies("east-to-west", "orders")):
        west.lifted = {entry: ("User:app",)}
        west.acls |= rules("allow User:new write topic orders")
        planned = seen.plan(kept())
        assert not planned.changes
        assert "reconciler failback ENV east-to-west denies that again" in open_copies(planned, "copies-lifted")[0]
    west.lifted = {LiftedCopies("other"): ()}
    assert made(seen.plan(kept()), "west") == {denial("orders", "User:app"), denial("orders", "User:new")}


def test_a_run_that_was_cut_off_while_it_lifted_leaves_no_denial() -> None:
    seen = started("allow User:app write topic orders")
    applied(seen, kept())
    seen.clusters["west"].lifted = {LiftedCopies("east-to-west"): (), LiftedCopies("east-to-west", "orders"): ()}
    assert gone(seen.plan(kept()), "west") == {denial("orders", "User:app")}


PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:mirror", "User:*"])
RULES = st.frozensets(
    st.builds(
        AclBinding,
        st.just(ResourceType.TOPIC),
        st.sampled_from(["orders", "ord", "pay", "p"]),
        st.sampled_from(PatternType),
        PRINCIPALS,
        st.sampled_from(["*", "10.0.0.1"]),
        st.sampled_from([Operation.WRITE, Operation.ALL, Operation.READ, Operation.ALTER]),
        st.sampled_from(Permission),
    ),
    max_size=8,
)


@given(RULES)
def test_of_those_that_rules_name_only_the_mirror_writes_and_it_keeps_what_it_had(acls: frozenset[AclBinding]) -> None:
    """By Kafka's authorizer, with what is said to be open left out."""
    found = write_denials(["orders", "pay"], acls, {"User:mirror"})
    before, after = Rulebook.of(acls), Rulebook.of({*acls, *found.because})
    for topic in ("orders", "pay", "parcels"):
        for who in ("User:a", "User:b", "User:mirror", "User:nobody"):
            for host in ("192.0.2.1", "10.0.0.1"):
                for operation in (Operation.WRITE, Operation.READ):
                    request = AccessRequest(who, operation, ResourceType.TOPIC, topic, host)
                    named = any(
                        each.principal == who and each.covers_name(topic) and each in found.because.values()
                        for each in acls
                    )
                    if topic == "parcels" or operation is Operation.READ or who == "User:mirror" or not named:
                        assert before.allows(request) is after.allows(request)
                    else:
                        assert not after.allows(request)
    for topic in ("orders", "pay"):
        anyone = AccessRequest("User:nobody", Operation.WRITE, ResourceType.TOPIC, topic)
        if before.allows(anyone):
            assert any(topic in topics for topics in found.open.values())


def refused(*texts: str) -> str:
    with pytest.raises(TopologyError) as caught:
        env(*texts)
    return "\n".join(map(str, caught.value.problems))


SECRET = """
clusters:
  north: {bootstrap_servers: ["north:9092"]}
  south: {bootstrap_servers: ["south:9093"], client: {security.protocol: SSL}}
flows:
  down: {source: north, target: south, topics: [orders], copies: read_only}
"""


def test_a_mirror_without_a_name_is_refused_with_the_key() -> None:
    said = refused(SECRET)
    assert "as which principal its mirror logs in to south is not known" in said
    assert 'Add to access: {role: mirror, principal: "User:...", flows: [down]}' in said
    env(SECRET, 'access:\n  - {role: mirror, principal: "User:CN=mirror", flows: [down]}\n')


@pytest.mark.parametrize(
    ("naming", "topics", "clusters", "fine"),
    [
        (SAME, "orders", "west", False),
        (SAME, "orders", "east, west", True),
        (SAME, "other", "west", True),
        (SAME, "{prefix: ord}", "west", True),
        (SAME, '"*"', "west", True),
        ("", "east.orders", "east, west", False),
        ("", "orders", "east, west", True),
    ],
)
def test_an_entry_that_lets_write_nothing_but_copies_is_refused(
    naming: str, topics: str, clusters: str, fine: bool
) -> None:
    entry = f'  - {{role: producer, principal: "User:app", clusters: [{clusters}], topics: [{topics}]}}\n'
    if fine:
        kept(naming, f"{MIRROR}{entry}")
        return
    said = refused(FLOW % f"{naming}{KEPT}", f"{MIRROR}{entry}")
    assert "2.yaml:4:5: access rule 2 has: allow User:app write on topic " in said
    assert "that flow east-to-west keeps to its mirror" in said


def test_names_that_travel_both_ways_are_a_copy_on_one_side_only() -> None:
    loop = ", naming: {policy: identity}, provenance: local, copies: read_only"
    back = "  west-to-east: {source: west, target: east, topics: [%s], replication_factor: 1%s}\n"
    said = refused(f"{FLOW % loop}{back % ('orders', loop)}")
    assert "the flows east-to-west and west-to-east carry orders both ways under the same name" in said
    env(f"{FLOW % loop}{back % ('refunds', loop)}")
    env(f"{FLOW % loop}{back % ('orders', loop.replace(KEPT, ''))}")


def test_two_flows_into_one_topic_agree() -> None:
    """A failover of one lets clients write what the other brings, too."""
    clusters = 'clusters:\n  north: {bootstrap_servers: ["north:9092"]}\n'
    merge = ", naming: {policy: identity}, provenance: local, copies: read_only"
    other = "  north-to-west: {source: north, target: west, topics: [orders], replication_factor: 1%s}\n"
    wished = env(clusters, f"{FLOW % merge}{other % merge}", MIRROR)
    seen = world("east", "west", "north")
    for name in ("east", "north"):
        seen.clusters[name].put("orders")
    seen.clusters["west"].acls |= rules("allow User:app write topic orders")
    applied(seen, wished)
    assert denial("orders", "User:app") in seen.clusters["west"].acls
    assert seen.clusters["west"].owned[denial("orders", "User:app")] == Made(
        "User:app: may not write what flow east-to-west brings", "flow east-to-west"
    )
    seen.clusters["west"].lifted = {LiftedCopies("north-to-west"): ()}
    assert gone(seen.plan(wished), "west") == {denial("orders", "User:app")}
