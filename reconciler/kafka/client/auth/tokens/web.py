"""One request to an identity endpoint, within the time that a login can wait, and what its answer means."""

import io
import json
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, InvalidURL
from typing import Any

from reconciler.kafka.address import url_address
from reconciler.kafka.client.auth.login_file import content_of
from reconciler.kafka.client.auth.tls import trusting
from reconciler.kafka.client.auth.tokens.shown import claims
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError

SECONDS = 10.0
LARGEST = 1 << 20
UNKNOWN_LIFE = 60.0
"""Seconds that an opaque token without ``expires_in`` is used for."""
_SHOWN = 200


class TokenRefusedError(AuthenticationFailedError):
    """``retry_after``: seconds that the endpoint demands, or None. ``busy``: it answered 429 or 5xx, or not at all."""

    def __init__(self, text: str, retry_after: float | None = None, busy: bool = False) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        self.busy = busy


@dataclass(frozen=True, slots=True)
class AccessToken:
    """``expires_at``: seconds since 1970, by this machine's clock. ``extensions``: KIP-342."""

    text: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IdentityEndpoint:
    """An address that gives tokens: an identity provider's, or the metadata service of this machine."""

    url: str
    oauth: Mapping[str, str] = field(repr=False)
    """Settings, for ``https.ca``."""
    todo: str
    """The remedy for a refusal."""
    hidden: Iterable[str] = field(default=(), repr=False)
    """Secrets that its answer may repeat."""
    local: bool = False
    """An address of this machine or its host, which no proxy can reach, and which is silent where the machine has no
    identity."""

    @property
    def where(self) -> str:
        return url_address(self.url).host

    @property
    def through(self) -> str:
        """Words for the proxy from the environment, without a login; empty without a proxy."""
        scheme = self.url.partition(":")[0]
        proxy = "" if self.local or urllib.request.proxy_bypass(self.where) else urllib.request.getproxies().get(scheme)
        shown = (proxy or "").rpartition("@")[2].partition("://")
        return f" through {scheme}_proxy {(shown[2] or shown[0]).rstrip('/')}" if proxy else ""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Credentials in a request's headers would follow a redirect to another host. Of all that calls by HTTP."""

    def redirect_request(self, *_: object) -> None:
        return None


class _InTime(io.RawIOBase):
    """What a socket receives within its timeout in all: by itself, that begins again with each byte."""

    def __init__(self, sock: socket.socket, received: io.RawIOBase) -> None:
        self._socket, self._received, self._until = sock, received, time.monotonic() + (sock.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if (left := self._until - time.monotonic()) <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *more: Any, **named: Any) -> None:
        super().__init__(sock, *more, **named)
        self.fp = io.BufferedReader(_InTime(sock, self.fp.detach()))


class _HttpConnection(HTTPConnection):
    response_class = _Response


class _HttpsConnection(HTTPSConnection):
    response_class = _Response


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HttpConnection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, trusted: ssl.SSLContext) -> None:
        super().__init__(context=trusted)
        self._trusted = trusted

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_HttpsConnection, request, context=self._trusted)


