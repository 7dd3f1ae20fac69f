"""The CLI commands map, serve and size, and what run --serve shares with serve: arguments, options, exit codes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.model.options import MapFormat
from reconciler.render.console import App, Env, FormatOption, OutOption, OutputFormat, filled_in, show, style

if TYPE_CHECKING:
    from reconciler.operations.serve.run import LivePageServer, ServeOptions

app = App()
PORT = 8642

BindOption = Annotated[
    str, typer.Option("--bind", metavar="ADDRESS", help="to listen on; any but loopback requires a token")
]
NamesOption = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="host name under which browsers reach it")
]
TokenOption = Annotated[bool, typer.Option("--token", help="require a token on loopback, too")]
CertOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate chain (PEM)")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="its private key (PEM)")]
LOOPBACK = "127.0.0.1"


@app.command(
    "map",
    epilog=ending(
        "0 drawn; 1 error or unknown",
        "map environments/prod --format html --out map.html",
        "map environments/prod --plan plan.json --offline",
    ),
)
def map_(
    env: Env,
    form: Annotated[
        MapFormat, typer.Option("--format", help="a picture, a page, mermaid for comments, dot for Graphviz, json")
    ] = MapFormat.SVG,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="draw a saved plan on it, with its waves")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="from git alone")] = False,
    out: OutOption = None,
) -> None:
    """Draw clusters by region and the flows between them, with rates and lag, and what a saved plan changes."""
    from reconciler.operations.review.plan import draw
    from reconciler.render.map.formats import map_code, map_in

    drawn = draw(env, plan_file, offline)
    text = map_in(drawn, form)
    if out is None:
        show(text, form)
    else:
        write_text(out, filled_in(text, form))
        show(f"{out}: the map of {env} as {form.value}")
    raise typer.Exit(map_code(drawn))


@app.command(
    epilog=ending(
        "0 ended by SIGTERM or Ctrl-C; 1 error",
        "serve environments/prod",
        "serve environments/prod --bind 0.0.0.0 --name kafka.example.com --tls-cert page.crt --tls-key page.key",
    )
)
def serve(
    env: Env,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port")] = PORT,
    bind: BindOption = LOOPBACK,
    names: NamesOption = None,
    token: TokenOption = False,
    certificate: CertOption = None,
    key: KeyOption = None,
) -> None:
    """Serve a live page: map with rates and lag, flows, what to do, drift, plan, lock, groups. Changes nothing."""
    require_web_server()
    from reconciler.operations.serve.run import serve as answer

    answer(env, PageOptions(port, bind, names, token, certificate, key).served())


@app.command(
    "size",
    epilog=ending(
        "0 all known; 1 error or unknown",
        "size environments/prod",
        "size environments/prod --headroom 3 --seconds 300",
        "size environments/prod --format json",
    ),
)
def size(
    env: Env,
    headroom: Annotated[
        float, typer.Option("--headroom", min=1.0, help="times the measured rate; what is above 1 catches up")
    ] = 2.0,
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, help="how long to watch topics whose job reports no rate")
    ] = 30.0,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show what each mirror needs for its current load: lanes, cores, executors, bandwidth, target disk."""
    from reconciler.operations.clusters.sizing import sizes
    from reconciler.render.sizing import sizing_code, sizing_json, sizing_text

    environment, mirrors = sizes(env, headroom, seconds)
    as_json = form is OutputFormat.JSON
    text = sizing_json(environment, mirrors, headroom) if as_json else sizing_text(mirrors, headroom, style().width)
    show(text, form)
    raise typer.Exit(sizing_code(mirrors))


def page_of_run(env: Path, options: PageOptions, wanted: bool) -> AbstractContextManager[LivePageServer | None]:
    """The page of ``run --serve``, or none. Raises ReconcilerError for options of a page without ``--serve``."""
    if wanted:
        require_web_server()
        from reconciler.operations.serve.run import live_page

        return live_page(env, options.served())
    if given := options.given():
        why = "They say how a page is served, and this run serves none."
        raise ReconcilerError(f"{' and '.join(given)} given without --serve", why, "Add --serve, or leave them out.")
    return nullcontext()


@dataclass(frozen=True, slots=True)
class PageOptions:
    """As they were given."""

    port: int
    bind: str
    names: list[str] | None
    token: bool
    certificate: Path | None
    key: Path | None

    def given(self) -> list[str]:
        """Names of the options that say something about the page."""
        asked = {
            "--port": self.port != PORT,
            "--bind": self.bind != LOOPBACK,
            "--name": bool(self.names),
            "--token": self.token,
            "--tls-cert": self.certificate is not None,
            "--tls-key": self.key is not None,
        }
        return [option for option, present in asked.items() if present]

    def served(self) -> ServeOptions:
        """Raises ReconcilerError."""
        from reconciler.operations.serve.connections import certificate_files
        from reconciler.operations.serve.run import ServeOptions

        files = certificate_files(self.certificate, self.key)
        return ServeOptions(self.bind, self.port, tuple(self.names or ()), self.token, files)


def require_web_server() -> None:
    """Raises ReconcilerError where the extra is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        why = "The web server of the live page is an extra, which most machines do not need."
        todo = "Install it: pip install 'kafka-topology-reconciler[serve]'."
        raise ReconcilerError(f"the package {error.name} is not installed", why, todo) from None
