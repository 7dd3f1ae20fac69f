"""Guard against two repositories with one environment's name, which would share one lock and one record.

And a record that is not where it is looked for, because its cluster is a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.model.changes import About, Reason, Refused, Subject, Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.model.state.lock import lock_cluster


def other_repository(applied: Applied | None, origin: str) -> Iterator[Refused]:
    """``origin``: where this folder is from; empty where git does not tell, then nothing is held against it."""
    if applied is None or not applied.origin or not origin or applied.origin == origin:
        return
    problem = (
        f"environment {applied.environment} was applied last by {applied.who} from {applied.origin}, and this is"
        f" {origin}: with one name they share lock and records, and each takes what the other made for its own"
    )
    todo = (
        "Give one of them another name, which is that of its folder. If the environment moved here, accept once with"
        " apply --first-contact"
    )
    yield Refused(Subject(About.ENVIRONMENT, name=applied.environment), Reason(Why.OTHER_REPOSITORY, problem), todo)


def forgotten(topology: Topology, live: LiveState, applied: Applied | None) -> Iterator[str]:
    """Somebody applied something, and nothing is remembered: clusters may be others than those that were met."""
    place = lock_cluster(topology).name
    if applied is not None:
        return
    there = sorted({*_owning(live), *_mirrored(topology, live)} - {place})
    undeclared = ", ".join(name for name in there if topology.clusters[name].cluster_id is None)
    if undeclared:
        yield (
            f"nobody remembers which clusters this environment changed: cluster {place}, which keeps the record, has"
            f" none, although something of this environment is on {undeclared}. If {place} is a new cluster, look"
            f" whether the others are the right ones, and declare their cluster_id: then no record is needed"
        )


def _owning(live: LiveState) -> Iterator[str]:
    """Clusters whose own record tells of something that runs of this environment made."""
    for name in live.clusters:
        if (cluster := live.known(name)) is not None:
            parts = (
                cluster.access.owned if cluster.access else {},
                cluster.quota_keys,
                cluster.users.recorded if cluster.users else {},
            )
            if any(isinstance(part, Mapping) and part for part in parts):
                yield name


def _mirrored(topology: Topology, live: LiveState) -> Iterator[str]:
    """Clusters that keep the status of a job of this environment."""
    for mirror in topology.mirrors.values():
        seen = live.mirrors.get(mirror.name)
        if isinstance(seen, LiveMirror) and seen.updated_at_ms is not None:
            yield topology.status_cluster(mirror)
