"""What a conformance case is given: a ClusterAdmin, and a stranger who changes the same cluster behind its back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import ClusterHandle

from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    Reason,
    Role,
    TopicChange,
    Why,
)
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveTopic
from reconciler.model.plan import Outcome, Planned
from reconciler.model.ports import ClusterAdmin
from tests.support.fakes.cluster import FakeCluster

BECAUSE = Reason(Why.DECLARED, "a test asks for it")


class Stranger(Protocol):
    """Someone else with rights on the cluster."""

    def make(self, topic: str, partitions: int = 1, **configs: str) -> None: ...

    def delete(self, topic: str) -> None: ...


@dataclass(frozen=True)
class FakeStranger:
    fake: FakeCluster

    def make(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.fake.put(topic, partitions, 1, **configs)

    def delete(self, topic: str) -> None:
        del self.fake.topics[topic]


@dataclass(frozen=True)
class BrokerStranger:
    """Returns when the broker shows what was done."""

    cluster: ClusterHandle
    create_topic: Callable[..., str]
    admin: ClusterAdmin

    def make(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self.create_topic(self.cluster, topic, partitions, **configs)
        self._await(topic, exists=True)

    def delete(self, topic: str) -> None:
        client = AdminClient({**self.cluster.super_client(), "log_level": "0"})
        for tries_left in (2, 1, 0):
            # The request's own time-out comes before ours: librdkafka aborts the process if a client with an open
            # request is destroyed. A broker that was frozen until now may lose a request without a word.
            try:
                client.delete_topics([topic], operation_timeout=20, request_timeout=20)[topic].result(60)
                break
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    break
                if code not in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT) or not tries_left:
                    raise
        self._await(topic, exists=False)

    def _await(self, topic: str, exists: bool) -> None:
        until = time.monotonic() + 120
        while (topic in self.admin.read([topic]).topics) is not exists:
            assert time.monotonic() < until, f"the broker does not show what was done to {topic}"
            time.sleep(0.02)


@dataclass
class Subject:
    """``prefix`` keeps the topics of one case apart from all others."""

    admin: ClusterAdmin
    stranger: Stranger
    brokers: int
    prefix: str
    told: list[Outcome] = field(default_factory=list)

    def named(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def topic(self, name: str) -> LiveTopic | None:
        return self.admin.read([self.named(name)]).topics.get(self.named(name))

    def known(self, name: str) -> LiveTopic:
        found = self.topic(name)
        assert found is not None, f"{name} does not exist"
        return found

    def perform(self, *changes: TopicChange) -> list[Outcome]:
        planned = [Planned(f"c{i}", change, "stage", "low", "", "") for i, change in enumerate(changes)]
        self.told.clear()
        return list(self.admin.perform(planned, self.told.append))

    def create(self, name: str, partitions: int = 1, factor: int | None = None, **configs: str) -> CreateTopic:
        return CreateTopic(self._ref(name), partitions, factor, wishes(configs), Role.DECLARED, BECAUSE)

    def grow(self, topic: LiveTopic, after: int) -> AddPartitions:
        ref = TopicRef(self.admin.name, topic.name)
        return AddPartitions(ref, topic.topic_id, len(topic.partitions), after, Role.DECLARED, BECAUSE)

    def alter(self, topic: LiveTopic, **configs: str | None) -> AlterConfigs:
        ref = TopicRef(self.admin.name, topic.name)
        return AlterConfigs(ref, topic.topic_id, wishes(configs), Role.DECLARED, BECAUSE)

    def delete(self, topic: LiveTopic) -> DeleteTopic:
        ref = TopicRef(self.admin.name, topic.name)
        return DeleteTopic(ref, topic.topic_id, len(topic.partitions), "2099-12-31", BECAUSE)

    def _ref(self, name: str) -> TopicRef:
        return TopicRef(self.admin.name, self.named(name))


def wishes(configs: Mapping[str, str | None]) -> tuple[ConfigChange, ...]:
    """Keyword names use ``_`` for ``.``; None removes the override."""
    return tuple(ConfigChange(key.replace("_", "."), None, "", value, "test") for key, value in configs.items())


def results(outcomes: Sequence[Outcome]) -> list[str]:
    return [outcome.result.value for outcome in outcomes]
