"""One connection of the control channel: JSON lines, plain on loopback, else in TLS 1.3 with a pinned certificate."""

import contextlib
import hashlib
import hmac
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Message = Mapping[str, Any]
_PIECE = 65_536


class Stream(Protocol):
    """Bytes in order. ``read`` gives b"" at the end; both raise OSError. Read by one thread, written by any."""

    def read(self) -> bytes: ...
    def write(self, content: bytes) -> None: ...


class PlainStream:
    """A plain socket, used on loopback only."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def read(self) -> bytes:
        return self._connection.recv(_PIECE)

    def write(self, content: bytes) -> None:
        with self._writing:
            self._connection.sendall(content)


class TlsStream:
    """TLS over a socket. OpenSSL forbids two threads in one connection, so it works on memory buffers under a lock;
    reads and writes of the socket are outside of the lock, so that a full send buffer does not block reading."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        """Completes the handshake. Raises OSError, of which ssl.SSLError is one."""
        self._connection = connection
        self._received, self._sealed = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sealed, server_side=server_side)
        self._guard, self._writing = threading.Lock(), threading.Lock()
        while not self._shaken():
            self._flush()
            self._feed()
        self._flush()

    def peer(self) -> str:
        """Fingerprint of the other side's certificate."""
        return fingerprint(self._tls.getpeercert(binary_form=True) or b"")

    def read(self) -> bytes:
        while (content := self._opened()) is None:
            if not self._feed():
                return b""
        return content

    def write(self, content: bytes) -> None:
        with self._writing:
            with self._guard:
                self._tls.write(content)
                sealed = self._sealed.read()
            self._connection.sendall(sealed)

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _opened(self) -> bytes | None:
        try:
            with self._guard:
                return self._tls.read(_PIECE)
        except ssl.SSLWantReadError:
            self._flush()  # sends the answer to a key update
            return None

    def _feed(self) -> bool:
        """False at the end of the stream. Raises OSError for an end within the handshake."""
        received = self._connection.recv(_PIECE)
        with self._guard:
            if received:
                self._received.write(received)
            else:
                self._received.write_eof()
        return bool(received)

    def _flush(self) -> None:
        with self._writing:
            with self._guard:
                sealed = self._sealed.read()
            if sealed:
                self._connection.sendall(sealed)


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate's DER, in hex."""
    return hashlib.sha256(certificate).hexdigest()


def pinned(connection: socket.socket, pin: str) -> TlsStream:
    """The task's end: nothing is sent before the driver has proved that it has the key of certificate ``pin``.

    Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the pin proves more than a name or issuer
    stream = TlsStream(connection, context, server_side=False)
    if not hmac.compare_digest(stream.peer(), pin):
        raise ssl.SSLCertVerificationError(f"the certificate there is {stream.peer()}, the driver's is {pin}")
    return stream


class Line:
    """Whole lines of a stream."""

    def __init__(self, connection: socket.socket, stream: Stream) -> None:
        self._connection, self._stream = connection, stream
        self._buffer = bytearray()
        self._ordering = threading.Lock()

    def send(self, message: Message | Callable[[], Message]) -> bool:
        """``message``: perhaps a function that makes it of the present state. Messages are made in the order in which
        they are sent, so that the other side hears the newest state last."""
        with self._ordering:
            content = message() if callable(message) else message
            return self.send_raw(json.dumps(content, separators=(",", ":")).encode())

    def send_raw(self, line: bytes) -> bool:
        try:
            self._stream.write(line + b"\n")
        except OSError:
            return False
        return True

    def receive_raw(self, most: int | None = None) -> bytes | None:
        """A line without its end. None if the other side has closed, or a line is longer than ``most`` bytes."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if most is not None and searched > most:
                return None
            try:
                content = self._stream.read()
            except OSError:
                return None
            if not content:
                return None
            self._buffer += content
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return None if most is not None and len(line) > most else line

    def receive(self) -> Message | None:
        """None if the other side has closed or sent no JSON object."""
        line = self.receive_raw()
        try:
            got = None if line is None else json.loads(line)
        except (ValueError, RecursionError):
            return None
        return got if isinstance(got, dict) else None

    def close(self) -> None:
        shut(self._connection)


def shut(connection: socket.socket) -> None:
    """Closes the connection, and so wakes a thread that reads from it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
