"""The CLI: commands import, status, verify, run, sandbox; every other command is added here, too."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.commands import apply, begin, clusters, cutover, live, mirror, offsets, review
from reconciler.cli.help import DONE, ENDING, ending
from reconciler.errors import ReconcilerError
from reconciler.kafka.address import HostPort
from reconciler.model.options import Autonomy, ReportFormat
from reconciler.render import console
from reconciler.render.completion import flows

if TYPE_CHECKING:
    from rich.console import RenderableType

app = console.App(name="reconciler", epilog=ENDING, no_args_is_help=True, pretty_exceptions_enable=False)
for module in (begin, review, clusters, apply, live):
    app.registered_commands += module.app.registered_commands
sandbox_app = console.App(help="Real Kafka clusters on this machine, for the demo and the tests.", no_args_is_help=True)
app.add_typer(clusters.audit_app, name="audit")
app.add_typer(cutover.app, name="cutover")
app.add_typer(offsets.diverged_app, name="diverged")
app.add_typer(mirror.app, name="mirror")
app.add_typer(offsets.app, name="offsets")
app.add_typer(apply.reassignments_app, name="reassignments")
app.add_typer(sandbox_app, name="sandbox")

MirrorMakerFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="properties of connect-mirror-maker or connect-standalone, JSON of connectors, or Strimzi's resources",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.show(f"{console.PROGRAM} {version('kafka-topology-reconciler')}")
        raise typer.Exit


@app.callback()
def reconciler(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show it and exit")
    ] = False,
) -> None:
    """Kafka topology of several clusters, declared in git: one plan over all clusters, one apply."""


@app.command("version", epilog=ending("0 shown; 1 error", "version"))
def version() -> None:
    """Show the versions of this program and of what it runs on, for bug reports."""
    from reconciler.backends.mirror_jobs.runner.machine import versions
    from reconciler.errors import Unknown

    releases = versions()
    width = max(map(len, releases))
    for name, value in releases.items():
        if isinstance(value, Unknown):
            console.show(f"{name:<{width}}  unknown: {value.with_todo}".rstrip())
        else:
            console.show(f"{name:<{width}}  {value}")


@app.command(
    "import",
    epilog=ending(
        "0 written and valid; 1 error, and nothing is written",
        "import mm2.properties --out environments/prod",
        "import mm2.properties --into environments/prod",
    ),
)
def import_(
    files: MirrorMakerFiles,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="ENV", help="environment folder to write; it must be new")
    ] = None,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="ENV", help="environment to add to; what it declares stays")
    ] = None,
) -> None:
    """Convert MirrorMaker 2's configuration to an environment, or add it to one; report what differs."""
    from reconciler.errors import ReconcilerError
    from reconciler.operations.importers import mirrormaker as importing

    if out is not None and into is None:
        console.show(importing.run(files, out))
    elif into is not None and out is None:
        console.show(importing.run_into(files, into))
    else:
        why = "--out writes a new environment; --into adds to an existing one."
        raise ReconcilerError("import takes either --out or --into", why, "Give one of them.")


@app.command(
    epilog=ending(
        "0 done, or equal; 1 error or unknown; 2 different; 3 blocked: MirrorMaker 2 runs; 5 not all; 6 lock held",
        "takeover mm2.properties --out environments/prod",
    )
)
def takeover(
    files: MirrorMakerFiles,
    out: Annotated[Path, typer.Option("--out", metavar="ENV", help="environment folder; may have other flows")],
    yes: Annotated[bool, typer.Option("--yes", help="apply the plan without a question")] = False,
) -> None:
    """Take over MirrorMaker 2's flows: import, positions, plan, apply, proof. Run it again to continue."""
    from reconciler.errors import ExitCode
    from reconciler.operations.importers.takeover import take_over
    from reconciler.render.reports.positions import inherited_text
    from reconciler.render.reports.verify import verify_text

    came = take_over(
        files,
        out,
        yes=yes,
        show=console.show,
        say=console.say_now,
        positions_text=lambda done: inherited_text(done.flows, done.absent, done.files, onward=False),
    )
    if isinstance(came, ExitCode):
        raise typer.Exit(came)
    console.show(verify_text(came, console.style()))
    raise typer.Exit(came.exit_code)


