"""Fills source topics with known records, once: the same seed gives the same keys and values, timestamps end now.

Topics are kept for later runs. What is in them is remembered beside them by topic id, so that a topic that was
deleted or made by someone else is loaded again.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Producer

from bench.copy.figures import BenchError, Clusters, DataSet, Loaded
from bench.records.equality import digests
from bench.records.topics import admin_client, create_topic, delete_topics, ends, topic_id

SEED = 20_240_611
POOL = 2048
SPAN_MS = 60_000
CHUNK = 56_000
SEQUENCE_DIGITS = 12
IDLE_TOPIC = 100
_SEQUENCE = b"0" * SEQUENCE_DIGITS
_WORDS = tuple(
    "alpha carrier delta epsilon foxtrot gate hotel invoice journey kilo lounge meal november origin papa queue "  # noqa: SIM905
    "refund seat ticket upgrade voucher waiting xray yield zone".split()
)


def _event(rnd: random.Random, size: int) -> bytes:
    """A JSON event of exactly ``size`` bytes that lz4 brings to about 30 %, as real events do."""
    event: dict[str, object] = {
        "event_id": f"{rnd.getrandbits(128):032x}",
        "sequence": _SEQUENCE.decode(),
        "type": rnd.choice(("order.created", "order.paid", "order.shipped")),
        "customer": {"id": rnd.randrange(10**7), "country": rnd.choice(("DE", "FR", "US", "JP"))},
        "amount": round(rnd.random() * 1000, 2),
        "items": [
            {
                "sku": f"{rnd.getrandbits(40):010x}",
                "name": " ".join(rnd.choices(_WORDS, k=2)),
                "quantity": rnd.randrange(1, 9),
                "price": round(rnd.random() * 90, 2),
            }
            for _ in range(6)
        ],
        "note": "",
    }
    room = size - len(json.dumps(event, separators=(",", ":")))
    event["note"] = " ".join(rnd.choices(_WORDS, k=size // 4))[:room]
    return json.dumps(event, separators=(",", ":")).encode()


def _templates(data: DataSet) -> list[tuple[bytes, bytes]]:
    """What stands before and after a record's sequence number."""
    rnd = random.Random(SEED)
    if data.compression == "none" and not data.keyed:
        return [(b"", rnd.randbytes(data.value_bytes - SEQUENCE_DIGITS)) for _ in range(POOL)]
    cut = (_event(rnd, data.value_bytes).partition(_SEQUENCE) for _ in range(POOL))
    return [(before, after) for before, _, after in cut]


def records(data: DataSet, count: int, end_ms: int) -> Iterator[tuple[int, bytes | None, bytes, int]]:
    """(partition, key, value, timestamp in ms), in chunks of one partition so that batches fill up."""
    templates = _templates(data)
    for first in range(0, count, CHUNK):
        last = min(first + CHUNK, count)
        for partition in range(data.partitions):
            for number in range(first + partition, last, data.partitions):
                before, after = templates[number % POOL]
                key = b"customer-%07d" % (number * 7919 % 9_999_991) if data.keyed else None
                timestamp = end_ms - SPAN_MS + number * SPAN_MS // count
                yield partition, key, b"%b%012d%b" % (before, number, after), timestamp


def producer_settings(data: DataSet, bootstrap: str) -> dict[str, object]:
    """Idempotent, so that order holds; a batch never holds more than ``data.batch_records`` records."""
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": data.compression,
        "batch.num.messages": data.batch_records,
        "batch.size": 900_000,
        "linger.ms": 0 if data.batch_records == 1 else 200,
        "queue.buffering.max.messages": 400_000,
        "queue.buffering.max.kbytes": 1_000_000,
        "log_level": 3,
    }


def _produce(data: DataSet, bootstrap: str, topic: str, count: int, progress: Callable[[str], None]) -> None:
    producer = Producer(producer_settings(data, bootstrap))
    began = time.monotonic()
    for number, (partition, key, value, timestamp) in enumerate(records(data, count, int(time.time() * 1000))):
        producer.produce(topic, value, key, partition, timestamp=timestamp)
        if number % 1000 == 0:
            producer.poll(0)
            while len(producer) > 300_000:
                producer.poll(0.02)
    if producer.flush(120):
        raise BenchError(f"{topic} could not be loaded: {len(producer)} of {count} records were not acknowledged")
    progress(f"loaded {topic}: {count:,} records in {time.monotonic() - began:.0f} s")


def log_bytes(clusters: Clusters, topic: str) -> int:
    """Size of the topic's batches in the source broker's log."""
    return sum(log.stat().st_size for log in clusters.source_data.glob(f"{topic}-[0-9]*/*.log"))


def load(data: DataSet, count: int, clusters: Clusters, remembered: Path, progress: Callable[[str], None]) -> Loaded:
    """The topic with exactly ``count`` records, loaded now or earlier. Raises BenchError."""
    admin = admin_client(clusters.source)
    topic = f"{data.name}-{count}"
    known = json.loads(remembered.read_text()) if remembered.exists() else {}
    identity = topic_id(admin, topic)
    if identity is None or identity not in known:
        delete_topics(admin, [topic])
        create_topic(admin, topic, data.partitions, {"retention.ms": "-1", "segment.bytes": str(256 * 2**20)})
        _produce(data, clusters.source, topic, count, progress)
        counted = digests(clusters.source, topic)
        if sum(part.records for part in counted) != count:
            raise BenchError(f"{topic} holds {sum(part.records for part in counted):,} records, not {count:,}")
        identity = str(topic_id(admin, topic))
        known[identity] = {"topic": topic, "ends": ends(admin, topic), "digests": [str(part) for part in counted]}
        remembered.parent.mkdir(parents=True, exist_ok=True)
        remembered.write_text(json.dumps(known, indent=1))
    found = known[identity]
    return Loaded(topic, count, tuple(found["ends"]), tuple(found["digests"]), log_bytes(clusters, topic))


def load_idle(partitions: int, clusters: Clusters) -> str | None:
    """Empty topics of a hundred partitions each, made once; returns the pattern that matches them."""
    if not partitions:
        return None
    admin = admin_client(clusters.source)
    for number in range(-(-partitions // IDLE_TOPIC)):
        topic = f"idle-{partitions}-{number:03d}"
        if topic_id(admin, topic) is None:
            create_topic(admin, topic, min(IDLE_TOPIC, partitions - number * IDLE_TOPIC), {})
    return f"idle-{partitions}-.*"
