"""The commands ``mirror`` pause, resume, seek, import-positions, start, stop and pack: arguments and exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.cli.help import CHANGED, DONE, ending
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.options import CONFIRM_S, CONNECTOR
from reconciler.render import completion
from reconciler.render.console import (
    App,
    Env,
    FormatOption,
    OutputFormat,
    StealOption,
    YesOption,
    agrees,
    say,
    seconds,
    show,
)

if TYPE_CHECKING:
    from reconciler.operations.session.session import Session
    from reconciler.resources.mirrors.pause_and_seek import PauseRequest

app = App(help="Start, stop, pause and move the mirror job.", no_args_is_help=True)

FlowArgument = Annotated[
    str | None,
    typer.Argument(metavar="FLOW", help="any flow of the mirror", autocompletion=completion.flows),
]
Flow = Annotated[
    str | None, typer.Argument(metavar="FLOW", help="one flow; all when left out", autocompletion=completion.flows)
]
Topic = Annotated[
    str, typer.Option("--topic", metavar="T", help="one source topic of the flow", autocompletion=completion.topics)
]
Partition = Annotated[
    int | None, typer.Option("--partition", metavar="N", min=0, max=(1 << 31) - 1, help="one partition of the topic")
]
Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="for the job to confirm")]
CONFIRM = f"{CONFIRM_S:.0f}s"


@app.command(epilog=ending(DONE, "mirror pause environments/prod east-to-west --topic orders --reason maintenance"))
def pause(
    env: Env,
    flow: Flow = None,
    topic: Topic = "",
    partition: Partition = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="shown in status")] = "",
    wait: Wait = CONFIRM,
) -> None:
    """Stop copying for a while, without a restart: what was copied is committed, positions stay, lag is reported."""
    from reconciler.operations.mirror import pause as steering

    show(steering.pause(env, _request(flow, topic, partition), reason, seconds("--wait", wait), say))


@app.command(epilog=ending(DONE, "mirror resume environments/prod"))
def resume(env: Env, flow: Flow = None, topic: Topic = "", partition: Partition = None, wait: Wait = CONFIRM) -> None:
    """Continue copying where it was paused. Lifts every pause within what is named."""
    from reconciler.operations.mirror import pause as steering

    show(steering.resume(env, _request(flow, topic, partition), seconds("--wait", wait), say))


@app.command(
    epilog=ending(
        DONE,
        "mirror seek environments/prod east-to-west --topic orders",
        "mirror seek environments/prod east-to-west --topic orders --partition 3 --to earliest",
    )
)
def seek(
    env: Env,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="one flow", autocompletion=completion.flows)],
    topic: Topic,
    partition: Partition = None,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="earliest, latest, or a source offset")] = "",
    from_flow: Annotated[
        str, typer.Option("--from-flow", metavar="FLOW", help="to the position of another flow, also a former one")
    ] = "",
    yes: YesOption = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show the positions of a flow, or move them: of paused or stopped partitions, or while no job runs."""
    from reconciler.operations.mirror import seek as seeking
    from reconciler.render.reports.positions import positions_json, positions_text

    request = _request(flow, topic, partition)
    if to and from_flow:
        raise ReconcilerError(
            "--to and --from-flow are both given", "Each says where to continue.", "Give one of them."
        )
    if to or from_flow:
        where = seeking.Destination(to, from_flow)
        positions = seeking.seek(env, request, where, (lambda _: True) if yes else _agreed)
    else:
        positions = seeking.look(env, request)
    show(positions_json(positions) if form is OutputFormat.JSON else positions_text(positions), form)


@app.command(
    "import-positions",
    epilog=ending(
        "0 shown, or written; 1 error or unknown; 3 not written: something still copies",
        "mirror import-positions environments/prod east-to-west",
        "mirror import-positions environments/prod --write",
        "mirror import-positions environments/prod --offsets-topic connect-offsets --connector mm2-source",
    ),
)
def import_positions(
    env: Env,
    flow: Flow = None,
    offsets_topic: Annotated[
        str,
        typer.Option("--offsets-topic", metavar="T", help="such as connect-offsets; else mm2-offsets.SOURCE.internal"),
    ] = "",
    connector: Annotated[
        str, typer.Option("--connector", metavar="NAME", help="name of the source connector")
    ] = CONNECTOR,
    alias: Annotated[
        str | None,
        typer.Option("--alias", metavar="A", help="MirrorMaker 2's name of the source, where it is not ours"),
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="CLUSTER", help="where the offsets topic is; else the flow's target")
    ] = "",
    write: Annotated[bool, typer.Option("--write", help="write start into the flow's file")] = False,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Take over the positions of a stopped MirrorMaker 2: show them, or write them as the flow's start."""
    from reconciler.operations.importers import positions as inheritance
    from reconciler.render.reports.positions import inherited_json, inherited_text

    request = inheritance.ImportRequest(flow or "", offsets_topic, connector, alias, on)
    imported = inheritance.import_positions(env, request, write, say)
    if form is OutputFormat.JSON:
        show(inherited_json(imported.environment, imported.flows, imported.absent, imported.files), form)
    else:
        show(inherited_text(imported.flows, imported.absent, imported.files))


