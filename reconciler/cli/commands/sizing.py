"""The CLI command size: arguments, options, exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.render.console import App, Env, FormatOption, OutputFormat, show, style

app = App()


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
    """Show what each mirror needs for the present load: lanes, cores, executors, line, disk at the target."""
    from reconciler.operations.clusters.sizing import sizes
    from reconciler.render.sizing import sizing_code, sizing_json, sizing_text

    environment, mirrors = sizes(env, headroom, seconds)
    as_json = form is OutputFormat.JSON
    show(sizing_json(environment, mirrors, headroom) if as_json else sizing_text(mirrors, headroom, style().width))
    raise typer.Exit(sizing_code(mirrors))
