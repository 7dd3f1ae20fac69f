"""The CLI command serve: arguments, options, exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.render.console import App, Env

app = App()


@app.command(
    epilog=ending(
        "0 ended by SIGTERM or Ctrl-C; 1 error",
        "serve environments/prod",
        "serve environments/prod --bind 0.0.0.0 --name kafka.example.com",
    )
)
def serve(
    env: Env,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free")] = 8642,
    bind: Annotated[
        str, typer.Option("--bind", metavar="ADDRESS", help="to listen on; others than loopback ask for a token")
    ] = "127.0.0.1",
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="HOST", help="a name that browsers may call it by")
    ] = None,
    token: Annotated[bool, typer.Option("--token", help="ask for a token on loopback, too")] = False,
) -> None:
    """A live page: map with rates and lag, flows, what to do, drift, pending plan, lock, groups. It changes nothing."""
    try:
        from reconciler.operations.serve.run import ServeOptions
        from reconciler.operations.serve.run import serve as answer
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        why = "The web server of the live page is an extra, which most machines do not need."
        todo = "Install it: pip install 'kafka-topology-reconciler[serve]'."
        raise ReconcilerError(f"the package {error.name} is not installed", why, todo) from None
    answer(env, ServeOptions(bind, port, tuple(names or ()), token))
