"""What a principal that may not do everything is told. Real: the secure sandbox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics.read import BATCH
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.state.audit import read_copy
from reconciler.errors import ClusterError, SecretError, Unknown
from reconciler.model.changes import CreateTopic, DeleteTopic, Role
from reconciler.model.environment.topology import Cluster, Principal, TopicRef
from reconciler.model.plan import Planned, Result
from tests.support.clusters import CreateTopic as MakeTopic
from tests.support.clusters import denied, real_cluster
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.subjects import BECAUSE


@pytest.fixture
def east(secure: Sandbox) -> ClusterHandle:
    return secure.clusters["east"]


def create(name: str) -> CreateTopic:
    return CreateTopic(TopicRef("east", name), 1, None, (), Role.DECLARED, BECAUSE)


def test_a_fake_with_hidden_topics_does_not_claim_to_see_all() -> None:
    fake = FakeCluster("east")
    fake.put("seen")
    fake.put("secret")
    fake.hide("secret")
    live = fake.read()
    assert (set(live.topics), live.sees_all) == ({"seen"}, False)


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("secure"))])
def denying(
    request: pytest.FixtureRequest, unique: str, create_topic: MakeTopic
) -> Iterator[FakeCluster | KafkaCluster]:
    """May describe every topic but ``{unique}.there`` and ``{unique}.missing``, of which the first is there."""
    names = [f"{unique}.there", f"{unique}.missing"]
    if request.param == "fake":
        fake = FakeCluster("east")
        fake.put(names[0])
        fake.deny(*names)
        yield fake
        return
    east: ClusterHandle = request.getfixturevalue("secure").clusters["east"]
    create_topic(east, names[0])
    with denied(east, "plan", *names), KafkaCluster(real_cluster(east, "plan")) as cluster:
        yield cluster


def test_what_a_deny_rule_names_is_in_no_list_and_hidden_when_it_is_asked_for(
    denying: FakeCluster | KafkaCluster, unique: str
) -> None:
    """A broker answers both alike, so nobody can tell which of them is there."""
    names = [f"{unique}.{last}" for last in ("there", "missing", "free")]
    listed, named = denying.read(), denying.read(names)
    assert (listed.topics.keys() & set(names), listed.sees_all, dict(listed.hidden)) == (set(), True, {})
    assert (set(named.topics), set(named.hidden), named.sees_all) == (set(), set(names[:2]), False)


def test_what_may_not_be_described_any_more_is_neither_reported_to_be_done_nor_to_be_gone(
    east: ClusterHandle, unique: str, create_topic: MakeTopic
) -> None:
    old, new = create_topic(east, f"{unique}.old"), f"{unique}.new"
    admin = KafkaCluster(real_cluster(east, "apply"))
    ref, topic_id = TopicRef("east", old), admin.read([old]).topics[old].topic_id
    changes = create(new), DeleteTopic(ref, topic_id, 1, "2027-01-01", BECAUSE)
    with denied(east, "apply", old, new):
        made, gone = (admin.perform([Planned("c", one, "", "low", "", "")], lambda _: None)[0] for one in changes)
    assert (made.result, gone.result) == (Result.FAILED, Result.FAILED)
    assert "it is not known whether it exists\nNothing was changed on it\n" in gone.error
    assert "kafka-acls.sh" in gone.error
    assert "whether it is done is unknown: principal plan may not describe" in made.error
    assert old in KafkaCluster(real_cluster(east, "plan")).read([old]).topics


def test_hidden_topics_are_not_read_and_the_reader_knows_it(
    east: ClusterHandle, unique: str, create_topic: MakeTopic
) -> None:
    hidden, shown = create_topic(east, f"{unique}.hidden"), create_topic(east, f"user.{unique}")
    live = KafkaCluster(real_cluster(east, "user")).read()
    assert shown in live.topics
    assert hidden not in live.topics
    assert not live.sees_all
    named = KafkaCluster(real_cluster(east, "user")).read([hidden, f"user.{unique}-missing"])
    assert named.topics == {}
    assert list(named.hidden) == [hidden], "of a missing one this principal may know that it is missing"
    assert f"--allow-principal 'User:user' --operation Describe --topic {hidden}" in named.hidden[hidden].todo
    many = KafkaCluster(real_cluster(east, "user")).read([hidden, *(f"user.{unique}-{n}" for n in range(BATCH + 1))])
    assert (many.hidden, many.sees_all) == (named.hidden, False), "by more than one request"


def test_who_may_describe_every_topic_sees_all(east: ClusterHandle, unique: str, create_topic: MakeTopic) -> None:
    topic = create_topic(east, f"{unique}.orders", retention_ms="60000")
    live = KafkaCluster(real_cluster(east, "plan")).read()
    assert live.sees_all
    assert live.topics[topic].overrides == {"retention.ms": "60000"}


def test_denied_configs_are_unknown_with_the_acl_to_add_and_the_rest_is_read(
    east: ClusterHandle, unique: str, create_topic: MakeTopic
) -> None:
    topic = create_topic(east, f"user.{unique}", 2)
    found = KafkaCluster(real_cluster(east, "user")).read([topic]).topics[topic]
    assert len(found.partitions) == 2
    assert isinstance(found.configs, Unknown)
    assert topic in found.configs.subject
    assert f"--allow-principal 'User:user' --operation DescribeConfigs --topic {topic}" in found.configs.todo


def test_a_denied_create_names_the_operation_and_the_acl_and_makes_nothing(east: ClusterHandle, unique: str) -> None:
    admin = KafkaCluster(real_cluster(east, "plan"))
    (outcome,) = admin.perform([Planned("c1", create(unique), "stage", "low", "", "")], lambda _: None)
    assert outcome.result is Result.FAILED
    assert f"--allow-principal 'User:plan' --operation Create --topic {unique}" in outcome.error
    assert unique not in admin.read().topics


def test_validation_without_the_permission_is_an_error_not_an_all_clear(east: ClusterHandle, unique: str) -> None:
    with pytest.raises(ClusterError) as caught, KafkaCluster(real_cluster(east, "plan")) as cluster:
        cluster.validate([create(unique)])
    assert caught.value.kind == "denied"


def test_apply_may_create_on_the_secure_cluster(east: ClusterHandle, unique: str) -> None:
    admin = KafkaCluster(real_cluster(east, "apply"))
    assert admin.validate([create(unique)]) == {}
    (outcome,) = admin.perform([Planned("c1", create(unique), "stage", "low", "", "")], lambda _: None)
    assert outcome.result is Result.DONE


def test_a_wrong_password_is_an_authentication_error_at_once_without_the_password(east: ClusterHandle) -> None:
    cluster = real_cluster(east, "plan", sasl_password="not-the-password")
    with pytest.raises(ClusterError) as caught, KafkaCluster(cluster) as client:
        client.read()
    assert caught.value.kind == "authentication"
    assert "not-the-password" not in str(caught.value)
    assert "principal plan" in str(caught.value)


def test_an_untrusted_certificate_is_an_authentication_error(secure: Sandbox) -> None:
    other_authority = str(secure.clusters["west"].ca)
    refused = real_cluster(secure.clusters["east"], "plan", ssl_ca_location=other_authority)
    with pytest.raises(ClusterError) as caught, KafkaCluster(refused) as cluster:
        cluster.read()
    assert caught.value.kind == "authentication"
    assert "certificate" in str(caught.value).lower()


def test_a_certificate_authority_that_is_no_file_is_reported_before_anything_is_sent(east: ClusterHandle) -> None:
    refused = real_cluster(east, "plan", ssl_ca_location="no-such-file.pem")
    with pytest.raises(ClusterError) as caught, KafkaCluster(refused) as cluster:
        cluster.read()
    assert caught.value.kind == "invalid"
    assert "ssl.ca.location" in str(caught.value)


def test_a_client_certificate_is_accepted(east: ClusterHandle) -> None:
    settings = east.mtls_client("plan")
    servers = tuple(settings.pop("bootstrap.servers").split(","))
    assert KafkaCluster(Cluster("east", servers, client=settings)).read().cluster_id == east.cluster_id


def test_plain_text_to_a_tls_listener_is_unreachable_and_points_at_security_protocol(east: ClusterHandle) -> None:
    cluster = Cluster("east", tuple(east.bootstrap_servers.split(",")))
    with pytest.raises(ClusterError) as caught, KafkaCluster(cluster) as client:
        client.read()
    assert caught.value.kind == "unreachable"
    assert "security.protocol" in str(caught.value)


def test_secrets_are_taken_from_the_environment_when_connecting(
    east: ClusterHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = real_cluster(east, "plan", sasl_password="${env:SANDBOX_EAST_PLAN_PASSWORD}")
    reader = KafkaCluster(cluster)
    with pytest.raises(SecretError, match=r"cluster east, .*sasl\.password.*env:SANDBOX_EAST_PLAN_PASSWORD"):
        reader.read()
    monkeypatch.setenv("SANDBOX_EAST_PLAN_PASSWORD", east.passwords["plan"])
    assert reader.read().cluster_id == east.cluster_id


def test_an_audit_copy_that_may_not_be_read_is_an_error_and_one_that_is_missing_is_empty(
    east: ClusterHandle, unique: str, create_topic: MakeTopic
) -> None:
    with pytest.raises(ClusterError) as caught:
        read_copy(real_cluster(east, "user"), Principal.PLAN, create_topic(east, f"{unique}.audit"), "test")
    assert caught.value.kind == "denied"
    assert read_copy(real_cluster(east, "user"), Principal.PLAN, f"user.{unique}.missing", "test") == []


def test_status_records_that_may_not_be_described_are_an_error_not_absent(
    east: ClusterHandle, unique: str, create_topic: MakeTopic
) -> None:
    with pytest.raises(ClusterError) as caught:
        StatusRecords(real_cluster(east, "user"), "test").read("west", 0)
    assert caught.value.kind == "denied"
    assert "--topic __mirror_status" in caught.value.todo
