"""The control channel between driver and tasks: JSON lines over TCP, authenticated by a random token.

Down come the lanes' partitions, stop and "lease over"; up go reports, progress of the partitions that changed, and a
sign of life. It carries no records and no secrets, and nothing depends on it for correctness: without it a lease copies
what it began with until its deadline. It is the driver's proof that a task lives: Spark tells the loss of an executor
late, and tries a task again without a word.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.replication.json_codec import Codec
from reconciler_mirror import log_lines as logs
from reconciler_mirror.model import PartitionSpec

Message = Mapping[str, Any]
_CONNECT_S = 5.0
GREETING_BYTES, GREETINGS = 4096, 256
"""How long a first line may be, and how many connections may be without a token at a time: more are closed at once."""
_LEAVE: Message = {"over": True}
_log = logs.logger("channel")
SPECS = tuple[PartitionSpec, ...]
ROWS = Codec(rows=True)
"""Of what lanes and driver tell each other: driver and tasks are of one release, so fields need no names."""


class _Line:
    """One connection: whole JSON lines, written by any thread, read by one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._writing = threading.Lock()

    def send(self, message: Message) -> bool:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._writing:
                self._connection.sendall(line)
        except OSError:
            return False
        return True

    def receive(self, most: int = -1) -> Message | None:
        """None when the other side is gone or talks nonsense, or more than ``most`` bytes of a line."""
        try:
            line = self._file.readline(most)
            got = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError, RecursionError):
            return None
        return got if isinstance(got, dict) else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._connection.close()


class ChannelServer:
    """The driver's end. ``orders`` gives what a lease must know when it connects; ``report`` gets each message of it,
    and ``broken`` is told when its line ends before the lease does."""

    def __init__(
        self,
        host: str,
        orders: Callable[[str], Message | None],
        report: Callable[[str, Message], None],
        broken: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.token = secrets.token_hex(16)
        self._orders, self._told, self._broken = orders, report, broken
        self._lines: dict[str, _Line] = {}
        self._guard = threading.Lock()
        self._strangers = threading.BoundedSemaphore(GREETINGS)
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
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
        self._socket.close()
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

    def _greeted(self, line: _Line) -> str | None:
        """Its lease; None for whoever does not know the token."""
        try:
            hello = line.receive(GREETING_BYTES) or {}
            knows = hmac.compare_digest(str(hello.get("token", "")).encode(errors="replace"), self.token.encode())
            return str(hello.get("lease", "")) if knows else None
        finally:
            self._strangers.release()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_CONNECT_S)
        line = _Line(connection)
        lease = self._greeted(line)
        if lease is None:
            line.close()
            return
        orders = self._orders(lease)
        if orders is None:
            line.send(_LEAVE)
            line.receive()  # until it has closed: what it sends meanwhile must not make TCP drop the answer
            line.close()
            return
        connection.settimeout(None)
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
        self._line: _Line | None = None
        try:
            connection = socket.create_connection(address, timeout=_CONNECT_S)
        except OSError as error:
            _log.warning("no control channel; the lease runs to its deadline", error=str(error))
            return
        connection.settimeout(None)
        self._line = _Line(connection)
        self._line.send({"token": token, "lease": lease})
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
