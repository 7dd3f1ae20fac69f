"""Reads all clusters and mirror jobs in parallel, once or periodically; a failed read is Unknown, never empty.

It affects only its own subject.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from reconciler.errors import Unknown, or_unknown_why
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveAccess, LiveCluster, LiveMirror, LiveState, LiveUsers
from reconciler.model.ports import ClusterReader, MirrorRunner
from reconciler.resources.acls.diff import literal_topics
from reconciler.resources.flows.names.carried import plain_names
from reconciler.resources.flows.routes import remote_names
from reconciler.resources.topics.internal import internal_topics

THREADS = 16
"""Clusters and mirrors read in parallel."""
POLL_SECONDS = 2.0
SILENT_SECONDS = 1.5
"""Seconds without an answer to a small request after which a cluster counts as silent."""
FIRST_SECONDS = 5.0
"""The same for the first request, which includes connecting and logging in, perhaps over a long distance."""
ASK_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ReadScope:
    """Parts to read besides brokers and topics, with their clusters: each needs a request and a right."""

    access: Collection[str] = ()
    quotas: Collection[str] = ()
    quota_keys: Collection[str] = ()
    """Clusters with ownership records of quotas to read."""
    users: Collection[str] = ()
    topics: Mapping[str, Collection[str]] | None = None
    """Cluster -> topics to read there; None for all."""


NOTHING_MORE = ReadScope()


def observe(
    readers: Mapping[str, ClusterReader],
    runner: MirrorRunner | None = None,
    mirrors: Iterable[str] = (),
    wanted: ReadScope = NOTHING_MORE,
) -> LiveState:
    """``readers``: by cluster name. The answer has an entry for each name of ``readers`` and ``mirrors``.

    A failed read of a cluster or mirror raises nothing. Without a runner no mirror is read.
    """
    names = tuple(mirrors) if runner is not None else ()
    asked = sum(name in getattr(wanted, key) for name in readers for key in _PARTS)
    with ThreadPoolExecutor(max_workers=max(1, min(THREADS, len(readers) + len(names) + asked))) as pool:
        # All reads start before the first is awaited.
        by_name = {name: _begun(pool, name, reader, wanted) for name, reader in readers.items()}
        jobs = {name: pool.submit(_mirror, name, runner) for name in names} if runner is not None else {}
        return LiveState(
            clusters=MappingProxyType({name: ended() for name, ended in by_name.items()}),
            mirrors=MappingProxyType({name: future.result() for name, future in jobs.items()}),
        )


def unlisted(topology: Topology, live: LiveState, asked: Iterable[TopicRef] = ()) -> Mapping[str, list[str]]:
    """Answering cluster -> names that git, a flow or ``asked`` contains but the cluster does not list, for
    ``with_named``.

    Brokers omit topics that a principal may not describe. An unlisted declared topic would be planned as new; only a
    request with its name shows whether it exists.
    """
    names: dict[str, set[str]] = defaultdict(set)
    # Each source of names that a plan could create, change or judge; a name that is missing here may be planned as new.
    for topic in topology.topics.values():
        for place in topic.clusters:
            names[place].add(topic.name)
    for flow in topology.flows.values():
        names[flow.source] |= plain_names(flow)
    for rule in topology.access:
        for place in rule.clusters:
            names[place].update(literal_topics(rule))
    audit = topology.audit_place()
    others = (*remote_names(topology, live), *(topic.ref for topic in internal_topics(topology)), *asked)
    for ref in (*others, *(stone.ref for stone in topology.deletions), *((audit,) if audit else ())):
        names[ref.cluster].add(ref.name)
    known = {name: cluster for name in sorted(names) if (cluster := live.known(name))}
    return {name: left for name, cluster in known.items() if (left := sorted(names[name] - cluster.topics.keys()))}


def with_named(
    live: LiveState, names: Mapping[str, Collection[str]], readers: Mapping[str, ClusterReader]
) -> LiveState:
    """``live`` with answers about unlisted ``names``: most topics are missing, a few may be hidden
    (``LiveCluster.hidden``) or were created meanwhile. Asks no cluster without names."""
    clusters = dict(live.clusters)
    with ThreadPoolExecutor(max(1, min(THREADS, len(names)))) as pool:
        answers = {name: pool.submit(_cluster, name, readers[name], some) for name, some in names.items()}
        for name, future in answers.items():
            answer, listed = future.result(), live.clusters[name]
            if isinstance(answer, LiveCluster) and isinstance(listed, LiveCluster):
                answer = with_answers(listed, answer)
            clusters[name] = answer
    return LiveState(MappingProxyType(clusters), live.mirrors)


def with_answers(listed: LiveCluster, named: LiveCluster) -> LiveCluster:
    """A cluster's list, merged with its answers to names."""
    topics = MappingProxyType({**listed.topics, **named.topics}) if named.topics else listed.topics
    return replace(listed, topics=topics, hidden=named.hidden, sees_all=listed.sees_all and not named.hidden)


