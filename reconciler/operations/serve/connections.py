"""Connections to the live page: TLS, and which are ended when there are too many. A client that only opens connections,
drips a request or reads no answer would otherwise keep everyone else out, and take the descriptors of `run --serve`."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.errors import ReconcilerError
from reconciler.operations.serve.access import ADMITTED

MOST_CONNECTIONS = 400
REQUEST_WITHIN_S = 10.0
"""From its beginning, or from the last answer, to the end of a request's headers; of TLS, to its handshake's end."""
READ_WITHIN_S = 30.0
"""How long an answer may wait for a client that reads nothing of it, or too little."""
ACCEPTED_AT_ONCE = 32
"""Before requests are read: far fewer than there are places, or a request would lose its place unread."""
_POLL_S = 1.0


class SharedListener(socket.socket):
    """Listens, and gives each connection a place from the moment it is accepted, before any TLS. One too many ends
    another: first one that is not admitted yet (these have three quarters of the places), then an idle one, then any;
    always of the address with the most of them, and there the oldest."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.dup().detach())
        self._taken: dict[socket.socket, _Place] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """Closes others when there are too many. Connections that have not sent a request yet go first, so that a
        scanner cannot lock out those that look at a page."""
        connection, address = super().accept()
        self._taken = {one: place for one, place in self._taken.items() if one.fileno() >= 0}
        self._taken[connection] = _Place(str(address[0]))
        strangers = [one for one, place in self._taken.items() if not place.admitted]
        if len(strangers) > MOST_CONNECTIONS * 3 // 4:
            self._end(strangers)
        elif len(self._taken) > MOST_CONNECTIONS:
            idle = [one for one, place in self._taken.items() if not place.answering]
            self._end(strangers or idle or list(self._taken))
        return connection, address

    def serves(self, transport: asyncio.BaseTransport, protocol: LimitedConnection) -> None:
        """From here on its state decides about its place."""
        number = transport.get_extra_info("socket").fileno()
        for connection, place in self._taken.items():
            if connection.fileno() == number:
                place.protocol = protocol

    def _end(self, among: Sequence[socket.socket]) -> None:
        places = Counter(self._taken[one].address for one in among)
        ended = min(among, key=lambda one: (-places[self._taken[one].address], self._taken[one].since))
        del self._taken[ended]
        with suppress(OSError):  # the other side was faster
            ended.shutdown(socket.SHUT_RDWR)


class _Place:
    def __init__(self, address: str) -> None:
        self.address = address
        self.protocol: LimitedConnection | None = None
        self._accepted = time.monotonic()

    @property
    def admitted(self) -> bool:
        return self.protocol is not None and self.protocol.admitted

    @property
    def answering(self) -> bool:
        return self.protocol is not None and self.protocol.answering

    @property
    def since(self) -> float:
        """When it was accepted, or had its last answer."""
        return self._accepted if self.protocol is None else self.protocol.waiting_since


class LimitedConnection(H11Protocol):
    """Ends a connection whose request does not come, or whose answer is not read."""

    places: SharedListener
    waiting_since = 0.0
    admitted = False
    _timer: asyncio.TimerHandle | None = None
    _unread_since: float | None = None

    @property
    def answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self.places.serves(transport, self)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self.waiting_since = self.loop.time()
        self._admit()
        super().on_response_complete()

    def _admit(self) -> None:
        self.admitted = self.admitted or (self.cycle is not None and ADMITTED in self.cycle.scope)

    def _look(self) -> None:
        """Ends a connection that does not read what it is sent, or sends no request, in time."""
        now = self.loop.time()
        self._admit()
        self._unread_since = (self._unread_since or now) if self.flow.write_paused else None
        if self._unread_since is not None and now - self._unread_since >= READ_WITHIN_S:
            self.transport.abort()
            return
        if not self.answering and now - self.waiting_since >= REQUEST_WITHIN_S:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(min(_POLL_S, REQUEST_WITHIN_S / 4), self._look)


def limited(places: SharedListener) -> type[LimitedConnection]:
    return type("Connection", (LimitedConnection,), {"places": places})


class LimitedLoop(asyncio.SelectorEventLoop):
    """Gives a TLS handshake as long as a request; asyncio's own limit is a minute."""

    def create_server(self, *words: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = REQUEST_WITHIN_S
        return super().create_server(*words, **options)


Stamp = tuple[tuple[int, int], ...]
"""Of each file: modification time in ns, and size in bytes."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: the certificate with its intermediates, and its private key."""

    certificate: Path
    key: Path

    def stamp(self) -> Stamp:
        """Raises OSError."""
        return tuple((at.st_mtime_ns, at.st_size) for at in (self.certificate.stat(), self.key.stat()))


def certificate_files(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    """None where neither is given. Raises ReconcilerError where only one is."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        problem = f"{'--tls-key' if certificate is None else '--tls-cert'} is given alone"
        raise ReconcilerError(problem, "A certificate is shown together with its key.", "Give both, or neither.")
    return CertificateFiles(certificate, key)


class PageCertificate:
    """``context``: for new connections; older ones keep the certificate that they began with."""

    def __init__(self, files: CertificateFiles, say: Callable[[str], None]) -> None:
        """Raises ReconcilerError for files that cannot be used."""
        self._files = files
        self._say = say
        self.context = _context()
        try:
            self._stamp: Stamp = files.stamp()
            _load(self.context, files)
        except (OSError, ValueError) as error:
            raise _unusable(files, error) from None

    def renew(self) -> None:
        """Loads the files when they have changed. An unusable pair is reported once, and the last good pair stays."""
        try:
            stamp = self._files.stamp()
        except OSError:
            return  # they are being replaced
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            _load(_context(), self._files)  # a certificate without its key must not take the place of a good pair
            _load(self.context, self._files)
        except (OSError, ValueError) as error:
            self._say(f"the renewed certificate is not used, the former one is: {_unusable(self._files, error).what}")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, files: CertificateFiles) -> None:
    # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
    context.load_cert_chain(files.certificate, files.key, password="")


def _unusable(files: CertificateFiles, error: OSError | ValueError) -> ReconcilerError:
    """OpenSSL's own reason, where it has one: "key values mismatch" says more than the exception's text."""
    both = f"{files.certificate} and {files.key}"
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    path = getattr(error, "filename", None)
    return ReconcilerError(
        f"the certificate {both} cannot be used: {f'{path}: ' if path else ''}{reason}",
        "TLS needs a certificate and the private key that belongs to it, both in PEM, the key not encrypted.",
        "Check both files with: openssl x509 -noout -text -in CERT; openssl pkey -noout -in KEY.",
    )