@app.command(
    epilog=ending(
        "0 everything answered, with --check: OK; 1 error or unknown; 2 with --check: STOPPED or DEGRADED; "
        "3 with --check: PAUSED",
        "status environments/prod --check",
        "status environments/prod --watch",
        "status environments/prod --format json",
    )
)
def status(
    env: console.Env,
    form: console.FormatOption = console.OutputFormat.TEXT,
    watch: Annotated[bool, typer.Option("--watch", help="the flows, again every 2 s, until Ctrl-C")] = False,
    check: Annotated[bool, typer.Option("--check", help="end by the verdict, for probes and cron")] = False,
) -> None:
    """Show a verdict and what to do, then clusters, mirror jobs, and each flow's rate, lag and conditions."""
    from reconciler.errors import ReconcilerError
    from reconciler.model.environment.topology import Principal
    from reconciler.operations.clusters.status import drills_of, lock_of, rollout_status, verdict_now
    from reconciler.operations.session.session import now_ms, open_session
    from reconciler.render.reports.status import StatusInputs, check_code, status_code, status_json, status_text
    from reconciler.render.reports.watch import repeat
    from reconciler.text import in_shell

    if watch and check:
        raise ReconcilerError("--check and --watch are both given", "A check is one look.", "Give one of them.")
    with open_session(env, Principal.PLAN) as session:
        if watch and form is console.OutputFormat.JSON:
            return repeat(lambda: console.show(status_json(session.topology, session.observe(), now_ms()), form))
        if watch:
            from reconciler.render.reports.watch import LagTrend, columns, watch_frame
            from reconciler.render.reports.watch import watch as live_table

            catch_up = LagTrend()

            def frame() -> RenderableType:
                live = watched.look().as_reported()
                left = catch_up.look(time.monotonic(), live)
                now, width = time.strftime("%H:%M:%S"), columns(sys.stdout)
                return watch_frame(
                    session.topology, live, now, left, width, lambda text: console.filled_in(text, "text")
                )

            with session.watch() as watched:
                return live_table(frame, sys.stdout)
        live = session.observe()
        lock = lock_of(session, live)
        verdict = verdict_now(session, in_shell(str(env)))
        affairs = StatusInputs(lock, rollout_status(session, live, lock), verdict, check, drills_of(session, live))
        if form is console.OutputFormat.JSON:
            console.show(status_json(session.topology, live, now_ms(), affairs), form)
        else:
            console.show(status_text(session.topology, live, now_ms(), affairs, console.style().width))
    raise typer.Exit(check_code(verdict.health) if check else status_code(live))


@app.command(
    epilog=ending(
        "0 equal; 1 error or unknown; 2 different",
        "verify environments/prod east-to-west",
        "verify environments/prod --sample 1%",
        "verify environments/prod --resume",
    )
)
def verify(
    env: console.Env,
    flow: Annotated[
        str | None, typer.Argument(metavar="FLOW", help="a flow; all when left out", autocompletion=flows)
    ] = None,
    form: console.ReportOption = ReportFormat.TEXT,
    out: console.OutOption = None,
    parquet: Annotated[
        str, typer.Option("--parquet", metavar="DIR", help="write a table of what is equal and what differs to DIR")
    ] = "",
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="records from this time on")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="records before this time")] = None,
    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="another Spark master")] = None,
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="SIZE", help="compare only 1% or 5000 records of each partition")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="the same sample again")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue where an earlier run ended")] = False,
) -> None:
    """Prove both sides of a flow equal, record by record, while the mirror runs."""
    from reconciler.model.environment.topology import Principal
    from reconciler.model.reports.verify import VerificationRequest
    from reconciler.operations.mirror.foreground import prove, require_master
    from reconciler.operations.session.session import open_session
    from reconciler.render.reports.verify import verify_html, verify_json, verify_text
    from reconciler.resources.mirrors.verify_request import require_consistent, sample_size, time_ms

    place = str(Path(parquet).resolve()) if parquet and "://" not in parquet else parquet
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    request = VerificationRequest(
        flow, time_ms(since, "--from"), time_ms(until, "--to"), place, master, sample_size(sample), chosen, resume
    )
    require_consistent(request)
    if master is not None:
        require_master(master)
    with open_session(env, Principal.PLAN) as session:
        verification = prove(session, request, mirror.mirrors_of(session, flow), console.say_now)
    documents = {ReportFormat.JSON.value: verify_json, ReportFormat.HTML.value: verify_html}
    as_text = form is ReportFormat.TEXT
    console.show(verify_text(verification, console.style()) if as_text else documents[form](verification), form)
    if out is not None:
        written = documents.get(out.suffix.removeprefix("."), verify_text)
        write_text(out, console.filled_in(written(verification), out.suffix))
    raise typer.Exit(verification.exit_code)


