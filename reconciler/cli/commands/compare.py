"""The CLI command compare: arguments, options, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.render import completion
from reconciler.render.console import App, OutOption, PageOption, filled_in, show, style
from reconciler.render.style import Format as Page

app = App()


@app.command(
    epilog=ending(
        "0 they declare the same; 1 error; 2 they differ",
        "compare environments/staging environments/prod",
        "compare environments/staging environments/prod --map stg-east=east --map User:stg-app=User:app",
    )
)
def compare(
    env_a: Annotated[
        Path, typer.Argument(metavar="ENV_A", help="such as staging", autocompletion=completion.environments)
    ],
    env_b: Annotated[
        Path, typer.Argument(metavar="ENV_B", help="such as production", autocompletion=completion.environments)
    ],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="A=B", help="a cluster, flow, mirror or principal of ENV_A, and its name in ENV_B"
        ),
    ] = None,
    form: PageOption = Page.TEXT,
    out: OutOption = None,
) -> None:
    """What ENV_B would have to declare to be as ENV_A: topics, flows, access, settings. Asks no cluster."""
    from reconciler.operations.review.plan import compare_folders
    from reconciler.render.reports.promotion import promotion_in

    report = compare_folders(env_a, env_b, names or ())
    text = promotion_in(report, form, style())
    if out is not None:
        write_text(out, filled_in(text, form))
    show(text, form)
    raise typer.Exit(int(report.exit_code))
