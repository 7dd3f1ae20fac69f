"""Sends requests over our own connections, from code without an event loop: single ones, and those of a topic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from confluent_kafka import KafkaError

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings, secrets_in, speaker_of
from reconciler.backends.connections.errors import Asked
from reconciler.backends.connections.own import cluster_of
from reconciler.errors import ClusterError
from reconciler.kafka.client.cluster import TopicMetadata
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import (
    AuthenticationFailedError,
    BrokerError,
    ConnectionLostError,
    SettingError,
    UnsupportedBrokerError,
    WireError,
)
from reconciler.kafka.protocol.generated import MetadataRequest
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.records.compacted_topic import CompactedTopic, Newest, RecordFencedError

PATIENCE_SECONDS = 10.0
"""How long a broker may be silent over a request."""

SIGN_SECONDS = 0.8
"""The same for ``SignOfLife``, which then asks another broker."""

Answer = TypeVar("Answer")


class Requests:
    """A context manager, for one thread; connects when entered, and again if a connection was lost since the last
    request. Raises ClusterError, never with a secret in it."""

    patience = PATIENCE_SECONDS

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.speaker = speaker_of(cluster, principal)
        self._secrets = secrets_in(cluster.client_for(principal), client_settings(cluster, principal))
        self._declared, self._principal = cluster, principal

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
        try:
            self.run(errors.DESCRIBE_CLUSTER, self._open)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.wire.close()
        self._runner.close()

    def brokers(self) -> tuple[int, ...]:
        """Ids of the brokers that are up now, ascending."""

        async def read() -> tuple[int, ...]:
            await self.wire.refresh(())
            return tuple(sorted(self.wire.brokers))

        return self.run(errors.DESCRIBE_CLUSTER, read)

    @property
    def cluster_id(self) -> str:
        """As the last answer about ``brokers`` or a ``topic`` said; empty before."""
        return self.wire.cluster_id

    def topic(self, name: str) -> TopicMetadata | None:
        """None when there is no such topic."""

        async def read() -> TopicMetadata:
            await self.wire.refresh((name,))
            return self.wire.topics[name]

        described = self.run(errors.describe_topic(name), read)
        if described.error == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        self.check(described.error, errors.describe_topic(name))
        return described

    def ask(
        self, asked: Asked, session: Callable[[Connection], Awaitable[Answer]], broker: int | None = None
    ) -> Answer:
        """``broker`` None: any. ``asked`` words a refusal, which ``session`` raises as BrokerError."""

        async def run() -> Answer:
            if broker is None:
                return await session(await self.wire.any_control())
            if not self.wire.address_known(broker):
                await self.wire.refresh(())
            if not self.wire.address_known(broker):
                raise ConnectionLostError(f"broker {broker} is not among those that are up")
            return await session(await self.wire.control(broker))

        return self.run(asked, run)

    def send(self, asked: Asked, kind: Any, /, broker: int | None = None, newest: int = 99, **fields: Any) -> Any:
        """The answer to one request. ``kind``: its class among ``kafka.protocol.generated``; ``newest``: the highest
        version that will do."""

        async def session(connection: Connection) -> Any:
            return await connection.call(kind(**fields, version=connection.version(kind, newest)), self.patience)

        return self.ask(asked, session, broker)

    def versions(self) -> dict[int, tuple[int, int]]:
        """API key -> lowest and highest version, of one broker."""

        async def session(connection: Connection) -> dict[int, tuple[int, int]]:
            return connection.versions

        return self.ask(errors.DESCRIBE_CLUSTER, session)

    def check(self, code: int, asked: Asked, words: str | None = None) -> None:
        if code:
            raise self.refused(code, asked, words)

    def refused(self, code: int, asked: Asked, words: str | None = None) -> ClusterError:
        """``words``: the broker's own."""
        return self.error(KafkaError(code, words) if words else KafkaError(code), asked)

    def error(self, error: KafkaError, asked: Asked) -> ClusterError:
        return errors.translate(self.speaker, error, asked, self._clean(error.str()))

    async def _open(self) -> None:
        self.wire = cluster_of(self._declared, self._principal)
        await self.wire.control()

    def run(self, asked: Asked, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What ``ask`` gives, which uses ``wire``. ``asked`` words a refusal."""

        async def run() -> Answer:
            await asyncio.sleep(0)  # a broker that hung up since the last request is noticed now
            return await ask()

        try:
            return self._runner.run(run())
        except (WireError, OSError, ValueError) as error:  # of a name that is none, of a file that went
            words = self._clean(str(error))
            match error:
                case AuthenticationFailedError():
                    raise errors.authentication(self.speaker, words) from None
                case SettingError():
                    raise errors.setting_refused(self.speaker, words) from None
                case UnsupportedBrokerError():
                    raise errors.too_old(self.speaker, asked, words) from None
                case BrokerError():
                    raise self.refused(error.code, asked, words) from None
                case _:
                    raise errors.unreachable(self.speaker, (words,)) from None

    def _clean(self, words: str) -> str:
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return words


class TopicRecords:
    """A ``CompactedTopic`` for code without an event loop; its last arguments are those of ``kind``.

    Connects with the first call, and again after a call that failed: settings and secrets are read again then. Safe for
    several threads. Raises ClusterError, or SecretError.
    """

    def __init__(
        self,
        cluster: Cluster,
        principal: Principal,
        topic: str,
        kind: Callable[..., CompactedTopic] = CompactedTopic,
        **how: Any,
    ) -> None:
        self.topic = topic
        self._cluster, self._principal = cluster, principal
        self._kind, self._how = kind, how
        self._guard = threading.RLock()
        self._open: tuple[Requests, CompactedTopic] | None = None

    def ask(self, asked: Asked, question: Callable[[CompactedTopic], Awaitable[Answer]]) -> Answer:
        with self._guard:
            try:
                if self._open is None:
                    requests = Requests(self._cluster, self._principal).__enter__()
                    self._open = requests, self._kind(requests.wire, self.topic, **self._how)
                requests, topic = self._open
                return requests.run(asked, lambda: question(topic))
            except RecordFencedError:
                raise
            except BaseException:  # a call that was interrupted, too, has left answers behind on its connections
                self.close()
                raise

    def read(self, *, whole: bool = True, required: bool = False) -> Mapping[str, Newest] | None:
        """As ``CompactedTopic.read``, of which it is a copy."""

        async def read(topic: CompactedTopic) -> Mapping[str, Newest] | None:
            newest = await topic.read(whole=whole, required=required)
            return dict(newest) if newest is not None else None

        return self.ask(errors.read_topic(self.topic), read)

    def values(self, *prefixes: str) -> Mapping[str, bytes] | None:
        """The value of each key that begins with one of ``prefixes``, or of all. None where there is no such topic."""

        async def read(topic: CompactedTopic) -> Mapping[str, bytes] | None:
            return topic.values(*prefixes) if await topic.read() is not None else None

        return self.ask(errors.read_topic(self.topic), read)

    def append(
        self, entries: Iterable[tuple[str, bytes | None]], partition: int | None = None, *, required: bool = False
    ) -> None:
        asked = errors.write_topic(self.topic)
        self.ask(asked, lambda topic: topic.append(entries, partition, required=required))

    def close(self) -> None:
        with self._guard:
            if self._open is not None:
                self._open[0].__exit__()
                self._open = None


class SignOfLife:
    """Whether a cluster answers at all, over a connection that stays open.

    Connects at the first ``ask``. One thread at a time.
    """

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self._cluster, self._principal = cluster, principal
        self._requests: Requests | None = None

    def ask(self) -> None:
        """One Metadata request that names no topic, so its cost does not depend on the size of the cluster. Raises
        ClusterError, or SecretError, when it is not answered, twice: the first failure may be that of one broker."""
        for last in (False, True):
            try:
                if self._requests is None:
                    requests = Requests(self._cluster, self._principal)
                    requests.patience = SIGN_SECONDS
                    self._requests = requests.__enter__()
                self._requests.send(
                    errors.DESCRIBE_CLUSTER, MetadataRequest, topics=[], allow_auto_topic_creation=False
                )
                return
            except ClusterError:
                if last:
                    raise
                self.close()

    def close(self) -> None:
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.__exit__(None, None, None)
