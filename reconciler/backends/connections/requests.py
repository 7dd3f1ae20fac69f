"""Sends requests that librdkafka has no call for, over our own connections, from code without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
from reconciler.model.environment.topology import Cluster, Principal

PATIENCE_SECONDS = 10.0
"""How long a broker may be silent over a request."""

Answer = TypeVar("Answer")


class Requests:
    """A context manager, for one thread; connects when entered, and again where a connection was lost since the last
    request. Raises ClusterError, never with a secret in it."""

    patience = PATIENCE_SECONDS

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.speaker = speaker_of(cluster, principal)
        self._secrets = secrets_in(cluster.client_for(principal), client_settings(cluster, principal))
        self._declared, self._principal = cluster, principal

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
        try:
            self._run(errors.DESCRIBE_CLUSTER, self._open)
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.close()
        self._runner.close()

    def brokers(self) -> tuple[int, ...]:
        """Those that are up now, ascending."""

        async def read() -> tuple[int, ...]:
            await self._cluster.refresh(())
            return tuple(sorted(self._cluster.brokers))

        return self._run(errors.DESCRIBE_CLUSTER, read)

    @property
    def cluster_id(self) -> str:
        """As the last answer about ``brokers`` or a ``topic`` said; empty before."""
        return self._cluster.cluster_id

    def topic(self, name: str) -> TopicMetadata | None:
        """None when there is no such topic."""

        async def read() -> TopicMetadata:
            await self._cluster.refresh((name,))
            return self._cluster.topics[name]

        described = self._run(errors.describe_topic(name), read)
        if described.error == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        self.check(described.error, errors.describe_topic(name))
        return described

    def ask(
        self, asked: Asked, session: Callable[[Connection], Awaitable[Answer]], broker: int | None = None
    ) -> Answer:
        """``broker`` None: any. ``asked`` words a refusal, which ``session`` raises as BrokerError."""

        async def run() -> Answer:
            await asyncio.sleep(0)  # a broker that hung up since the last request is noticed now
            return await session(await self._connection(broker))

        return self._run(asked, run)

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
        self._cluster = cluster_of(self._declared, self._principal)
        await self._cluster.control()

    async def _connection(self, broker: int | None) -> Connection:
        if broker is None:
            return await self._cluster.any_control()
        if not self._cluster.address_known(broker):
            await self._cluster.refresh(())
        if not self._cluster.address_known(broker):
            raise ConnectionLostError(f"broker {broker} is not among those that are up")
        return await self._cluster.control(broker)

    def _run(self, asked: Asked, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            return await ask()

        try:
            return self._runner.run(run())
        except (WireError, OSError, ValueError) as error:  # of a name that is none, of a file that went
            raise self._failed(error, asked) from None

    def _failed(self, error: Exception, asked: Asked) -> ClusterError:
        words = self._clean(str(error))
        match error:
            case AuthenticationFailedError():
                return errors.authentication(self.speaker, words)
            case SettingError():
                return errors.setting_refused(self.speaker, words)
            case UnsupportedBrokerError():
                return errors.too_old(self.speaker, asked, words)
            case BrokerError():
                return self.refused(error.code, asked, words)
            case _:
                return errors.unreachable(self.speaker, (words,))

    def _clean(self, words: str) -> str:
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return words
