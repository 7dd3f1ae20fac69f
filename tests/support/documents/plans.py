"""Plans that are kept as files: one for each thing a plan can say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace

from reconciler.engine.guards import guarded
from reconciler.engine.plan.build import plan
from reconciler.engine.plan.impact import described, weighed
from reconciler.environment.load import load
from reconciler.errors import Where
from reconciler.model.environment.flow_settings import Groups
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.environment.topology import (
    Protection,
    Rules,
    Tombstone,
    TopicDefaults,
    TopicRef,
    Topology,
    Undeclared,
)
from reconciler.model.live import Source
from reconciler.model.plan import ClusterFeatures, Edition, Plan, ReadingGroup, Stakes
from reconciler.model.principals import Mechanism, Unsupported, UserRecord, entity
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.model.state.left_by_apply import left_on
from tests.support.access.acls import rules
from tests.support.builders import World, cluster, flow, topic, topology, world
from tests.support.fakes.cluster import unreachable
from tests.support.paths import ROOT

HERE = ROOT / "tests" / "golden" / "plans"
TOPICS = Where("topics.yaml", 3, 3)


def wished() -> Topology:
    return topology(
        cluster("east", defaults=TopicDefaults(replication_factor=1)),
        topic("orders", partitions=6, configs={"retention.ms": "86400000"}, where=TOPICS),
        topic("pay", partitions=2, where=TOPICS),
        flow("east", "west", "orders", "pay", "clicks-.*", replication_factor=1, groups=Groups(sync_offsets=True)),
        environment="sandbox",
    )


def first() -> Plan:
    """Empty clusters but for what producers made."""
    seen = world()
    for number in range(12):
        seen.clusters["east"].put(f"clicks-{number:02}", 3, retention_ms="3600000")
    return seen.plan(wished(), edition=Edition("4f0c2d1e9ab3"))


def removed() -> Plan:
    """A tombstone that is carried out after a restart, and one whose topic is gone."""
    seen = settled()
    old = seen.clusters["east"].put("clicks-old", 4)
    without = replace(wished().flows["east-to-west"], exclude_topics=("clicks-old",))
    tombstones = (
        Tombstone("east", "clicks-old", old.topic_id, "replaced by clicks-new", "2099-12-31", where=TOPICS),
        Tombstone("west", "gone", "x", "moved", "2099-12-31", where=TOPICS),
    )
    return seen.plan(replace(wished(), flows={without.name: without}, deletions=tombstones))


def settled() -> World:
    seen = world()
    seen.apply(wished())
    return seen


def edited() -> Plan:
    return _edit()[0]


def measured() -> Plan:
    """``edited``, where the clusters said what is at stake."""
    made, now = _edit()
    readers = (ReadingGroup("billing", "Stable", 3, 120), ReadingGroup("fraud", "Stable", 6, 0))
    copy = Stakes(11 << 30, 1_196_400, 908_000, (ReadingGroup("reports", "Stable", 2, 0),))
    told = {
        TopicRef("east", "orders"): Stakes(12 << 30, 1_200_000, 912_000, readers),
        TopicRef("west", "east.orders"): copy,
        TopicRef("west", "east.pay"): Stakes(96 << 20, 88_100, None, ()),
    }
    features = ClusterFeatures(30, True)
    return weighed(described(made, now, {"east": features, "west": features}), now, told)


def _edit() -> tuple[Plan, Topology]:
    """Growth, lowered retention, a changed flow, and a source default that removes an override; what it declares."""
    seen = settled()
    seen.clusters["west"].topics["east.pay"].overrides["max.message.bytes"] = "2097152"
    told = {name: json.loads(text) for name, text in seen.runner.handovers.items()}
    now = topology(
        topic("orders", partitions=8, configs={"retention.ms": "3600000"}, labels={"keyed": "true"}, where=TOPICS),
        topic("pay", partitions=2, where=TOPICS),
        flow("east", "west", "orders", "pay", lanes=4, replication_factor=1),
        environment="sandbox",
    )
    return seen.plan(now, previous=told, edition=Edition("4f0c2d1e9ab3", dirty=True)), now


def troubled() -> Plan:
    """Refusals, a silent cluster, strangers, overrides nobody declared."""
    seen = world("east", "north", "west")
    seen.clusters["east"].put("orders", 9, preallocate="true")
    for number in range(12):
        seen.clusters["west"].put(f"stray-{number:02}", 1)
    seen.clusters["north"].fail_on(1, unreachable("north"))
    more = (topic("audit", "east", replication_factor=3, where=TOPICS), flow("north", "west", "audit"))
    base = wished()
    return seen.plan(topology(*base.clusters.values(), *base.topics.values(), *base.flows.values(), *more))


def access() -> Plan:
    """Roles, exact rules, a flow that carries rules along and keeps its copies read-only, rules left over, removed
    outside and of strangers."""
    seen = world()
    before = loaded(ACCESS.replace("names: [orders]", "names: [orders, pay]"))
    for name, text in (("east", "allow User:audit read topic *"), ("east", "deny User:audit read topic pay.keys")):
        seen.clusters[name].acls |= rules(text)
    seen.apply(before)
    seen.clusters["east"].acls -= rules("allow User:orders-app write topic orders")
    seen.clusters["west"].acls |= rules(
        *(f"allow User:legacy read topic old-{number}" for number in range(9)), "allow User:ops describe topic *"
    )
    seen.clusters["west"].acls |= rules("allow User:writer write topic east.*", "allow User:* write topic east.pay.*")
    seen.clusters["east"].acls |= rules("allow User:billing read topic orders", "allow User:late read topic orders")
    return seen.plan(loaded(ACCESS.replace("groups: [billing]", "groups: [billing, {prefix: test-}]")))


def loaded(text: str) -> Topology:
    return load({"access.yaml": text}, "sandbox")


ACCESS = """
clusters:
  east: {bootstrap_servers: ["east:9092"], defaults: {replication_factor: 1}}
  west: {bootstrap_servers: ["west:9092"]}
