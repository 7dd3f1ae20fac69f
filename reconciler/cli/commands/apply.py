"""The CLI commands that change clusters or move consumers: apply, failover, failback, reassignments."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.help import CHANGED, ending
from reconciler.errors import ReconcilerError
from reconciler.model.options import PROBE_PATIENCE_S, KeepDiverged
from reconciler.render import completion, console
from reconciler.render.console import show as tell
from reconciler.render.markup import Format as Page
from reconciler.text import counted

if TYPE_CHECKING:
    from reconciler.backends.clusters.cluster import KafkaCluster

app = console.App()
reassignments_app = console.App(help="Replica reassignments in progress.", no_args_is_help=True)


@app.command(
    epilog=ending(
        "0 done; 1 error or unknown; 2 waves after --until-wave are left; 3 blocked by a guard; 4 stale plan;"
        " 5 partly applied; 6 lock held",
        "apply environments/prod",
        "apply environments/prod --plan plan.json --yes",
    )
)
def apply(
    env: console.Env,
    saved: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="apply this saved plan and nothing else")
    ] = None,
    reviewed: Annotated[
        Path | None,
        typer.Option("--reviewed", metavar="FILE", help="apply a fresh plan if this saved one has each of its changes"),
    ] = None,
    yes: console.YesOption = False,
    form: console.PageOption = Page.TEXT,
    part: Annotated[
        bool, typer.Option("--partial", help="apply only what depends on nothing unknown or refused")
    ] = False,
    prune: console.PruneOption = False,
    contact: Annotated[
        bool,
        typer.Option(
            "--first-contact", help="change clusters that this environment, or repository, never changed before"
        ),
    ] = False,
    shrink: Annotated[bool, typer.Option("--allow-shrink", help="accept that many declarations are gone")] = False,
    limits: Annotated[
        bool,
        typer.Option("--allow-lower-limits", help="apply lower limits of undeclared source topics to their copies"),
    ] = False,
    steal: console.StealOption = "",
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
        str, typer.Option("--ignore-gates", metavar="REASON", help="run waves in order, without gates and soaks")
    ] = "",
    probe: Annotated[
        str,
        typer.Option("--probe-timeout", metavar="DURATION", help="time for brokers to show access changes"),
    ] = f"{PROBE_PATIENCE_S:.0f}s",
) -> None:
    """Apply a fresh plan, or a saved one; a stale plan is refused, with what changed since."""
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
        console.seconds("--probe-timeout", probe),
        move_lock,
    )
    raise typer.Exit(enacting.apply(env, request, steal))


Flow = Annotated[
    str, typer.Argument(metavar="FLOW", help="the flow whose consumers move", autocompletion=completion.flows)
]
Dry = Annotated[bool, typer.Option("--dry-run", help="check only; change nothing")]
Hold = Annotated[str, typer.Option("--hold", metavar="DURATION", help="time without a write that proves the fence")]
Unplanned = Annotated[
    bool, typer.Option("--unplanned", help="continue although the cluster that consumers leave does not answer")
]
Loss = Annotated[bool, typer.Option("--accept-loss", help="continue although records there are not copied")]
Drain = Annotated[str, typer.Option("--drain", metavar="DURATION", help="how long copying may take to catch up")]
Fence = Annotated[
    bool, typer.Option("--fence", help="failover: deny everyone Write on FLOW's topics there, until the failback")
]
Diverged = Annotated[
    KeepDiverged | None,
    typer.Option(
        "--diverged",
        help="failback: make both sides the same first; what becomes of records that only the old source has",
    ),
]
DivergedFile = Annotated[
    Path | None, typer.Option("--file", metavar="F", help="for --diverged to-file; FLOW.diverged.jsonl if left out")
]
Form = Annotated[
    Page,
    typer.Option("--format", help="text for people, json for machines, markdown for a comment, html for one page"),
]


@app.command(
    epilog=ending(
        "0 met; 1 failed, and taken back; 2 an objective was missed, or records or positions were not exact;"
        " 3 it cannot begin; 5 failed, and not all is taken back; 6 lock held",
        "drill environments/prod east-to-west --out drills/east-to-west",
    )
)
def drill(
    env: console.Env,
    flow: Flow,
    canary: Annotated[
        str, typer.Option("--canary", metavar="TOPIC", help="topic and group to move; drill.FLOW when left out")
    ] = "",
    write: Annotated[
        str, typer.Option("--write", metavar="DURATION", help="how long to write to the canary before it moves")
    ] = "10s",
    hold: Hold = "2s",
    within: Annotated[
        str, typer.Option("--within", metavar="DURATION", help="how long each wait for copying may take")
    ] = "60s",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="also write drill.json and drill.html there")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option("--metrics-file", metavar="FILE", help="for a node exporter's textfile collector")
    ] = None,
    form: Form = Page.TEXT,
    steal: console.StealOption = "",
) -> None:
    """Rehearse failover and failback on a canary topic and group alone; for scheduled runs."""
    from reconciler.model.reports.cutover import CutoverSettings
    from reconciler.operations.drill.run import DrillOptions
    from reconciler.operations.drill.run import drill as rehearse

    settings = CutoverSettings(console.seconds("--hold", hold), console.seconds("--within", within), 0.0, 0.0)
    options = DrillOptions(canary, console.seconds("--write", write), settings, form, out, metrics, steal)
    raise typer.Exit(rehearse(env, flow, options))


def _add(way: str, words: str) -> None:
    codes = "0 done; 1 error; 2 there is something to do (--dry-run); 3 a check stops it; 5 not all of it; 6 lock held"

    @app.command(way, help=words, epilog=ending(codes, f"{way} environments/prod east-to-west --dry-run"))
    def move(
        env: console.Env,
        flow: Flow,
        dry: Dry = False,
        yes: console.YesOption = False,
        unplanned: Unplanned = False,
        loss: Loss = False,
        drain: Drain = "60s",
        fence: Fence = False,
        diverged: Diverged = None,
        file: DivergedFile = None,
        form: Form = Page.TEXT,
        out: console.OutOption = None,
        steal: console.StealOption = "",
    ) -> None:
        from reconciler.model.reports.failover import Way
        from reconciler.operations.failover.decide import DivergedChoice, FailoverRequest
        from reconciler.operations.failover.run import FailoverOptions
        from reconciler.operations.failover.run import move as move_consumers

        if fence and way != "failover":
            why = "What a failover has denied with it, the failback takes back by itself."
            raise ReconcilerError("--fence is of failover", why, "Leave it away.")
        if diverged is not None and way != "failback":
            why = "At a failover the copy is only behind; what the old source has alone shows once it is back."
            raise ReconcilerError("--diverged is of failback", why, "Leave it away.")
        if file is not None and diverged is not KeepDiverged.TO_FILE:
            raise ReconcilerError("--file is given without --diverged to-file", "It says which file.", "Give both.")
        choice = None
        if diverged is not None:
            choice = DivergedChoice(diverged, str((file or Path(f"{flow}.diverged.jsonl")).absolute()))
        request = FailoverRequest(unplanned, loss, console.seconds("--drain", drain), fence, choice)
        raise typer.Exit(move_consumers(env, Way(way), flow, FailoverOptions(request, dry, yes, form, out, steal)))


_add(
    "failover",
    "Move consumers of FLOW to its target: drain, pause the flow, set their exact offsets, start the flow back.",
)
_add("failback", "Move consumers of FLOW back to its source, translate their offsets back, and resume the flow.")


@reassignments_app.command(epilog=ending("0 success; 1 error or unknown", "reassignments show environments/prod"))
def show(env: console.Env, form: console.FormatOption = console.OutputFormat.TEXT) -> None:
    """Show partitions being reassigned on each cluster, who started it, and how much is left to copy."""
    from reconciler.errors import Unknown
    from reconciler.model.environment.topology import Principal
    from reconciler.operations.session.session import open_session
    from reconciler.render.reports.reassignments import reassignments_json, under_way
    from reconciler.resources.replicas.diff import facts_of

    with open_session(env, Principal.PLAN) as session:
        environment = session.topology.environment
        facts = {name: facts_of(cluster, environment) for name, cluster in session.clusters.items()}
    lines = (line for name, each in facts.items() for line in under_way(name, each))
    tell(reassignments_json(environment, facts) if form is console.OutputFormat.JSON else "\n".join(lines), form)
    raise typer.Exit(int(any(isinstance(each, Unknown) for each in facts.values())))


@reassignments_app.command(epilog=ending(CHANGED, "reassignments cancel environments/prod"))
def cancel(
    env: console.Env,
    yes: console.YesOption = False,
    steal: console.StealOption = "",
) -> None:
    """Cancel reassignments that this environment started, and clear its throttles. Never those of others."""
    from reconciler.errors import Unknown
    from reconciler.operations.apply.run import changing
    from reconciler.resources.replicas.diff import facts_of

    with changing(env, "reassignments cancel", steal) as execute:
        clusters, environment = execute.session.clusters, execute.session.topology.environment
        facts = {name: facts_of(cluster, environment) for name, cluster in clusters.items()}
        silent = {name: each for name, each in facts.items() if isinstance(each, Unknown)}
        begun = [name for name, each in facts.items() if not isinstance(each, Unknown) and each.journal is not None]
        for name, unknown in silent.items():
            console.say(f"{name}: unknown, so nothing is cancelled there: {unknown.error}")
        if begun and not yes:
            question = f"Cancel the running reassignments on {', '.join(begun)}?"
            why = "What was copied so far would be thrown away."
            console.require_agreement(question, "nothing was cancelled", why, "Pass --yes.")
        if not begun:
            tell("nothing of this environment is under way" + (" on the clusters that answered" if silent else ""))
        for name in begun:
            execute.perform(f"cancel-reassignment:{name}", partial(_cancel, clusters[name], environment))
    raise typer.Exit(int(bool(silent)))


def _cancel(cluster: KafkaCluster, environment: str) -> None:
    from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
    from reconciler.resources.replicas.reassign.run import cancel as take_back

    with cluster.replicas(environment) as replicas:
        count = take_back(
            environment, replicas, ReassignmentWatch(note=console.say, closed=str, progress=console.say_now)
        )
    tell(f"{cluster.name}: {counted(count, 'partition')} cancelled, our throttles are cleared")
