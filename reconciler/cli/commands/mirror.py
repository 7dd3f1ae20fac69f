"""The commands that steer a mirror job, and import-positions before its first start: arguments and exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconciler.choices import CONFIRM_S, CONNECTOR
from reconciler.errors import ReconcilerError
from reconciler.terminal import Env, Format, FormatOption, agrees, say, seconds, show

if TYPE_CHECKING:
    from reconciler.pausing import Wish

Flow = Annotated[str | None, typer.Argument(metavar="FLOW", help="one flow; all when left out")]
Topic = Annotated[str, typer.Option("--topic", metavar="T", help="one source topic of the flow")]
Partition = Annotated[int | None, typer.Option("--partition", metavar="N", min=0, help="one partition of the topic")]
Wait = Annotated[str, typer.Option("--wait", metavar="DURATION", help="for the job to confirm")]
CONFIRM = f"{CONFIRM_S:.0f}s"


def pause(
    env: Env,
    flow: Flow = None,
    topic: Topic = "",
    partition: Partition = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="shown in status")] = "",
    wait: Wait = CONFIRM,
) -> None:
    """Stop copying for a while, without a restart: what was copied is committed, positions stay, lag is told on."""
    from reconciler import steering

    show(steering.pause(Path(env), _wish(flow, topic, partition), reason, seconds("--wait", wait), say))


def resume(env: Env, flow: Flow = None, topic: Topic = "", partition: Partition = None, wait: Wait = CONFIRM) -> None:
    """Copy on from where it was paused. Lifts every pause within what is named."""
    from reconciler import steering

    show(steering.resume(Path(env), _wish(flow, topic, partition), seconds("--wait", wait), say))


def seek(
    env: Env,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="one flow")],
    topic: Annotated[str, typer.Option("--topic", metavar="T", help="one source topic of the flow")],
    partition: Partition = None,
    to: Annotated[str, typer.Option("--to", metavar="PLACE", help="earliest, latest, or a source offset")] = "",
    from_flow: Annotated[
        str, typer.Option("--from-flow", metavar="FLOW", help="to where another flow, perhaps of earlier, stands")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    form: FormatOption = Format.TEXT,
) -> None:
    """Show where copying stands, or move it: partitions that are paused or stopped, or while no job runs."""
    from reconciler import seeking
    from reconciler.rendering.positions import positions_json, positions_text

    wish = _wish(flow, topic, partition)
    if to and from_flow:
        raise ReconcilerError("--to and --from-flow are both given", "Each says where to go on.", "Give one of them.")
    if to or from_flow:
        where = seeking.Destination(to, from_flow)
        seen = seeking.seek(Path(env), wish, where, (lambda _: True) if yes else _agreed)
    else:
        seen = seeking.look(Path(env), wish)
    show(positions_json(seen) if form is Format.JSON else positions_text(seen))


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
        str, typer.Option("--alias", metavar="A", help="MirrorMaker 2's name of the source, where it is not ours")
    ] = "",
    on: Annotated[
        str, typer.Option("--on", metavar="CLUSTER", help="where the offsets topic is; else the flow's target")
    ] = "",
    write: Annotated[bool, typer.Option("--write", help="write start into the flow's file")] = False,
    form: FormatOption = Format.TEXT,
) -> None:
    """Take over the positions of a stopped MirrorMaker 2: show them, or write them as the flow's start."""
    from reconciler import inheritance
    from reconciler.rendering.inherited import inherited_json, inherited_text

    wish = inheritance.ImportWish(flow or "", offsets_topic, connector, alias, on)
    made = inheritance.import_positions(env, wish, write, say)
    if form is Format.JSON:
        show(inherited_json(made.environment, made.flows, made.absent, made.files))
    else:
        show(inherited_text(made.flows, made.absent, made.files))


def _wish(flow: str | None, topic: str, partition: int | None) -> Wish:
    from reconciler.pausing import Wish

    return Wish(flow or "", topic, -1 if partition is None else partition)


def _agreed(lines: Sequence[str]) -> bool:
    say("\n".join(lines))
    why = "It decides which records are copied."
    return agrees("Move?", "no position was moved", why, "Look without --to, then pass --yes.")