def ask(
    endpoint: IdentityEndpoint,
    headers: Mapping[str, str],
    form: Mapping[str, str] | None = None,
    method: str | None = None,
) -> tuple[Message, bytes]:
    """Headers and body of the answer. Raises SettingError for an invalid address, else TokenRefusedError."""
    try:
        where = endpoint.where
    except ValueError as error:
        raise SettingError(f"{endpoint.url} cannot be asked for a token: {error}") from None
    body = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(endpoint.url, body, dict(headers), method=method)  # noqa: S310 - scheme is checked
    # A redirect would carry the secret to an address that the settings do not name. A local endpoint, such as a cloud's
    # metadata server, is never reached by a proxy.
    handlers: list[urllib.request.BaseHandler] = [NoRedirect(), _Http()]
    if endpoint.local:
        handlers.append(urllib.request.ProxyHandler({}))
    if endpoint.url.startswith("https"):
        try:
            handlers.append(_Https(trusting(endpoint.oauth, "https.ca")))
        except OSError as error:
            raise SettingError(f"https.ca.location or https.ca.pem cannot be used: {error}") from None
    try:
        try:
            answer = urllib.request.build_opener(*handlers).open(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            parts, size = [], 0
            while part := answer.read1(65_536):
                parts.append(part)
                size += len(part)
                if size > LARGEST:
                    raise TokenRefusedError(
                        f"no token from {where}: its answer does not end. {endpoint.todo}", busy=True
                    )
    except (OSError, HTTPException, ValueError) as error:  # ValueError: of http.client, for headers
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise TokenRefusedError(
            f"no token from {where}{endpoint.through}: {_silent(endpoint, reason)}", busy=True
        ) from None
    body = b"".join(parts)
    if not 200 <= answer.status < 300:
        raise _refused(endpoint, where, answer.status, answer.headers, body)
    return answer.headers, body


def _silent(endpoint: IdentityEndpoint, reason: object) -> str:
    """Why there is no answer, and what to do."""
    at = endpoint.url.partition("?")[0]
    todo = endpoint.todo if endpoint.local else f"Check that {at} runs, and that this machine reaches it"
    match reason:
        case TimeoutError():
            return f"no whole answer within {SECONDS:g} s. {todo}"
        case ssl.SSLCertVerificationError():
            why = reason.verify_message.rstrip(".")
            return f"its certificate is not accepted: {why}. Name its CA in https.ca.location, and the host it is for"
        case ssl.SSLError():
            return f"no TLS: {reason.reason}. Check scheme and port of {at}"
        case IncompleteRead() | ConnectionResetError():
            return f"its answer is cut off. {todo}"
        case InvalidURL():
            return f"no request can be sent to {at}. Correct this address"
        case HTTPException():
            return f"what answers is no HTTP. Check scheme and port of {at}"
        case ValueError():  # it repeats the header
            return "a key or token for it holds a line break. Set it again"
        case OSError():
            return f"{reason.strerror or reason}. {todo}"
    return f"{reason}. {todo}"


def ask_json(
    endpoint: IdentityEndpoint, headers: Mapping[str, str], form: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """Like ``ask``, for an answer that is one JSON object."""
    answered, body = ask(endpoint, {"Accept": "application/json", **headers}, form)
    try:
        document = json.loads(body)
        if isinstance(document, dict):
            return document
    except (ValueError, RecursionError):
        pass
    kind = answered.get_content_type()
    sent = "JSON that is cut off or no object" if kind == "application/json" else f"{kind}, not JSON"
    raise TokenRefusedError(f"no token from {endpoint.where}: it answered with {sent}. {endpoint.todo}")


def text_of(document: Mapping[str, object], name: str, endpoint: IdentityEndpoint) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        words = _words(document, endpoint)
        why = f": {words}" if words else ""  # some refuse with 200
        raise TokenRefusedError(f"the answer of {endpoint.where} has no {name}{why}. {endpoint.todo}")
    return value


def access_token(
    document: Mapping[str, object], endpoint: IdentityEndpoint, extensions: Mapping[str, str]
) -> AccessToken:
    """RFC 6749, section 5.1. Azure's metadata service writes ``expires_in`` as a text."""
    text = proper_token(text_of(document, "access_token", endpoint), endpoint.where)
    return AccessToken(text, time.time() + _life(document.get("expires_in"), text), extensions)


def proper_token(text: str, where: str) -> str:
    """``text`` if SASL's message can carry it (RFC 6750, section 2.1); else raises TokenRefusedError."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise TokenRefusedError(f"no token from {where}: what it gives has characters that no token has")
    return text


def _life(expires_in: object, text: str) -> float:
    """Life in seconds from now: from the answer, else from the token, else a short one."""
    if isinstance(expires_in, (int, float, str)) and not isinstance(expires_in, bool):
        try:
            life = float(expires_in)
        except ValueError:
            life = 0.0
        if 0 < life < 1e9:
            return life
    return life_of(text, UNKNOWN_LIFE)


def life_of(text: str, unknown: float) -> float:
    """Life in seconds from now, from a JWT; ``unknown`` without one."""
    expires = claims(text).get("exp")
    return max(expires - time.time(), 0.0) if isinstance(expires, (int, float)) else unknown


def _refused(endpoint: IdentityEndpoint, where: str, code: int, headers: Message, body: bytes) -> TokenRefusedError:
    """The refusal of a token, with the endpoint's words in the form of each cloud, and whether to ask again."""
    if 300 <= code < 400:
        todo = "Credentials follow no redirect. Write the address that it leads to"
        return TokenRefusedError(f"no token from {where}: it answered {code}, a redirect. {todo}")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = {}
    if b"<Code>" in body:  # AWS' services
        inside = {name: body.partition(f"<{name}>".encode())[2].partition(b"<")[0] for name in ("Code", "Message")}
        document = {name: part.decode(errors="replace") for name, part in inside.items()}
    words = _words(document, endpoint)
    said = f"{code}, {words}" if words else str(code)
    # Trying again helps only where the endpoint is busy; a refusal would come again.
    busy = code == 429 or code >= 500
    waits = headers.get("Retry-After", "") if busy else ""
    retry_after = float(waits) if waits.isdecimal() else None
    todo = "It is asked again" if busy else endpoint.todo
    if code == 407:
        todo = "Its proxy requires a login: write it into the variable, or name the endpoint in no_proxy"
    return TokenRefusedError(f"no token from {where}{endpoint.through}: it answered {said}. {todo}", retry_after, busy)


def _words(document: object, endpoint: IdentityEndpoint) -> str:
    """error and error_description of RFC 6749, section 5.2, or those of the clouds' services. Empty without them."""
    inner = document.get("error") if isinstance(document, dict) else None
    fields = inner if isinstance(inner, dict) else document if isinstance(document, dict) else {}
    names = ("error", "error_description", "code", "Code", "message", "Message")
    words = ": ".join(str(fields[name]) for name in names if isinstance(fields.get(name), str))
    # An endpoint may repeat its input, as it was sent, and errors appear in logs and plans.
    for secret in filter(None, endpoint.hidden):
        for spelling in (secret, urllib.parse.quote_plus(secret), urllib.parse.quote(secret, safe="")):
            words = words.replace(spelling, "***")
    return " ".join("".join(sign if sign.isprintable() else " " for sign in words).split())[:_SHOWN].rstrip(".")


def text_of_file(path: str, named_by: str = "", encoding: str = "utf-8") -> str:
    """The stripped text of a file. ``named_by``: the setting or variable with its path. Raises TokenRefusedError, which
    is retried, for an unreadable or empty file: another program may be rewriting it."""
    which = f"{named_by} names {path}, which" if named_by else path
    try:
        text = content_of(path).decode(encoding).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text file"
        raise TokenRefusedError(f"{which} cannot be read: {why}") from None
    if not text:
        raise TokenRefusedError(f"{which} is empty. What writes it has to write it again")
    return text
