"""Prune: unmanaged topics that git says this environment alone owns, and that nothing asks for any more.

Three must agree before a topic goes this way: the cluster's ``prune`` list in git, ``plan --prune``, ``apply --prune``.
For quotas and users the ownership record stands in for the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.changes import DeleteTopic, Ignored, Reason, Refused, Unmanaged
from reconciler.counts import counted
from reconciler.guarding.protecting import is_state_of_an_application, protection_of
from reconciler.guarding.shrinking import AGREE, too_many
from reconciler.live import LiveState
from reconciler.topology import Topology

PRUNE = "prune"
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Prune:
    """``left``: unmanaged topics that stay. ``notes``: what would go, when nobody asked."""

    deletions: tuple[DeleteTopic, ...] = ()
    left: tuple[Unmanaged, ...] = ()
    refused: tuple[Refused, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    notes: tuple[str, ...] = ()


def prune(topology: Topology, live: LiveState, unmanaged: Sequence[Unmanaged], asked: bool) -> Prune:
    """``asked``: --prune was given; else it is only told.

    A cluster that hides topics keeps everything: a source nobody sees has a remote topic that looks left over.
    """
    found, ignored = _candidates(topology, live, unmanaged)
    if not asked:
        return Prune((), tuple(unmanaged), (), ignored, tuple(_offers(found)))
    gone = {deletion.ref for deletion in found}
    left = tuple(one for one in unmanaged if one.ref not in gone)
    refused = (*_blind(live, found), *_above_limit(topology, live, found)) if found else ()
    return Prune(tuple(found), left, refused, ignored)


def names_shown(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def too_many_pruned(topology: Topology, what: str, gone: Sequence[str], before: int) -> Iterator[Refused]:
    """``what``: ``users of east``; ``before``: how many of them earlier runs made."""
    limit = topology.rules.shrink_limit
    if too_many(gone, before, limit, left=before - len(gone)):
        why = f"{len(gone)} of {before} {what} would be pruned, more than {limit.percent} %: {names_shown(gone)}"
        todo = f"Look whether a file is missing or empty. If it is meant, {AGREE}"
        yield Refused(f"prune of {what}", Reason("prune-above-limit", why), todo)


def _candidates(
    topology: Topology, live: LiveState, unmanaged: Sequence[Unmanaged]
) -> tuple[list[DeleteTopic], tuple[Ignored, ...]]:
    found, ignored = [], []
    for one in unmanaged:
        wish, cluster = topology.clusters[one.ref.cluster], live.known(one.ref.cluster)
        pattern = next((text for text in wish.prune_topics if re.fullmatch(text, one.ref.name)), None)
        if pattern is None or cluster is None:
            continue
        topic, place = cluster.topics[one.ref.name], f"{wish.where.file}:{wish.where.line}"
        if rule := protection_of(one.ref.name, topology.rules.protected):
            text = f"'{pattern}' of the prune list ({place}) names it, {rule} keeps it"
            ignored.append(Ignored(str(one.ref), "protected", text))
        elif topic.internal or is_state_of_an_application(one.ref.name):
            text = "Kafka Streams keeps the state of an application in it; only a tombstone deletes it"
            ignored.append(Ignored(str(one.ref), "protected", text))
        else:
            text = f"nothing asks for it, and '{pattern}' of the prune list of {wish.name} ({place}) owns its name"
            found.append(DeleteTopic(one.ref, topic.topic_id, one.partitions, "", Reason(PRUNE, text)))
    return found, tuple(ignored)


def _offers(found: Sequence[DeleteTopic]) -> Iterator[str]:
    for cluster in sorted({one.ref.cluster for one in found}):
        names = [one.ref.name for one in found if one.ref.cluster == cluster]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        topics = counted(len(names), "unmanaged topic")
        yield f"plan --prune would delete {topics} of {cluster}: {shown}"


def _blind(live: LiveState, found: Sequence[DeleteTopic]) -> Iterator[Refused]:
    for name in sorted(live.clusters):
        known = live.known(name)  # one that is unknown stops every removal anyway
        if known is not None and not known.sees_all:
            what = f"{len(found)} topics would be pruned, but cluster {name} does not show this principal every topic"
            why = f"{what}; the remote topic of a source that is not seen looks as if nothing asked for it"
            todo = "Let the principal describe every topic (doctor prints the command), or leave --prune out"
            yield Refused(f"prune with {name}", Reason("prune-blind", why), todo)


def _above_limit(topology: Topology, live: LiveState, found: Sequence[DeleteTopic]) -> Iterator[Refused]:
    for name in sorted({one.ref.cluster for one in found}):
        names = [one.ref.name for one in found if one.ref.cluster == name]
        cluster = live.known(name)
        there = [one for one in cluster.topics if not one.startswith("__")] if cluster else []
        if too_many(names, len(there), topology.rules.shrink_limit, left=len(there) - len(names)):
            limit = topology.rules.shrink_limit
            what = f"{len(names)} of {len(there)} topics of {name} would be pruned, more than {limit.percent} %"
            shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
            todo = f"Look whether a file or flow is missing. If it is meant, {AGREE}"
            yield Refused(f"prune of {name}", Reason("prune-above-limit", f"{what}: {shown}"), todo)
