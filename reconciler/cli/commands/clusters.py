"""The CLI commands adopt, doctor, drift and audit: arguments, options, exit codes."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.model.options import WITHIN_S, ReportFormat
from reconciler.render import console
from reconciler.render.markup import Format as Page

app = console.App()
audit_app = console.App(help="The record of who changed what.", no_args_is_help=True)


@app.command(
    epilog=ending(
        "0 no drift; 1 error or unknown; 2 drift; 3 also drift that apply cannot fix",
        "drift environments/prod --format markdown",
        "drift environments/prod --accept east/orders:retention.ms",
    )
)
def drift(
    env: console.Env,
    form: console.PageOption = Page.TEXT,
    out: console.OutOption = None,
    accepted: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CLUSTER/TOPIC[:FIELD]", help="write its live values into the files instead"),
    ] = None,
    sides: Annotated[bool, typer.Option("--parity", help="compare both sides of each flow instead")] = False,
) -> None:
    """Show what differs from git; for scheduled runs. --accept writes it into the files."""
    if accepted and sides:
        raise ReconcilerError("--accept and --parity are given together", "Each needs a separate run", "Choose one.")
    if accepted and (form is not Page.TEXT or out is not None):
        problem = f"--accept is given with {'--out' if form is Page.TEXT else f'--format {form}'}"
        why = "It writes into the environment's files and reports which in text."
        raise ReconcilerError(problem, why, "Leave one out.")
    if accepted:
        from reconciler.operations.review import drift as drifting

        console.show(drifting.accept_drift(env, accepted))
        return
    if sides:
        from reconciler.operations.review import drift as drifting
        from reconciler.render.reports.drift import parity_in

        parity = drifting.parity_report(env)
        text, code = parity_in(parity, form, console.style()), parity.exit_code
    else:
        # Clusters are read while the rest of the program is imported.
        from reconciler.model.environment.topology import Principal
        from reconciler.operations.session import early_reads

        begun = early_reads.begin(env, Principal.PLAN)
        from reconciler.engine.drift.causes import differences, drift_exit_code
        from reconciler.operations.review import drift as drifting
        from reconciler.operations.review.reviews import make_plan
        from reconciler.operations.session.notices import notify
        from reconciler.operations.session.session import open_session
        from reconciler.render.notices import of_drift
        from reconciler.render.reports.drift import drift_in

        with open_session(env, Principal.PLAN, begun) as session:
            plan = make_plan(session)
            history = drifting.past(session, console.say)
        text, code = drift_in(plan, form, console.style(), history), drift_exit_code(plan)
        drifted = [f"{it.subject} {it.kind}: live: {it.found}, {it.aim}" for it in differences(plan, history)]
        notify(session.topology, of_drift(plan, drifted, code), console.say)
    if out is not None:
        write_text(out, console.filled_in(text, form))
    console.show(text, form)
    raise typer.Exit(code)


@app.command(
    epilog=ending(
        "0 written, and the resulting plan is empty; 1 error",
        "adopt --bootstrap-servers broker-1:9092 --name east --out environments/prod",
        "adopt --name east --topic orders --topic 'pay-.*' --out environments/prod",
    )
)
def adopt(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="environment folder, new or with other clusters")
    ],
    servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            metavar="HOST:PORT",
            help="brokers to ask first; left out with --topic where --out declares the cluster",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="CLUSTER", help="the cluster's alias")] = "main",
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="KEY=VALUE", help="librdkafka setting; secrets as ${env:X}")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME/REGEX", help="adopt only these topics")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="REGEX", help="whole names of topics not to declare")
    ] = None,
) -> None:
    """Write topology files from a live cluster; done once a plan of them is empty."""
    from reconciler.operations.adopt import run as adoption

    if servers is not None:
        request = adoption.adopt_request(name, servers, client or (), out, exclude or (), topics or ())
        console.show(adoption.run(request, console.say, console.say_now))
        return
    if not topics or client:
        given = "--client is given without --bootstrap-servers" if client else "neither --bootstrap-servers nor --topic"
        why = "An undeclared cluster needs an address; the files of a declared one say how to reach it."
        todo = "Give --bootstrap-servers, or --topic alone to take topics of a cluster that --out declares."
        raise ReconcilerError(given if client else f"{given} is given", why, todo)
    console.show(adoption.take_topics(out, name, topics, exclude or (), console.say))


@app.command(epilog=ending("0 no problem; 1 a problem, or an error", "doctor environments/prod"))
def doctor(
    env: console.Env,
    form: console.ReportOption = ReportFormat.TEXT,
    within: Annotated[
        str, typer.Option("--within", metavar="DURATION", help="time for all answers; late ones count as unknown")
    ] = f"{WITHIN_S:.0f}s",
    executors: Annotated[
        bool, typer.Option("--executors", help="also ask each mirror's Spark executors; starts an application")
    ] = False,
) -> None:
    """Check logins, certificates, settings, and rights of each principal, with the commands that grant missing ones."""
    from reconciler.operations.clusters import doctor as diagnosis
    from reconciler.render.reports.checkups import checkup_html, checkup_json, checkup_text

    checkup = diagnosis.checkup(env, console.seconds("--within", within), executors=executors)
    documents = {ReportFormat.JSON: checkup_json, ReportFormat.HTML: checkup_html}
    as_text = form is ReportFormat.TEXT
    console.show(checkup_text(checkup, console.style()) if as_text else documents[form](checkup), form)
    raise typer.Exit(checkup.exit_code)


@audit_app.callback()
def audit() -> None:
    """The record of who changed what."""


@audit_app.command(
    epilog=ending(
        "0 whole; 1 error or unknown; 2 broken",
        "audit verify environments/prod",
        "audit verify environments/prod --head sha256:0b1f...",
        "audit verify environments/prod --report drills/east-to-west/drill.json",
    )
)
def verify(
    env: console.Env,
    form: console.FormatOption = console.OutputFormat.TEXT,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="DIGEST", help="the head that an earlier run printed; it must be there"),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="a drill's report in JSON; it must be as it was recorded"),
    ] = None,
) -> None:
    """Check that no audit record was changed or taken out: each carries the digest of the one before it."""
    from reconciler.operations.clusters.verify_audit import verify_audit
    from reconciler.render.reports.checkups import audit_json, audit_text

    verification = verify_audit(env, head, report)
    text = audit_json(verification) if form is console.OutputFormat.JSON else audit_text(verification, console.style())
    console.show(text, form)
    raise typer.Exit(verification.exit_code)
