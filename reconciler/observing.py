"""Asks every cluster and every mirror job at the same time, and freezes what they answered.

A failed read becomes ``Unknown`` for that one subject; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import LiveAccess, LiveCluster, LiveMirror, LiveState
from reconciler.ports import ClusterReader, MirrorRunner
from reconciler.quotas import Limits, QuotaEntity

THREADS = 16

Answer = TypeVar("Answer")
Quotas = Mapping[QuotaEntity, Limits] | Unknown


def observe(
    readers: Mapping[str, ClusterReader],
    runner: MirrorRunner | None = None,
    mirrors: Iterable[str] = (),
    access: Collection[str] = (),
    quotas: Collection[str] = (),
) -> LiveState:
    """``readers`` by cluster name. Each name of ``readers`` and ``mirrors`` has an entry in the answer.

    ``access``, ``quotas``: the clusters whose access rules or quotas are read too, beside everything else.

    Never raises for a cluster or a mirror that cannot be read. Without a runner no mirror is looked at.
    """
    names = tuple(mirrors) if runner is not None else ()
    asked = [name for name in readers if name in access]
    limited = [name for name in readers if name in quotas]
    with ThreadPoolExecutor(
        max_workers=max(1, min(THREADS, len(readers) + len(names) + len(asked) + len(limited)))
    ) as pool:
        clusters = {name: pool.submit(_cluster, name, reader) for name, reader in readers.items()}
        rules = {name: pool.submit(_access, name, readers[name]) for name in asked}
        limits = {name: pool.submit(_quotas, name, readers[name]) for name in limited}
        jobs = {name: pool.submit(_mirror, name, runner) for name in names} if runner is not None else {}
        return LiveState(
            clusters=MappingProxyType(
                {
                    name: _with_quotas(_with_access(future.result(), rules.get(name)), limits.get(name))
                    for name, future in clusters.items()
                }
            ),
            mirrors=MappingProxyType({name: future.result() for name, future in jobs.items()}),
        )


def _cluster(name: str, reader: ClusterReader) -> LiveCluster | Unknown:
    return _told(f"cluster {name}", reader.read)


def _access(name: str, reader: ClusterReader) -> LiveAccess:
    found = _told(f"access of {name}", reader.read_access)
    return LiveAccess(found) if isinstance(found, Unknown) else found


def _with_access(cluster: LiveCluster | Unknown, rules: Future[LiveAccess] | None) -> LiveCluster | Unknown:
    if rules is None or isinstance(cluster, Unknown):
        return cluster
    return replace(cluster, access=rules.result())


def _quotas(name: str, reader: ClusterReader) -> Quotas:
    return _told(f"quotas of {name}", reader.read_quotas)


def _with_quotas(cluster: LiveCluster | Unknown, quotas: Future[Quotas] | None) -> LiveCluster | Unknown:
    if quotas is None or isinstance(cluster, Unknown):
        return cluster
    return replace(cluster, quotas=quotas.result())


def _mirror(name: str, runner: MirrorRunner) -> LiveMirror | Unknown:
    return _told(f"mirror {name}", lambda: runner.observe(name))


def _told(subject: str, ask: Callable[[], Answer]) -> Answer | Unknown:
    try:
        return ask()
    except ReconcilerError as error:
        return Unknown(subject, ". ".join(part for part in (error.what, error.why) if part), error.todo)
