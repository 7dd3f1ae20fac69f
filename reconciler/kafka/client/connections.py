"""Opens connections to the brokers of one cluster, on demand, and again after a loss."""

import asyncio
import contextlib
import os
import random
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.oauth import granted
from reconciler.kafka.client.auth.settings import ConnectionSettings, SaslSettings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import (
    AuthenticationFailedError,
    ConnectionLostError,
    SettingError,
    StaleTokenError,
    UnsupportedBrokerError,
    check,
    lost,
    name_of,
)
from reconciler.kafka.protocol.api_versions import API_VERSIONS, VERSION, pack_api_versions, unpack_api_versions

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


# Opens a connection to a broker: DNS, socket, TLS, version negotiation, SASL login.

_UNSUPPORTED_VERSION = 35
_PATIENCE_OF_LOGIN = 0.8
"""Share of the connect timeout: less than all of it, so that the error names the login."""
_WHY_REFUSED = {
    "GSSAPI": ". Its log says why: its clock is off by more than 5 minutes, its keytab has another key, or its "
    "sasl.kerberos.principal.to.local.rules have no name for this principal"
}
SILENCE_SECONDS = 2.0
"""Seconds of silence after which the next address is tried in parallel: the kernel of a frozen broker still accepts
connections."""


async def connect_first(
    addresses: Iterable[tuple[str, int]], settings: ConnectionSettings, pool: BufferPool
) -> Connection:
    """To the first of ``addresses`` that answers; the next is tried as soon as one failed.

    Raises ConnectionLostError of the last that failed, or what ``connect`` raises besides.
    """
    untried = deque(addresses)
    dialing: list[asyncio.Task[Connection]] = []
    lost = ConnectionLostError("there is no address to connect to")
    try:
        while untried or dialing:
            if untried:
                dialing.append(asyncio.create_task(connect(untried.popleft(), settings, pool)))
            # An address that does not answer must not hold up the next one for the whole connect timeout: both are
            # tried side by side then.
            patience = SILENCE_SECONDS if untried else None
            await asyncio.wait(dialing, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in dialing if task.done()]:
                dialing.remove(task)
                try:
                    return task.result()
                except ConnectionLostError as error:
                    lost = error
        raise lost
    finally:
        for task in dialing:
            task.cancel()
        # A connection that came about at the last moment would otherwise stay open without an owner.
        for late in await asyncio.gather(*dialing, return_exceptions=True):
            if isinstance(late, Connection):
                late.close()


async def connect(address: tuple[str, int], settings: ConnectionSettings, pool: BufferPool) -> Connection:
    """Opens, secures, negotiates and authenticates.

    Raises ConnectionLostError, AuthenticationFailedError or UnsupportedBrokerError.
    """
    try:
        return await _connect(address, settings, pool)
    except StaleTokenError:  # a new token is due by now, so the second login has another one
        return await _connect(address, settings, pool)


async def _connect(address: tuple[str, int], settings: ConnectionSettings, pool: BufferPool) -> Connection:
    """One try, within ``connect_timeout`` seconds from the lookup of the name to the end of the login. Raises as
    ``connect``, and StaleTokenError for a login that another try may make with another token."""
    where = f"{address[0]}:{address[1]}"
    sock: socket.socket | None = None
    connection: Connection | None = None
    try:
        async with asyncio.timeout(settings.connect_timeout):
            sock = await _socket(address, settings, where)
            if settings.tls is not None:
                sock = await _handshake(sock, settings.tls.context(), address[0], where)
            # ApiVersions comes first (KIP-35): every later request needs a version that both sides have, authentication
            # included.
            connection = Connection(sock, settings, pool, where)
            connection.start()
            asked = pack_api_versions("mirror", "1")
            answer = await connection.ask((API_VERSIONS, VERSION, True), asked, unpack_api_versions)
            if answer.error == _UNSUPPORTED_VERSION:
                raise UnsupportedBrokerError(f"broker {where} is older than Kafka 2.4; 2.8 or newer is needed")
            check(answer.error, f"ApiVersions of {where}")
            connection.versions = dict(answer.versions)
            connection.features = dict(answer.features)
            if settings.sasl is not None:
                await _authenticate(connection, settings.sasl, address[0])
            return connection
    except BaseException as error:
        # Cancellation, too: the next address may have answered first. Before the connection owns it, the socket has to
        # be closed by itself; closing it twice does nothing.
        if connection is not None:
            connection.close()
        if sock is not None:
            sock.close()
        if isinstance(error, TimeoutError):
            within = f"{settings.connect_timeout:g} s"
            raise ConnectionLostError(f"no connection to {where} within {within}") from None
        raise


