"""Positions of each consumer group on both sides of a flow, and the positions that a failover would set."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from reconciler.errors import Unknown
from reconciler.model.reports.failover import ConsumerMove, GroupMove
from reconciler.render.escape import page as safe
from reconciler.render.live.view import LivePage, LiveView, PageKind, Region, clock, pill
from reconciler.render.page import code, folded, table
from reconciler.text import counted

MOST_GROUPS = 200
OPENED = 4
"""With more groups than this, each is folded."""
_NUMBERS = frozenset(("is at", "would be at"))


@dataclass(frozen=True, slots=True)
class Standings:
    """Groups of one flow at ``at_ms``."""

    at_ms: int
    move: ConsumerMove
    groups: tuple[GroupMove, ...]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Group -> why it cannot move."""
    lost: str = ""
    """Why the source does not answer; groups are then from their last checkpoints."""


def groups_page(view: LiveView, page: LivePage, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """``standings``: None if no flow was chosen. The page does not refresh by itself, because each survey asks both
    clusters."""
    links = []
    for name in view.topology.flows:
        here = ' aria-current="page"' if name == page.flow else ""
        links.append(f'<a href="/{PageKind.GROUPS.value}?flow={quote(name, safe="")}"{here}>{safe(name)}</a>')
    nav = f'<nav aria-label="flows">{"".join(links)}</nav>'
    if standings is None:
        text = "<p>Choose a flow: both of its clusters are asked then.</p>" if links else "<p>no flow is declared</p>"
        return (Region("head", f"<h1>Groups on both sides of a flow</h1>{text}{nav}", calm=True),)
    title = f"<h1>Where would each group of {code(page.flow)} stand?</h1>"
    if isinstance(standings, Unknown):
        said = f'<p class="unknown">unknown: {safe(standings.error)}</p><p><b>{safe(standings.todo)}</b></p>'
        return (Region("head", f"{title}{said}{nav}", calm=True),)
    about = (
        f"<p>Positions are the next offset to read. <b>Would be at</b>: where a failover now would set the group on"
        f" {code(standings.move.destination)}. Nothing is set by looking. Asked {clock(standings.at_ms)}.</p>"
    )
    if standings.lost:
        why = f"{code(standings.move.origin)} does not answer: by their last checkpoints. {safe(standings.lost)}"
        about += f'<p class="unknown">{why}</p>'
    shown = standings.groups[:MOST_GROUPS]
    groups = [_group(group, standings, opened=len(standings.groups) <= OPENED) for group in shown]
    if not shown:
        groups.append("<p>no group has offsets on topics of this flow</p>")
    if (more := len(standings.groups) - len(shown)) > 0:
        groups.append(f"<p>and {more:,} more groups: <code>reconciler failover ENV FLOW --dry-run</code></p>")
    if standings.unsupported:
        rows = ((code(name), safe(why)) for name, why in sorted(standings.unsupported.items()))
        groups.append(f"<h2>Groups that cannot be moved</h2>{table(('group', 'why'), rows)}")
    return (
        Region("head", f"{title}{about}{nav}", calm=True),
        Region("groups", "".join(groups), calm=True),
    )


def _group(group: GroupMove, standings: Standings, opened: bool) -> str:
    origin, destination, lost = standings.move.origin, standings.move.destination, bool(standings.lost)
    inexact = sum(not offset.translated.exact for offset in group.offsets)
    exact = pill("exact", "ok") if not inexact else pill(f"{counted(inexact, 'partition')} not exact", "unknown")
    there = counted(group.origin.members, "member") if not lost else "members unknown"
    members = f"{there} on {safe(origin)}, {group.destination.members:,} on {safe(destination)}"
    heads = (f"on {safe(origin)}", "is at", f"on {safe(destination)}", "is at", "would be at", "why")
    # Inexact positions come first: they are the reason to check before a failover.
    rows = []
    for offset in sorted(group.offsets, key=lambda offset: (offset.translated.exact, offset.origin)):
        wanted = offset.translated
        would = "unknown" if wanted.offset is None else f"{wanted.offset:,}"
        why = "" if wanted.exact else f"not exact: {wanted.reason}"
        before = "nowhere yet" if offset.before is None else f"{offset.before:,}"
        here, other = (f"{topic}-{number}" for topic, number in (offset.origin, offset.destination))
        rows.append((code(here), f"{offset.committed:,}", code(other), before, would, safe(why)))
    summary = f"{code(group.group)} {exact} {counted(len(group.offsets), 'partition')}, {members}"
    return folded(summary, table(heads, rows, _NUMBERS), f"group-{group.group}", opened)
