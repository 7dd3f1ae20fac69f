"""The CLI command ``offsets translate``: arguments, options, exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.backends.files import write_text
from reconciler.cli.help import ending
from reconciler.errors import ReconcilerError
from reconciler.model.options import TableFormat
from reconciler.render import completion
from reconciler.render.console import App, Env, OutOption, filled_in, say, show, style

if TYPE_CHECKING:
    from reconciler.model.environment.topology import Topology
    from reconciler.model.reports.offsets import TranslateRequest

app = App(help="Positions of consumers, on both sides of a flow.", no_args_is_help=True)


FlowName = Annotated[
    str, typer.Argument(metavar="FLOW", help="a flow of the environment", autocompletion=completion.flows)
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="GROUP", help="its committed offsets; may be given again")
]
OffsetOption = Annotated[
    list[int] | None, typer.Option("--offset", min=0, metavar="N", help="a position; may be given again")
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
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0, help="of the topic")] = 0,
    positions: OffsetOption = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="from the target back to the source")] = False,
    form: Annotated[
        TableFormat, typer.Option("--format", help="csv is for kafka-consumer-groups --reset-offsets --from-file")
    ] = TableFormat.TABLE,
    out: OutOption = None,
) -> None:
    """Where positions on one cluster are on the other: to the record, or to the next one that was copied."""
    from reconciler.operations.failover.translate_offsets import translated
    from reconciler.operations.session.session import read_topology
    from reconciler.render.reports.positions import translations_csv, translations_json, translations_text
    from reconciler.resources.flows.routes import selector_of

    topology = read_topology(env)
    request = _request(topology, flow, groups or [], (topic, partition, positions or []), reverse)
    selector = selector_of(topology.flows[flow])
    if topic and not reverse and (why := selector.why_not(topic)) is not None:
        say(f"flow {flow} does not mirror {topic} now: {why}; what it copied before is translated all the same")
    translations = translated(topology, request, selector)
    match form:
        case TableFormat.TABLE:
            text = translations_text(translations)
        case TableFormat.JSON:
            text = translations_json(translations)
        case TableFormat.CSV:
            text = translations_csv(translations)
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


def _request(
    topology: Topology, flow: str, groups: list[str], given: tuple[str, int, list[int]], reverse: bool
) -> TranslateRequest:
    from reconciler.model.reports.offsets import TranslateRequest
    from reconciler.resources.flows.routes import declared_flow

    topic, partition, positions = given
    declared_flow(topology, flow, "There is nothing to translate.")
    if bool(groups) == bool(topic and positions):
        problem = "nothing to translate is named" if not groups else "a group and positions are given together"
        why = "Either the committed offsets of groups are translated, or the positions you give."
        raise ReconcilerError(problem, why, "Give --group GROUP, or --topic TOPIC --partition P --offset N.")
    by_hand = {(topic, partition): tuple(positions)} if topic else None
    return TranslateRequest(flow, tuple(dict.fromkeys(groups)), by_hand, reverse)
