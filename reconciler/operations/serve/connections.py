"""Connections to the live page: TLS, limits, and access.

Without limits, a client that only opens connections, drips a request or reads no response would keep all others out,
and exhaust the file descriptors of `run --serve`.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
import secrets
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from reconciler.errors import ReconcilerError

MOST_CONNECTIONS = 400
REQUEST_WITHIN_S = 10.0
"""Seconds from the start, or the last response, to the end of a request's headers; and for a TLS handshake."""
READ_WITHIN_S = 30.0
"""Seconds that a response may wait for a client that does not read."""
ACCEPTED_AT_ONCE = 32
"""Connections accepted before requests are read: far fewer than places, or a new connection would lose its place before
its request is read."""
_POLL_S = 1.0


class SharedListener(socket.socket):
    """A listening socket that limits connections from their acceptance, before TLS. One connection too many ends
    another: first one that is not admitted yet (these get three quarters of the places), then an idle one, then any;
    always the oldest of the address with the most."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(fileno=listener.dup().detach())
        self._taken: dict[socket.socket, _Place] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts a connection, and closes another if there are too many. Connections without a request go first, so
        that a port scanner cannot lock out browsers."""
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
        """Registers the protocol of a connection, by whose state its place is decided from now on."""
        number = transport.get_extra_info("socket").fileno()
        for connection, place in self._taken.items():
            if connection.fileno() == number:
                place.protocol = protocol

    def _end(self, among: Sequence[socket.socket]) -> None:
        places = Counter(self._taken[one].address for one in among)
        ended = min(among, key=lambda one: (-places[self._taken[one].address], self._taken[one].since))
        del self._taken[ended]
        with suppress(OSError):  # the client has closed it first
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
        """The time of its acceptance or last response."""
        return self._accepted if self.protocol is None else self.protocol.waiting_since


class LimitedConnection(H11Protocol):
    """Ends a connection that sends no request or does not read its response."""

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
        """Ends a connection that exceeds REQUEST_WITHIN_S or READ_WITHIN_S."""
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
    """Limits TLS handshakes to the time of a request; asyncio's own limit is a minute."""

    def create_server(self, *words: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = REQUEST_WITHIN_S
        return super().create_server(*words, **options)


Stamp = tuple[tuple[int, int], ...]
"""Modification time in ns and size in bytes of each file."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: the certificate with its intermediates, and its private key."""

    certificate: Path
    key: Path

    def stamp(self) -> Stamp:
        """Raises OSError."""
        return tuple((at.st_mtime_ns, at.st_size) for at in (self.certificate.stat(), self.key.stat()))


def certificate_files(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    """None without both paths. Raises ReconcilerError if only one is given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        problem = f"{'--tls-key' if certificate is None else '--tls-cert'} is given alone"
        raise ReconcilerError(problem, "A certificate is shown together with its key.", "Give both, or neither.")
    return CertificateFiles(certificate, key)


class PageCertificate:
    """``context``: for new connections; existing ones keep the certificate of their handshake."""

    def __init__(self, files: CertificateFiles, say: Callable[[str], None]) -> None:
        """Raises ReconcilerError for unusable files."""
        self._files = files
        self._say = say
        self.context = _context()
        try:
            self._stamp: Stamp = files.stamp()
            _load(self.context, files)
        except (OSError, ValueError) as error:
            raise _unusable(files, error) from None

    def renew(self) -> None:
        """Loads changed files. An unusable pair is reported once, and the last good pair stays in use."""
        try:
            stamp = self._files.stamp()
        except OSError:
            return  # the files are just being replaced
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            _load(_context(), self._files)  # a trial: a bad pair must not replace the good one
            _load(self.context, self._files)
        except (OSError, ValueError) as error:
            self._say(f"the renewed certificate is not used, the former one is: {_unusable(self._files, error).what}")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, files: CertificateFiles) -> None:
    # Without a callback, OpenSSL would prompt on the terminal for the password of an encrypted key.
    context.load_cert_chain(files.certificate, files.key, password="")


def _unusable(files: CertificateFiles, error: OSError | ValueError) -> ReconcilerError:
    """The error about unusable files, with OpenSSL's reason if it has one: "key values mismatch" says more than the
    exception's text."""
    both = f"{files.certificate} and {files.key}"
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    path = getattr(error, "filename", None)
    return ReconcilerError(
        f"the certificate {both} cannot be used: {f'{path}: ' if path else ''}{reason}",
        "TLS needs a certificate and the private key that belongs to it, both in PEM, the key not encrypted.",
        "Check both files with: openssl x509 -noout -text -in CERT; openssl pkey -noout -in KEY.",
    )


# Access to the live page: allowed host names, the token, and protection from pages of other sites.
#
# A page of any site can make a browser send requests to 127.0.0.1. The Host header exposes a foreign name that resolves
# to this machine (DNS rebinding); Sec-Fetch-Site exposes requests from another site.

COOKIE = "reconciler-live"
PARAMETER = "token"
ADMITTED = "reconciler.admitted"
"""Key in the ASGI scope of a request that passed the guard, with the token if the page has one."""
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:@/]+)(:[0-9]+)?")
LOCAL = frozenset({"localhost"})
TOKEN_NEEDED = "This page asks for its token: open the address that reconciler serve ENV showed when it started.\n"  # noqa: S105
HEADERS: Mapping[str, str] = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True, slots=True)
class Access:
    """``names``: allowed host names; IP addresses are always allowed. ``token``: empty if the page has none.
    ``encrypted``: the page has TLS, so its cookie gets the attribute Secure."""

    names: frozenset[str] = LOCAL
    token: str = ""
    encrypted: bool = False

    def takes(self, token: str) -> bool:
        """Whether the token is right, in constant time, so that response times do not give away its beginning."""
        return not self.token or hmac.compare_digest(token.encode(), self.token.encode())


