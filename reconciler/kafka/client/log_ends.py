"""Ends of logs and of leader epochs (OffsetForLeaderEpoch, KIP-279, KIP-320), and where their local parts begin.

The end of an earlier epoch shows a reader whether the log was truncated behind what it has read. The end of the current
epoch is the end of the leader's log, replicated or not: ListOffsets gives clients the high watermark, which lies before
it while followers are behind, and a writer that must append behind the last record needs the end itself.
"""

import asyncio
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.kafka.client.cluster import ClusterClient, Key, left_out
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import RETRIABLE, BrokerError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, reading, topics_of

API, VERSION = 23, 4
"""The version that Kafka has from 2.8 on, and compatible brokers, too."""
NOT_COMPARED = -1
"""In place of the epoch that the leader must have."""
LIST_OFFSETS, LISTS_LOCAL, EARLIEST_LOCAL = 2, 8, -4
"""The lowest version of ListOffsets that answers, for this time, with the first offset on the broker's own disks."""
_MOVED = 6
_CLIENT = struct.pack(">i", -1)
_ASKED = struct.Struct(">iii")  # partition, epoch that the leader must have, epoch whose end is asked for
_ANSWER = struct.Struct(">hiiq")  # error, partition, epoch, end
_LOCAL = struct.Struct(">iiq")  # partition, epoch, time
_BEGIN = struct.Struct(">ihqqi")  # partition, error, time, offset, epoch


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request to one leader that is not answered yet. ``epochs``: the leader epochs of its partitions, as we know."""

    cluster: str
    connection: Connection
    epochs: Mapping[Key, int]
    answer: asyncio.Future[Frame]

    async def ends(self) -> dict[Key, int | BrokerError]:
        """Raises ConnectionLostError and MalformedResponseError."""
        frame = await self.answer
        with self.connection.read(frame):
            throttle, answers = unpack(frame.body)
        self.connection.throttle(throttle)
        ends: dict[Key, int | BrokerError] = {}
        for key, (error, epoch, end) in answers.items():
            subject = f"log end of {key[0]}-{key[1]} on {self.cluster}"
            if error:
                ends[key] = BrokerError(error, subject)
            elif epoch != self.epochs.get(key) or end < 0:
                ends[key] = BrokerError(_MOVED, f"{subject}, epoch {self.epochs.get(key)}")
            else:
                ends[key] = end
        return ends


async def epoch_ends(cluster: ClusterClient, wanted: Mapping[Key, int]) -> dict[Key, tuple[int, int] | BrokerError]:
    """(largest epoch not above the wanted one, its end offset) by partition; -1 where the log has no such epoch. Raises
    ConnectionLostError, MalformedResponseError and UnsupportedBrokerError."""
    ends: dict[Key, tuple[int, int] | BrokerError] = {}
    async for connection, led in cluster.leaders_of(wanted, ends):
        connection.negotiated(API, VERSION, VERSION, "OffsetForLeaderEpoch")
        body = pack({key: wanted[key] for key in led}, current=False)
        for key, (error, epoch, end) in (await connection.ask((API, VERSION, True), body, unpack)).items():
            subject = f"leader epochs of {key[0]}-{key[1]} on {cluster.name}"
            ends[key] = BrokerError(error, subject) if error else (epoch, end)
    return {key: ends[key] if key in ends else left_out(key, cluster.name) for key in wanted}


async def local_begins(cluster: ClusterClient, keys: Iterable[Key]) -> dict[Key, int]:
    """The first offset on the leader's own disks: what lies before it is in remote storage (KIP-405). Without those of
    brokers that do not say. Raises ConnectionLostError, MalformedResponseError, and BrokerError for a moved leader."""
    begins: dict[Key, int] = {}
    async for connection, led in cluster.leaders_of(keys, {}):
        if connection.versions.get(LIST_OFFSETS, (0, 0))[1] >= LISTS_LOCAL:
            entries = {key: _LOCAL.pack(key[1], NOT_COMPARED, EARLIEST_LOCAL) + NO_TAGS for key in led}
            body = b"".join((_CLIENT, b"\0", topics_of(entries), NO_TAGS))
            answers = await connection.ask((LIST_OFFSETS, LISTS_LOCAL, True), body, unpack_begins)
            for key, (error, begin) in answers.items():
                if error in RETRIABLE:
                    raise BrokerError(error, f"local log start of {key[0]}-{key[1]} on {cluster.name}")
                if not error:
                    begins[key] = begin
    return begins


async def log_ends(cluster: ClusterClient, keys: Iterable[Key]) -> dict[Key, int | BrokerError]:
    """Asks the leaders that ``cluster.topics`` names; a partition whose leader or epoch has changed gets a retriable
    BrokerError. Raises ConnectionLostError."""
    ends: dict[Key, int | BrokerError] = {}
    async for connection, led in cluster.leaders_of(keys, ends):
        ends |= await ask(cluster, connection, led).ends()
    return ends


def ask(cluster: ClusterClient, connection: Connection, keys: Iterable[Key]) -> PendingRequest:
    """Sent at once; ``connection`` leads to the leader of all ``keys``. Raises UnsupportedBrokerError."""
    connection.negotiated(API, VERSION, VERSION, "OffsetForLeaderEpoch")
    epochs = {key: leader.epoch if (leader := cluster.leader(*key)) is not None else -1 for key in keys}
    body = pack(epochs, current=True)
    return PendingRequest(cluster.name, connection, epochs, connection.send((API, VERSION, True), [body]))


def pack(epochs: Mapping[Key, int], *, current: bool) -> bytes:
    """OffsetForLeaderEpoch for one epoch of each partition. ``current``: it is sent as the leader's own epoch, too, so
    that a broker that leads with another one refuses (KIP-320)."""
    entries = {
        key: _ASKED.pack(key[1], epoch if current else NOT_COMPARED, epoch) + NO_TAGS for key, epoch in epochs.items()
    }
    return b"".join((_CLIENT, topics_of(entries), NO_TAGS))


@reading("an OffsetForLeaderEpoch")
def unpack(frame: memoryview) -> tuple[int, dict[Key, tuple[int, int, int]]]:
    """(throttle in ms, by topic and partition: Kafka's error code, leader epoch, log end)."""
    reader = ResponseReader(frame)
    throttle, answers = reader.int32(), dict[Key, tuple[int, int, int]]()
    for topic, (error, partition, epoch, end) in reader.by_partition(_ANSWER):
        answers[topic, partition] = error, epoch, end
    reader.finish()
    return throttle, answers


@reading("a ListOffsets")
def unpack_begins(frame: memoryview) -> tuple[int, dict[Key, tuple[int, int]]]:
    """(throttle in ms, by topic and partition: Kafka's error code, offset)."""
    reader = ResponseReader(frame)
    throttle, begins = reader.int32(), dict[Key, tuple[int, int]]()
    for topic, (partition, error, _, offset, _) in reader.by_partition(_BEGIN):
        begins[topic, partition] = error, offset
    reader.finish()
    return throttle, begins