class MirrorWatch:
    """Reads mirrors periodically; a silent cluster delays no other mirror.

    ``pool`` has a thread for each mirror. For one thread at a time.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        runner: MirrorRunner,
        mirrors: Iterable[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool, self._runner, self._clock = pool, runner, clock
        self._mirrors = tuple(mirrors)
        self._asked: dict[str, tuple[float, Future[LiveMirror | Unknown]]] = {}
        self._silent: dict[str, Unknown] = {}

    def look(self, within_s: float = POLL_SECONDS) -> LiveState:
        """The state after ``within_s``. A mirror without an answer by then is unknown, with this reason or the last
        one."""
        for name in self._mirrors:
            if name not in self._asked:
                self._asked[name] = self._clock(), self._pool.submit(_mirror, name, self._runner)
        wait([future for _, future in self._asked.values()], within_s)
        reported: dict[str, LiveMirror | Unknown] = {}
        for name in self._mirrors:
            asked_at, future = self._asked[name]
            # Its question stays open, and no second one is asked meanwhile: a silent mirror would fill the pool with
            # threads.
            if not future.done():
                error = f"no answer for {self._clock() - asked_at:.0f} s"
                waited = Unknown(f"mirror {name}", error, "It is waited for; the others continue.")
                reported[name] = self._silent.get(name) or waited
                continue
            del self._asked[name]
            reported[name] = mirror = future.result()
            self._silent.pop(name, None)
            if isinstance(mirror, Unknown):
                self._silent[name] = mirror
        return LiveState(MappingProxyType({}), MappingProxyType(reported))


class AnsweringCluster(Protocol):
    def ask(self) -> None:
        """Asks the cluster. Raises ReconcilerError without an answer."""
        ...


class SilenceWatch:
    """Watches for silent clusters; a silent one delays no other.

    ``pool`` has a thread for each cluster. For one thread at a time.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        clusters: Mapping[str, AnsweringCluster],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool, self._clusters, self._clock = pool, clusters, clock
        self._asked: dict[str, tuple[float, Future[Unknown | None]]] = {}
        self._answered: dict[str, float] = {}
        self._silent: dict[str, Unknown] = {}

    def look(self, within_s: float) -> Mapping[str, Unknown]:
        """Silent clusters with reasons, after ``within_s``. A cluster is asked one second after its last answer, and
        has ``SILENT_SECONDS`` for the next."""
        now = self._clock()
        for name, asked in self._clusters.items():
            if name not in self._asked and now - self._answered.get(name, float("-inf")) >= ASK_EVERY_SECONDS:
                self._asked[name] = now, self._pool.submit(or_unknown_why, f"cluster {name}", asked.ask)
        wait([future for _, future in self._asked.values()], within_s)
        for name, (asked_at, future) in tuple(self._asked.items()):
            if future.done():
                del self._asked[name]
                self._answered[name] = self._clock()
                self._silent.pop(name, None)
                if (failure := future.result()) is not None:
                    self._silent[name] = failure
                continue
            seconds, patience = self._clock() - asked_at, SILENT_SECONDS if name in self._answered else FIRST_SECONDS
            if seconds >= patience and name not in self._silent:
                why = f"cluster {name} has not answered a request for {seconds:.1f} s. It may be slow, cut off or lost"
                self._silent[name] = Unknown(f"cluster {name}", why, "It is asked again; the others continue.")
        return MappingProxyType(dict(self._silent))


class _Part(NamedTuple):
    """A part of a cluster besides brokers and topics. ``failed``: turns a reason into the unknown part."""

    title: str
    read: Callable[[ClusterReader], object]
    failed: Callable[[Unknown], object] = lambda unknown: unknown


_PARTS = {
    "access": _Part("access", lambda reader: reader.read_access(), LiveAccess),
    "quotas": _Part("quotas", lambda reader: reader.read_quotas()),
    "quota_keys": _Part("ownership record", lambda reader: reader.read_quota_keys()),
    "users": _Part("users", lambda reader: reader.read_users(), LiveUsers),
}
"""Parts by their field names in ``ReadScope`` and ``LiveCluster``."""


def _begun(
    pool: ThreadPoolExecutor, name: str, reader: ClusterReader, wanted: ReadScope
) -> Callable[[], LiveCluster | Unknown]:
    """Starts all reads of a cluster, and returns a function that awaits them. Parts that are not requested are None."""
    whole = pool.submit(_cluster, name, reader, None if wanted.topics is None else wanted.topics.get(name))
    parts = {key: pool.submit(_part, name, reader, key) for key in _PARTS if name in getattr(wanted, key)}

    def ended() -> LiveCluster | Unknown:
        cluster = whole.result()
        if isinstance(cluster, Unknown):
            return cluster
        unwanted: dict[str, Any] = {"access": None, "quotas": None, "users": None}
        return replace(cluster, **unwanted | {key: future.result() for key, future in parts.items()})

    return ended


def _cluster(name: str, reader: ClusterReader, topics: Collection[str] | None) -> LiveCluster | Unknown:
    return or_unknown_why(f"cluster {name}", lambda: reader.read(topics))


def _part(name: str, reader: ClusterReader, key: str) -> object:
    title, read, failed = _PARTS[key]
    answer = or_unknown_why(f"{title} of {name}", lambda: read(reader))
    return failed(answer) if isinstance(answer, Unknown) else answer


def _mirror(name: str, runner: MirrorRunner) -> LiveMirror | Unknown:
    return or_unknown_why(f"mirror {name}", lambda: runner.observe(name))
