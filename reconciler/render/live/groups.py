"""Where each consumer group stands on both sides of a flow, and where it would stand after a failover."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from reconciler.errors import Unknown
from reconciler.model.reports.failover import ConsumerMove, GroupMove, GroupOffset
from reconciler.render.escape import page as safe
from reconciler.render.live.view import LivePage, LiveView, PageKind, Region, clock, pill
from reconciler.render.page import code, folded, table
from reconciler.text import counted

MOST_GROUPS = 200
OPENED = 4
"""Of more groups than that each is folded."""
_NUMBERS = frozenset(("stands at", "would stand at"))


@dataclass(frozen=True, slots=True)
class Standings:
    """Of one flow, as they were at ``at_ms``. ``lost``: why the source does not answer; groups are as their last
    checkpoints tell then. ``unsupported``: group -> why its offsets cannot be moved."""

    at_ms: int
    move: ConsumerMove
    groups: tuple[GroupMove, ...]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    lost: str = ""


def groups_page(view: LiveView, page: LivePage, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """``standings`` None: no flow was chosen. Nothing here moves by itself: each look asks both clusters."""
    links = "".join(_link(name, name == page.flow) for name in view.topology.flows)
    nav = f'<nav aria-label="flows">{links}</nav>'
    if standings is None:
        text = "<p>Choose a flow: both of its clusters are asked then.</p>" if links else "<p>no flow is declared</p>"
        return (Region("head", f"<h1>Groups on both sides of a flow</h1>{text}{nav}", calm=True),)
    title = f"<h1>Where would each group of {code(page.flow)} stand?</h1>"
    if isinstance(standings, Unknown):
        said = f'<p class="unknown">unknown: {safe(standings.error)}</p><p><b>{safe(standings.todo)}</b></p>'
        return (Region("head", f"{title}{said}{nav}", calm=True),)
    return (
        Region("head", f"{title}{''.join(_about(standings))}{nav}", calm=True),
        Region("groups", "".join(_groups(standings)), calm=True),
    )


def _link(name: str, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    return f'<a href="/{PageKind.GROUPS.value}?flow={quote(name, safe="")}"{current}>{safe(name)}</a>'


def _about(standings: Standings) -> Iterator[str]:
    move = standings.move
    yield (
        f"<p>Positions are the next offset to read. <b>Would stand at</b>: where a failover now would set the group on"
        f" {code(move.destination)}. Nothing is set by looking. Asked {clock(standings.at_ms)}.</p>"
    )
    if standings.lost:
        words = f"{code(move.origin)} does not answer: by their last checkpoints. {safe(standings.lost)}"
        yield f'<p class="unknown">{words}</p>'


def _groups(standings: Standings) -> Iterator[str]:
    if not standings.groups:
        yield "<p>no group has offsets on topics of this flow</p>"
    for group in standings.groups[:MOST_GROUPS]:
        yield _group(group, standings, opened=len(standings.groups) <= OPENED)
    if len(standings.groups) > MOST_GROUPS:
        more = len(standings.groups) - MOST_GROUPS
        yield f"<p>and {more:,} more groups: <code>reconciler failover ENV --dry-run</code></p>"
    if standings.unsupported:
        rows = ((code(name), safe(why)) for name, why in sorted(standings.unsupported.items()))
        yield f"<h2>Groups that cannot be moved</h2>{table(('group', 'why'), rows)}"


def _group(group: GroupMove, standings: Standings, opened: bool) -> str:
    origin, destination, lost = standings.move.origin, standings.move.destination, bool(standings.lost)
    inexact = sum(not offset.translated.exact for offset in group.offsets)
    exact = pill("exact", "ok") if not inexact else pill(f"{counted(inexact, 'partition')} not exact", "unknown")
    there = counted(group.origin.members, "member") if not lost else "members unknown"
    members = f"{there} on {safe(origin)}, {group.destination.members:,} on {safe(destination)}"
    heads = (f"on {safe(origin)}", "stands at", f"on {safe(destination)}", "stands at", "would stand at", "why")
    return folded(
        f"{code(group.group)} {exact} {counted(len(group.offsets), 'partition')}, {members}",
        table(heads, map(_offset, _worst_first(group.offsets)), _NUMBERS),
        f"group-{group.group}",
        opened,
    )


def _worst_first(offsets: Sequence[GroupOffset]) -> list[GroupOffset]:
    return sorted(offsets, key=lambda offset: (offset.translated.exact, offset.origin))


def _offset(offset: GroupOffset) -> tuple[str, ...]:
    wanted = offset.translated
    would = "unknown" if wanted.offset is None else f"{wanted.offset:,}"
    why = "" if wanted.exact else f"not exact: {wanted.reason}"
    before = "nowhere yet" if offset.before is None else f"{offset.before:,}"
    origin, destination = (f"{topic}-{number}" for topic, number in (offset.origin, offset.destination))
    return code(origin), f"{offset.committed:,}", code(destination), before, would, safe(why)