@app.command(
    epilog=ending(
        "0 ended by SIGTERM or SIGINT; 1 error; 6 lock held, or stolen",
        "run environments/prod --interval 30s --autonomy safe --metrics-port 9400",
        "run environments/prod --serve",
    )
)
def run(
    env: console.Env,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="time between two rounds")] = "60s",
    autonomy: Annotated[
        Autonomy, typer.Option("--autonomy", help="none: plan only; safe: low-risk changes of remote topics; all")
    ] = Autonomy.NONE,
    metrics_port: Annotated[int | None, typer.Option("--metrics-port", min=0, max=65535, help="for Prometheus")] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="address to serve metrics on")] = "127.0.0.1",
    steal: console.StealOption = "",
    page: Annotated[bool, typer.Option("--serve", help="also serve the live page")] = False,
    page_port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="with --serve; 0: any free port")
    ] = live.PORT,
    bind: live.BindOption = live.LOOPBACK,
    names: live.NamesOption = None,
    token: live.TokenOption = False,
    certificate: live.CertOption = None,
    key: live.KeyOption = None,
) -> None:
    """Plan and apply in a loop, within what --autonomy allows, until SIGTERM. Reads the folder again each round."""
    from reconciler.operations.apply import controller

    beside_page = live.page_of_run(env, live.PageOptions(page_port, bind, names, token, certificate, key), page)
    address = None if metrics_port is None else HostPort(metrics_host, metrics_port)
    controller.run(env, controller.pace(interval, autonomy), controller.Beside(address, beside_page), steal)


Profile = Annotated[str, typer.Option("--profile", help="plain, ha, trio, secure or kerberos")]
AnyProfile = Annotated[str | None, typer.Option("--profile", help="plain, ha, trio, secure, kerberos; else all")]
Port = Annotated[int | None, typer.Option("--port", help="base of all ports; also SANDBOX_PORT")]


def _sandbox() -> ModuleType:
    """Its commands. Raises ReconcilerError where only the program is installed."""
    if find_spec("reconciler_sandbox") is None:
        why = "The sandbox runs Kafka on this machine for a first try and for tests: a package of its own."
        todo = "Install it: pip install kafka-topology-reconciler-sandbox."
        raise ReconcilerError("the package kafka-topology-reconciler-sandbox is not installed", why, todo)
    from reconciler_sandbox import commands

    return commands


@sandbox_app.command("up", epilog=ending(DONE, "sandbox up --profile secure"))
def sandbox_up(profile: Profile = "plain", port: Port = None) -> None:
    """Start the clusters of a profile and wait until they answer. Data of an earlier run is kept."""
    sandbox = _sandbox()
    console.show(sandbox.render_up(sandbox.up(profile, port, progress=console.say)))


@sandbox_app.command("down", epilog=ending(DONE, "sandbox down --clear"))
def sandbox_down(
    profile: AnyProfile = None, clear: Annotated[bool, typer.Option("--clear", help="remove their data too")] = False
) -> None:
    """Stop the clusters of one profile, or of all."""
    sandbox = _sandbox()
    console.show(sandbox.render_down(sandbox.down(profile, clear)))


@sandbox_app.command("status", epilog=ending(DONE, "sandbox status"))
def sandbox_status(profile: AnyProfile = None, form: console.FormatOption = console.OutputFormat.TEXT) -> None:
    """Show which clusters are up, on which ports."""
    sandbox = _sandbox()
    render = sandbox.json_status if form is console.OutputFormat.JSON else sandbox.render_status
    console.show(render(sandbox.status(profile)), form)


@sandbox_app.command("env", epilog=ending(DONE, "sandbox env --profile secure"))
def sandbox_env(profile: Profile = "secure") -> None:
    """The secrets of a profile as shell exports, for the ${env:...} references of topology files."""
    sandbox = _sandbox()
    console.show(sandbox.render_environment(sandbox.environment(profile)), "shell")


def main(arguments: Sequence[str] | None = None) -> None:
    console.run_app(app, arguments)
