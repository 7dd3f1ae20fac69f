"""The control channel between driver and tasks: JSON lines over TCP, authenticated by a random token.

Down come the lanes' partitions, stop and "lease over"; up go reports, progress of the partitions that changed, and a
sign of life. It carries no records and no secrets, and nothing depends on it for correctness: without it a lease copies
what it began with until its deadline. It is the driver's proof that a task lives: Spark reports the loss of an executor
late, and tries a task again without a word.

The first line of a task is the token, its lease and a word of its own; nothing else is read before the token is known.
A task whose line breaks dials again, and says all that it had said; by that word the driver knows it from one that
Spark tries again under the same name, whose counts begin at 0. The token travels in Spark's own closure. Beyond
loopback it begins with the fingerprint of the driver's certificate, and the task demands TLS with just that one before
it says anything.
"""

import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable

from reconciler.replication.json_codec import Codec
from reconciler_mirror import log_lines as logs
from reconciler_mirror.leases.channel_line import Line, PlainStream, TlsStream, pinned, shut
from reconciler_mirror.leases.channel_line import Message as Message
from reconciler_mirror.leases.channel_listener import Listener
from reconciler_mirror.model.lane import PartitionSpec

_CONNECT_S = 5.0
"""How long a stranger may take for everything up to its token: TLS and the first line."""
GREETING_BYTES, GREETINGS = 4096, 256
"""How long a first line may be, and how many connections may be without a token at a time: more are closed at once."""
_REDIAL_FIRST_S, _REDIAL_LAST_S = 0.1, 2.0
"""Seconds before a lost line is dialled again, first and last."""
_LEAVE: Message = {"over": True}
_log = logs.logger("channel")
SPECS = tuple[PartitionSpec, ...]
ROWS = Codec(rows=True)
"""Of messages between lanes and driver: driver and tasks are of one release, so fields need no names."""


class ChannelServer:
    """The driver's end. ``orders`` gives what a lease must know when it connects; ``report`` gets each message of it,
    and ``broken`` is called when its line ends before the lease does. ``begins`` is called once for each task, when it
    first connects, before its orders are asked for."""

    def __init__(
        self,
        listener: Listener,
        orders: Callable[[str], Message | None],
        report: Callable[[str, Message], None],
        broken: Callable[[str], None] = lambda _: None,
        begins: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._secret = secrets.token_hex(16)
        self._tls = listener.tls
        self.token = f"{listener.pin}:{self._secret}" if listener.tls else self._secret
        self._orders, self._report, self._broken, self._begins = orders, report, broken, begins
        self._lines: dict[str, Line] = {}
        self._tasks: dict[str, str] = {}  # by lease, the word of the task that connected last
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
            self._tasks.pop(lease, None)
        if line is not None:
            line.send(_LEAVE)

    def close(self) -> None:
        shut(self._socket)
        with self._guard:
            lines = list(self._lines.values())
        for line in lines:
            line.close()

    def _accept(self) -> None:
        """A thread for each connection, until the socket is closed. Connections that have not said who they are yet are
        limited by ``_strangers``: whatever scans the port must not use up the driver's threads."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if not self._strangers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), name="channel lease", daemon=True).start()

    def _greeted(self, connection: socket.socket) -> tuple[str, str, Line] | None:
        """Its lease and task; None for a stranger, who does not know the token in time."""
        too_late = threading.Timer(_CONNECT_S, shut, (connection,))
        too_late.daemon = True
        too_late.start()
        try:
            stream = TlsStream(connection, self._tls, server_side=True) if self._tls else PlainStream(connection)
            line = Line(connection, stream)
            token, _, name = (line.receive_raw(GREETING_BYTES) or b"").partition(b" ")
            knows = hmac.compare_digest(token, self._secret.encode())
            lease, _, task = name.decode().partition(" ") if knows else ("", "", "")
            return (lease, task, line) if knows else None
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
        lease, task, line = greeted
        with self._guard:
            # A task whose connection broke dials again and goes on. Another task of the same lease is Spark's second
            # try: its predecessor may still copy, so it is asked to leave.
            again = self._tasks.get(lease) == task
        if not again:
            self._begins(lease)
        orders = self._orders(lease)
        if orders is None:
            line.send(_LEAVE)
            connection.settimeout(_CONNECT_S)
            line.receive()  # until it has closed: what it sends meanwhile must not make TCP drop the answer
            line.close()
            return
        with self._guard:
            before, self._lines[lease] = self._lines.get(lease), line
            self._tasks[lease] = task
        if before is not None and again:
            before.close()
        elif before is not None:  # Spark tries a task again under the same name
            before.send(_LEAVE)
        line.send(self._orders(lease) or orders)  # again: what changed before the line was listed
        while (message := line.receive()) is not None:
            if self._lines.get(lease) is line:
                self._report(lease, message)
        with self._guard:
            mine = self._lines.get(lease) is line
            if mine:
                del self._lines[lease]
        line.close()
        if mine:
            self._broken(lease)


class ChannelClient:
    """The task's end. ``heard`` gets each message, on a thread of its own. Never raises.

    A line that breaks, or cannot be opened, is dialed again until ``close``. What was sent last may be lost with it:
    a sender looks whether ``lines``, how many there were so far, has grown, and then says everything again.
    """

    def __init__(self, address: tuple[str, int], token: str, lease: str, heard: Callable[[Message], None]) -> None:
        self.lines = 0
        self._refused = False
        self._address, self._heard = address, heard
        self._pin, _, secret = token.rpartition(":")
        self._greeting = f"{secret} {lease} {secrets.token_hex(8)}".encode()
        self._closed = threading.Event()
        self._line = self._dialed()
        threading.Thread(target=self._listen, name="channel", daemon=True).start()

    def send(self, message: Message) -> None:
        """Lost where there is no line."""
        if self._line is not None:
            self._line.send(message)

    def close(self) -> None:
        self._closed.set()
        if self._line is not None:
            self._line.close()

    def _listen(self) -> None:
        """Hears the driver's messages, and dials again when the line is lost, with pauses that double. A line that held
        for a while resets the pause; one that is refused at once does not."""
        pause = _REDIAL_FIRST_S
        while not self._closed.is_set():
            began, line = time.monotonic(), self._line
            while line is not None and (message := line.receive()) is not None:
                self._heard(message)
            if line is not None:
                self._line = None
                line.close()
                pause = _REDIAL_FIRST_S if time.monotonic() - began > _REDIAL_LAST_S else pause
            if self._closed.wait(pause):
                return
            pause = min(_REDIAL_LAST_S, 2 * pause)
            self._line = self._dialed()
            if self._closed.is_set() and self._line is not None:
                self._line.close()

    def _dialed(self) -> Line | None:
        """None where the driver cannot be reached; warned once, since it is tried for as long as the lease runs. The
        greeting has the lease and a secret, and the driver's certificate is compared with the pin of the token."""
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(self._address, timeout=_CONNECT_S)
            stream = pinned(connection, self._pin) if self._pin else PlainStream(connection)
        except OSError as error:
            if connection is not None:
                shut(connection)
            place, log = f"{self._address[0]}:{self._address[1]}", _log.debug if self._refused else _log.warning
            log("no control channel; without one the lease runs to its deadline", driver=place, error=str(error))
            self._refused = True
            return None
        connection.settimeout(None)
        line = Line(connection, stream)
        line.send_raw(self._greeting)
        self._refused = False
        self.lines += 1
        return line
