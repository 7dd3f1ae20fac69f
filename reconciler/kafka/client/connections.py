"""Connections to the brokers of one cluster, opened on demand and reopened after a loss."""

import asyncio
import random
import time
from collections.abc import Sequence

from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.dial import connect_first
from reconciler.kafka.client.errors import ConnectionLostError, SettingError

BACKOFF_FIRST, BACKOFF_LAST = 0.05, 2.0
"""Seconds before an unreachable broker is dialled again, first and last."""


class BrokerConnections:
    """Made inside a running loop; ``close`` before the loop ends. ``name`` appears in errors."""

    def __init__(self, name: str, bootstrap: Sequence[str], settings: ConnectionSettings) -> None:
        self.name = name
        self.settings = settings
        self.pool = BufferPool()
        try:
            places = [host_port(server) for server in bootstrap]
        except ValueError as error:
            raise SettingError(f"bootstrap server {error}") from None
        self._bootstrap = [(place.host, place.port) for place in places]
        # Addresses by broker id, from metadata. Connections and dials are by (broker, purpose), None for any broker; a
        # failure by broker says when it may be dialled again.
        self._nodes: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[int | None, str], Connection] = {}
        self._dialing: dict[tuple[int | None, str], asyncio.Lock] = {}
        self._failures: dict[int | None, tuple[int, float]] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def connection(self, node: int | None, purpose: str) -> Connection:
        """The open connection to a broker for a purpose (``fetch``, ``produce``, ``control``), made when needed.

        A broker answers one request a connection at a time, so purposes do not share one. Waits out the backoff of an
        unreachable broker. Raises ConnectionLostError, AuthenticationFailedError, UnsupportedBrokerError.
        """
        key = (node, purpose)
        lock = self._dialing.setdefault(key, asyncio.Lock())
        async with lock:
            held = self._connections.get(key)
            if held is not None and held.closed is None:
                # A session that SASL lets end (KIP-368) is used until its last answer is in; then another connection
                # takes over.
                if not held.expired or held.in_flight:
                    return held
                held.close()
            # Not every request dials a broker that is down. For a broker without a known address, any bootstrap server
            # will do.
            failed, until = self._failures.get(node, (0, 0.0))
            await asyncio.sleep(max(0.0, until - time.monotonic()))
            addresses = [self._nodes[node]] if node in self._nodes else list(self._bootstrap)
            random.shuffle(addresses)
            try:
                connection = await connect_first(addresses, self.settings, self.pool)
                await self._opened(connection)
            except ConnectionLostError as lost:
                pause = min(BACKOFF_LAST, BACKOFF_FIRST * 2**failed) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
                self._failures[node] = (failed + 1, time.monotonic() + pause)
                raise type(lost)(f"cluster {self.name}: {lost}") from None
            self._failures.pop(node, None)
            self._connections[key] = connection
            return connection

    async def _opened(self, connection: Connection) -> None:
        """Before a new connection is used. Raises ConnectionLostError, with the connection closed, to refuse it."""

    def throttled(self) -> float:
        """Seconds a broker of the cluster still asks us to be silent (quotas); 0 when none does."""
        now = time.monotonic()
        return max((c.throttled_until - now for c in self._connections.values()), default=0.0)

    def round_trip(self, node: int) -> float:
        """Seconds to a broker and back: the quickest answer of late on any connection to it; 0 unknown."""
        return min((c.round_trip for (to, _), c in self._connections.items() if to == node and c.round_trip), default=0)

    async def control(self, node: int | None = None) -> Connection:
        return await self.connection(node, "control")

    def address_known(self, node: int) -> bool:
        return node in self._nodes

    def address_of(self, node: int) -> tuple[str, int]:
        """Host and port from metadata. Raises KeyError if unknown."""
        return self._nodes[node]

    def learn(self, node: int, host: str, port: int) -> None:
        """Notes a broker's address from metadata."""
        if self._nodes.get(node, (host, port)) != (host, port):
            for key, connection in list(self._connections.items()):
                if key[0] == node:
                    connection.close(ConnectionLostError(f"broker {node} of {self.name} has a new address"))
        self._nodes[node] = (host, port)

    async def any_control(self) -> Connection:
        """A control connection to a broker that is up, bootstrap servers last."""
        held = [c for (_, purpose), c in self._connections.items() if purpose == "control"]
        if live := [c for c in held if c.closed is None and not c.expired]:
            return random.choice(live)  # noqa: S311 - any of them
        try:
            return await self.control()
        except ConnectionLostError:
            for node in list(self._nodes):
                try:
                    return await self.control(node)
                except ConnectionLostError:
                    continue
            raise
