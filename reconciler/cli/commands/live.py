"""The CLI command serve, and what run --serve shares with it: arguments, options, exit codes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.render.console import App, Env

if TYPE_CHECKING:
    from reconciler.operations.serve.run import LivePageServer, ServeOptions

app = App()
PORT = 8642

BindOption = Annotated[
    str, typer.Option("--bind", metavar="ADDRESS", help="to listen on; others than loopback ask for a token")
]
NamesOption = Annotated[
    list[str] | None, typer.Option("--name", metavar="HOST", help="a name that browsers may call it by")
]
TokenOption = Annotated[bool, typer.Option("--token", help="ask for a token on loopback, too")]
CertOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate chain (PEM)")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="its private key (PEM)")]
LOOPBACK = "127.0.0.1"


@app.command(
    epilog=ending(
        "0 ended by SIGTERM or Ctrl-C; 1 error",
        "serve environments/prod",
        "serve environments/prod --bind 0.0.0.0 --name kafka.example.com --tls-cert page.crt --tls-key page.key",
    )
)
def serve(
    env: Env,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free")] = PORT,
    bind: BindOption = LOOPBACK,
    names: NamesOption = None,
    token: TokenOption = False,
    certificate: CertOption = None,
    key: KeyOption = None,
) -> None:
    """A live page: map with rates and lag, flows, what to do, drift, pending plan, lock, groups. It changes nothing."""
    require_web_server()
    from reconciler.operations.serve.run import serve as answer

    answer(env, PageOptions(port, bind, names, token, certificate, key).served())


def page_of_run(env: Path, options: PageOptions, wanted: bool) -> AbstractContextManager[LivePageServer | None]:
    """The page of ``run --serve``, or none. Raises ReconcilerError for options of a page where none is wanted."""
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
