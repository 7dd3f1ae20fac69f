"""Asks every cluster and every mirror job at the same time, and freezes what they answered.

A failed read becomes ``Unknown`` for that one subject; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from reconciler.changes import CreateTopic
from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import LiveAccess, LiveCluster, LiveMirror, LiveState, LiveUsers
from reconciler.plans import Plan
from reconciler.ports import ClusterReader, MirrorRunner
from reconciler.quotas import Limits, QuotaEntity

THREADS = 16
LOOK_SECONDS = 2.0

Answer = TypeVar("Answer")
Quotas = Mapping[QuotaEntity, Limits] | Unknown
QuotaKeys = Mapping[QuotaEntity, frozenset[str]] | Unknown


@dataclass(frozen=True, slots=True)
class Wanted:
    """Clusters of which more is read than brokers and topics, beside everything else.

    ``quota_keys``: of which also the ownership record of quotas is read.
    """

    access: Collection[str] = ()
    quotas: Collection[str] = ()
    quota_keys: Collection[str] = ()
    users: Collection[str] = ()


NOTHING_MORE = Wanted()


def observe(
    readers: Mapping[str, ClusterReader],
    runner: MirrorRunner | None = None,
    mirrors: Iterable[str] = (),
    wanted: Wanted = NOTHING_MORE,
) -> LiveState:
    """``readers`` by cluster name. Each name of ``readers`` and ``mirrors`` has an entry in the answer.

    Never raises for a cluster or a mirror that cannot be read. Without a runner no mirror is looked at.
    """
    names = tuple(mirrors) if runner is not None else ()
    asked = sum(name in part for name in readers for part in _parts(wanted))
    with ThreadPoolExecutor(max_workers=max(1, min(THREADS, len(readers) + len(names) + asked))) as pool:
        found = {name: _begun(pool, name, reader, wanted) for name, reader in readers.items()}
        jobs = {name: pool.submit(_mirror, name, runner) for name in names} if runner is not None else {}
        return LiveState(
            clusters=MappingProxyType({name: begun.ended() for name, begun in found.items()}),
            mirrors=MappingProxyType({name: future.result() for name, future in jobs.items()}),
        )


def with_hidden(made: Plan, live: LiveState, readers: Mapping[str, ClusterReader]) -> LiveState:
    """``live``, and of what ``made`` would create on clusters that hide topics, what may be there unseen.

    The same object where nothing is hidden. Only what is asked for by name is told to be hidden.
    """
    creates = [one.change.ref for one in made.changes if isinstance(one.change, CreateTopic)]
    found: dict[str, LiveCluster | Unknown] = {}
    for name, reader in readers.items():
        cluster, names = live.known(name), [ref.name for ref in creates if ref.cluster == name]
        if cluster is None or cluster.sees_all or not names:
            continue
        told = _told(f"cluster {name}", partial(reader.read, names))
        if isinstance(told, Unknown):
            found[name] = told
        elif told.hidden:
            found[name] = replace(cluster, hidden=told.hidden)
    return LiveState(MappingProxyType({**live.clusters, **found}), live.mirrors) if found else live


class Watch:
    """Looks at mirrors again and again; one whose cluster does not answer keeps no other waiting.

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

    def look(self, within_s: float = LOOK_SECONDS) -> LiveState:
        """What is known after ``within_s``. Nothing is told of a mirror that has not answered by then but that, or why
        it did not answer the time before."""
        for name in self._mirrors:
            if name not in self._asked:
                self._asked[name] = self._clock(), self._pool.submit(_mirror, name, self._runner)
        wait([future for _, future in self._asked.values()], within_s)
        return LiveState(MappingProxyType({}), MappingProxyType({name: self._told(name) for name in self._mirrors}))

    def _told(self, name: str) -> LiveMirror | Unknown:
        asked_at, future = self._asked[name]
        if not future.done():
            error = f"no answer for {self._clock() - asked_at:.0f} s"
            return self._silent.get(name) or Unknown(f"mirror {name}", error, "It is waited for; the others go on.")
        del self._asked[name]
        found = future.result()
        self._silent.pop(name, None)
        if isinstance(found, Unknown):
            self._silent[name] = found
        return found


def _parts(wanted: Wanted) -> tuple[Collection[str], ...]:
    return wanted.access, wanted.quotas, wanted.quota_keys, wanted.users


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is asked of one cluster; None: nobody wants it."""

    cluster: Future[LiveCluster | Unknown]
    access: Future[LiveAccess] | None
    quotas: Future[Quotas] | None
    quota_keys: Future[QuotaKeys] | None
    users: Future[LiveUsers] | None

    def ended(self) -> LiveCluster | Unknown:
        found = self.cluster.result()
        if isinstance(found, Unknown):
            return found
        return replace(
            found,
            access=self.access.result() if self.access else None,
            quotas=self.quotas.result() if self.quotas else None,
            quota_keys=self.quota_keys.result() if self.quota_keys else found.quota_keys,
            users=self.users.result() if self.users else None,
        )


def _begun(pool: ThreadPoolExecutor, name: str, reader: ClusterReader, wanted: Wanted) -> _Begun:
    return _Begun(
        pool.submit(_cluster, name, reader),
        pool.submit(_access, name, reader) if name in wanted.access else None,
        pool.submit(_quotas, name, reader) if name in wanted.quotas else None,
        pool.submit(_quota_keys, name, reader) if name in wanted.quota_keys else None,
        pool.submit(_users, name, reader) if name in wanted.users else None,
    )


def _cluster(name: str, reader: ClusterReader) -> LiveCluster | Unknown:
    return _told(f"cluster {name}", reader.read)


def _access(name: str, reader: ClusterReader) -> LiveAccess:
    found = _told(f"access of {name}", reader.read_access)
    return LiveAccess(found) if isinstance(found, Unknown) else found


def _quotas(name: str, reader: ClusterReader) -> Quotas:
    return _told(f"quotas of {name}", reader.read_quotas)


def _quota_keys(name: str, reader: ClusterReader) -> QuotaKeys:
    return _told(f"ownership record of {name}", reader.read_quota_keys)


def _users(name: str, reader: ClusterReader) -> LiveUsers:
    found = _told(f"users of {name}", reader.read_users)
    return LiveUsers(found) if isinstance(found, Unknown) else found


def _mirror(name: str, runner: MirrorRunner) -> LiveMirror | Unknown:
    return _told(f"mirror {name}", lambda: runner.observe(name))


def _told(subject: str, ask: Callable[[], Answer]) -> Answer | Unknown:
    try:
        return ask()
    except ReconcilerError as error:
        return Unknown(subject, ". ".join(part for part in (error.what, error.why) if part), error.todo)
