"""The CLI command ``apply``: its arguments and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.model.options import PROBE_PATIENCE_S
from reconciler.render import completion
from reconciler.render.console import App, Env, PageOption, PruneOption, StealOption, seconds
from reconciler.render.style import Format as Page

app = App()


@app.command(
    epilog=ending(
        "0 done; 1 error or unknown; 2 waves after --until-wave are left; 3 blocked by a guard; 4 stale plan;"
        " 5 partly applied; 6 lock held",
        "apply environments/prod",
        "apply environments/prod --plan plan.json --yes",
    )
)
def apply(
    env: Env,
    saved: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="apply this saved plan and nothing else")
    ] = None,
    reviewed: Annotated[
        Path | None,
        typer.Option("--reviewed", metavar="FILE", help="a fresh plan, if each of its changes is in this saved one"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    form: PageOption = Page.TEXT,
    part: Annotated[bool, typer.Option("--partial", help="apply what depends on nothing unknown or refused")] = False,
    prune: PruneOption = False,
    contact: Annotated[
        bool,
        typer.Option(
            "--first-contact", help="change clusters that this environment, or repository, never changed before"
        ),
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="accept that much of what was declared is gone")
    ] = False,
    limits: Annotated[
        bool,
        typer.Option("--allow-lower-limits", help="carry lower limits of source topics that are in no file to copies"),
    ] = False,
    steal: StealOption = "",
    move_lock: Annotated[
        str,
        typer.Option(
            "--move-lock",
            metavar="CLUSTER",
            help="keep the environment's lock there from now on",
            autocompletion=completion.clusters,
        ),
    ] = "",
    until: Annotated[
        str, typer.Option("--until-wave", metavar="NAME", help="stop after this wave of the rollout and its soak")
    ] = "",
    ignore: Annotated[
        str, typer.Option("--ignore-gates", metavar="REASON", help="waves in order, but without gates and soaks")
    ] = "",
    probe: Annotated[
        str,
        typer.Option("--probe-timeout", metavar="DURATION", help="for brokers to show access changes"),
    ] = f"{PROBE_PATIENCE_S:.0f}s",
) -> None:
    """Carry out a fresh plan, or a saved one; a stale one is refused with what moved."""
    from reconciler.model.state.last_apply import Consent
    from reconciler.operations.apply import run as enacting

    request = enacting.ApplyRequest(
        Consent(contact, shrink, prune, limits),
        saved,
        reviewed,
        yes,
        form,
        part,
        until,
        ignore,
        seconds("--probe-timeout", probe),
        move_lock,
    )
    raise typer.Exit(enacting.apply(env, request, steal))
