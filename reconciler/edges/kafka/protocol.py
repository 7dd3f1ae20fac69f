"""Requests that librdkafka has no call for, by kafka-python's protocol: features, the controller's clock, quotas, and
requests that only ask whether they would be authorized. Nothing here changes a cluster.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError, KafkaError
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.consumer.group import HeartbeatRequest
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.producer.transaction import EndTxnRequest

from reconciler.edges.kafka.identity import client_settings, secrets_in
from reconciler.errors import ReconcilerError
from reconciler.topology import Cluster, Principal
from wire.errors import name_of

# librdkafka's name -> kafka-python's
_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_TIMEOUT_MS = 10_000
BY_NAME_FETCH, BY_NAME_PRODUCE = 11, 8
"""Layouts that name topics; a topic that is not there has no id."""
NOBODY = 1 << 61
"""A producer id that no cluster has handed out."""

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what a user must know comes as an error


class Wire:
    """One connection as one principal; a context manager. Raises ReconcilerError, never with a secret in it."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        raw = client_settings(cluster, principal)
        self._secrets = secrets_in(cluster.client_for(principal), raw)
        settings: dict[str, Any] = {_NAMES[key]: value for key, value in raw.items() if key in _NAMES}
        if "security_protocol" in settings:
            settings["security_protocol"] = settings["security_protocol"].upper()
        settings["ssl_check_hostname"] = raw.get("ssl.endpoint.identification.algorithm", "https") != "none"
        self._settings = settings | {
            "bootstrap_servers": list(cluster.bootstrap_servers),
            "client_id": "reconciler",
            "request_timeout_ms": _TIMEOUT_MS,
            "bootstrap_timeout_ms": _TIMEOUT_MS,
        }
        self._admin: Any = None

    def __enter__(self) -> Wire:
        try:
            self._admin = KafkaAdminClient(**self._settings)
        except Exception as error:  # noqa: BLE001 - kafka-python lets errors of ssl, sockets and asserts through
            raise self._failed("no connection", error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.close()

    def heartbeat(self, group: str) -> int:
        """The error code for a member that does not exist: 30 without Read on the group."""
        request = HeartbeatRequest(group_id=group, generation_id=-1, member_id="reconciler-doctor")
        return int(self._send("Heartbeat", request).error_code)

    def describe_group(self, group: str) -> int:
        """The error code for a group, which need not exist: 30 without Describe on it."""
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        return int(self._send("DescribeGroups", request).groups[0].error_code)

    def end_transaction(self, transactional_id: str) -> int:
        """The error code for a producer id that nobody has: 53 without Write on the transactional id."""
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=NOBODY, producer_epoch=0, committed=False, max_version=3
        )
        return int(self._send("EndTxn", request).error_code)

    def fetch_nothing(self, topics: Collection[str]) -> Mapping[str, int]:
        """The error code of each topic, none of which need be there: 29 without Read on it. Waits for nothing."""
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition]) for topic in topics],
            forgotten_topics_data=[],
            max_version=BY_NAME_FETCH,
        )
        answer = self._send("Fetch", request)
        return {one.topic: int(one.partitions[0].error_code) for one in answer.responses}

    def produce_nothing(self, topics: Collection[str]) -> Mapping[str, int]:
        """The error code of each topic, none of which need be there: 29 without Write on it. Carries no record, which
        a topic that is there refuses."""
        told = ProduceRequest.TopicProduceData
        partition = told.PartitionProduceData(index=0, records=b"")
        request = ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[told(name=topic, partition_data=[partition]) for topic in topics],
            max_version=BY_NAME_PRODUCE,
        )
        answer = self._send("Produce", request)
        return {one.name: int(one.partition_responses[0].error_code) for one in answer.responses}

    def features(self) -> Mapping[str, int]:
        """Finalized features (KIP-584) with their level."""
        found = self._asked("features", self._admin.describe_features)
        return {name: told["finalized"][1] for name, told in sorted(found.items()) if "finalized" in told}

    def apis(self) -> Mapping[str, int]:
        """The highest version of each API the broker speaks, by name."""
        found = self._asked("API versions", self._admin.api_versions)
        return {key.name: int(versions[1]) for key, versions in found.items()}

    def skew_ms(self) -> tuple[int, int]:
        """The active controller's clock minus ours, and how far off that may be, from half the round trip.

        DescribeQuorum (KIP-836): for itself, the leader answers with its present time as last caught up.
        """
        before = time.time()
        quorum = self._asked("the quorum", self._admin.describe_metadata_quorum)
        after = time.time()
        [topic] = quorum["topics"]
        [partition] = topic["partitions"]
        leader = next(one for one in partition["current_voters"] if one["replica_id"] == partition["leader_id"])
        there = int(leader["last_caught_up_timestamp"])
        if there <= 0:
            raise ReconcilerError("the controllers do not tell their time (before Kafka 3.3)")
        return round(there - (before + after) / 2 * 1000), round((after - before) / 2 * 1000) + 1

    def mutation_quotas(self) -> Mapping[str, float]:
        """controller_mutation_rate (KIP-599) by whom it is for; empty when there is none."""
        response = self._send("DescribeClientQuotas", DescribeClientQuotasRequest(components=[], strict=False))
        if response.error_code:
            raise ReconcilerError(f"the quotas may not be described: {name_of(response.error_code)}")
        found: dict[str, float] = {}
        for entry in response.entries or ():
            who = ", ".join(f"{part.entity_type} {part.entity_name or '(default)'}" for part in entry.entity)
            for one in entry.values:
                if one.key == "controller_mutation_rate":
                    found[who] = float(one.value)
        return found

    def _send(self, what: str, request: Any) -> Any:
        # kafka-python has public calls only for the requests of its own admin client
        return self._asked(what, lambda: self._admin._manager.run(self._admin._manager.send, request))

    def _asked(self, what: str, ask: Any) -> Any:
        try:
            return ask()
        except ClusterAuthorizationFailedError:
            raise ReconcilerError(
                f"no answer about {what}: this principal may not ask (CLUSTER_AUTHORIZATION_FAILED)",
                "",
                "Give it Describe on the cluster; what is said of its permissions holds the command",
            ) from None
        except (KafkaError, OSError, ValueError, LookupError, AttributeError, TypeError) as error:
            raise self._failed(f"no answer about {what}", error) from None

    def _failed(self, what: str, error: Exception) -> ReconcilerError:
        code = getattr(error, "errno", -1) if isinstance(error, BrokerResponseError) else -1
        words = f"{what}: {name_of(code) if code > 0 else f'{type(error).__name__}: {error}'}"
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return ReconcilerError(words)
