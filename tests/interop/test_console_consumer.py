"""Kafka's own console consumer prints the same on both sides: a judge of which no line was written here."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneProgress
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.paths import JARS

from tests.support.lanes.lane_runs import Content, Flow, caught_up, content, fill
from tests.support.lanes.raw import produce_raw

CreateTopic = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = int(time.time() * 1000)
KEY, HEADERS, LINE, NULL = ("\x01K", "\x01H", "\x01L\n", "\x01N")
"""What stands between the fields; nothing that is written contains it."""
BIG = bytes(byte for byte in range(256) if byte != 1) * 3614  # 900 KiB


@pytest.mark.long
def test_it_prints_the_same_on_both_sides(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    """All codecs, tombstones, empty keys and values, 200 headers, 900 KiB records, transactions with aborts, compacted
    and LogAppendTime topics, timestamps of 0 and below. Of order: ``tests/mirror/lane/test_byte_equality.py``."""
    east, west = plain["east"], plain["west"]
    compacted = [_compacting(east, f"{unique}compacted{codec}", codec, create_topic) for codec in ("none", "zstd")]
    topics = [
        *(_awkward_topic(east, f"{unique}awkward{codec}", codec, create_topic) for codec in CODECS),
        *(_early_topic(east, f"{unique}early{name}", codec, create_topic) for codec, name in enumerate(CODECS)),
        *(_append_time_topic(east, f"{unique}appended{codec}", codec, create_topic) for codec in ("none", "lz4")),
        _transactional_topic(east, f"{unique}transactions", create_topic),
        *compacted,
    ]
    _await_compacted(east, compacted)
    flows = [Flow(east, west, topic) for topic in topics]
    for flow in flows:
        create_topic(west, flow.remote, retention_ms="-1")
    specs = tuple(spec for flow in flows for spec in flow.specs())

    def all_there(progress: LaneProgress) -> bool:
        return len(progress.partitions) == len(specs) and caught_up(progress)

    flows[0].run(batch_path, all_there, partitions=specs)
    records = sum(len(flow.source_content()[0]) for flow in flows)
    ours, theirs = _printed(east, f"{unique}.*", records), _printed(west, rf"east\.{unique}.*", records)
    assert len(ours) == records
    assert not any(b"aborted" in line for line in ours)
    assert sorted(theirs) == sorted(ours)
    assert sum(len(flow.target_content()[0]) for flow in flows) == records, "nothing beyond what was printed"


def _printed(cluster: ClusterHandle, topics: str, records: int) -> list[bytes]:
    """Timestamp, headers, key and value of each record, as Kafka's console consumer prints them."""
    shown = {"print.timestamp": "true", "print.headers": "true", "print.key": "true", "null.literal": NULL}
    shown |= {"key.separator": KEY, "headers.separator": HEADERS, "line.separator": LINE}
    words = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    words += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap_servers]
    words += ["--include", topics, "--from-beginning", "--isolation-level", "read_committed"]
    words += ["--max-messages", str(records), "--timeout-ms", "30000"]
    words += [word for name, value in shown.items() for word in ("--formatter-property", f"{name}={value}")]
    done = subprocess.run(words, check=False, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    # A LogAppendTime topic's copy has the times of its source, but as those of its producer.
    return done.stdout.replace(b"LogAppendTime:", b"CreateTime:").split(LINE.encode())[:-1]


def _awkward_topic(cluster: ClusterHandle, topic: str, codec: str, create_topic: CreateTopic) -> str:
    create_topic(cluster, topic)
    many = tuple((f"h{i}", b"v" * (i % 7)) for i in range(200))
    records: list[Content] = [
        (b"tombstone", None, (), NOW),
        (None, b"no key", (), NOW + 1),
        (None, None, (), NOW + 2),
        (b"", b"", (), NOW + 3),
        (b"k", b"v", (("twice", b"2"), ("twice", b"3"), ("null", None), ("", b"")), NOW - 500_000),
        (b"many", b"headers", many, NOW + 4),
        (b"big", BIG, (), NOW + 5),
        *((b"%d" % i, b"x" * (i % 300), (), NOW + i * 17 % 999) for i in range(100)),
    ]
    fill(cluster, topic, records, compression_type=codec, linger_ms=20)
    return topic


def _early_topic(cluster: ClusterHandle, topic: str, codec: int, create_topic: CreateTopic) -> str:
    create_topic(cluster, topic, retention_ms="-1")
    stamps = [0, -1, 0, NOW, -1]
    produce_raw(cluster, topic, [(b"k%d" % i, b"v", stamp) for i, stamp in enumerate(stamps)], codec)
    return topic


def _append_time_topic(cluster: ClusterHandle, topic: str, codec: str, create_topic: CreateTopic) -> str:
    create_topic(cluster, topic, message_timestamp_type="LogAppendTime")
    old = NOW - 86_400_000
    fill(cluster, topic, [(b"%d" % i, b"v" * 50, (), old) for i in range(50)], compression_type=codec)
    return topic


def _transactional_topic(cluster: ClusterHandle, topic: str, create_topic: CreateTopic) -> str:
    create_topic(cluster, topic)
    writer = Producer({**cluster.super_client(), "transactional.id": topic})
    writer.init_transactions(30)
    for number in range(10):
        writer.begin_transaction()
        for i in range(5):
            writer.produce(topic, b"%d %d" % (number, i), b"aborted" if number % 2 else b"kept")
        writer.flush(20)
        (writer.abort_transaction if number % 2 else writer.commit_transaction)(20)
    return topic


def _compacting(cluster: ClusterHandle, topic: str, codec: str, create_topic: CreateTopic) -> str:
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100"}
    create_topic(cluster, topic, **eager, max_compaction_lag_ms="100", file_delete_delay_ms="100")
    records: list[Content] = [(b"%d" % (i % 97 if i % 3 else i), b"%d" % i, (), NOW) for i in range(900)]
    fill(cluster, topic, records, compression_type=codec, linger_ms=50)
    return topic


def _await_compacted(cluster: ClusterHandle, topics: list[str]) -> None:
    """Until all of them have holes; they are compacted no further then."""
    until = time.monotonic() + 90
    while any(len(content(cluster, topic, 1)[0]) > 700 for topic in topics):
        assert time.monotonic() < until, "the source was never compacted"
        for topic in topics:
            fill(cluster, topic, [(b"roll", b"the segment", (), int(time.time() * 1000))])
        time.sleep(1)
    lazy = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(2**40), "segment.ms": str(2**40)}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in lazy.items()]
    changed = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries) for topic in topics]
    admin = AdminClient({**cluster.super_client(), "log_level": 0})
    for future in admin.incremental_alter_configs(changed).values():
        future.result(20)
    time.sleep(1)  # what the cleaner has begun
