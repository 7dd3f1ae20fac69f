"""The CLI commands failover and failback: arguments, options, exit codes."""

from __future__ import annotations

from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.model.options import FailoverPage as Page
from reconciler.render import completion
from reconciler.render.console import App, Env, OutOption, StealOption, seconds

Flow = Annotated[
    str, typer.Argument(metavar="FLOW", help="the flow whose consumers move", autocompletion=completion.flows)
]
Dry = Annotated[bool, typer.Option("--dry-run", help="only look and check; change nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
Unplanned = Annotated[
    bool, typer.Option("--unplanned", help="continue although the cluster that consumers leave does not answer")
]
Loss = Annotated[bool, typer.Option("--accept-loss", help="continue although records there are not copied")]
Drain = Annotated[str, typer.Option("--drain", metavar="DURATION", help="how long copying may take to catch up")]
Fence = Annotated[
    bool, typer.Option("--fence", help="failover: deny everyone to write FLOW's topics there, until the failback")
]
Form = Annotated[
    Page, typer.Option("--format", help="text for people, json for machines, markdown for a comment, html for one page")
]


app = App()


def _add(way: str, words: str) -> None:
    codes = "0 done; 1 error; 2 there is something to do (--dry-run); 3 a check stops it; 5 not all of it; 6 lock held"

    @app.command(way, help=words, epilog=ending(codes, f"{way} environments/prod east-to-west --dry-run"))
    def move(
        env: Env,
        flow: Flow,
        dry: Dry = False,
        yes: Yes = False,
        unplanned: Unplanned = False,
        loss: Loss = False,
        drain: Drain = "60s",
        fence: Fence = False,
        form: Form = Page.TEXT,
        out: OutOption = None,
        steal: StealOption = "",
    ) -> None:
        from reconciler.model.reports.failover import Way
        from reconciler.operations.failover.decide import FailoverRequest
        from reconciler.operations.failover.run import FailoverOptions
        from reconciler.operations.failover.run import move as move_consumers

        if fence and way != "failover":
            why = "What a failover has denied with it, the failback takes back by itself."
            raise ReconcilerError("--fence is of failover", why, "Leave it away.")
        request = FailoverRequest(unplanned, loss, seconds("--drain", drain), fence)
        raise typer.Exit(move_consumers(env, Way(way), flow, FailoverOptions(request, dry, yes, form, out, steal)))


_add(
    "failover",
    "Move consumers of FLOW to its target: drain, pause the flow, set their exact offsets, start the flow back.",
)
_add("failback", "Move consumers of FLOW back to its source, their offsets translated back, and resume the flow.")
