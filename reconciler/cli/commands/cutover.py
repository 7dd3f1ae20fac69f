"""The CLI commands that move clients, cutover plan, apply and rollback: arguments, options, exit codes."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.commands.apply import Flow, Form, Hold
from reconciler.cli.help import ending
from reconciler.render.console import App, Env, StealOption, YesOption, seconds
from reconciler.render.markup import Format

app = App(help="Move the producers and consumers of a flow to its target.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Option("--plan", metavar="FILE", help="the plan that cutover plan --out wrote")]
CODES = "0 done; 1 error; 3 blocked; 4 stale plan; 5 not all of it: run it again; 6 lock held"


@app.callback()
def cutover() -> None:
    """Move the producers and consumers of a flow to its target."""


@app.command(
    epilog=ending(
        "0 no topic is chosen; 1 error; 2 it can be done; 3 a check stops it",
        "cutover plan environments/prod east-to-west --out cutover.json",
    )
)
def plan(
    env: Env,
    flow: Flow,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="save the plan for cutover apply")] = None,
    topics: Annotated[
        str, typer.Option("--topics", metavar="RE", help="only topics of the origin whose whole name matches")
    ] = "",
    label: Annotated[
        str, typer.Option("--label", metavar="KEY=VALUE", help="only topics declared with this label")
    ] = "",
    names: Annotated[
        Path | None, typer.Option("--topics-file", metavar="FILE", help="only topics named in FILE, one per line")
    ] = None,
    groups: Annotated[str, typer.Option("--groups", metavar="RE", help="only groups whose whole name matches")] = "",
    hold: Hold = "2s",
    within: Annotated[
        str,
        typer.Option("--within", metavar="DURATION", help="how long fencing, then copying the rest, may take"),
    ] = "60s",
    catch_up: Annotated[
        str, typer.Option("--catch-up", metavar="DURATION", help="how long members may take to read the rest")
    ] = "30s",
    clients: Annotated[
        str, typer.Option("--clients", metavar="DURATION", help="how long to wait for clients at the target")
    ] = "10m",
    unfence: Annotated[bool, typer.Option("--unfence", help="allow writes on the source again at the end")] = False,
    abort: Annotated[
        bool, typer.Option("--abort-transactions", help="abort transactions that outlast --within")
    ] = False,
    soak: Annotated[
        str,
        typer.Option("--soak", metavar="DURATION", help="how long gates must hold before the next wave of the flow"),
    ] = "0s",
    form: Form = Format.TEXT,
) -> None:
    """Check both clusters: who writes, who reads, what each step does and how it is taken back. Changes nothing."""
    from reconciler.model.reports.cutover import CutoverSettings
    from reconciler.operations.cutover.plan import CutoverRequest
    from reconciler.operations.cutover.run import plan as make

    waits = seconds("--within", within), seconds("--catch-up", catch_up), seconds("--clients", clients)
    settings = CutoverSettings(seconds("--hold", hold), *waits, unfence, abort, seconds("--soak", soak))
    raise typer.Exit(make(env, CutoverRequest(flow, settings, topics, groups, label, names), form, out))


@app.command(epilog=ending(CODES, "cutover apply environments/prod --plan cutover.json --yes"))
def apply(env: Env, plan: PlanFile, yes: YesOption = False, form: Form = Format.TEXT, steal: StealOption = "") -> None:
    """Fence producers, drain, set positions, wait until clients are on the target. Run it again to continue."""
    from reconciler.operations.cutover.run import CutoverOptions
    from reconciler.operations.cutover.run import apply as carry_out

    raise typer.Exit(carry_out(env, plan, CutoverOptions(yes, form, steal)))


@app.command(epilog=ending(CODES, "cutover rollback environments/prod --plan cutover.json --yes"))
def rollback(
    env: Env, plan: PlanFile, yes: YesOption = False, form: Form = Format.TEXT, steal: StealOption = ""
) -> None:
    """Take a cut-over back, as long as the target has no record of its own."""
    from reconciler.operations.cutover.run import CutoverOptions
    from reconciler.operations.cutover.run import rollback as take_back

    raise typer.Exit(take_back(env, plan, CutoverOptions(yes, form, steal)))
