"""The home of an environment's lock: the cluster that keeps it, under whatever name (decision 107). Frozen."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from reconciler.errors import BlockedError, ClusterError
from reconciler.model.environment.topology import Topology
from reconciler.model.state import lock
from reconciler.model.state.last_apply import applied_key
from reconciler.replication.json_codec import Codec, JsonRecord
from reconciler.replication.names import LOCK_TOPIC


def home_key(environment: str) -> str:
    return f"home/{environment}"


@dataclass(frozen=True, slots=True)
class Home:
    """Where an environment's lock and records are. Each cluster has a copy, so that a search finds it from any of
    them."""

    cluster: str
    cluster_id: str
    bootstrap_servers: tuple[str, ...]
    moves: int = 0
    """Counts moves: the copy with the most is valid."""


_RECORD = JsonRecord(Home, "record of the lock's home", codec=Codec(lenient=True))
dumps, loads = _RECORD.dumps, _RECORD.loads


class OtherPrefixError(BlockedError):
    """The environment keeps its records under another prefix than git has. No plan can be right: it would rest on
    empty records."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A cluster's records of the environment: those beside its lock by key, and its copy of the home. ``elsewhere``:
    the topic of another prefix that has them."""

    cluster_id: str
    records: Mapping[str, bytes]
    home: Home | None = None
    elsewhere: str = ""


Answers = Mapping[str, Sighting | ClusterError]
"""By name of the cluster; a missing one was not asked and counts as silent."""


@dataclass(frozen=True, slots=True)
class LockPlace:
    """``held``: clusters on which to hold a lock, including ``home``; several only until it has moved. ``record``: the
    newest copy of the home; None without one."""

    home: str
    held: tuple[str, ...]
    record: Home | None


def home_of(topology: Topology, answers: Answers, anew: bool = False) -> LockPlace:
    """Decides where the lock is, from the clusters' answers. ``anew``: the user vouches that no other home is left.

    Raises BlockedError if the topology lacks the home, ClusterError if a cluster that is or may be the home does not
    answer.
    """
    key = lock.lock_key(topology.environment)
    silent: dict[str, ClusterError] = {}
    seen: dict[str, Sighting] = {}
    for name in sorted(topology.clusters):
        match answers.get(name):
            case Sighting() as sighting:
                if sighting.elsewhere:
                    _refuse_other_prefix(topology, name, sighting.elsewhere)
                seen[name] = sighting
            case ClusterError() as error:
                silent[name] = error
            case None:
                text = f"cluster {name} could not be read"
                silent[name] = ClusterError(name, "unreachable", text, "", "See what is said of it")
    # Clusters with a lock, with or without a record of the home. If two names lead to one cluster, the first counts.
    locked = {seen[name].cluster_id: name for name in reversed(seen) if key in seen[name].records}
    records = (answer.home for answer in seen.values() if answer.home is not None)
    newest = max(records, key=lambda record: (record.moves, record.cluster_id), default=None)
    first = min(topology.clusters)
    # A record decides, wherever it was found, but its cluster has to answer: another run may hold the lock there.
    # Without a record, the lock is on the first cluster by name (as in older releases), and a silent cluster may have
    # it, too.
    if newest is not None:
        home = next((name for name, answer in seen.items() if answer.cluster_id == newest.cluster_id), "")
        if not home:
            suspects = [name for name in silent if topology.clusters[name].cluster_id in (None, newest.cluster_id)]
            suspects.sort(key=lambda name: name != newest.cluster)
            if suspects:
                _refuse_silent(topology, silent[suspects[0]], suspects[0] == newest.cluster)
            if not anew:
                _refuse_undeclared(topology, newest)
    elif silent and first not in locked.values() and not (anew and seen):
        name = first if first in silent else next(iter(silent))
        _refuse_silent(topology, silent[name], name == first)
    else:
        home = max(locked.values(), key=lambda name: _newness(topology, seen[name].records), default="")
    home = home or next(iter(seen))
    held = {**locked, seen[home].cluster_id: home}
    return LockPlace(home, tuple(sorted(held.values())), newest)


def _refuse_silent(topology: Topology, error: ClusterError, known: bool) -> NoReturn:
    if known and error.kind != "unreachable":
        raise error
    keeps = f"Cluster {error.cluster} {'keeps' if known else 'may keep'} the lock of environment {topology.environment}"
    why = "\n".join(filter(None, (error.why, f"{keeps}, so nothing was begun, there or on another cluster.")))
    raise ClusterError(error.cluster, error.kind, error.what, why, error.todo)


def _refuse_other_prefix(topology: Topology, cluster: str, topic: str) -> NoReturn:
    now, prefix = topology.clusters[cluster].own_topics.lock, topic.removesuffix(LOCK_TOPIC)
    key = f"clusters.{cluster}.internal_topics.prefix"
    raise OtherPrefixError(
        f"environment {topology.environment} keeps its records on {cluster} in {topic}, and git names {now}",
        "Under other names the lock, ownership, pauses and offset maps would begin empty: our rules would count as"
        " foreign ones, and a lost position would go unnoticed.",
        f"Set {key} to '{prefix}'." if prefix else f"Take {key} away.",
    )


def _refuse_undeclared(topology: Topology, home: Home) -> NoReturn:
    there = f"{home.cluster} (id {home.cluster_id}, {', '.join(home.bootstrap_servers)})"
    raise BlockedError(
        f"the lock of environment {topology.environment} is on {there}, which this topology does not declare",
        "Another run may hold it there, and commands here would not see that.",
        f"Declare {home.cluster} again, and before it leaves: apply --move-lock CLUSTER. If that cluster is lost for"
        " ever, take another home: apply --steal-lock REASON.",
    )


def _newness(topology: Topology, records: Mapping[str, bytes]) -> tuple[bool, int]:
    """Order of locks that an older release left: those beside a record of the last apply count more, then newer
    ones."""
    renewed_ms = 0
    with suppress(ValueError):
        renewed_ms = lock.loads(records[lock.lock_key(topology.environment)]).renewed_ms
    return applied_key(topology.environment) in records, renewed_ms
