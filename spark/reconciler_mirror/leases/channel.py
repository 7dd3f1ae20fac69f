"""The control channel between driver and tasks: JSON lines over TCP, authenticated by a random token.

The driver sends partitions of lanes, "stop" and "lease over"; a task sends reports, progress of changed partitions, and
a sign of life. The channel carries no records and no secrets, and correctness does not depend on it: without it a lease
copies its first partitions until its deadline. It is the driver's proof that a task lives: Spark reports the loss of an
executor late, and repeats a task without notice.

The first line of a task has the token, its lease and a random word; the driver reads nothing else before it has checked
the token. A task with a broken line dials again and repeats everything. By the word the driver distinguishes it from
Spark's second try of the task under the same name, with counters that begin at 0. The token travels in Spark's closure.
Beyond loopback it begins with the fingerprint of the driver's certificate, and the task sends nothing before a TLS
handshake with that very certificate.
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
"""Seconds for TLS handshake and first line, after which an unauthenticated connection is closed."""
GREETING_BYTES, GREETINGS = 4096, 256
"""Longest first line, and most unauthenticated connections at a time; further ones are closed at once."""
_REDIAL_FIRST_S, _REDIAL_LAST_S = 0.1, 2.0
"""Seconds before a task dials a lost line again, first and last."""
_LEAVE: Message = {"over": True}
_log = logs.logger("channel")
SPECS = tuple[PartitionSpec, ...]
ROWS = Codec(rows=True)
"""Codec of messages: driver and tasks are of one release, so fields need no names."""


class ChannelServer:
    """The driver's end. ``orders`` makes the first message to a lease that connects; ``report`` gets each message from
    it, and ``broken`` is called when its line ends before the lease does. ``begins`` is called once for each task, when
    it first connects, before ``orders``."""

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
        self._tasks: dict[str, str] = {}  # by lease, the random word of the last task that connected
        self._guard = threading.Lock()
        self._strangers = threading.BoundedSemaphore(GREETINGS)
        self._socket = listener.socket
        self.address: tuple[str, int] = (listener.advertised, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="channel", daemon=True).start()

    def send(self, lease: str, message: Message | Callable[[], Message]) -> None:
        with self._guard:
            line = self._lines.get(lease)
        if line is not None:
            line.send(message)

    def end(self, lease: str) -> None:
        """Ends the lease. Its task may still run after Spark has lost sight of it, so it is asked to leave."""
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
        """Serves each connection in a thread, until the socket is closed. ``_strangers`` limits unauthenticated ones: a
        port scan must not use up the driver's threads."""
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
        """Lease, task and line of an authenticated connection; None if the token is wrong or late."""
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
            # The same task dials again after a broken connection, and continues. Another task of the same lease is
            # Spark's second try: the first may still copy, so it is asked to leave.
            again = self._tasks.get(lease) == task
        if not again:
            self._begins(lease)
        orders = self._orders(lease)
        if orders is None:
            line.send(_LEAVE)
            connection.settimeout(_CONNECT_S)
            line.receive()  # waits for the task to close: unread bytes would make TCP reset and lose the answer
            line.close()
            return
        with self._guard:
            before, self._lines[lease] = self._lines.get(lease), line
            self._tasks[lease] = task
        if before is not None and again:
            before.close()
        elif before is not None:
            before.send(_LEAVE)
        line.send(lambda: self._orders(lease) or orders)  # asked again, for changes from before the line was listed
        # Messages on a replaced line no longer count: the same task repeats everything on its new line, and another
        # task's counters begin at 0.
        while (message := line.receive()) is not None:
            if self._lines.get(lease) is line:
                self._report(lease, message)
        with self._guard:
            is_latest = self._lines.get(lease) is line
            if is_latest:
                del self._lines[lease]
        line.close()
        if is_latest:
            self._broken(lease)


class ChannelClient:
    """The task's end. ``heard`` gets each message, on a separate thread. Never raises.

    Dials a broken or refused line again until ``close``. The last messages may be lost with a line: a sender repeats
    everything when ``lines``, the number of lines so far, has grown.
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
        """Sends ``message``, or drops it while there is no line."""
        if self._line is not None:
            self._line.send(message)

    def close(self) -> None:
        self._closed.set()
        if self._line is not None:
            self._line.close()

    def _listen(self) -> None:
        """Receives the driver's messages, and dials again after a lost line, with pauses that double. A line that lasts
        resets the pause; one that is refused at once does not."""
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
        """A new line, or None if the driver is unreachable; warns once, since tries continue until the lease ends.
        Compares the driver's certificate with the pin before it sends the secret."""
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
        # The timeout was for connecting. An open line may be silent for as long as nothing changes.
        connection.settimeout(None)
        line = Line(connection, stream)
        line.send_raw(self._greeting)
        self._refused = False
        self.lines += 1
        return line
