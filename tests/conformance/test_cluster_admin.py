"""What every ClusterAdmin must do, whether it is a dict or a broker."""

from __future__ import annotations

import functools
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics import batches, write
from reconciler.errors import Unknown
from reconciler.model.changes import TopicChange
from reconciler.model.live import Source
from reconciler.model.plan import Result
from tests.support.clusters import kraft, real_cluster
from tests.support.fakes.subjects import Subject, results

DONE, FAILED = Result.DONE.value, Result.FAILED.value


def test_reads_the_cluster_itself(subject: Subject) -> None:
    live = subject.admin.read(())
    assert live.name == "east"
    assert live.cluster_id
    assert len(live.brokers) == subject.brokers
    assert all(broker.host and broker.port for broker in live.brokers)
    assert live.topics == {}
    assert live.sees_all


def test_a_named_topic_that_does_not_exist_is_left_out_and_not_made(subject: Subject) -> None:
    assert subject.topic("absent") is None
    assert subject.named("absent") not in subject.admin.read().topics


def test_threads_may_ask_at_the_same_time(subject: Subject) -> None:
    """A plan asks about topics, quotas and the lock's topic of a cluster at once."""
    subject.stranger.make(subject.named("orders"), 3)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(subject.admin.read, (subject.named("orders"),)) for _ in range(40)]
        assert {len(answer.result().topics) for answer in asked} == {1}


