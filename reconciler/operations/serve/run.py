"""Serves the live page: opens the port, reads, and answers; `serve` does so until SIGTERM or Ctrl-C."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from reconciler.errors import ReconcilerError
from reconciler.kafka.address import is_loopback
from reconciler.operations.apply.execution import stopped_by_signals
from reconciler.operations.serve import connections
from reconciler.operations.serve.access import LOCAL, PARAMETER, Access, new_token
from reconciler.operations.serve.app import LiveApp, Renderer
from reconciler.operations.serve.reader import LiveReader
from reconciler.operations.serve.sources import SessionSources, StandingsReader
from reconciler.render.console import say, show
from reconciler.text import in_shell

POLL_SECONDS = 0.5
END_WITHIN = 5
"""Seconds for unfinished responses when the server ends."""


UNENCRYPTED = (
    "WITHOUT TLS beyond this machine: anyone on the path can read the page and its token, and then ask for it as you"
    " do. Give --tls-cert and --tls-key, put a proxy with TLS before it, or leave out --bind and use ssh -L"
)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where and to whom the page is served."""

    bind: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Host names that browsers may use, besides addresses and localhost."""
    token: bool = False
    """Require one even if only this machine can reach the page."""
    tls: connections.CertificateFiles | None = None
    """None for HTTP."""

    @property
    def beyond(self) -> bool:
        """Whether other machines can reach the page."""
        return not is_loopback(self.bind)

    def access(self) -> Access:
        """Access rules. Beyond loopback a token is always required; no option disables it."""
        token = new_token() if self.token or self.beyond else ""
        return Access(LOCAL | {name.lower() for name in self.names}, token, encrypted=self.tls is not None)


class LivePageServer:
    """A running server of the page. Its owner calls ``look`` regularly."""

    def __init__(self, reader: LiveReader, certificate: connections.PageCertificate | None) -> None:
        self._reader = reader
        self._certificate = certificate

    def look(self) -> None:
        """Renews the certificate. Raises the exception that ended a reading thread, which is a bug."""
        self._reader.require_alive()
        if self._certificate is not None:
            self._certificate.renew()


def serve(folder: Path, options: ServeOptions) -> None:
    """Raises ReconcilerError, before anything is read, for an unusable folder, port or certificate."""
    with stopped_by_signals() as asked, live_page(folder, options) as page:
        while not asked.wait(POLL_SECONDS):
            page.look()


@contextmanager
def live_page(folder: Path, options: ServeOptions) -> Iterator[LivePageServer]:
    """Serves the page until the block ends. The URL is shown once, with the token. Raises ReconcilerError, before
    anything is read, for an unusable folder, port or certificate."""
    access, stop = options.access(), threading.Event()
    certificate = connections.PageCertificate(options.tls, say) if options.tls is not None else None
    try:
        family = socket.AF_INET6 if ":" in options.bind else socket.AF_INET
        listener = socket.create_server((options.bind, options.port), family=family)
    except (OSError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        problem = f"the page cannot be served on {options.bind}:{options.port}: {cause}"
        raise ReconcilerError(problem, "Nothing was read.", "Choose another --port or --bind.") from None
    with listener, LiveReader(SessionSources(folder, say), folder=in_shell(str(folder))) as reader:
        standings = StandingsReader(lambda: reader.view.topology)
        app = LiveApp(Renderer(lambda: reader.view, standings.of, reader.now_ms), stop).application(access)
        with answering(app, listener, certificate.context if certificate is not None else None):
            # The URL contains the token, which is shown only here and stored nowhere.
            host, port = listener.getsockname()[:2]
            host = options.names[0] if options.names else host
            host = f"[{host}]" if ":" in host else host
            query = f"?{PARAMETER}={access.token}" if access.token else ""
            scheme = "https" if access.encrypted else "http"
            show(f"{reader.view.topology.environment}: {scheme}://{host}:{port}/{query}")
            if options.beyond and certificate is None:
                say(UNENCRYPTED)
            try:
                yield LivePageServer(reader, certificate)
            finally:
                stop.set()


@contextmanager
def answering(app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """Runs uvicorn on a separate thread, so that it installs no signal handlers. At the end, open responses get
    ``END_WITHIN`` seconds."""
    places = connections.SharedListener(listener)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        http=connections.limited(places),
        backlog=connections.ACCEPTED_AT_ONCE,
        timeout_keep_alive=5,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=END_WITHIN,
        ssl_context_factory=None if tls is None else lambda _config, _standard: tls,
    )
    server = uvicorn.Server(config)

    def answer() -> None:
        with asyncio.Runner(loop_factory=connections.LimitedLoop) as runner:
            runner.run(server.serve([places]))

    thread = threading.Thread(target=answer, name="answers")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
