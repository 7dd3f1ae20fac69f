"""The commands that move consumers between the clusters of a flow: failover and failback. Arguments and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.choices import FailoverPage as Page
from reconciler.terminal import Env, OutOption, StealOption, seconds

Flow = Annotated[str, typer.Argument(metavar="FLOW", help="the flow whose consumers move")]
Dry = Annotated[bool, typer.Option("--dry-run", help="look, check and tell; change nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
Unplanned = Annotated[
    bool, typer.Option("--unplanned", help="go on although the cluster that consumers leave does not answer")
]
Loss = Annotated[bool, typer.Option("--accept-loss", help="go on although records there are not copied")]
Drain = Annotated[str, typer.Option("--drain", metavar="DURATION", help="how long copying may take to catch up")]
Form = Annotated[Page, typer.Option("--format", help="text for people, json for machines, markdown for a comment")]


def failover(
    env: Env,
    flow: Flow,
    dry: Dry = False,
    yes: Yes = False,
    unplanned: Unplanned = False,
    loss: Loss = False,
    drain: Drain = "60s",
    form: Form = Page.TEXT,
    out: OutOption = None,
    steal: StealOption = "",
) -> None:
    """Move consumers of FLOW to its target: drain, pause the flow, set their exact offsets, start the flow back."""
    _moved(env, "failover", flow, (unplanned, loss, drain), (dry, yes, form, out, steal))


def failback(
    env: Env,
    flow: Flow,
    dry: Dry = False,
    yes: Yes = False,
    unplanned: Unplanned = False,
    loss: Loss = False,
    drain: Drain = "60s",
    form: Form = Page.TEXT,
    out: OutOption = None,
    steal: StealOption = "",
) -> None:
    """Move consumers of FLOW back to its source, their offsets translated back, and resume the flow."""
    _moved(env, "failback", flow, (unplanned, loss, drain), (dry, yes, form, out, steal))


def _moved(
    env: Path,
    way: str,
    flow: str,
    wish: tuple[bool, bool, str],
    manner: tuple[bool, bool, Page, Path | None, str],
) -> None:
    from reconciler.consumer_moves import Manner, move
    from reconciler.failing import FailoverWish
    from reconciler.failovers import Way

    unplanned, loss, drain = wish
    wished = FailoverWish(unplanned, loss, seconds("--drain", drain))
    raise typer.Exit(move(env, Way(way), flow, wished, Manner(*manner)))
