"""What a principal that may not do everything is told. Real: the secure sandbox."""

from __future__ import annotations

import pytest

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics.read_fast import FROM_TOPICS
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.state.audit.topic import read_copy
from reconciler.errors import ClusterError, SecretError, Unknown
from reconciler.model.changes import CreateTopic, Role
from reconciler.model.environment.topology import Cluster, Principal, TopicRef
from reconciler.model.plan import Planned, Result
from reconciler.sandbox.handles import ClusterHandle, Sandbox
from tests.support.clusters import CreateTopic as MakeTopic
from tests.support.clusters import real_cluster
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
    many = KafkaCluster(real_cluster(east, "user")).read(
        [hidden, *(f"user.{unique}-{n}" for n in range(FROM_TOPICS + 1))]
    )
    assert (many.hidden, many.sees_all) == (named.hidden, False), "read in bulk"


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
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(real_cluster(east, "plan")).validate([create(unique)])
    assert caught.value.kind == "denied"


def test_apply_may_create_on_the_secure_cluster(east: ClusterHandle, unique: str) -> None:
    admin = KafkaCluster(real_cluster(east, "apply"))
    assert admin.validate([create(unique)]) == {}
    (outcome,) = admin.perform([Planned("c1", create(unique), "stage", "low", "", "")], lambda _: None)
    assert outcome.result is Result.DONE


def test_a_wrong_password_is_an_authentication_error_at_once_without_the_password(east: ClusterHandle) -> None:
    cluster = real_cluster(east, "plan", sasl_password="not-the-password")
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(cluster).read()
    assert caught.value.kind == "authentication"
    assert "not-the-password" not in str(caught.value)
    assert "principal plan" in str(caught.value)


def test_an_untrusted_certificate_is_an_authentication_error(secure: Sandbox) -> None:
    other_authority = str(secure.clusters["west"].ca)
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(real_cluster(secure.clusters["east"], "plan", ssl_ca_location=other_authority)).read()
    assert caught.value.kind == "authentication"
    assert "certificate" in str(caught.value).lower()


def test_a_certificate_authority_that_is_no_file_is_told_before_anything_is_sent(east: ClusterHandle) -> None:
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(real_cluster(east, "plan", ssl_ca_location="no-such-file.pem")).read()
    assert caught.value.kind == "invalid"
    assert "ssl.ca.location" in str(caught.value)


def test_a_client_certificate_is_accepted(east: ClusterHandle) -> None:
    settings = east.mtls_client("plan")
    servers = tuple(settings.pop("bootstrap.servers").split(","))
    assert KafkaCluster(Cluster("east", servers, client=settings)).read().cluster_id == east.cluster_id


def test_plain_text_to_a_tls_listener_is_unreachable_and_points_at_security_protocol(east: ClusterHandle) -> None:
    cluster = Cluster("east", tuple(east.bootstrap_servers.split(",")))
    with pytest.raises(ClusterError) as caught:
        KafkaCluster(cluster).read()
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


def test_an_audit_copy_that_may_not_be_read_is_an_error_and_one_that_is_not_there_is_empty(
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
