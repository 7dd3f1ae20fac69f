"""The CLI command map: arguments, options, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.model.options import MapFormat
from reconciler.render.console import App, Env, OutOption, filled_in, show

app = App()


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
    """Draw clusters by region and the flows between them, with rates and lag; and what a saved plan does to them."""
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
