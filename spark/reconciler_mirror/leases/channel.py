"""The control channel between driver and tasks: JSON lines over TCP, authenticated by a random token.

Down come the lanes' partitions, stop and "lease over"; up go reports, progress of the partitions that changed, and a
sign of life. It carries no records and no secrets, and nothing depends on it for correctness: without it a lease copies
what it began with until its deadline. It is the driver's proof that a task lives: Spark tells the loss of an executor
late, and tries a task again without a word.

The first line of a task is the token and its lease; nothing else is read before the token is known. The token travels
in Spark's own closure. Beyond loopback it begins with the fingerprint of the driver's certificate, and the task demands
TLS with just that one before it says anything.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from collections.abc import Callable

from reconciler.replication.json_codec import Codec
from reconciler_mirror import log_lines as logs
from reconciler_mirror.leases.channel_line import Line, PlainStream, TlsStream, pinned, shut
from reconciler_mirror.leases.channel_line import Message as Message
from reconciler_mirror.leases.channel_listener import Listener
from reconciler_mirror.model import PartitionSpec

_CONNECT_S = 5.0
"""How long a stranger may take for everything up to its token: TLS and the first line."""
GREETING_BYTES, GREETINGS = 4096, 256
"""How long a first line may be, and how many connections may be without a token at a time: more are closed at once."""
_LEAVE: Message = {"over": True}
_log = logs.logger("channel")
SPECS = tuple[PartitionSpec, ...]
ROWS = Codec(rows=True)
"""Of what lanes and driver tell each other: driver and tasks are of one release, so fields need no names."""


class ChannelServer:
    """The driver's end. ``orders`` gives what a lease must know when it connects; ``report`` gets each message of it,
    and ``broken`` is told when its line ends before the lease does."""

    def __init__(
        self,
        listener: Listener,
        orders: Callable[[str], Message | None],
        report: Callable[[str, Message], None],
        broken: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._secret = secrets.token_hex(16)
        self._tls = listener.tls
        self.token = f"{listener.pin}:{self._secret}" if listener.tls else self._secret
        self._orders, self._told, self._broken = orders, report, broken
        self._lines: dict[str, Line] = {}
        self._guard = threading.Lock()
        self._strangers = threading.BoundedSemaphore(GREETINGS)
        self._socket = listener.socket
        self.address: tuple[str, int] = (listener.advertised, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="channel", daemon=True).start()

    def send(self, lease: str, message: Message) -> None:
        with self._guard:
            line = self._lines.get(lease)
        if line is not None:
            line.send(message)

    def end(self, lease: str) -> None:
        """The lease is not given any more, though its task may live on where Spark lost sight of it: it must leave."""
        with self._guard:
            line = self._lines.pop(lease, None)
        if line is not None:
            line.send(_LEAVE)

    def close(self) -> None:
        shut(self._socket)
        with self._guard:
            lines = list(self._lines.values())
        for line in lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), name="channel lease", daemon=True).start()

    def _greeted(self, connection: socket.socket) -> tuple[str, Line] | None:
        """Its lease; None for whoever does not know the token in time."""
        too_late = threading.Timer(_CONNECT_S, shut, (connection,))
        too_late.daemon = True
        too_late.start()
        try:
            stream = TlsStream(connection, self._tls, server_side=True) if self._tls else PlainStream(connection)
            line = Line(connection, stream)
            token, _, lease = (line.receive_raw(GREETING_BYTES) or b"").partition(b" ")
            knows = hmac.compare_digest(token, self._secret.encode())
            return (lease.decode(), line) if knows else None
        except (OSError, ValueError):
            return None
        finally:
            too_late.cancel()
            self._strangers.release()

    def _serve(self, connection: socket.socket) -> None:
        greeted = self._greeted(connection)
        if greeted is None:
            shut(connection)
            return
        lease, line = greeted
        orders = self._orders(lease)
        if orders is None:
            line.send(_LEAVE)
            connection.settimeout(_CONNECT_S)
            line.receive()  # until it has closed: what it sends meanwhile must not make TCP drop the answer
            line.close()
            return
        with self._guard:
            before, self._lines[lease] = self._lines.get(lease), line
        if before is not None:  # Spark tries a task again under the same name
            before.send(_LEAVE)
        line.send(self._orders(lease) or orders)  # again: what changed before the line was listed
        while (message := line.receive()) is not None:
            if self._lines.get(lease) is line:
                self._told(lease, message)
        with self._guard:
            mine = self._lines.get(lease) is line
            if mine:
                del self._lines[lease]
        line.close()
        if mine:
            self._broken(lease)


class ChannelClient:
    """The task's end. ``heard`` gets each message, on a thread of its own. Never raises."""

    def __init__(self, address: tuple[str, int], token: str, lease: str, heard: Callable[[Message], None]) -> None:
        self._line: Line | None = None
        pin, _, secret = token.rpartition(":")
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(address, timeout=_CONNECT_S)
            stream = pinned(connection, pin) if pin else PlainStream(connection)
        except OSError as error:
            if connection is not None:
                shut(connection)
            place = f"{address[0]}:{address[1]}"
            _log.warning("no control channel; the lease runs to its deadline", driver=place, error=str(error))
            return
        connection.settimeout(None)
        self._line = Line(connection, stream)
        self._line.send_raw(f"{secret} {lease}".encode())
        self._heard = heard
        threading.Thread(target=self._listen, name="channel", daemon=True).start()

    def send(self, message: Message) -> None:
        if self._line is not None and not self._line.send(message):
            self._line = None

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def _listen(self) -> None:
        line = self._line
        while line is not None and (message := line.receive()) is not None:
            self._heard(message)
