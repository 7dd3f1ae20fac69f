"""The CLI commands about both sides of a flow, offsets and diverged: arguments, options, exit codes."""

from pathlib import Path
from typing import Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.options import LogSide, TableFormat
from reconciler.render import completion
from reconciler.render.console import App, Env, OutOption, filled_in, say, show, style
from reconciler.text import LARGEST

app = App(help="Positions of consumers, on both sides of a flow.", no_args_is_help=True)
diverged_app = App(help="Records that only one side of a flow with offsets: same has.", no_args_is_help=True)

FlowName = Annotated[
    str, typer.Argument(metavar="FLOW", help="a flow of the environment", autocompletion=completion.flows)
]
SameOffsetsFlow = Annotated[
    str, typer.Argument(metavar="FLOW", help="a flow with offsets: same", autocompletion=completion.flows)
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="its committed offsets; repeatable")
]
OffsetOption = Annotated[
    list[int] | None, typer.Option("--offset", min=0, max=LARGEST, metavar="N", help="a position; repeatable")
]


@app.callback()
def offsets() -> None:
    """Positions of consumers, on both sides of a flow."""


@app.command(
    epilog=ending(
        "0 all exact; 1 error; 2 some are not, and why",
        "offsets translate environments/prod east-to-west --group billing",
        "offsets translate environments/prod east-to-west --topic orders --partition 0 --offset 1200",
    )
)
def translate(
    env: Env,
    flow: FlowName,
    groups: GroupOption = None,
    topic: Annotated[
        str, typer.Option("--topic", metavar="T", help="with --partition and --offset, instead of a group")
    ] = "",
    partition: Annotated[
        int, typer.Option("--partition", metavar="P", min=0, max=(1 << 31) - 1, help="of the topic")
    ] = 0,
    positions: OffsetOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="from the target back to the source")] = False,
    form: Annotated[
        TableFormat, typer.Option("--format", help="csv is for kafka-consumer-groups --reset-offsets --from-file")
    ] = TableFormat.TABLE,
    out: OutOption = None,
) -> None:
    """Translate positions from one cluster to the other: to the record, or to the next one copied."""
    from reconciler.model.reports.offsets import TranslateRequest
    from reconciler.operations.failover.translate_offsets import translated
    from reconciler.operations.session.session import read_topology
    from reconciler.render.reports.positions import translations_csv, translations_json, translations_text
    from reconciler.resources.flows.routes import declared_flow, selector_of

    topology = read_topology(env)
    declared_flow(topology, flow, "There is nothing to translate.")
    # Both at once would mix committed positions with given ones, and rows say nothing of where they are from.
    if bool(groups) == bool(topic and positions):
        problem = "nothing to translate is named" if not groups else "a group and positions are given together"
        reason = "Either the committed offsets of groups are translated, or the positions you give."
        raise ReconcilerError(problem, reason, "Give --group GROUP, or --topic TOPIC --partition P --offset N.")
    given = {(topic, partition): tuple(positions or ())} if topic else None
    request = TranslateRequest(flow, tuple(dict.fromkeys(groups or ())), given, reverse)
    selector = selector_of(topology.flows[flow])
    if topic and not reverse and (why := selector.why_not(topic)) is not None:
        say(f"flow {flow} does not mirror {topic} now: {why}; its earlier copies are still translated")
    translations = translated(topology, request, selector)
    match form:
        case TableFormat.TABLE:
            text = translations_text(translations)
        case TableFormat.JSON:
            text = translations_json(translations)
        case TableFormat.CSV:
            text = translations_csv(translations)
            # The CSV is fed to kafka-consumer-groups, which refuses other lines; reasons go to standard error.
            for problem in translations.left_out:
                say(f"left out: {problem}")
            for row in translations.rows:
                if not row.found.exact:
                    say(f"not exact: {row.topic}-{row.partition} {row.offset}: {row.found.reason}")
    if out is not None:
        write_text(out, filled_in(text, form))
    if form is TableFormat.TABLE:
        show(translations_text(translations, style().width))
    else:
        show(text, form)
    raise typer.Exit(translations.exit_code)


@diverged_app.callback()
def diverged() -> None:
    """Records that only one side of a flow with offsets: same has."""


@diverged_app.command(
    "list",
    epilog=ending(
        "0 the same; 1 error or unknown; 2 one side has more", "diverged list environments/prod east-to-west"
    ),
)
def list_(env: Env, flow: SameOffsetsFlow) -> None:
    """Show where both sides diverge, by partition: the exact offset, and the records only one side has."""
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


@diverged_app.command(
    epilog=ending(
        "0 written, or there is nothing to write; 1 error, or a partition is unknown",
        "diverged export environments/prod east-to-west --to-file left-behind.jsonl",
        "diverged export environments/prod east-to-west --to-topic east:left-behind",
    ),
)
def export(
    env: Env,
    flow: SameOffsetsFlow,
    file: Annotated[
        Path | None,
        typer.Option("--to-file", metavar="F", help="a new file: one JSON object per record, bytes in base64"),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--to-topic", metavar="CLUSTER:TOPIC", help="an existing topic that no flow uses"),
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
        say(f"not exported, {each.name}: {each.unknown}")
    show(f"{count:,} records written to {file or topic}")
    if any(each.unknown for each in partitions):
        raise typer.Exit(ExitCode.ERROR)