topics:
  orders: {clusters: [east], partitions: 1}
  pay.keys: {clusters: [east], partitions: 1}
flows:
  east-to-west: {source: east, target: west, topics: [orders, pay.*], replication_factor: 1, access: {sync: true},
    copies: read_only}
access:
  - {role: producer, principal: "User:orders-app", clusters: [east], topics: [orders], transactional_ids: [orders]}
  - {role: consumer, principal: "User:billing", clusters: [east], topics: [orders], groups: [billing]}
  - {role: mirror, principal: "User:mirror"}
  - {principal: "User:etl", clusters: [west], resource: topic, names: [orders], operations: [read, alter_configs]}
  - {principal: "User:etl", clusters: [west], resource: cluster, operations: [alter], permission: deny}
"""


def guarded_plan() -> Plan:
    """A step of retention and a prune with what they put at stake, a wish that shrank, and a cluster nobody has met."""
    seen = settled()
    for number in range(4):
        seen.clusters["east"].put(f"scratch.{number}", 2)
    seen.clusters["east"].put("scratch.app-changelog", 1)
    now = replace(
        topology(
            cluster("east", defaults=TopicDefaults(replication_factor=1), prune_topics=(r"scratch\..*",), where=TOPICS),
            topic(
                "orders",
                partitions=6,
                configs={"retention.ms": "3600000"},
                lower_retention_by={"retention.ms": "43200000"},
                where=TOPICS,
            ),
            flow("east", "west", "orders", replication_factor=1, groups=Groups(sync_offsets=True)),
            environment="sandbox",
        ),
        rules=Rules(protected=(Protection(r"scratch\.3", TOPICS),)),
    )
    made = plan(now, seen.look(now), prune=True)
    made = described(made, now, {"east": ClusterFeatures(30, True), "west": ClusterFeatures(99, False)})
    last = Applied("sandbox", 0, "ada", "4f0c2d1e9ab3", {"east": "another-id"}, tuple("abcdefgh"), ("east-to-west",))
    made = guarded(made, now, seen.look(now), last, Consent(prune=True))
    readers = (ReadingGroup("billing", "Stable", 3, 120), ReadingGroup("audit", "Empty", 0, None))
    told = {
        TopicRef("east", "orders"): Stakes(12 << 30, 1_200_000, 300_000, readers),
        TopicRef("east", "scratch.0"): Stakes(0, 0, None, ()),
        TopicRef("east", "scratch.1"): Stakes(2_000, 20, None, readers[:1]),
        TopicRef("east", "scratch.2"): Stakes(unknown=("its bytes: this principal may not ask",)),
    }
    return weighed(made, now, told)


def replicated() -> Plan:
    """Other factors: folded topics, one that goes down, one that an earlier run left half way."""
    seen = world(brokers=3)
    for number in range(4):
        seen.clusters["east"].put(f"clicks-{number:02}", 3).sizes = {0: 30 << 20, 1: 20 << 20, 2: 25 << 20}
    seen.clusters["east"].put("orders", 6, 3).sizes = dict.fromkeys(range(6), 1 << 30)
    seen.clusters["west"].put("east.orders", 6, 1).sizes = dict.fromkeys(range(6), 200 << 20)
    clicks = [topic(f"clicks-{number:02}", replication_factor=3, where=TOPICS) for number in range(4)]
    orders = topic("orders", replication_factor=2, where=TOPICS)
    mirrored = topology(*clicks, orders, flow("east", "west", "orders", replication_factor=3), environment="sandbox")
    half_way = only(seen.plan(mirrored), "replicas:west/east.orders")
    seen.clusters["west"].fail_on(13, KeyboardInterrupt())
    seen.apply(mirrored, half_way)
    return seen.plan(mirrored)


def only(plan: Plan, change_id: str) -> Plan:
    return replace(plan, changes=tuple(one for one in plan.changes if one.id == change_id))


def unchanged() -> Plan:
    return settled().plan(wished())


def pinned(make: Callable[[], Plan]) -> Callable[[], Plan]:
    """Without the digest of the topology, which changes with every field the YAML gains."""

    def plan() -> Plan:
        made = make()
        return replace(made, basis=replace(made.basis, topology_digest="0" * 64))

    return plan


def quotas() -> Plan:
    """New, tighter, wider and removed limits; a stranger's quota and a key that nobody declared."""
    seen = settled()
    seen.clusters["east"].quotas = {
        entity({"user": "orders-app"}): {"producer_byte_rate": 20.0 * (1 << 20), "consumer_byte_rate": 1_500_000.0},
        entity({"user": None}): {"request_percentage": 50.0},
        entity({"client-id": "old"}): {"producer_byte_rate": 1024.0},
        entity({"user": "stranger", "client-id": "x y"}): {"controller_mutation_rate": 2.5},
    }
    declared = load({"clusters.yaml": _TWO_CLUSTERS, "quotas.yaml": _QUOTAS}, "sandbox")
    now = replace(wished(), environment="sandbox", quotas=declared.quotas)
    return plan(now, seen.look(now))