def new_token() -> str:
    return secrets.token_urlsafe(32)


def may_be_called(host: str, names: frozenset[str]) -> bool:
    """``host``: the Host header. An IP address is safe: it is never resolved, so it cannot be rebound."""
    parts = _HOST.fullmatch(host.lower())
    if parts is None:
        return False
    name = parts["name"].strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.rstrip(".") in names
    return True


class Guard:
    """Wraps the application, and adds ``policy`` and ``HEADERS`` to each response."""

    def __init__(self, app: ASGIApp, access: Access, policy: str) -> None:
        self._app = app
        self._access = access
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # no websockets, and no lifespan events
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update({**HEADERS, "content-security-policy": self._policy})
            await send(message)

        answer = self._instead(scope)
        if answer is None:
            scope[ADMITTED] = True
        await (answer or self._app)(scope, receive, sealed)

    def _instead(self, scope: Scope) -> Response | None:
        """The response to a request that the application must not get: a refusal, or the login by token."""
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            # Without an end to the connection its body would be read for as long as someone sends one.
            return PlainTextResponse("This page takes no body.\n", 413, {"connection": "close"})
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This page only shows: GET and HEAD.\n", 405, {"allow": "GET, HEAD"})
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not may_be_called(hosts[0], self._access.names):
            name = "another name" if not hosts else hosts[0]
            words = f"This page is not called {name!r}. Call it by its address, or serve it with --name.\n"
            return PlainTextResponse(words, 421)
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
        if site not in ("none", "same-origin") and mode != "navigate":
            return PlainTextResponse("Another site asked for this.\n", 403)

        # A token in the URL becomes a cookie, and a redirect removes it from the URL, so that no history keeps it.
        if not self._access.token:
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if given := query.pop(PARAMETER, []):
            if not self._access.takes(given[0]):
                return PlainTextResponse(TOKEN_NEEDED, 401, {"www-authenticate": "Bearer"})
            rest = urlencode(query, doseq=True)
            path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
            answer = RedirectResponse("/" + path.lstrip("/") + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, self._access.token, httponly=True, samesite="lax", secure=self._access.encrypted)
            return answer

        # Other requests carry the token in a header, or the cookie.
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            shown = ""
            with suppress(CookieError):
                morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
                shown = morsel.value if morsel is not None else ""
        if shown and self._access.takes(shown):
            return None
        return PlainTextResponse(TOKEN_NEEDED, 401, {"www-authenticate": "Bearer"})
