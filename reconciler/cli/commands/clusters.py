"""The commands that look at what is there: adopt, doctor, drift, import. Their arguments and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.choices import WITHIN_S
from reconciler.edges.files import write_text
from reconciler.errors import ReconcilerError
from reconciler.rendering.style import Format as Page
from reconciler.terminal import Env, Format, FormatOption, OutOption, PageOption, say, seconds, show, style


def drift(
    context: typer.Context,
    env: Env,
    form: PageOption = Page.TEXT,
    out: OutOption = None,
    accepted: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="CLUSTER/TOPIC[:FIELD]", help="write its live values into the files instead"),
    ] = None,
    sides: Annotated[bool, typer.Option("--parity", help="compare both sides of each flow instead")] = False,
) -> None:
    """What differs from git, with nothing in mind to change; for schedules. --accept writes it into the files."""
    if accepted and sides:
        raise ReconcilerError("--accept and --parity are given together", "Each is a run of its own", "Choose one.")
    if accepted and (form is not Page.TEXT or out is not None):
        raise ReconcilerError(
            f"--accept is given with {'--out' if form is Page.TEXT else f'--format {form}'}",
            "It writes into the environment's files, and tells people which.",
            "Leave one out.",
        )
    if accepted:
        from reconciler import drifting

        show(drifting.accept_drift(env, accepted))
        return
    if sides:
        raise typer.Exit(_parity(env, form, out))
    from reconciler import beginning

    begun = beginning.taken(context.obj, env)
    from reconciler import drifting
    from reconciler.rendering.review import drift_in
    from reconciler.topology import Principal
    from reconciler.wiring import open_session

    with open_session(env, Principal.PLAN, begun) as session:
        made = session.plan()
        seen = drifting.past(session, say)
    text = drift_in(made, form, style(), seen)
    if out is not None:
        write_text(out, text)
    show(text)
    raise typer.Exit(made.exit_code)


def _parity(env: Path, form: Page, out: Path | None) -> int:
    from reconciler import drifting
    from reconciler.rendering.parity import parity_in

    found = drifting.parity_report(env)
    text = parity_in(found, form, style())
    if out is not None:
        write_text(out, text)
    show(text)
    return found.exit_code


def adopt(
    servers: Annotated[str, typer.Option("--bootstrap-servers", metavar="HOST:PORT", help="brokers to ask first")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="environment folder, new or with other clusters")
    ],
    name: Annotated[str, typer.Option("--name", metavar="CLUSTER", help="the cluster's alias")] = "main",
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="KEY=VALUE", help="librdkafka setting; secrets as ${env:X}")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="REGEX", help="whole names of topics not to declare")
    ] = None,
) -> None:
    """Write topology files from a live cluster; says done only when a plan of them is empty."""
    from reconciler import adoption

    show(adoption.run(adoption.adopt_wish(name, servers, client or (), out, exclude or ()), say))


def doctor(
    env: Env,
    form: FormatOption = Format.TEXT,
    within: Annotated[
        str, typer.Option("--within", metavar="DURATION", help="for all answers; what is late is told as unknown")
    ] = f"{WITHIN_S:.0f}s",
) -> None:
    """Connectivity, certificates, permissions of each principal with the missing commands, and settings that matter."""
    from reconciler import diagnosis
    from reconciler.rendering.checkup import checkup_json, checkup_text

    found = diagnosis.checkup(env, seconds("--within", within))
    show(checkup_json(found) if form is Format.JSON else checkup_text(found, style()))
    raise typer.Exit(found.exit_code)


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="properties of connect-mirror-maker, JSON of connectors, or Strimzi's resources"
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="ENV", help="environment folder to write; it must be new")],
) -> None:
    """Write an environment from MirrorMaker 2's configuration, and tell what is different from it."""
    from reconciler import importing

    show(importing.run(files, out))
