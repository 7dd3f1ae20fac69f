"""Writers compete for one key while the brokers are killed in turn: what they wrote is one chain, each link upon the
one that its writer had read. ``ROUNDS`` in the environment kills more often."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.errors import WireError
from reconciler.replication.records.compacted_topic import CompactedTopic
from tests.support.lanes.raw import cluster_of
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

ROUNDS = int(os.environ.get("ROUNDS", "1"))
CreateTopic = Callable[..., str]
KEY = "key"


@dataclass
class History:
    """Links (value before, value after): of writers that were told so, and of those that do not know."""

    wrote: list[tuple[bytes | None, bytes]] = field(default_factory=list)
    unknown: list[tuple[bytes | None, bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def write_on(self, handle: ClusterHandle, topic: str, name: str) -> None:
        asyncio.run(self._write_on(handle, topic, name))

    async def _write_on(self, handle: ClusterHandle, topic: str, name: str) -> None:
        number = 0
        while not self.over.is_set():
            cluster = cluster_of(handle)
            records = CompactedTopic(cluster, topic, committed=True)
            link: tuple[bytes | None, bytes] | None = None
            try:
                while not self.over.is_set():
                    await records.read(required=True)
                    number += 1
                    link = (records.values().get(KEY), f"{name}-{number}".encode())
                    if await records.swap(f"writer-{topic}", KEY, *link):
                        self.wrote.append(link)
                    link = None
                    await asyncio.sleep(0.05)
            except WireError:
                if link is not None:
                    self.unknown.append(link)
            finally:
                cluster.close()

    def chain(self, last: bytes) -> list[bytes]:
        """The values in their order, up to the one that is there at the end."""
        known = dict(self.wrote)
        assert len(known) == len(self.wrote), "two writers wrote upon the same value"
        needed, value, values = {before for before, _ in self.wrote} | {last}, None, list[bytes]()
        while value != last:
            following = known.get(value) or next(
                after for before, after in self.unknown if before == value and after in needed | set(self._unknown())
            )
            values.append(following)
            value = following
        return values

    def _unknown(self) -> set[bytes | None]:
        return {before for before, _ in self.unknown}


def test_what_competing_writers_wrote_is_one_chain(ha: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    east, topic, history = ha["east"], f"compacted-{unique}", History()
    create_topic(east, topic, 1, cleanup_policy="compact")
    threads = [threading.Thread(target=history.write_on, args=(east, topic, name)) for name in ("ada", "bob")]
    for thread in threads:
        thread.start()
    try:
        for _ in range(ROUNDS):
            for broker in (1, 2, 3):
                _more(history)
                east.kill(broker)
                try:
                    _more(history)
                finally:
                    east.start(broker)
        _more(history)
    finally:
        history.over.set()
        for thread in threads:
            thread.join(120)
    last = asyncio.run(_last(east, topic))
    values = history.chain(last)
    assert {after for _, after in history.wrote} <= set(values), "each write that a writer was told of counts"


def _more(history: History) -> None:
    """Both write, whichever broker is away."""
    before = len(history.wrote)
    until(lambda: len(history.wrote) > before + 5, 120)


async def _last(east: ClusterHandle, topic: str) -> bytes:
    cluster = cluster_of(east)
    try:
        records, give_up = CompactedTopic(cluster, topic, committed=True), time.monotonic() + 60
        while True:
            try:
                await records.read(required=True)
                return records.values()[KEY]
            except WireError:
                assert time.monotonic() < give_up
    finally:
        cluster.close()
