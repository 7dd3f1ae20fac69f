"""A flow between running clusters whose groups are synced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler_mirror.groups.round import GroupRounds, RoundResult, WriteCheckpoints
from reconciler_mirror.groups.translators import GapCloser
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.groups import EXCLUDED_GROUPS
from reconciler.replication.handover import GroupSettings
from reconciler.replication.mirrormaker_records import Checkpoint, checkpoints_topic
from reconciler.replication.offsets.checkpoints import CheckpointLog
from reconciler.replication.offsets.map_topic import MapReader
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.raw import cluster_of

Answer = TypeVar("Answer")


@dataclass
class Synced:
    """One flow whose groups are synced. ``rounds`` run on fresh connections, as after a restart of the job."""

    flow: Flow
    include: tuple[str, ...]
    follow: bool = False
    tell: WriteCheckpoints | None = None

    @property
    def log(self) -> str:
        return checkpoints_topic(self.flow.source.name, f".{self.flow.topic}.")

    def copy(self) -> None:
        self.flow.run(batch_path, self.flow.at_end())

    def round(self, count: int = 1, *, between: Callable[[], None] = lambda: None) -> RoundResult:
        """The last of ``count`` rounds. ``between``: called after the first one."""

        async def run(source: ClusterClient, target: ClusterClient) -> RoundResult:
            settings = GroupSettings(self.include, EXCLUDED_GROUPS, 1000, self.follow)
            log, maps = CheckpointLog(target, self.log), MapReader(target, self.flow.topic)
            closer = GapCloser(self.flow.topic, (source, target), committed=True)
            rounds = GroupRounds(settings, source, target, await log.read(), closer)
            routes = {(self.flow.topic, p): self.flow.remote for p in range(self.flow.partitions)}
            for number in range(count):
                if number == 1:
                    await asyncio.to_thread(between)
                await maps.refresh()
                found = await rounds.run(routes, maps, self.tell or log.write)
            return found

        return self._visit(run)

    async def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        target = cluster_of(self.flow.target)
        try:
            await CheckpointLog(target, self.log).write(checkpoints)
        finally:
            target.close()

    def checkpoints(self) -> Mapping[tuple[str, str, int], Checkpoint]:
        return self._visit(lambda _, target: CheckpointLog(target, self.log).read())

    def commit(self, group: str, offsets: Mapping[int, int], metadata: str = "", *, on_target: bool = False) -> None:
        topic = self.flow.remote if on_target else self.flow.topic
        wanted = {group: {(topic, p): CommittedOffset(o, metadata=metadata) for p, o in offsets.items()}}

        async def run(source: ClusterClient, target: ClusterClient) -> None:
            answers = await GroupClient(target if on_target else source).commit(wanted)
            assert set(answers[group].values()) == {0}

        self._visit(run)

    def on_target(self, group: str) -> Mapping[Key, CommittedOffset]:
        async def run(_: ClusterClient, target: ClusterClient) -> Mapping[Key, CommittedOffset]:
            return (await GroupClient(target).offsets([group]))[group].offsets

        return self._visit(run)

    def offset(self, group: str, partition: int = 0) -> int | None:
        found = self.on_target(group).get((self.flow.remote, partition))
        return found.offset if found else None

    def _visit(self, ask: Callable[[ClusterClient, ClusterClient], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            source, target = cluster_of(self.flow.source), cluster_of(self.flow.target)
            try:
                return await ask(source, target)
            finally:
                source.close()
                target.close()

        return asyncio.run(run())


def write(flow: Flow, first: int, count: int) -> None:
    """To partition 0, half of them in transactions, so that offsets differ on both sides."""
    writer = producer(flow.source, transactional_id=f"{flow.topic}-{first}")
    writer.init_transactions(20)
    for part in range(0, count, 10):
        writer.begin_transaction()
        for number in range(part, min(part + 10, count)):
            writer.produce(flow.topic, b"%d" % (first + number), partition=0)
        writer.commit_transaction(20)


def ask_groups(handle: ClusterHandle, question: Callable[[GroupClient], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        cluster = cluster_of(handle)
        try:
            return await question(GroupClient(cluster))
        finally:
            cluster.close()

    return asyncio.run(run())


def set_start(handle: ClusterHandle, group: str, topic: str, offset: int) -> int:
    """Kafka's error code."""
    wanted = {group: {(topic, 0): CommittedOffset(offset)}}
    return ask_groups(handle, lambda groups: groups.commit(wanted, share={group}))[group][topic, 0]


def start_of(handle: ClusterHandle, group: str) -> Mapping[Key, int]:
    offsets = ask_groups(handle, lambda groups: groups.offsets([group], share={group}))[group].offsets
    return {key: start.offset for key, start in offsets.items()}
