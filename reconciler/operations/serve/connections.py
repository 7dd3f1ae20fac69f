"""How long a connection to the live page may say nothing, and how many there are: who only opens them, or sends a
request a byte at a time, would otherwise keep everybody else out, and take the descriptors of `run --serve`."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 400
REQUEST_WITHIN_S = 10.0
"""From its beginning, or from the last answer, to the end of a request's headers; of TLS, to its handshake's end."""
_LOOK_S = 1.0


class LimitedConnection(H11Protocol):
    """Ends a connection that is one too many, or whose request does not come."""

    _waiting_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._waiting_since = self.loop.time()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        now = self.loop.time()
        if self.cycle is not None and not self.cycle.response_complete:
            self._waiting_since = now
        elif now - self._waiting_since >= REQUEST_WITHIN_S:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(min(_LOOK_S, REQUEST_WITHIN_S / 4), self._look)


class LimitedLoop(asyncio.SelectorEventLoop):
    """Gives a TLS handshake as long as a request; asyncio's own limit is a minute."""

    def create_server(self, *words: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = REQUEST_WITHIN_S
        return super().create_server(*words, **options)
