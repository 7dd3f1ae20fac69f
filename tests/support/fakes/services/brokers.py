"""Three brokers that refuse what a service refuses, as far as its documentation says: by Kafka's own policies for
topics and configs, and by a proxy that hides requests and changes new topics in silence. No service was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import CreateTopicsRequest
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.up_down import Launch, bring_up
from reconciler_sandbox.handles import ClusterHandle
from reconciler_sandbox.profiles import QUICK_START, Profile, SandboxBroker

from tests.support.fakes.java_agent import agent
from tests.support.lanes.cutting_proxy import Wishes, cutting

CREATE_TOPICS = 19
TRANSACTIONS = frozenset({24, 25, 26, 28})
_MARKERS, _PARTITIONS, _ACLS, _SCRAM = frozenset({27}), frozenset({37}), frozenset({29, 30, 31}), frozenset({50, 51})
_ADMIN = frozenset({34, 35, 43, 45, 46, 48, 49, 55, 57, 61, 65, 66})
"""Log dirs, elections, reassignments, quotas, features, the quorum, listed transactions: a service's own affairs."""
_OF_BROKERS = ("__consumer_offsets", "__transaction_state")


@dataclass(frozen=True)
class ServiceRules:
    """``rules``: for ServicePolicy.java. ``hidden``: API keys that brokers do not offer. ``factor``, ``configs``: what
    each new topic gets, whatever was asked."""

    rules: str
    hidden: frozenset[int] = _ADMIN
    factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)

    def made_of(self, request: bytes) -> bytes:
        """A CreateTopics request as the service understands it."""
        asked = CreateTopicsRequest.decode(request, version=int.from_bytes(request[2:4], "big"), header=True)
        config = CreateTopicsRequest.CreatableTopic.CreatableTopicConfig
        for topic in asked.topics:
            topic.replication_factor = topic.replication_factor if self.factor is None else self.factor
            kept = [one for one in topic.configs if one.name not in self.configs]
            topic.configs = [*kept, *(config(name=name, value=value) for name, value in self.configs.items())]
        return bytes(asked.encode(header=True))


SERVICES = {
    "msk": ServiceRules("fixed=min.insync.replicas", _MARKERS, factor=3),  # Express brokers
    "msk-serverless": ServiceRules(
        "configs=cleanup.policy,compression.type,max.message.bytes,message.timestamp.difference.max.ms,"
        "message.timestamp.type,retention.bytes,retention.ms\ncreation=cleanup.policy",
        _ADMIN | _MARKERS | _ACLS | _SCRAM,
    ),
    "confluent-cloud": ServiceRules("fixed=compression.type\nfactor=3", _ADMIN | _MARKERS),
    "event-hubs": ServiceRules(
        "fixed=retention.ms", _ADMIN | _MARKERS | _ACLS | _SCRAM | _PARTITIONS | TRANSACTIONS, factor=1
    ),
    "aiven": ServiceRules("", _ADMIN | _ACLS),
    "gcp": ServiceRules("values=compression.type:zstd"),
    "redpanda": ServiceRules("fixed=delete.retention.ms\nfactor=3", _ADMIN | _MARKERS),
    "automq": ServiceRules("", factor=1, configs={"min.insync.replicas": "1"}),
    "hdinsight": ServiceRules("", frozenset({44})),  # Kafka 2.1 has no IncrementalAlterConfigs
}


@dataclass(frozen=True)
class ServiceBrokers:
    """``address``: through the proxy. ``play`` a service; ``refused`` has since then what its policies refused."""

    cluster: ClusterHandle
    address: str
    wishes: Wishes
    file: Path

    def play(self, service: str) -> None:
        """Without a topic: those of a mirror have to be created under its rules."""
        admin = AdminClient(self.cluster.client())
        there = [topic for topic in admin.list_topics(timeout=20).topics if topic not in _OF_BROKERS]
        for gone in admin.delete_topics(there).values() if there else ():
            gone.result(30)
        self.file.write_text(SERVICES[service].rules)
        self.wishes.hidden = SERVICES[service].hidden
        self.wishes.altered = {CREATE_TOPICS: SERVICES[service].made_of}
        self._refusals.unlink(missing_ok=True)

    def refused(self) -> list[str]:
        return self._refusals.read_text().splitlines() if self._refusals.exists() else []

    @property
    def _refusals(self) -> Path:
        return self.file.with_name(f"{self.file.name}.refused")


def _listeners(broker: SandboxBroker, of_plain: dict[str, str]) -> dict[str, str]:
    policies = {"create.topic.policy.class.name": "Create", "alter.config.policy.class.name": "Alter"}
    return of_plain | {name: f"ServicePolicy${of}" for name, of in policies.items()}


@contextlib.contextmanager
def service_brokers() -> Iterator[ServiceBrokers]:
    with contextlib.ExitStack() as stack:
        patch, home = stack.enter_context(pytest.MonkeyPatch.context()), stack.enter_context(guardian.guarded_home())
        plain = properties._plain_listeners
        patch.setattr(properties, "_plain_listeners", lambda broker: _listeners(broker, plain(broker)))
        rules = home / "rules"
        rules.write_text("")
        source = Path(__file__).parent / "ServicePolicy.java"
        jvm = (*QUICK_START, f"-javaagent:{agent(home, source)}", f"-Dservice.rules={rules}")
        profile = Profile("service", 3, 3, 2, secure=False, heap="256m", jvm=jvm, clusters=("west",))
        base, reserved = ports.reserve_block()
        with reserved:
            west = bring_up(Launch(profile, home, base))["west"]
        address, wishes = stack.enter_context(cutting(*(broker.port for broker in west.brokers)))
        yield ServiceBrokers(west, address, wishes, rules)