def users() -> Plan:
    """New, rotated, taken over, half set, deleted and left over; a stranger, and a cluster that cannot tell."""
    seen = settled()
    seen.clusters["east"].users = {
        "orders-app": {Mechanism.SHA_512: 4096},
        "billing": {Mechanism.SHA_256: 4096, Mechanism.SHA_512: 4096},
        "legacy": {Mechanism.SHA_256: 5000},
        "half": {Mechanism.SHA_512: 4096},
        "old-app": {Mechanism.SHA_512: 4096},
        "forgotten": {Mechanism.SHA_512: 4096},
        "stranger": {Mechanism.SHA_512: 8192},
    }
    seen.clusters["east"].recorded = {
        "orders-app": UserRecord(2, (Mechanism.SHA_512,)),
        "billing": UserRecord(1, (Mechanism.SHA_256, Mechanism.SHA_512)),
        "half": UserRecord(1, (Mechanism.SHA_512,), 2),
        "forgotten": UserRecord(1, (Mechanism.SHA_512,)),
    }
    seen.clusters["west"].users_unreadable = Unsupported("the brokers do not know SCRAM users")
    declared = load({"clusters.yaml": _TWO_CLUSTERS, "users.yaml": _USERS}, "sandbox")
    now = replace(wished(), environment="sandbox", users=declared.users, users_declared=True)
    return plan(now, seen.look(now))


