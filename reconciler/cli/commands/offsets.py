"""``offsets translate``: arguments and exit codes. 0 all exact, 2 some are not or there are none, 1 an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.choices import TableFormat
from reconciler.cli_help import ENDINGS
from reconciler.edges.files import write_text
from reconciler.errors import ReconcilerError
from reconciler.terminal import App, Env, OutOption, say, show

if TYPE_CHECKING:
    from reconciler.topology import Topology
    from reconciler.translations import TranslateWish

app = App(help="Positions of consumers, on both sides of a flow.", no_args_is_help=True)


FlowName = Annotated[str, typer.Argument(metavar="FLOW", help="a flow of the environment")]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="its committed offsets; may be given again")
]
OffsetOption = Annotated[
    list[int] | None, typer.Option("--offset", min=0, metavar="N", help="a position; may be given again")
]


@app.callback()
def offsets() -> None:
    """Positions of consumers, on both sides of a flow."""


@app.command(epilog=ENDINGS["offsets translate"])
def translate(
    env: Env,
    flow: FlowName,
    groups: GroupOption = None,
    topic: Annotated[
        str, typer.Option("--topic", metavar="T", help="with --partition and --offset, instead of a group")
    ] = "",
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0, help="of the topic")] = 0,
    positions: OffsetOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="from the target back to the source")] = False,
    form: Annotated[
        TableFormat, typer.Option("--format", help="csv is for kafka-consumer-groups --reset-offsets --from-file")
    ] = TableFormat.TABLE,
    out: OutOption = None,
) -> None:
    """Where positions on one cluster are on the other: to the record, or to the next one that was copied."""
    from reconciler.edges.translating import translated
    from reconciler.rendering.translations import translations_csv, translations_json, translations_text
    from reconciler.routing import selector_of
    from reconciler.wiring import read_topology

    topology = read_topology(env)
    wish = _wish(topology, flow, groups or [], (topic, partition, positions or []), reverse)
    selector = selector_of(topology.flows[flow])
    if topic and not reverse and (why := selector.why_not(topic)) is not None:
        say(f"flow {flow} does not mirror {topic} now: {why}; what it copied before is translated all the same")
    made = translated(topology, wish, selector)
    match form:
        case TableFormat.TABLE:
            text = translations_text(made)
        case TableFormat.JSON:
            text = translations_json(made)
        case TableFormat.CSV:
            text = translations_csv(made)
            for what in made.left_out:
                say(f"left out: {what}")
            for row in made.rows:
                if not row.found.exact:
                    say(f"not exact: {row.topic}-{row.partition} {row.offset}: {row.found.reason}")
    if out is not None:
        write_text(out, text)
    show(text)
    raise typer.Exit(made.exit_code)


def _wish(
    topology: Topology, flow: str, groups: list[str], given: tuple[str, int, list[int]], reverse: bool
) -> TranslateWish:
    from reconciler.translations import TranslateWish

    topic, partition, positions = given
    if flow not in topology.flows:
        raise ReconcilerError(
            f"environment {topology.environment} has no flow {flow}",
            "There is nothing to translate.",
            f"Its flows: {', '.join(topology.flows) or 'none'}.",
        )
    if bool(groups) == bool(topic and positions):
        raise ReconcilerError(
            "nothing to translate is named" if not groups else "a group and positions are given together",
            "Either the committed offsets of groups are translated, or positions by hand.",
            "Give --group GROUP, or --topic TOPIC --partition P --offset N.",
        )
    by_hand = {(topic, partition): tuple(positions)} if topic else None
    return TranslateWish(flow, tuple(dict.fromkeys(groups)), by_hand, reverse)
