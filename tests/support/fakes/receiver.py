"""A server that gets what webhooks post."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver(HTTPServer):
    """Answers ``status`` to each post, and keeps path and body; a redirect leads back here."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.got: list[tuple[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/services/T0/s3cret-word"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, json.loads(text)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(b"s3cret-word")

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def receiving() -> Iterator[Receiver]:
    server = Receiver()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
