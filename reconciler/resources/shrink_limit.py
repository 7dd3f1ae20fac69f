"""A wish that is empty, or lost too much against the last apply: more often a half-read folder than a decision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from reconciler.applied import Applied
from reconciler.changes import Change, CreateAcl, DeleteAcl, Reason, Refused
from reconciler.counts import counted
from reconciler.topology import ShrinkLimit, TopicRef, Topology

SHRUNKEN = "shrunken-wish"
ABOVE = "access-above-limit"
LEFT = ("declared-no-longer", "source-rule-gone")
"""Why a rule of an earlier run goes: git has it no longer, or the source of the flow that derived it."""
SHOWN = 5
AGREE = "agree with apply --allow-shrink, or with a shrink_limit in the files"


def shrunken(topology: Topology, applied: Applied | None) -> Iterator[Refused]:
    """Of topics and of flows, each by itself. Without a record of an apply there is nothing to compare with."""
    if applied is None:
        return
    of_commit = f" of commit {applied.commit[:12]}" if applied.commit else ""
    since = f"the apply{of_commit} by {applied.who}"
    for word, before, now in (
        ("topics", applied.topics, declared_topics(topology)),
        ("flows", applied.flows, tuple(topology.flows)),
    ):
        lost = sorted(set(before) - set(now))
        if not too_many(lost, len(before), topology.rules.shrink_limit, left=len(now)):
            continue
        what = f"{len(lost)} of {len(before)} declared {word} are gone since {since}: {_first(lost)}"
        if not now:
            what = f"no {word} are declared any more; {what}"
        todo = f"Look whether a file is missing or empty. If it is meant, {AGREE}"
        yield Refused(f"declared {word}", Reason(SHRUNKEN, what), todo)


def too_many_rules(cluster: str, changes: Iterable[Change], owned: int, limit: ShrinkLimit) -> Iterator[Refused]:
    """Access rules of earlier runs that nothing asks for any more, as many as are not replaced. ``owned``: how many
    of them are there. The last rules of all may go, when they are few: so access ceases to be managed."""
    gone, made = [], 0
    for one in changes:
        if isinstance(one, DeleteAcl) and one.reason.code in LEFT:
            gone.append(str(one.acl))
        made += isinstance(one, CreateAcl)
    lost = gone[: max(0, len(gone) - made)]
    if too_many(lost, owned, limit, left=1):
        what = f"{len(lost)} of {owned} access rules that earlier runs made on {cluster} are asked for no longer"
        todo = f"Look whether a file or a flow is missing. If it is meant, {AGREE}"
        yield Refused(f"declared access rules of {cluster}", Reason(ABOVE, f"{what}: {_first(lost)}"), todo)


def left_behind(topology: Topology, applied: Applied | None) -> Iterator[str]:
    """A note for each cluster that is declared no longer: what is there stands in no list of the plan."""
    if applied is None:
        return
    for name in sorted(applied.clusters.keys() - topology.clusters.keys()):
        there = [topic for topic in applied.topics if topic.startswith(f"{name}/")]
        stays = f"{counted(len(there), 'topic')} declared until now ({_first(there)})" if there else "all that is there"
        yield f"cluster {name} is no longer declared, so nobody looks at it: what stays there is {stays}"


def too_many(lost: Collection[str], before: int, limit: ShrinkLimit, left: int) -> bool:
    """All of several are too many, however few."""
    if len(lost) > 1 and not left:
        return True
    return len(lost) >= limit.least and len(lost) * 100 > before * limit.percent


def declared_topics(topology: Topology) -> tuple[str, ...]:
    return tuple(
        sorted(str(TopicRef(name, topic.name)) for topic in topology.topics.values() for name in topic.clusters)
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
