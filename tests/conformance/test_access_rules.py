"""Access rules of a cluster: the fake and a real StandardAuthorizer, and what real clients may do with them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.engine.observe.read_all import ReadScope, observe
from reconciler.engine.plan.build import plan
from reconciler.environment.load import load
from reconciler.errors import Unknown
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl, Grant, MirrorChange
from reconciler.model.environment.topology import Principal
from reconciler.model.live import Before, LiftedCopies, LiveAccess, Made
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.ports import ClusterAdmin
from reconciler.model.principals import AclBinding, Unsupported
from reconciler.model.reports.failover import FailoverFacts, FenceSeen, StepResult, Way
from reconciler.operations.cutover.decide import fence_of
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.fence import Fence, ReadOnlyCopies
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.access.acls import rule
from tests.support.builders import flow, topology
from tests.support.clusters import CreateTopic as MakeTopic
from tests.support.clusters import real_cluster
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.subjects import BECAUSE, results

GRANT = Grant("User:app: consumer on orders", "declared")
OURS = Made(GRANT.title, GRANT.maker)


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("secure"))])
def admin(request: pytest.FixtureRequest, unique: str) -> Iterator[ClusterAdmin]:
    if request.param == "fake":
        yield FakeCluster("east")
        return
    east = request.getfixturevalue("secure").clusters["east"]
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY, unique) as cluster:
        yield cluster


def perform(admin: ClusterAdmin, *changes: AclChange) -> Sequence[Outcome]:
    planned = [Planned(f"c{index}", change, "access", "low", "", "") for index, change in enumerate(changes)]
    return admin.perform(planned, lambda _: None)


def create(acl: AclBinding) -> CreateAcl:
    return CreateAcl("east", acl, GRANT, BECAUSE)


def delete(acl: AclBinding) -> DeleteAcl:
    return DeleteAcl("east", acl, GRANT, BECAUSE)


def shown(admin: ClusterAdmin, unique: str) -> set[AclBinding]:
    acls = admin.read_access().acls
    assert isinstance(acls, frozenset)
    return {acl for acl in acls if unique in acl.principal}


def test_rules_of_every_kind_are_made_shown_and_owned(admin: ClusterAdmin, unique: str) -> None:
    acls = [
        rule(f"allow User:{unique} read topic orders"),
        rule(f"allow User:{unique} write topic {unique}*"),
        rule(f"deny User:{unique} all topic *"),
        rule(f"allow User:{unique} read group billing from 10.0.0.1"),
        rule(f"allow User:{unique} alter cluster kafka-cluster"),
        rule(f"allow User:{unique} write transactional_id orders*"),
        rule(f"allow User:{unique} describe delegation_token orders"),
        replace(rule("allow User:x read group g"), principal=f"User:CN={unique}, O=Ünder Cover", name='a "b" c'),
    ]
    assert results(perform(admin, *map(create, acls))) == ["done"] * len(acls)
    assert shown(admin, unique) == set(acls)
    assert admin.read_access().owned == dict.fromkeys(acls, Made(GRANT.title, GRANT.maker))
    assert results(perform(admin, *map(create, acls))) == ["done"] * len(acls)
    assert results(perform(admin, *map(delete, acls))) == ["done"] * len(acls)
    assert shown(admin, unique) == set()
    assert admin.read_access().owned == {}


def test_a_deletion_meets_its_own_rule_and_no_other(admin: ClusterAdmin, unique: str) -> None:
    near = [
        rule(f"allow User:{unique} read topic {unique}"),
        rule(f"allow User:{unique} read topic {unique}*"),
        rule(f"deny User:{unique} read topic {unique}"),
        rule(f"allow User:{unique} read topic {unique} from 10.0.0.1"),
        rule(f"allow User:{unique} all topic {unique}"),
        rule(f"allow User:{unique} read topic *"),
    ]
    perform(admin, *map(create, near))
    assert results(perform(admin, delete(near[0]))) == ["done"]
    assert shown(admin, unique) == set(near[1:])
    assert results(perform(admin, delete(near[0]))) == ["done"]
    perform(admin, *map(delete, near[1:]))


def test_rules_are_put_back_to_whom_they_were(admin: ClusterAdmin, unique: str) -> None:
    ours, theirs, new = (rule(f"allow User:{unique} {word} topic orders") for word in ("read", "write", "alter"))
    perform(admin, create(ours), create(theirs))
    admin.put_back({theirs: Before(there=True, made=None)})
    assert admin.read_access().owned == {ours: OURS}, "what was a stranger's is a stranger's again"
    before = {ours: Before(True, OURS), theirs: Before(True), new: Before(False)}
    admin.keep_pending(before)
    assert admin.read_access().pending == before
    assert results(perform(admin, delete(ours), delete(theirs), create(new))) == ["done"] * 3
    for _ in range(2):  # undone twice is undone
        assert admin.put_back(before) == {}
        assert shown(admin, unique) == {ours, theirs}
        assert admin.read_access().owned == {ours: OURS}
    admin.keep_pending(dict.fromkeys(before))
    assert admin.read_access().pending == {}
    perform(admin, delete(ours), delete(theirs))


def test_each_broker_reports_its_rules(admin: ClusterAdmin, unique: str) -> None:
    acl = rule(f"allow User:{unique} read topic orders")
    perform(admin, create(acl))
    views = admin.rules_by_broker()
    assert views
    assert all(acl in view for view in views.values())
    perform(admin, delete(acl))
    assert not any(acl in view for view in admin.rules_by_broker().values())


def test_who_may_not_alter_the_cluster_puts_nothing_back_and_says_why(secure: Sandbox, unique: str) -> None:
    acl = rule(f"allow User:{unique} read topic orders")
    east = secure.clusters["east"]
    with KafkaCluster(real_cluster(east, "plan"), Principal.PLAN, unique) as cluster:
        failed = cluster.put_back({acl: Before(there=True)})
    assert "--operation Alter --cluster" in failed[acl]


def test_without_an_authorizer_there_are_no_rules_to_speak_of(plain: Sandbox, unique: str) -> None:
    with KafkaCluster(real_cluster(plain.clusters["east"]), Principal.APPLY, unique) as cluster:
        assert isinstance(cluster.read_access().acls, Unsupported)
        [outcome] = perform(cluster, create(rule(f"allow User:{unique} read topic orders")))
        assert outcome.result is Result.FAILED
        assert "has no authorizer" in outcome.error


def test_who_may_not_describe_the_cluster_learns_which_rule_is_missing(secure: Sandbox, unique: str) -> None:
    found = KafkaCluster(real_cluster(secure.clusters["east"], "user"), Principal.PLAN, unique).read_access()
    assert isinstance(found.acls, Unknown)
    assert "--allow-principal 'User:user' --operation Describe --cluster" in found.acls.todo


def test_who_may_not_alter_the_cluster_makes_nothing_and_owns_nothing(secure: Sandbox, unique: str) -> None:
    with KafkaCluster(real_cluster(secure.clusters["east"], "plan"), Principal.PLAN, unique) as cluster:
        [outcome] = perform(cluster, create(rule(f"allow User:{unique} read topic orders")))
        assert outcome.result is Result.FAILED
        assert "--operation Write --topic __reconciler" in outcome.error
        assert cluster.read_access().owned == {}


def test_environments_do_not_own_each_others_rules(secure: Sandbox, unique: str) -> None:
    acl = rule(f"allow User:{unique} read topic orders")
    ours, theirs = (
        KafkaCluster(real_cluster(secure.clusters["east"], "apply"), Principal.APPLY, f"{unique}-{name}")
        for name in ("ours", "theirs")
    )
    with ours, theirs:
        perform(ours, create(acl))
        assert list(ours.read_access().owned) == [acl]  # type: ignore[arg-type]
        assert theirs.read_access().owned == {}
        perform(ours, delete(acl))


def may_write(cluster: ClusterHandle, topic: str, who: str = "user") -> bool:
    failed: list[KafkaError] = []
    producer = Producer({**cluster.client(who), "log_level": "0", "message.timeout.ms": 10_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush(15)
    assert all(one.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED for one in failed), failed
    return not failed


def test_a_failover_keeps_producers_off_and_the_failback_takes_back_what_it_made(
    secure: Sandbox, unique: str, create_topic: MakeTopic
) -> None:
    """A rule that stood before stays; a run that was killed before it made its rules has recorded them."""
    east, stands = secure.clusters["east"], f"{unique}-stands"
    create_topic(east, unique)
    create_topic(east, stands)
    source = replace(real_cluster(east, "apply"), name="east")
    wished = topology(source, flow("east", "west", f"{unique}.*"), environment=unique)
    fence = Fence(wished, "east-to-west")
    with KafkaCluster(source, Principal.APPLY, f"{unique}-other") as other:
        allow = [rule(f"allow User:user write topic {name}") for name in (unique, stands)]
        perform(other, *map(create, [*allow, denial(stands)]))
        assert (may_write(east, unique), may_write(east, stands)) == (True, False)
        seen = fence.look([unique, stands])
        assert seen == FenceSeen(frozenset(), frozenset({denial(unique)}))
        facts = FailoverFacts(move_of(wished, Way.FAILOVER, "east-to-west"), True, "", None, (), fence=seen)
        assert fence.make(facts)[0] is StepResult.DONE
        assert not may_write(east, unique)
        assert fence.look([unique, stands]) == FenceSeen(frozenset({denial(unique)}))
        access = other.read_access()
        assert denial(unique) not in access.owned, "no plan takes it back"  # type: ignore[operator]
        made = fence.made()
        assert not isinstance(made, Unknown)
        assert made == {denial(unique)}
        for _ in range(2):
            fence.take_back()
        assert (may_write(east, unique), may_write(east, stands), fence.made()) == (True, False, frozenset())
        perform(other, *map(delete, [*allow, denial(stands)]))


def test_a_fence_by_principal_keeps_producers_off_and_lets_a_mirror_continue(
    secure: Sandbox, unique: str, create_topic: MakeTopic
) -> None:
    """Same names both ways: a rule for everyone would stop the flow back, too."""
    east = secure.clusters["east"]
    create_topic(east, unique)
    source = replace(real_cluster(east, "apply"), name="east")
    fence = Fence(topology(source, flow("east", "west", unique), environment=unique), "east-to-west")
    with KafkaCluster(source, Principal.APPLY, f"{unique}-other") as other:
        allow = [rule(f"allow User:{who} write topic {unique}") for who in ("user", "mirror")]
        perform(other, *map(create, allow))
        assert (may_write(east, unique), may_write(east, unique, "mirror")) == (True, True)
        chosen = fence_of([unique], fence.rules(), "east", {unique: "west-to-east"}, {"User:mirror"})
        assert chosen.rules == {denial(unique, "User:user")}
        fence.put(chosen.rules, "cutover of east-to-west")
        assert fence.made() == chosen.rules
        assert (may_write(east, unique), may_write(east, unique, "mirror")) == (False, True)
        for _ in range(2):
            fence.strike(chosen.rules)
        assert (may_write(east, unique), fence.made()) == (True, frozenset())
        perform(other, *map(delete, allow))


def may_read(cluster: ClusterHandle, topic: str, group: str) -> bool:
    """As ``user``, with a committed position: reading without a group would not be what applications do."""
    consumer = Consumer(
        {**cluster.client("user"), "log_level": "0", "group.id": group, "auto.offset.reset": "earliest"}
    )
    denied = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                assert error.code() in denied, error
                return False
            with contextlib.suppress(KafkaException):
                consumer.commit(message, asynchronous=False)
                return True
            return False
        raise AssertionError(f"{topic} gave neither a record nor a refusal")
    finally:
        consumer.close()


Applied = Callable[[str], Plan]


@pytest.fixture
def apply(secure: Sandbox, unique: str) -> Iterator[Applied]:
    """Plans an environment on both secure clusters and does what concerns clusters; jobs are left out."""
    addresses = "\n".join(f'  {name}: {{bootstrap_servers: ["{name}:1"]}}' for name in ("east", "west"))
    admins = {
        name: KafkaCluster(real_cluster(secure.clusters[name], "apply"), Principal.APPLY, unique)
        for name in ("east", "west")
    }

    def run(text: str) -> Plan:
        wished = load({"a.yaml": f"clusters:\n{addresses}\n{text}"}, unique)
        made = plan(wished, observe(admins, wanted=ReadScope(access=admins)))
        for planned in made.changes:
            if not isinstance(planned.change, MirrorChange):
                cluster = planned.change.cluster
                [outcome] = admins[cluster].perform([planned], lambda _: None)
                assert outcome.result is Result.DONE, outcome.error
        left = plan(wished, observe(admins, wanted=ReadScope(access=admins)))
        assert not [one.id for one in left.changes if not isinstance(one.change, MirrorChange)]
        return made

    yield run
    run("access: []\n")
    for admin in admins.values():
        admin.close()


def test_what_is_declared_lets_a_client_work_and_what_is_declared_no_longer_does_not(
    secure: Sandbox, unique: str, create_topic: MakeTopic, apply: Applied
) -> None:
    east = secure.clusters["east"]
    topic = create_topic(east, f"{unique}.orders", retention_ms="-1")
    assert not may_write(east, topic)
    producer = f'  - {{role: producer, principal: "User:user", clusters: [east], topics: [{{prefix: {unique}}}]}}\n'
    consumer = (
        f'  - {{role: consumer, principal: "User:user", clusters: [east], topics: [{topic}], groups: [{unique}]}}\n'
    )
    apply(f"access:\n{producer}")
    assert may_write(east, topic)
    assert not may_read(east, topic, unique)
    apply(f"access:\n{producer}{consumer}")
    assert may_read(east, topic, unique)
    apply(f"access:\n{consumer}")
    assert not may_write(east, topic)
    apply("access: []\n")
    assert not may_read(east, topic, unique)


def test_who_reads_the_source_reads_the_remote_topic_until_the_source_rule_goes(
    secure: Sandbox, unique: str, create_topic: MakeTopic, apply: Applied
) -> None:
    east, west = secure.clusters["east"], secure.clusters["west"]
    for name in ("orders", "secret"):
        create_topic(east, f"{unique}.{name}")
    flow = (
        f"flows:\n  {unique}: {{source: east, target: west, topics: ['{unique}.*'], replication_factor: 1,"
        " access: {sync: true, groups: true}}\n"
    )
    rules = (
        f'access:\n  - {{role: consumer, principal: "User:user", clusters: [east], topics: [{{prefix: {unique}}}],'
        f" groups: [{unique}]}}\n"
        f'  - {{principal: "User:user", clusters: [east], resource: topic, names: [{unique}.secret],'
        " operations: [read], permission: deny}\n"
    )
    apply(flow + rules)
    for name in ("orders", "secret"):
        _put(west, f"east.{unique}.{name}")
    assert may_read(west, f"east.{unique}.orders", unique)
    assert not may_read(west, f"east.{unique}.secret", unique)
    assert not may_write(west, f"east.{unique}.orders")
    apply(f"{flow}access: []\n")
    assert not may_read(west, f"east.{unique}.orders", unique)


def test_copies_are_the_mirrors_until_a_failover_and_again_after_the_failback(
    secure: Sandbox, unique: str, create_topic: MakeTopic, apply: Applied
) -> None:
    """Names stay, and the client has its rule on both sides. A run that was killed once it had recorded goes on."""
    west, topic = secure.clusters["west"], f"{unique}.orders"
    for handle in secure.clusters.values():
        create_topic(handle, topic, retention_ms="-1")
    text = (
        f"flows:\n  {unique}: {{source: east, target: west, topics: ['{unique}.*'], replication_factor: 1,"
        " naming: {policy: identity}%s}\n"
        f'access:\n  - {{role: mirror, principal: "User:mirror"}}\n'
        f'  - {{role: producer, principal: "User:user", clusters: [east, west], topics: [{topic}]}}\n'
    )
    kept = text % ", copies: read_only"
    apply(text % "")
    assert may_write(west, topic)
    apply(kept)
    assert (may_write(west, topic), may_write(west, topic, "mirror")) == (False, True)

    addresses = "".join(f"  {name}: {{bootstrap_servers: ['{name}:1']}}\n" for name in ("east", "west"))
    wished = load({"a.yaml": f"clusters:\n{addresses}{kept}"}, unique)
    real = {name: replace(real_cluster(handle, "apply"), name=name) for name, handle in secure.clusters.items()}
    copies = ReadOnlyCopies(replace(wished, clusters=real), unique)
    everything, one = LiftedCopies(unique), LiftedCopies(unique, topic)
    with KafkaCluster(real["west"], Principal.APPLY, unique) as cluster:
        cluster.access.lifted.write({everything: (), one: ("User:user",)})
        seen = copies.look()
        assert seen.denied == {denial(topic, "User:user")}
        assert seen.lifted == {everything: (), one: ("User:user",)}
        assert copies.lift()[0] is StepResult.DONE
        assert cluster.read_access().lifted == {everything: (), one: ("User:user",)}
        assert may_write(west, topic)
        assert copies.lift()[0] is StepResult.ALREADY
        assert not [each for each in apply(kept).changes if isinstance(each.change, AclChange)]
        assert may_write(west, topic)
        assert copies.restore()[0] is StepResult.DONE
        assert cluster.read_access().lifted == {}
        assert copies.restore()[0] is StepResult.ALREADY
    assert (may_write(west, topic), may_write(west, topic, "mirror")) == (False, True)
    assert not [each for each in apply(kept).changes if isinstance(each.change, AclChange)]
    apply(text % "")
    assert may_write(west, topic)


def _put(cluster: ClusterHandle, topic: str) -> None:
    """As super user, in place of the mirror."""
    producer = Producer({**cluster.super_client(), "log_level": "0"})
    producer.produce(topic, b"x")
    assert producer.flush(20) == 0


def test_a_fake_that_cannot_be_read_says_so() -> None:
    fake = FakeCluster("east")
    fake.access_unreadable = Unknown("access east", "denied")
    assert fake.read_access() == LiveAccess(Unknown("access east", "denied"), {})
