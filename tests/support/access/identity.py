"""A server in this process that answers as an identity endpoint does, and keeps what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class IdentityRequest:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    form: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class IdentityAnswer:
    """``body``: a text, or JSON."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IdentityServer:
    url: str
    asked: list[IdentityRequest]


@contextlib.contextmanager
def identity_server(answers: Callable[[IdentityRequest], IdentityAnswer]) -> Iterator[IdentityServer]:
    asked: list[IdentityRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urlsplit(self.path)
            form = dict(parse_qsl(body.decode(errors="replace")))
            query = dict(parse_qsl(parts.query))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append(IdentityRequest(self.command, parts.path, query, headers, form, body))
            answer = answers(asked[-1])
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(text.encode())))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            with contextlib.suppress(ConnectionError):  # who asked gave up waiting
                self.end_headers()
                self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the server's names

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield IdentityServer(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
