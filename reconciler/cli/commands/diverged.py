"""The CLI commands ``diverged list`` and ``diverged export``: arguments, options, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli.help import ending
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.options import LogSide
from reconciler.render import completion
from reconciler.render.console import App, Env, say, show, style

app = App(help="What only one side of a flow with offsets: same has.", no_args_is_help=True)

FlowName = Annotated[
    str, typer.Argument(metavar="FLOW", help="a flow with offsets: same", autocompletion=completion.flows)
]


@app.callback()
def diverged() -> None:
    """What only one side of a flow with offsets: same has."""


@app.command(
    "list",
    epilog=ending(
        "0 the same; 1 error or unknown; 2 one side has more", "diverged list environments/prod east-to-west"
    ),
)
def list_(env: Env, flow: FlowName) -> None:
    """Where both sides part, partition by partition: the exact offset, and how many records each side has alone."""
    from reconciler.operations.failover.diverged import parted, partitions_of, sides_of
    from reconciler.operations.session.session import read_topology
    from reconciler.render.reports.failover import parted_text

    sides = sides_of(read_topology(env), flow)
    pairs = partitions_of(sides)
    partitions = parted(sides, pairs)
    show(parted_text(flow, (sides.source.name, sides.target.name), partitions, len(pairs), style().width).rstrip("\n"))
    if any(each.unknown for each in partitions):
        raise typer.Exit(ExitCode.ERROR)
    raise typer.Exit(ExitCode.CHANGES if partitions else ExitCode.DONE)


@app.command(
    epilog=ending(
        "0 written, or there is nothing to write; 1 error, or a partition is unknown",
        "diverged export environments/prod east-to-west --to-file left-behind.jsonl",
        "diverged export environments/prod east-to-west --to-topic east:left-behind",
    ),
)
def export(
    env: Env,
    flow: FlowName,
    file: Annotated[
        Path | None, typer.Option("--to-file", metavar="F", help="a new file: a JSON object a record, bytes in base64")
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--to-topic", metavar="CLUSTER:TOPIC", help="a topic that is there and that no flow uses"),
    ] = None,
    side: Annotated[
        LogSide, typer.Option("--side", help="source: never copied; target: written there since; or both")
    ] = LogSide.SOURCE,
) -> None:
    """Write the records that only one side has to a file or a topic, before the topic is recreated."""
    from reconciler.operations.failover.diverged import export as write
    from reconciler.operations.failover.diverged import export_to_topic, export_topic, parted, partitions_of, sides_of
    from reconciler.operations.session.session import read_topology

    if (file is None) == (topic is None):
        problem = "--to-file and --to-topic are both given" if file else "neither --to-file nor --to-topic is given"
        raise ReconcilerError(problem, "Records are written to one place.", "Give one of the two.")
    topology = read_topology(env)
    sides = sides_of(topology, flow)
    to = None if topic is None else export_topic(topology, topic)
    partitions = parted(sides, partitions_of(sides))
    if to is not None:
        count, restamped = export_to_topic(sides, partitions, side, to)
        if restamped:
            say(f"{restamped:,} have the time of their broker: {topic} has message.timestamp.type LogAppendTime")
    elif file is not None:
        count = write(sides, partitions, side, file)
    for each in (each for each in partitions if each.unknown):
        say(f"not exported, {each.source[0]}-{each.source[1]}: {each.unknown}")
    show(f"{count:,} records written to {file or topic}")
    if any(each.unknown for each in partitions):
        raise typer.Exit(ExitCode.ERROR)
