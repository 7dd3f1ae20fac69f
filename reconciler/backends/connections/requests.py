"""Sends requests over our own connections for synchronous code: single requests, and records of a topic."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Self, TypeVar

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings, secrets_in, speaker_of
from reconciler.backends.connections.dial import HELLO_SECONDS, tls_refusal, unexpected_tls
from reconciler.backends.connections.errors import Asked
from reconciler.backends.connections.own import cluster_of
from reconciler.errors import ClusterError
from reconciler.kafka.client import errors as client_errors
from reconciler.kafka.client.auth.tls import unreadable_file
from reconciler.kafka.client.cluster import TopicMetadata
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol.generated import MetadataRequest
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.records.compacted_topic import CompactedTopic, Newest, RecordFencedError

PATIENCE_SECONDS = 10.0
"""Seconds without a response after which a request fails."""

CONTROLLER = -1
"""In place of a broker id: the broker that takes requests for the controller."""
CONTROLLER_SECONDS = 30.0
AGAIN_SECONDS = 0.2
_NOT_CONTROLLER = 41

SIGN_SECONDS = 0.8
"""The same for ``SignOfLife``, which then asks another broker."""

Answer = TypeVar("Answer")


class Requests:
    """Connects when entered, and again if a connection was lost since the last request. Threads take turns. Raises
    ClusterError, without secrets."""

    patience = PATIENCE_SECONDS

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.speaker = speaker_of(cluster, principal)
        self._secrets = secrets_in(cluster.client_for(principal), client_settings(cluster, principal))
        self._declared, self._principal = cluster, principal
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        self._runner, began = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), time.monotonic()
        try:
            self.run(errors.DESCRIBE_CLUSTER, self._open)
        except ClusterError as error:
            self._runner.close()
            # Only if every address closed the connection: after a timeout, this check would take even longer.
            soon = error.kind == "unreachable" and time.monotonic() - began < HELLO_SECONDS
            if soon and (why := unexpected_tls(self.speaker.bootstrap_servers, self._settings())):
                raise errors.unreachable(self.speaker, (error.why, why)) from None
            raise
        except BaseException:
            self._runner.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with self._turn:
            self.wire.close()
            self._runner.close()

    def brokers(self) -> tuple[int, ...]:
        """Ids of live brokers, ascending."""

        async def read() -> tuple[int, ...]:
            await self.wire.refresh(())
            return tuple(sorted(self.wire.brokers))

        return self.run(errors.DESCRIBE_CLUSTER, read)

    @property
    def cluster_id(self) -> str:
        """From the last response to ``brokers`` or ``topic``; empty before."""
        return self.wire.cluster_id

    def topic(self, name: str) -> TopicMetadata | None:
        """Metadata of a topic, None if it does not exist."""

        async def read() -> TopicMetadata:
            await self.wire.refresh((name,))
            return self.wire.topics[name]

        described = self.run(errors.describe_topic(name), read)
        if described.error == client_errors.UNKNOWN_TOPIC:
            return None
        self.check(described.error, errors.describe_topic(name))
        return described

    def ask(
        self, asked: Asked, session: Callable[[Connection], Awaitable[Answer]], broker: int | None = None
    ) -> Answer:
        """``broker`` None: any; or ``CONTROLLER``. ``asked`` words a refusal, which ``session`` raises as
        BrokerError."""

        async def run() -> Answer:
            return await session(await self._connection_to(broker))

        return self.run(asked, run)

    def send(
        self,
        asked: Asked,
        kind: Any,
        /,
        broker: int | None = None,
        newest: int = 99,
        patience: float | None = None,
        **fields: Any,
    ) -> Any:
        """The response to one request. ``kind``: its class in ``kafka.protocol.generated``; ``newest``: the highest
        usable version. ``CONTROLLER`` is looked up again after NOT_CONTROLLER."""
        until = time.monotonic() + CONTROLLER_SECONDS

        async def session(connection: Connection) -> Any:
            version = connection.version(kind, newest)
            return await connection.call(kind(**fields, version=version), patience or self.patience)

        while True:
            answer = self.ask(asked, session, broker)
            if broker != CONTROLLER or _NOT_CONTROLLER not in _codes(answer) or time.monotonic() > until:
                return answer
            time.sleep(AGAIN_SECONDS)

    def versions(self) -> dict[int, tuple[int, int]]:
        """API key -> lowest and highest version that one broker supports."""

        async def session(connection: Connection) -> dict[int, tuple[int, int]]:
            return connection.versions

        return self.ask(errors.DESCRIBE_CLUSTER, session)

    def check(self, code: int, asked: Asked, words: str | None = None) -> None:
        if code:
            raise self.refused(code, asked, words)

    def refused(self, code: int, asked: Asked, words: str | None = None) -> ClusterError:
        """``words``: the broker's own."""
        return errors.translate(self.speaker, code, asked, self.clean(words or ""))

    def failure(self, code: int, asked: Asked, words: str | None = None) -> ClusterError | None:
        return self.refused(code, asked, words) if code else None

    async def _connection_to(self, broker: int | None) -> Connection:
        """Raises ConnectionLostError."""
        if broker is None:
            return await self.wire.any_control()
        until = time.monotonic() + CONTROLLER_SECONDS
        while broker == CONTROLLER:
            await self.wire.refresh(())
            try:
                if self.wire.controller >= 0:
                    return await self.wire.control(self.wire.controller)
            except client_errors.ConnectionLostError:  # the controller has gone, and another broker takes over
                if time.monotonic() > until:
                    raise
            if time.monotonic() > until:
                raise client_errors.ConnectionLostError("the brokers that answer know no controller")
            await asyncio.sleep(AGAIN_SECONDS)
        if not self.wire.address_known(broker):
            await self.wire.refresh(())
        if not self.wire.address_known(broker):
            raise client_errors.ConnectionLostError(f"broker {broker} is not among those that are up")
        return await self.wire.control(broker)

    async def _open(self) -> None:
        self.wire = cluster_of(self._declared, self._principal)
        await self.wire.control()

    def query(self, asked: Asked, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Like ``run``, for reads: repeated once, on another broker, after a lost connection."""

        async def query() -> Answer:
            try:
                return await ask()
            except (client_errors.ConnectionLostError, client_errors.MalformedResponseError):
                return await ask()

        return self.run(asked, query)

    def run(self, asked: Asked, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What ``ask`` gives, which uses ``wire``. ``asked`` words a refusal."""
        with self._turn:
            return self._run(asked, ask)

    def _run(self, asked: Asked, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Runs a request on the loop, and turns errors of the client into ones with a remedy. No secret is in their
        words."""
        answers: list[Answer] = []

        async def run() -> None:  # asyncio would format a task's result: a second for 10,000 topics
            await asyncio.sleep(0)  # lets the loop notice connections that brokers have closed since the last request
            answers.append(await ask())

        try:
            self._runner.run(run())
            return answers[0]
        except (client_errors.WireError, OSError, ValueError) as error:  # of a name that is none, of a file that went
            words = self.clean(str(error))
            match error:
                case client_errors.AuthenticationFailedError() | client_errors.CertificateRefusedError():
                    written = self._declared.client_for(self._principal)
                    refusal = tls_refusal(self.speaker.bootstrap_servers, self._settings(), written)
                    raise errors.authentication(self.speaker, self.clean(refusal) or words) from None
                case client_errors.SettingError():
                    settings, written = self._settings(), self._declared.client_for(self._principal)
                    of_file = str(error) == unreadable_file(settings, settings)
                    unreadable = unreadable_file(settings, written) if of_file else ""
                    raise errors.bad_settings(self.speaker, words, unreadable) from None
                case client_errors.UnsupportedBrokerError():
                    raise errors.too_old(self.speaker, asked, words) from None
                case client_errors.BrokerError():
                    raise self.refused(error.code, asked, words) from None
                case _:
                    raise errors.unreachable(self.speaker, (words,)) from None

    def _settings(self) -> Mapping[str, str]:
        return client_settings(self._declared, self._principal)

    def clean(self, words: str) -> str:
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return words


def _codes(answer: Any) -> set[int]:
    """Error codes of a response and its items."""
    lists = (getattr(answer, name, None) or () for name in ("topics", "results", "responses"))
    return {getattr(part, "error_code", 0) for part in (answer, *chain.from_iterable(lists))}


class TopicRecords:
    """A ``CompactedTopic`` for synchronous code; the last arguments are those of ``kind``.

    Connects at the first call, and again after a failed one, with settings and secrets read again. Thread-safe. Raises
    ClusterError, or SecretError.
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
        # One request at a time over one connection, from any thread; a failure closes it, and the next request opens a
        # new one.
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
            except BaseException:  # an interrupted call, too, leaves unread responses on its connections
                self.close()
                raise

    def read(self, *, whole: bool = True, required: bool = False) -> Mapping[str, Newest] | None:
        """A copy of ``CompactedTopic.read``."""

        async def read(topic: CompactedTopic) -> Mapping[str, Newest] | None:
            newest = await topic.read(whole=whole, required=required)
            return dict(newest) if newest is not None else None

        return self.ask(errors.read_topic(self.topic), read)

    def values(self, *prefixes: str) -> Mapping[str, bytes] | None:
        """Key -> value, of keys with one of ``prefixes``, or of all. None if the topic does not exist."""

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
    """Checks whether a cluster answers, over a connection that stays open.

    Connects at the first ``ask``. One thread at a time.
    """

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self._cluster, self._principal = cluster, principal
        self._requests: Requests | None = None

    def ask(self) -> None:
        """Sends a Metadata request without topics, so that its cost does not grow with the cluster. Raises
        ClusterError, or SecretError, after two failures: the first may concern only one broker."""
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
