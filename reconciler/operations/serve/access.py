"""Access to the live page: allowed host names, the token, and protection from pages of other sites.

A page of any site can make a browser send requests to 127.0.0.1. The Host header exposes a foreign name that resolves
to this machine (DNS rebinding); Sec-Fetch-Site exposes requests from another site.
"""

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
