"""The command that changes clusters: its arguments. What it does is ``enacting``, imported when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.choices import PROBE_PATIENCE_S
from reconciler.rendering.style import Format as Page
from reconciler.terminal import Env, PageOption, PruneOption, StealOption, seconds


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
    part: Annotated[bool, typer.Option("--partial", help="apply what rests on nothing unknown or refused")] = False,
    prune: PruneOption = False,
    contact: Annotated[
        bool,
        typer.Option("--first-contact", help="change clusters this environment, or repository, never changed before"),
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="agree that much of what was declared is gone")
    ] = False,
    steal: StealOption = "",
    until: Annotated[
        str, typer.Option("--until-wave", metavar="NAME", help="end after this wave of the rollout and its soak")
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
    from reconciler import enacting
    from reconciler.applied import Consent

    wish = enacting.ApplyWish(
        Consent(contact, shrink, prune),
        saved,
        reviewed,
        yes,
        form,
        part,
        until,
        ignore,
        seconds("--probe-timeout", probe),
    )
    raise typer.Exit(enacting.apply(env, wish, steal))