@app.command(
    "start",
    epilog=ending(
        CHANGED,
        "mirror start environments/prod east-to-west",
        "mirror start environments/prod --until-caught-up --lag-zero-for 30s",
    ),
)
def start(
    env: Env,
    flow: FlowArgument = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="copy what the sources hold now, then stop")
    ] = False,
    lag_zero_for: Annotated[
        str | None,
        typer.Option(
            "--lag-zero-for", metavar="DURATION", help="with it: stop once there has been no lag for this long"
        ),
    ] = None,
    steal: StealOption = "",
) -> None:
    """Start the mirror job (of FLOW, or all) as git defines it now."""
    from reconciler.operations.apply.records import require_met_targets
    from reconciler.operations.apply.run import changing
    from reconciler.operations.mirror import foreground as migrating
    from reconciler.resources.mirrors.handover import handovers

    if lag_zero_for is not None and not until_caught_up:
        raise ReconcilerError("--lag-zero-for is given without --until-caught-up", "It ends that mode.", "Give both.")
    calm_s = seconds("--lag-zero-for", lag_zero_for) if lag_zero_for is not None else 0.0
    with changing(env, "mirror start", steal) as execute:
        session = execute.session
        texts, mirrors = handovers(session.topology), mirrors_of(session, flow)
        require_met_targets(session, mirrors)
        if until_caught_up:
            show(migrating.catch_up(execute, mirrors, flow, calm_s))
        for name in () if until_caught_up else mirrors:
            execute.perform(f"start:{name}", partial(session.runner.start, name, texts[name], say))
            show(f"mirror {name} runs")


@app.command("stop", epilog=ending(CHANGED, "mirror stop environments/prod"))
def stop(env: Env, flow: FlowArgument = None, steal: StealOption = "") -> None:
    """Stop the mirror job gracefully: open transactions are committed, then it ends."""
    from reconciler.model.environment.topology import Principal
    from reconciler.operations.apply.execution import answering, execution, interrupted_by_sigterm
    from reconciler.operations.session.session import open_session

    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        mirrors, silent, keeper = mirrors_of(session, flow), "", None
        try:
            session.find_home()
        except ClusterError as error:
            silent, keeper = error.cluster, answering(session)
        if silent and keeper is None:
            say("no cluster answers: stopping without the environment's lock, which no other run can take now either")
            for name in mirrors:
                session.runner.stop(name, say)
                show(f"mirror {name} is stopped")
            return
        if keeper is not None:
            say(f"cluster {silent}, which keeps the environment's lock, does not answer: taken on {keeper.name}")
        with execution(session, "mirror stop", steal, keeper=keeper) as execute:
            for name in mirrors:
                execute.perform(f"stop:{name}", partial(session.runner.stop, name, say))
                show(f"mirror {name} is stopped")


@app.command(
    "pack", epilog=ending("0 written; 1 error", "mirror pack", "mirror pack --out /srv/spark/mirror-python.tar.gz")
)
def pack(out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="where to write it")] = None) -> None:
    """Write the archive of Python packages that executors of a cluster need, for a mirror's python.archive."""
    from reconciler.backends.mirror_jobs.runner import python_archive

    archive = python_archive.pack(out)
    packages = ", ".join(f"{name} {version}" for name, version in archive.packages)
    show(
        f"{archive.path}: {archive.size / 1e6:.1f} MB, for Python {archive.python} on Linux {archive.machine}, with "
        f"{packages}\npython: {{archive: {archive.path}}}"
    )


@app.command(
    "host",
    epilog=ending(
        "0 ended by a signal, its mirrors handed over; 1 error; 6 another host works in the same state folder",
        "mirror host environments/prod --accept /etc/reconciler/host.yaml",
    ),
)
def host(
    env: Annotated[list[Path], typer.Argument(metavar="ENV...", help="folders of environments; no git is needed")],
    accept: Annotated[
        Path, typer.Option("--accept", metavar="FILE", help="what it runs: environments, masters, spark_conf, archives")
    ],
) -> None:
    """Keep mirror jobs running as apply asks in __mirror_control: start, watch, restart. Runs until SIGTERM."""
    from reconciler.operations.mirror.foreground import host as serve

    serve(env, accept)


def mirrors_of(session: Session, flow: str | None) -> Sequence[str]:
    mirrors = [m.name for m in session.topology.mirrors.values() if flow is None or flow in m.flows]
    if not mirrors:
        problem = f"environment {session.topology.environment} has no flow {flow}" if flow else "no flow is declared"
        why = "Only what git declares can be named here."
        raise ReconcilerError(problem, why, f"Its flows: {', '.join(session.topology.flows) or 'none'}.")
    return mirrors


def _request(flow: str | None, topic: str, partition: int | None) -> PauseRequest:
    from reconciler.resources.mirrors.pause_and_seek import PauseRequest

    return PauseRequest(flow or "", topic, -1 if partition is None else partition)


def _agreed(lines: Sequence[str]) -> bool:
    say(*lines)
    why = "It decides which records are copied."
    return agrees("Move?", "no position was moved", why, "Look without --to, then pass --yes.")