def test_reads_partitions_replicas_and_the_source_of_each_config(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"), 3, retention_ms="60000")
    topic = subject.admin.read().topics[subject.named("orders")]
    assert [part.index for part in topic.partitions] == [0, 1, 2]
    assert all(part.leader in part.replicas and part.isr == part.replicas for part in topic.partitions)
    assert topic.replication_factor == 1
    assert not topic.internal
    assert not isinstance(topic.configs, Unknown)
    assert (topic.configs["retention.ms"].value, topic.configs["retention.ms"].source) == ("60000", Source.TOPIC)
    assert topic.configs["segment.ms"].source is Source.BUILT_IN
    assert topic.overrides == {"retention.ms": "60000"}


def test_only_named_topics_are_read_when_some_are_named(subject: Subject) -> None:
    subject.stranger.make(subject.named("one"))
    subject.stranger.make(subject.named("two"))
    assert set(subject.admin.read([subject.named("one")]).topics) == {subject.named("one")}


def test_creates_as_asked(subject: Subject) -> None:
    outcomes = subject.perform(subject.create("orders", 4, 1, retention_ms="60000", cleanup_policy="compact"))
    assert results(outcomes) == [DONE]
    topic = subject.known("orders")
    assert (len(topic.partitions), topic.replication_factor) == (4, 1)
    assert topic.overrides == {"retention.ms": "60000", "cleanup.policy": "compact"}


def test_without_a_count_or_factor_the_broker_decides(subject: Subject) -> None:
    assert results(subject.perform(subject.create("orders", -1, None))) == [DONE]
    topic = subject.known("orders")
    assert len(topic.partitions) >= 1
    assert topic.replication_factor == 1


def test_creating_again_what_is_already_so_is_done_and_changes_nothing(subject: Subject) -> None:
    create = subject.create("orders", 2, 1, retention_ms="60000")
    subject.perform(create)
    before = subject.known("orders")
    assert results(subject.perform(create)) == [DONE]
    assert subject.known("orders") == before


@pytest.mark.parametrize("other", [{"partitions": 3}, {"retention_ms": "1"}], ids=["partitions", "configs"])
def test_creating_what_exists_with_another_shape_fails(subject: Subject, other: dict[str, object]) -> None:
    subject.stranger.make(subject.named("orders"), 2, retention_ms="60000")
    before = subject.known("orders")
    wanted = {"partitions": 2, "retention_ms": "60000"} | other
    (outcome,) = subject.perform(subject.create("orders", **wanted))  # type: ignore[arg-type]
    assert outcome.result is Result.FAILED
    assert subject.named("orders") in outcome.error
    assert subject.known("orders") == before


def test_grows_and_growing_again_is_done(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"), 1)
    grow = subject.grow(subject.known("orders"), 3)
    assert results(subject.perform(grow)) == [DONE]
    assert len(subject.known("orders").partitions) == 3
    assert results(subject.perform(grow)) == [DONE]
    assert len(subject.known("orders").partitions) == 3


def test_shrinking_fails_and_changes_nothing(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"), 3)
    (outcome,) = subject.perform(subject.grow(subject.known("orders"), 2))
    assert outcome.result is Result.FAILED
    assert "3" in outcome.error
    assert len(subject.known("orders").partitions) == 3


def test_sets_and_removes_only_the_declared_keys(subject: Subject) -> None:
    subject.stranger.make(
        subject.named("orders"), 1, retention_ms="60000", max_message_bytes="2000", segment_ms="70000"
    )
    alter = subject.alter(subject.known("orders"), retention_ms="90000", max_message_bytes=None)
    assert results(subject.perform(alter)) == [DONE]
    assert subject.known("orders").overrides == {"retention.ms": "90000", "segment.ms": "70000"}
    assert results(subject.perform(alter)) == [DONE]


def test_another_spelling_of_a_value_is_done(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"))
    alter = subject.alter(subject.known("orders"), preallocate="TRUE", cleanup_policy="compact,delete")
    assert results(subject.perform(alter)) == [DONE]


def test_an_unknown_key_fails_its_topic_as_a_whole_and_no_other(subject: Subject) -> None:
    subject.stranger.make(subject.named("good"))
    subject.stranger.make(subject.named("bad"))
    outcomes = subject.perform(
        subject.alter(subject.known("bad"), retention_ms="1000", no_such_key="1"),
        subject.alter(subject.known("good"), retention_ms="1000"),
    )
    assert results(outcomes) == [FAILED, DONE]
    assert "no.such.key" in outcomes[0].error
    assert subject.known("bad").overrides == {}
    assert subject.known("good").overrides == {"retention.ms": "1000"}


def test_more_replicas_than_brokers_fail_and_nothing_is_made(subject: Subject) -> None:
    outcomes = subject.perform(subject.create("orders", 1, subject.brokers + 1), subject.create("other"))
    assert results(outcomes) == [FAILED, DONE]
    assert str(subject.brokers + 1) in outcomes[0].error
    assert subject.topic("orders") is None


@pytest.mark.parametrize("name", ["bad name", "x" * 250], ids=["space", "too long"])
def test_an_invalid_name_fails(subject: Subject, name: str) -> None:
    (outcome,) = subject.perform(subject.create(name))
    assert outcome.result is Result.FAILED


def test_a_name_that_only_differs_in_dot_and_underscore_fails(subject: Subject) -> None:
    subject.stranger.make(subject.named("a.b"))
    (outcome,) = subject.perform(subject.create("a_b"))
    assert outcome.result is Result.FAILED
    assert subject.topic("a_b") is None


def test_changing_a_topic_that_is_gone_fails(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"))
    topic = subject.known("orders")
    subject.stranger.delete(subject.named("orders"))
    outcomes = subject.perform(subject.grow(topic, 2), subject.alter(topic, retention_ms="1000"))
    assert results(outcomes) == [FAILED, FAILED]
    assert subject.topic("orders") is None


@kraft  # ZooKeeper forgets a deleted name later than it says
def test_a_recreated_topic_since_the_plan_is_not_touched(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"))
    planned = subject.known("orders")
    subject.stranger.delete(subject.named("orders"))
    subject.stranger.make(subject.named("orders"))
    now = subject.known("orders")
    assert now.topic_id != planned.topic_id
    outcomes = subject.perform(subject.grow(planned, 2), subject.alter(planned, retention_ms="1000"))
    assert results(outcomes) == [FAILED, FAILED]
    assert all(planned.topic_id in outcome.error and now.topic_id in outcome.error for outcome in outcomes)
    assert subject.known("orders") == now


def test_a_thousand_topics_at_once(subject: Subject) -> None:
    outcomes = subject.perform(*[subject.create(f"n{i}", retention_ms="60000") for i in range(1000)])
    assert {outcome.result for outcome in outcomes} == {Result.DONE}
    assert [outcome.id for outcome in subject.told] == [outcome.id for outcome in outcomes]
    live = subject.admin.read()
    made = [topic for name, topic in live.topics.items() if name.startswith(f"{subject.prefix}-n")]
    assert len(made) == 1000
    assert {tuple(topic.overrides.items()) for topic in made} == {(("retention.ms", "60000"),)}


def test_more_partitions_than_one_request_may_make_are_made_in_steps(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of 4 in place of KRaft's 10,000, which would keep the broker busy for a minute."""
    monkeypatch.setattr(write, "steps", functools.partial(batches.steps, limit=4))
    (outcome,) = subject.perform(subject.create("huge", 11))
    assert outcome.result is Result.DONE
    assert len(subject.known("huge").partitions) == 11


@kraft  # with ZooKeeper there is no such limit
def test_more_records_than_one_request_may_make_are_spread_over_requests(subject: Subject) -> None:
    creates = [subject.create(f"big{i}", 3_000) for i in range(4)]
    assert subject.admin.validate(creates) == {}


def test_validation_finds_what_the_broker_would_refuse_and_changes_nothing(subject: Subject) -> None:
    subject.stranger.make(subject.named("orders"), 2)
    topic = subject.known("orders")
    good: list[TopicChange] = [subject.create("new"), subject.grow(topic, 3), subject.alter(topic, retention_ms="1000")]
    assert subject.admin.validate(good) == {}
    bad: list[TopicChange] = [
        subject.create("replicas", 1, subject.brokers + 1),
        subject.create("key", 1, None, no_such_key="1"),
        subject.alter(topic, retention_ms="soon", segment_ms="later"),
    ]
    refused = subject.admin.validate([*bad, *good])
    assert set(refused) == {change.subject for change in bad}
    assert {word for word in ("soon", "later") if word in refused[bad[-1].subject]} == {"soon", "later"}
    assert subject.known("orders") == topic
    assert subject.topic("new") is None


def test_a_deleted_topic_is_gone_when_it_is_said_to_be(subject: Subject) -> None:
    subject.perform(subject.create("old", 3), subject.create("other", 1))
    (outcome,) = subject.perform(subject.delete(subject.known("old")))
    assert outcome.result is Result.DONE
    assert subject.topic("old") is None
    assert subject.topic("other") is not None


def test_a_deletion_that_was_cut_off_can_be_done_again(subject: Subject) -> None:
    subject.perform(subject.create("old"))
    delete = subject.delete(subject.known("old"))
    subject.stranger.delete(subject.named("old"))
    assert results(subject.perform(delete)) == ["done"]


@kraft  # as above
def test_a_topic_with_another_id_is_not_deleted(subject: Subject) -> None:
    subject.perform(subject.create("old"))
    delete = subject.delete(subject.known("old"))
    subject.stranger.delete(subject.named("old"))
    subject.stranger.make(subject.named("old"), 2)
    (outcome,) = subject.perform(delete)
    assert outcome.result is Result.FAILED
    assert delete.topic_id in outcome.error
    assert subject.topic("old") is not None


def test_a_deletion_asks_nothing_of_validation(subject: Subject) -> None:
    subject.perform(subject.create("old"))
    assert subject.admin.validate([subject.delete(subject.known("old"))]) == {}
    assert subject.topic("old") is not None


def test_topic_ids_are_reported_as_kafka_prints_them(plain: Sandbox, unique: str) -> None:
    """URL-safe, without padding: a tombstone carries what kafka-topics.sh shows."""
    east = plain["east"]
    new = [NewTopic(f"{unique}-{number}", 1, 1) for number in range(40)]
    creator = AdminClient({**east.super_client(), "log_level": "0"})
    made = creator.create_topics(new, operation_timeout=20)
    for future in made.values():
        future.result(30)
    until = time.monotonic() + 30
    with KafkaCluster(real_cluster(east)) as admin:
        while len(live := admin.read(list(made)).topics) < len(made):
            assert time.monotonic() < until
            time.sleep(0.05)
    assert all(re.fullmatch("[A-Za-z0-9_-]{22}", topic.topic_id) for topic in live.values())
    assert any(set("_-") & set(topic.topic_id) for topic in live.values()), "of forty ids some hold one of the two"