async def _socket(address: tuple[str, int], settings: ConnectionSettings, where: str) -> socket.socket:
    """A connected socket to the first address of the name that takes one. Without Nagle's algorithm, which would hold a
    small request back until the answer to the one before it; with keepalive, because an idle connection behind a
    firewall ends unnoticed. Raises ConnectionLostError."""
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(*address, family=settings.family, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLostError(f"the name of {where} cannot be resolved: {error}") from None
    last: OSError | None = None
    for family, kind, number, _, resolved in entries:
        sock = socket.socket(family, kind, number)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if settings.send_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer)
        if settings.receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer)
        try:
            await loop.sock_connect(sock, resolved)
            return sock
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    why = os.strerror(last.errno) if last is not None and last.errno else last  # asyncio writes its own words
    raise ConnectionLostError(f"no connection to {where}: {why}")


async def _handshake(sock: socket.socket, context: ssl.SSLContext, host: str, where: str) -> ssl.SSLSocket:
    """TLS on a socket that does not block: whenever OpenSSL wants to read or write, the loop waits for just that.
    Raises AuthenticationFailedError for a certificate that is not accepted, which trying again does not heal, and
    ConnectionLostError otherwise."""
    loop = asyncio.get_running_loop()
    secured = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    while True:
        ready = loop.create_future()
        try:
            secured.do_handshake()
            return secured
        except ssl.SSLWantReadError:
            loop.add_reader(secured.fileno(), _set, ready)
        except ssl.SSLWantWriteError:
            loop.add_writer(secured.fileno(), _set, ready)
        except ssl.SSLCertVerificationError as error:
            secured.close()
            raise AuthenticationFailedError(
                f"the certificate of {where} is not accepted: {error.verify_message}"
            ) from None
        except OSError as error:
            secured.close()
            raise lost(f"no TLS with {where}. Is this a TLS listener?", error) from None
        try:
            await ready
        finally:
            loop.remove_reader(secured.fileno())
            loop.remove_writer(secured.fileno())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _login(sasl: SaslSettings) -> tuple[object, ...]:
    """What no other login shares."""
    return sasl.mechanism, tuple(sorted(sasl.oauth.items())), sasl.kerberos


@lru_cache(16)
def _threads(*_: object) -> ThreadPoolExecutor:
    """For a KDC or token endpoint: a silent one blocks neither DNS lookups nor the logins to another cluster."""
    return ThreadPoolExecutor(8, "login")


async def _authenticate(connection: Connection, sasl: SaslSettings, host: str) -> None:
    """SaslHandshake, then SaslAuthenticate until the mechanism has no more to say (KIP-43, KIP-152). Sets when the
    session ends. Raises AuthenticationFailedError, or StaleTokenError of it, and ConnectionLostError."""
    from reconciler.kafka.client.auth.sasl import exchange
    from reconciler.kafka.protocol import generated as protocol  # imported where a mechanism needs them: they take long

    shake = await connection.call(protocol.SaslHandshakeRequest(mechanism=sasl.mechanism, version=1))
    if shake.error_code:
        offered = ", ".join(shake.mechanisms) or "none"
        raise AuthenticationFailedError(
            f"broker {connection.where} does not offer {sasl.mechanism}; it offers {offered}"
        )
    # The first message may need a KDC or a token endpoint, so it is made on a thread, in less time than the connect
    # timeout: else that would end first, with an error that names the broker.
    steps = exchange(sasl, host)
    lifetime, sent = 0, 0.0
    patience = connection.settings.connect_timeout * _PATIENCE_OF_LOGIN
    try:
        async with asyncio.timeout(patience):
            message = await asyncio.get_running_loop().run_in_executor(_threads(*_login(sasl)), next, steps)
    except TimeoutError:
        asked = "KDC" if sasl.mechanism == "GSSAPI" else "token endpoint"
        words = f"no {asked} answered within {patience:g} s for the login at {connection.where}. Check that it runs"
        raise AuthenticationFailedError(words) from None
    version = connection.version(protocol.SaslAuthenticateRequest)
    with contextlib.suppress(StopIteration):
        while True:
            sent = time.monotonic()  # the broker counts from before its answer
            answer = await connection.call(protocol.SaslAuthenticateRequest(auth_bytes=message, version=version))
            if answer.error_code:
                # The mechanism turns a refusal into a better error where it can, such as for a token that is too old.
                why = (answer.error_message or name_of(answer.error_code)) + _WHY_REFUSED.get(sasl.mechanism, "")
                steps.throw(AuthenticationFailedError(f"broker {connection.where} refused {sasl.mechanism}: {why}"))
            lifetime = getattr(answer, "session_lifetime_ms", 0) or 0
            message = steps.send(bytes(answer.auth_bytes))
    if lifetime > 0:  # KIP-368: a new connection takes over before the broker closes this one
        if sasl.oauth:
            granted(sasl.oauth, sent, lifetime / 1000)
        connection.expires_at = sent + lifetime * 0.8 / 1000
