"""A wish that is empty, or lost too much against the last apply: more often a half-read folder than a decision."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from reconciler.applied import Applied
from reconciler.changes import Reason, Refused
from reconciler.topology import ShrinkLimit, TopicRef, Topology

SHRUNKEN = "shrunken-wish"
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
        names = ", ".join(lost[:SHOWN]) + (f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else "")
        what = f"{len(lost)} of {len(before)} declared {word} are gone since {since}: {names}"
        if not now:
            what = f"no {word} are declared any more; {what}"
        todo = f"Look whether a file is missing or empty. If it is meant, {AGREE}"
        yield Refused(f"declared {word}", Reason(SHRUNKEN, what), todo)


def too_many(lost: Collection[str], before: int, limit: ShrinkLimit, left: int) -> bool:
    """All of several are too many, however few."""
    if len(lost) > 1 and not left:
        return True
    return len(lost) >= limit.least and len(lost) * 100 > before * limit.percent


def declared_topics(topology: Topology) -> tuple[str, ...]:
    return tuple(
        sorted(str(TopicRef(name, topic.name)) for topic in topology.topics.values() for name in topic.clusters)
    )
