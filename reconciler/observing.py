"""Asks every cluster and every mirror job at the same time, and freezes what they answered.

A failed read becomes ``Unknown`` for that one subject; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TypeVar

from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import LiveCluster, LiveMirror, LiveState
from reconciler.ports import ClusterReader, MirrorRunner

THREADS = 16

Answer = TypeVar("Answer")


def observe(
    readers: Mapping[str, ClusterReader], runner: MirrorRunner | None = None, mirrors: Iterable[str] = ()
) -> LiveState:
    """``readers`` by cluster name. Each name of ``readers`` and ``mirrors`` has an entry in the answer.

    Never raises for a cluster or a mirror that cannot be read. Without a runner no mirror is looked at.
    """
    names = tuple(mirrors) if runner is not None else ()
    with ThreadPoolExecutor(max_workers=max(1, min(THREADS, len(readers) + len(names)))) as pool:
        clusters = {name: pool.submit(_cluster, name, reader) for name, reader in readers.items()}
        jobs = {name: pool.submit(_mirror, name, runner) for name in names} if runner is not None else {}
        return LiveState(
            clusters=MappingProxyType({name: future.result() for name, future in clusters.items()}),
            mirrors=MappingProxyType({name: future.result() for name, future in jobs.items()}),
        )


def _cluster(name: str, reader: ClusterReader) -> LiveCluster | Unknown:
    return _told(f"cluster {name}", reader.read)


def _mirror(name: str, runner: MirrorRunner) -> LiveMirror | Unknown:
    return _told(f"mirror {name}", lambda: runner.observe(name))


def _told(subject: str, ask: Callable[[], Answer]) -> Answer | Unknown:
    try:
        return ask()
    except ReconcilerError as error:
        return Unknown(subject, ". ".join(part for part in (error.what, error.why) if part), error.todo)
