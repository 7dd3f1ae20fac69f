"""`serve`: opens the port, reads, and answers until SIGTERM or Ctrl-C."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from reconciler.errors import ReconcilerError
from reconciler.operations.run import stopped_by_signals
from reconciler.operations.serve.access import LOCAL, PARAMETER, Access, is_loopback, new_token
from reconciler.operations.serve.app import LiveApp, Renderer
from reconciler.operations.serve.reader import LiveReader
from reconciler.operations.serve.sources import SessionSources
from reconciler.operations.serve.standings import StandingsReader
from reconciler.render.console import say, show

LOOK_SECONDS = 0.5
MOST_CONNECTIONS = 400
END_WITHIN = 5
"""Seconds that answers under way have at the end."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """``names``: host names, beside addresses and localhost, that browsers may call it by. ``token``: ask for one also
    where only this machine can reach the page."""

    bind: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    token: bool = False


def serve(folder: Path, options: ServeOptions) -> None:
    """Raises ReconcilerError before anything is read, for a folder or a port that cannot be used."""
    local = is_loopback(options.bind)
    access = Access(LOCAL | {name.lower() for name in options.names}, new_token() if options.token or not local else "")
    stop = threading.Event()
    with (
        _listening(options.bind, options.port) as listener,
        stopped_by_signals() as asked,
        LiveReader(SessionSources(folder, say)) as reader,
    ):
        standings = StandingsReader(lambda: reader.view.topology)
        app = LiveApp(Renderer(lambda: reader.view, standings.of, reader.now_ms), stop).application(access)
        with answering(app, listener):
            show(_address(listener, options.names, access, reader.view.topology.environment))
            if not local:
                say("the page and its token travel unencrypted: put a proxy with TLS before it, or use ssh -L")
            try:
                while not asked.wait(LOOK_SECONDS):
                    reader.require_alive()
            finally:
                stop.set()


def _address(listener: socket.socket, names: Sequence[str], access: Access, environment: str) -> str:
    """With the token: it is shown this once, and kept nowhere."""
    host, port = listener.getsockname()[:2]
    host = names[0] if names else host
    host = f"[{host}]" if ":" in host else host
    query = f"?{PARAMETER}={access.token}" if access.token else ""
    return f"{environment}: http://{host}:{port}/{query}"


@contextmanager
def _listening(bind: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        listener = socket.create_server((bind, port), family=family)
    except (OSError, OverflowError) as error:
        raise ReconcilerError(
            f"the page cannot be served on {bind}:{port}: {getattr(error, 'strerror', None) or error}",
            "Nothing was read.",
            "Choose another --port or --bind.",
        ) from None
    with listener:
        yield listener


@contextmanager
def answering(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """On a thread of its own, so that signals stay ours. Answers under way have ``END_WITHIN`` seconds at the end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=END_WITHIN,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="answers")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
