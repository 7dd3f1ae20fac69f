"""Calls an ASGI application in the test's own process, as a browser would."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


def ask(
    app: ASGIApp, path: str, headers: Mapping[str, str] | None = None, method: str = "GET", pieces: int = 10**9
) -> Answer:
    """``pieces``: how many pieces of the body are waited for; then the browser is gone."""
    return asyncio.run(_asked(app, path, {"host": "127.0.0.1:8642", **(headers or {})}, method, pieces))


async def _asked(app: ASGIApp, path: str, headers: Mapping[str, str], method: str, pieces: int) -> Answer:
    path, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "server": ("127.0.0.1", 8642),
    }
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    asked = [True]

    async def receive() -> dict[str, Any]:
        if asked:
            asked.clear()
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if sum(bool(each.get("body")) for each in sent) >= pieces:
            gone.set()
            await asyncio.Event().wait()  # until the application notices

    await asyncio.wait_for(app(scope, receive, send), 30)
    start = next(each for each in sent if each["type"] == "http.response.start")
    told = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], told, b"".join(each.get("body", b"") for each in sent).decode())
