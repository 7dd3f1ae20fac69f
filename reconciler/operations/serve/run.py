"""Serves the live page: opens the port, reads, and answers; `serve` does so until SIGTERM or Ctrl-C.

The page is an ASGI application: pages, their parts as server-sent events, and the status as JSON.
"""

import asyncio
import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from reconciler.errors import ReconcilerError, Unknown
from reconciler.kafka.address import is_loopback
from reconciler.operations.apply.execution import stopped_by_signals
from reconciler.operations.serve import connections
from reconciler.operations.serve.connections import LOCAL, PARAMETER, Access, Guard, new_token
from reconciler.operations.serve.reader import LiveReader, SessionSources, StandingsReader
from reconciler.render.console import say, show
from reconciler.render.live.flows import Standings
from reconciler.render.live.pages import digest, live_html, live_policy, regions
from reconciler.render.live.view import LivePage, LiveView, PageKind, Region, affairs_now, live_now
from reconciler.render.reports.status import status_json
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
    # What the page does not need is off: WebSockets, headers of proxies, which a client could forge, and a header that
    # names the server. Connections are limited before a request is parsed, since a silent client sends none.
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


EVERY_SECONDS = 1.0
BEAT = 10
"""Turns without news after which a stream still sends a message, so that a browser notices a lost connection."""
MOST_STREAMS = 100
MOST_KEPT = 64
LONGEST = 400
"""Longest search text; the rest is ignored."""


class Renderer:
    """Renders each page at most once a second, for any number of browsers."""

    def __init__(
        self,
        view: Callable[[], LiveView],
        standings: Callable[[str], Standings | Unknown],
        now_ms: Callable[[], int],
    ) -> None:
        self.view = view
        self.now_ms = now_ms
        self._standings = standings
        self._rendering = threading.Lock()
        self._kept: dict[LivePage, tuple[int, tuple[Region, ...]]] = {}

    def parts(self, page: LivePage) -> tuple[Region, ...]:
        """The regions of a page, at most a second old. The page of groups is not cached: it asks clusters for each
        request."""
        if page.kind is PageKind.GROUPS:
            return regions(self.view(), page, self.now_ms(), self._standings(page.flow) if page.flow else None)
        with self._rendering:
            now_ms = self.now_ms()
            second, parts = self._kept.get(page, (-1, ()))
            if second != now_ms // 1000:
                parts = regions(self.view(), page, now_ms, None)
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[page] = now_ms // 1000, parts
            return parts


@dataclass(eq=False, slots=True)
class _Stream:
    """``over``: a newer stream has taken its place."""

    address: str
    over: bool = False


class LiveApp:
    """``stop``: an event that ends all streams."""

    def __init__(self, renderer: Renderer, stop: threading.Event) -> None:
        self._renderer = renderer
        self._stop = stop
        self._streams: list[_Stream] = []

    def application(self, access: Access) -> ASGIApp:
        """The application inside its guard: every route needs the access that ``access`` demands."""
        routes = [
            Route("/status.json", self._status),
            Route("/events/{flow_page:path}", self._events),
            Route("/flows/{flow}", self._page),
            *(Route(f"/{kind.value}", self._page) for kind in PageKind),
        ]
        return Guard(Starlette(routes=routes), access, live_policy())

    def _page(self, request: Request) -> Response:
        page = page_of(request.url.path, request)
        parts = self._renderer.parts(page)
        query = f"?{request.url.query}" if request.url.query else ""
        return HTMLResponse(live_html(self._renderer.view(), page, parts, query, self._renderer.now_ms()))

    def _status(self, _: Request) -> Response:
        view, now_ms = self._renderer.view(), self._renderer.now_ms()
        text = status_json(view.topology, live_now(view, now_ms), now_ms, affairs_now(view, now_ms))
        return Response(text, media_type="application/json")

    async def _events(self, request: Request) -> Response:
        page = page_of(request.url.path.removeprefix("/events"), request)
        return StreamingResponse(self._stream(page, request), media_type="text/event-stream")

    async def _stream(self, page: LivePage, request: Request) -> AsyncIterator[str]:
        # With too many streams, the oldest of the address with the most ends; its browser reconnects after 2 s.
        """Server-sent events of one page: regions that have changed, and a beat that shows the browser that the page is
        alive."""
        stream = _Stream(request.client.host if request.client else "")
        self._streams.append(stream)
        if len(self._streams) > MOST_STREAMS:
            numbers = Counter(one.address for one in self._streams)
            ended = max(self._streams, key=lambda one: numbers[one.address])  # of equals the first, the oldest
            ended.over = True
            self._streams.remove(ended)

        try:
            sent: dict[str, str] = {}
            silent = 0
            yield "retry: 2000\n\n"
            while not (self._stop.is_set() or stream.over):
                # A page of groups shows the reading from its opening; a stream reads nothing again for it.
                still = page.kind is PageKind.GROUPS
                parts = () if still else await run_in_threadpool(self._renderer.parts, page)
                changed = [part for part in parts if sent.get(part.name) != part.html]
                silent = 0 if changed or not sent else silent + 1
                if changed or silent % BEAT == 0:
                    # Of a calm region only the digest is sent; the browser requests the page if it differs.
                    message = [
                        {"name": part.name, "digest": digest(part.html)} | ({} if part.calm else {"html": part.html})
                        for part in changed
                    ]
                    data = json.dumps({"now": self._renderer.now_ms(), "parts": message})
                    yield f"event: parts\ndata: {data}\n\n"
                sent |= {part.name: part.html for part in changed}
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            if not stream.over:
                self._streams.remove(stream)


def page_of(path: str, request: Request) -> LivePage:
    """The page of a URL path. Raises HTTPException for an unknown one."""
    head, _, flow = path.strip("/").partition("/")
    try:
        kind = PageKind(head)
    except ValueError:
        raise HTTPException(404, "There is no such page.") from None
    query = request.query_params
    number = query.get("page", "1")
    return LivePage(
        kind,
        flow or (query.get("flow", "") if kind is PageKind.GROUPS else ""),
        query.get("cluster", "")[:LONGEST],
        query.get("q", "")[:LONGEST],
        int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 1,
    )