_USERS = """users:
  - {clusters: [east, west], name: orders-app, version: 3, password: "${env:ORDERS_APP}"}
  - {clusters: [east], name: billing, version: 1, iterations: 8192, password: "${file:/run/secrets/billing}"}
  - {clusters: [east], name: legacy, version: 1, take_over: true, mechanisms: [SCRAM-SHA-256], password: "${env:OLD}"}
  - {clusters: [east], name: half, version: 2, password: "${env:HALF}"}
  - {clusters: [east], name: old-app, absent: true}
  - {clusters: [east], name: new-1, version: 1, password: "${env:NEW_1}"}
  - {clusters: [east], name: new-2, version: 1, password: "${env:NEW_2}"}
  - {clusters: [east], name: new-3, version: 1, password: "${env:NEW_3}"}
  - {clusters: [east], name: stranger, version: 1, password: "${env:STRANGER}"}
"""
_TWO_CLUSTERS = """
clusters:
  east: {bootstrap_servers: ["east.example:9092"]}
  west: {bootstrap_servers: ["west.example:9092"]}
"""
_QUOTAS = """quotas:
  - {clusters: [east, west], user: orders-app, producer_byte_rate: 10MiB}
  - {clusters: [east], user: {default: true}, request_percentage: 200}
  - {clusters: [east], user: {default: true}, client_id: batch, consumer_byte_rate: 1MiB, controller_mutation_rate: 5}
  - {clusters: [east], client_id: old, absent: true}
  - {clusters: [west], ip: 10.0.0.7, connection_creation_rate: 50}
"""


def rollout() -> Plan:
    """Two waves: what is east's, what waits for the west although it is east's, and what is the west's."""
    seen = settled()
    told = {name: json.loads(text) for name, text in seen.runner.handovers.items()}
    now = topology(
        topic("orders", partitions=8, configs={"retention.ms": "86400000"}, where=TOPICS),
        topic("pay", partitions=2, configs={"retention.ms": "3600000"}, where=TOPICS),
        flow("east", "west", "orders", "pay", "clicks-.*", replication_factor=1, lanes=4),
        environment="sandbox",
    )
    waves = (RolloutWave("canary", clusters=("east",)), RolloutWave("rest", clusters=("west",), soak_ms=3_600_000))
    return seen.plan(replace(now, rollout=Rollout(waves, 600_000)), previous=told, edition=Edition("4f0c2d1e9ab3"))


def outside() -> Plan:
    """Topics deleted, recreated and edited by hand; a lower limit for a copy; a broker default that nobody can meet."""
    seen = settled()
    declared = wished()
    west = cluster("west", defaults=TopicDefaults(undeclared=Undeclared.DRIFT))
    declared = replace(declared, clusters={**declared.clusters, "west": west})
    left = {}
    for name, there in seen.clusters.items():
        live = there.seen()
        record = left_on(live, live.topics)
        left[name] = replace(record, at_ms=1_790_000_000_000, who="ada")
    east = seen.clusters["east"]
    del east.topics["pay"]
    east.put("orders", 6, retention_ms="86400000", max_message_bytes="1000")
    east.broker_configs["min.insync.replicas"] = ("2", Source.CLUSTER)
    seen.clusters["west"].topics["east.orders"].overrides["min.insync.replicas"] = "1"
    return seen.plan(declared, left=left)


_CASES = (
    first,
    edited,
    troubled,
    unchanged,
    removed,
    access,
    guarded_plan,
    replicated,
    quotas,
    users,
    rollout,
    outside,
)
PLANS = {made.__name__: pinned(made) for made in _CASES}


def agrees(name: str, text: str) -> None:
    """``<case>.<document>.<format>`` is kept as a file in the case's folder."""
    path = HERE / name.replace(".", "/", 1)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
