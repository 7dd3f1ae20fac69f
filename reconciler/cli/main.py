"""Arguments and exit codes; everything else is in the doings. Exit codes are fixed: see ``plans.ExitCode``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler import (
    cli_apply,
    cli_clusters,
    cli_failover,
    cli_mirror,
    cli_offsets,
    cli_replicas,
    cli_review,
)
from reconciler.choices import Autonomy
from reconciler.cli_help import ENDING, ENDINGS
from reconciler.edges.files import write_text
from reconciler.errors import ReconcilerError
from reconciler.terminal import (
    PROGRAM,
    App,
    Env,
    Format,
    FormatOption,
    OutOption,
    StealOption,
    run_app,
    say,
    seconds,
    show,
    style,
)

if TYPE_CHECKING:
    from reconciler.wiring import Session

app = App(
    name="reconciler",
    epilog=ENDING,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
mirror_app = App(help="The mirror job, by hand.", no_args_is_help=True)
mirror_app.command("pause", epilog=ENDINGS["mirror pause"])(cli_mirror.pause)
mirror_app.command("resume", epilog=ENDINGS["mirror resume"])(cli_mirror.resume)
mirror_app.command("seek", epilog=ENDINGS["mirror seek"])(cli_mirror.seek)
mirror_app.command("import-positions", epilog=ENDINGS["mirror import-positions"])(cli_mirror.import_positions)
sandbox_app = App(help="Real Kafka clusters on this machine, for the demo and the tests.", no_args_is_help=True)
app.add_typer(mirror_app, name="mirror")
app.add_typer(cli_offsets.app, name="offsets")
app.add_typer(cli_replicas.app, name="reassignments")
app.add_typer(sandbox_app, name="sandbox")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"{PROGRAM} {version('kafka-topology-reconciler')}")
        raise typer.Exit


@app.callback()
def reconciler(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show it and exit")
    ] = False,
) -> None:
    """Kafka topology of several clusters, declared in git: one plan over all clusters, one apply."""


for command in (
    cli_review.validate,
    cli_review.plan,
    cli_review.explain,
    cli_clusters.drift,
    cli_clusters.adopt,
    cli_clusters.doctor,
    cli_apply.apply,
    cli_failover.failover,
    cli_failover.failback,
):
    app.command(epilog=ENDINGS[command.__name__])(command)
app.command("import", epilog=ENDINGS["import"])(cli_clusters.import_)


@app.command(epilog=ENDINGS["status"])
def status(
    env: Env,
    form: FormatOption = Format.TEXT,
    watch: Annotated[bool, typer.Option("--watch", help="the flows, again every 2 s, until Ctrl-C")] = False,
) -> None:
    """Clusters, mirror jobs, and per flow: rate, lag, conditions."""
    from reconciler.edges.live_table import repeat
    from reconciler.promoting import lock_of, standing
    from reconciler.rendering.status import Affairs, status_code, status_json, status_text
    from reconciler.topology import Principal
    from reconciler.wiring import now_ms, open_session

    with open_session(env, Principal.PLAN) as session:
        if watch and form is Format.JSON:
            return repeat(lambda: show(status_json(session.topology, session.observe(), now_ms())))
        if watch:
            from reconciler.edges.live_table import watch as live_table
            from reconciler.rendering.watch import watch_table

            with session.watch() as watched:
                return live_table(lambda: watch_table(watched.look(), time.strftime("%H:%M:%S")), sys.stdout)
        live = session.observe()
        words = status_json if form is Format.JSON else status_text
        lock = lock_of(session, live)
        show(words(session.topology, live, now_ms(), Affairs(lock, standing(session, live, lock))))
    raise typer.Exit(status_code(live))


FlowArgument = Annotated[str | None, typer.Argument(metavar="FLOW", help="a flow; its whole mirror is meant")]


@app.command(epilog=ENDINGS["verify"])
def verify(
    env: Env,
    flow: Annotated[str | None, typer.Argument(metavar="FLOW", help="a flow; all when left out")] = None,
    form: FormatOption = Format.TEXT,
    out: OutOption = None,
    parquet: Annotated[str, typer.Option("--parquet", metavar="DIR", help="write the table of chunks there")] = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="records from this time on")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="records before this time")] = None,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="not the mirror's Spark master")] = None,
) -> None:
    """Prove both sides of a flow equal, record by record, while the mirror runs."""
    from reconciler.proving import prove
    from reconciler.rendering.verify import verify_json, verify_text
    from reconciler.topology import Principal
    from reconciler.verification import VerifyWish
    from reconciler.verifying import time_ms
    from reconciler.wiring import open_session

    place = str(Path(parquet).resolve()) if parquet and "://" not in parquet else parquet
    wish = VerifyWish(flow, time_ms(since, "--from"), time_ms(until, "--to"), place, master)
    with open_session(env, Principal.PLAN) as session:
        found = prove(session, wish, _mirrors(session, flow), say)
    text = verify_json(found) if form is Format.JSON else verify_text(found, style())
    if out is not None:
        write_text(out, verify_json(found) if out.suffix == ".json" else text)
    show(text)
    raise typer.Exit(found.exit_code)


@app.command(epilog=ENDINGS["run"])
def run(
    env: Env,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="from one look to the next")] = "60s",
    autonomy: Annotated[
        Autonomy, typer.Option("--autonomy", help="none only looks; safe: low-risk changes of remote topics; all")
    ] = Autonomy.NONE,
    metrics_port: Annotated[int | None, typer.Option("--metrics-port", min=0, max=65535, help="Prometheus")] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="address to serve metrics on")] = "127.0.0.1",
    steal: StealOption = "",
) -> None:
    """Plan and apply in a loop, within what --autonomy allows, until SIGTERM. Reads the folder again each round."""
    from reconciler import controller

    address = None if metrics_port is None else controller.MetricsAddress(metrics_host, metrics_port)
    controller.run(env, controller.pace(interval, autonomy), address, steal)


@mirror_app.command("start", epilog=ENDINGS["mirror start"])
def mirror_start(
    env: Env,
    flow: FlowArgument = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="copy what the sources hold now, then stop by itself")
    ] = False,
    lag_zero_for: Annotated[
        str | None, typer.Option("--lag-zero-for", metavar="DURATION", help="with it: stop after no lag for so long")
    ] = None,
    steal: StealOption = "",
) -> None:
    """Start the mirror job (of FLOW, or all) as git defines it now."""
    from reconciler import migrating
    from reconciler.enacting import changing
    from reconciler.handover import handovers

    if lag_zero_for is not None and not until_caught_up:
        raise ReconcilerError("--lag-zero-for is given without --until-caught-up", "It ends that mode.", "Give both.")
    calm_s = seconds("--lag-zero-for", lag_zero_for) if lag_zero_for is not None else 0.0
    with changing(env, "mirror start", steal) as execute:
        session = execute.session
        told = handovers(session.topology)
        if until_caught_up:
            show(migrating.catch_up(execute, _mirrors(session, flow), flow, calm_s))
        for name in () if until_caught_up else _mirrors(session, flow):
            execute.by_hand(f"start:{name}", partial(session.runner.start, name, told[name], say))
            show(f"mirror {name} runs")


@mirror_app.command("stop", epilog=ENDINGS["mirror stop"])
def mirror_stop(env: Env, flow: FlowArgument = None, steal: StealOption = "") -> None:
    """Stop the mirror job gracefully: open transactions are committed, then it leaves."""
    from reconciler.executing import answering, execution, interrupted_by_sigterm
    from reconciler.locks import lock_cluster
    from reconciler.topology import Principal
    from reconciler.wiring import open_session

    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        mirrors, usual, keeper = _mirrors(session, flow), lock_cluster(session.topology), answering(session)
        if keeper is None:
            say("no cluster answers: stopping without the environment's lock, which nobody else can take now either")
            for name in mirrors:
                session.runner.stop(name, say)
                show(f"mirror {name} is stopped")
            return
        if keeper != usual:
            say(f"cluster {usual.name}, which keeps the environment's lock, does not answer: taken on {keeper.name}")
        with execution(session, "mirror stop", steal, keeper=None if keeper == usual else keeper) as execute:
            for name in mirrors:
                execute.by_hand(f"stop:{name}", partial(session.runner.stop, name, say))
                show(f"mirror {name} is stopped")


def _mirrors(session: Session, flow: str | None) -> Sequence[str]:
    found = [m.name for m in session.topology.mirrors.values() if flow is None or flow in m.flows]
    if not found:
        raise ReconcilerError(
            f"environment {session.topology.environment} has no flow {flow}" if flow else "no flow is declared",
            "Only what git declares can be named here.",
            f"Its flows: {', '.join(session.topology.flows) or 'none'}.",
        )
    return found


Profile = Annotated[str, typer.Option("--profile", help="plain, ha, trio or secure")]
AnyProfile = Annotated[str | None, typer.Option("--profile", help="plain, ha, trio or secure; all when left out")]
Port = Annotated[int | None, typer.Option("--port", help="base of all ports; also SANDBOX_PORT")]


@sandbox_app.command("up", epilog=ENDINGS["sandbox up"])
def sandbox_up(profile: Profile = "plain", port: Port = None) -> None:
    """Start the clusters of a profile and wait until they answer. Data of an earlier run is kept."""
    from sandbox import commands as sandbox

    show(sandbox.render_up(sandbox.up(profile, port, progress=say)))


@sandbox_app.command("down", epilog=ENDINGS["sandbox down"])
def sandbox_down(
    profile: AnyProfile = None, clear: Annotated[bool, typer.Option("--clear", help="remove their data too")] = False
) -> None:
    """Stop the clusters of one profile, or of all."""
    from sandbox import commands as sandbox

    show(sandbox.render_down(sandbox.down(profile, clear)))


@sandbox_app.command("status", epilog=ENDINGS["sandbox status"])
def sandbox_status(profile: AnyProfile = None, form: FormatOption = Format.TEXT) -> None:
    """Which clusters are up, on which ports."""
    from sandbox import commands as sandbox

    show((sandbox.json_status if form is Format.JSON else sandbox.render_status)(sandbox.status(profile)))


@sandbox_app.command("env", epilog=ENDINGS["sandbox env"])
def sandbox_env(profile: Profile = "secure") -> None:
    """The secrets of a profile as shell exports, for the ${env:...} references of topology files."""
    from sandbox import commands as sandbox

    show(sandbox.render_environment(sandbox.environment(profile)))


def main(arguments: Sequence[str] | None = None) -> None:
    run_app(app, arguments)
