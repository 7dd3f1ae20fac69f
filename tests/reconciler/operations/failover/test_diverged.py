"""Two logs on real brokers, one of which was the beginning of the other: where they part, what is alone, exported."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Producer
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.groups import visited
from reconciler.backends.clusters.topics.append_records import TopicWriter
from reconciler.environment.load import load
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.options import KeepDiverged, LogSide
from reconciler.model.reports.failover import PartedPartition, Way
from reconciler.operations.failover import diverged
from reconciler.operations.failover.decide import DivergedChoice, FailoverRequest
from reconciler.operations.failover.diverged import (
    Write,
    export,
    export_to_topic,
    export_topic,
    parted,
    partitions_of,
    sides_of,
)
from reconciler.operations.failover.run import FailoverOptions, move
from reconciler.render.markup import Format
from reconciler.replication.offsets.close_gaps import Log
from reconciler.replication.offsets.parting import WholeRecord, read_from
from tests.support.clusters import CreateTopic
from tests.support.lanes.load import write
from tests.support.reading import to_the_end


@pytest.mark.kafka
def test_where_two_logs_part_is_found_and_what_is_alone_is_exported(
    plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    names = (unique, f"east.{unique}")
    for cluster, topic in zip(("east", "west"), names, strict=True):
        create_topic(plain[cluster], topic, 2, retention_ms="-1")  # records of 1970 go when a broker next looks
        write(plain[cluster], topic, [f"both-{n}" for n in range(30)])
        write(plain[cluster], topic, ["nobody's"], aborted=True)
    servers = {name: plain[name].super_client()["bootstrap.servers"] for name in ("east", "west")}
    text = json.dumps(
        {
            "clusters": {name: {"bootstrap_servers": [server]} for name, server in servers.items()},
            "flows": {"f": {"source": "east", "target": "west", "topics": [unique], "offsets": "same"}},
        }
    )
    sides = sides_of(load({"e.yaml": text}, "e"), "f")
    pairs = partitions_of(sides)
    assert pairs == [((unique, n), (names[1], n)) for n in range(2)]
    assert parted(sides, pairs) == ()

    write(plain["east"], names[0], ["never copied 1", "never copied 2"])
    (behind,) = parted(sides, pairs)
    begin = behind.at
    assert (begin, behind.source_records, behind.target_records, behind.diverged) == (33, 2, 0, False)

    write(plain["west"], names[1], ["written there"])
    (found,) = parted(sides, pairs)
    expected = PartedPartition((unique, 0), (names[1], 0), begin, begin + 3, begin + 2, 2, 1, "", 1_000, 1_001)
    assert (found, found.diverged) == (expected, True)

    file = tmp_path / "alone.jsonl"
    assert export(sides, (found,), LogSide.BOTH, file) == 3
    assert file.stat().st_mode & 0o777 == 0o600, "records are in it"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    values = [(line["cluster"], line["offset"], base64.b64decode(line["value"]).decode()) for line in lines]
    assert values == [
        ("east", begin, "never copied 1"),
        ("east", begin + 1, "never copied 2"),
        ("west", begin, "written there"),
    ]
    assert (lines[0]["key"], lines[0]["timestamp"], lines[0]["headers"]) == ("azA=", 1_000, [["h", "MQ=="]])
    assert export(sides, (replace(found, unknown="?"),), LogSide.BOTH, tmp_path / "none.jsonl") == 0


def topology(servers: dict[str, str], topics: str) -> Topology:
    flows = {
        "f": {"source": "east", "target": "west", "topics": [topics], "offsets": "same"},
        "back": {
            "source": "west",
            "target": "east",
            "topics": ["prices"],
            "naming": {"policy": "identity"},
            "groups": {"sync_offsets": True},
        },
    }
    clusters = {name: {"bootstrap_servers": [server]} for name, server in servers.items()}
    text = {"clusters": clusters, "flows": flows, "mirrors": {"west": {"flows": ["f"]}, "east": {"flows": ["back"]}}}
    return load({"e.yaml": json.dumps(text)}, "e")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("orders", "is not CLUSTER:TOPIC"),
        ("east:", "is not CLUSTER:TOPIC"),
        ("north:orders", "no cluster north"),
        ("east:orders", "Flow f reads it"),
        ("west:east.orders", "Flow f writes it"),
        ("west:prices", "Flow back reads it"),
        ("east:prices", "Flow back writes it"),
        ("west:__consumer_offsets", "keeps for itself"),
        ("east:west.checkpoints.internal", "keeps for itself"),
    ],
)
def test_a_topic_that_is_not_for_this_is_refused(text: str, says: str) -> None:
    with pytest.raises(ReconcilerError) as refused:
        export_topic(topology({"east": "e:1", "west": "w:1"}, "orders"), text)
    assert says in f"{refused.value.what} {refused.value.why}"


@pytest.mark.parametrize("text", ["west:orders", "east:east.orders", "east:left-behind", "west:left-behind"])
def test_any_other_topic_will_do(text: str) -> None:
    cluster, topic = export_topic(topology({"east": "e:1", "west": "w:1"}, "orders"), text)
    assert f"{cluster.name}:{topic}" == text


def test_an_export_that_ends_early_leaves_no_file_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = sides_of(topology({"east": "e:1", "west": "w:1"}, "orders"), "f")
    record, ends = WholeRecord(1, 7, None, b"v", ()), [ClusterError("east", "unreachable", "it is gone")]

    def half(_: object, __: object, ___: object, write: Write) -> int:
        write("east", ("orders", 0), record)
        if ends:
            raise ends.pop()
        return 1

    monkeypatch.setattr(diverged, "exported_to", half)
    file = tmp_path / "alone.jsonl"
    with pytest.raises(ClusterError, match="it is gone"):
        export(sides, (), LogSide.SOURCE, file)
    assert not file.exists()
    assert export(sides, (), LogSide.SOURCE, file) == 1, "the same command goes"
    before = file.read_text()
    with pytest.raises(ReconcilerError) as refused:
        export(sides, (), LogSide.SOURCE, file)
    assert refused.value.what == f"{file} cannot be written: File exists"
    assert file.read_text() == before, "of an earlier export nothing is lost"


@pytest.mark.kafka
def test_records_come_as_they_were_and_say_where_they_are_from(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, west, left = plain["east"], plain["west"], f"{unique}-left"
    create_topic(east, unique, 3, retention_ms="-1")  # as above
    create_topic(west, f"east.{unique}", 3, retention_ms="-1")
    for cluster, topic in ((east, unique), (west, f"east.{unique}")):
        write(cluster, topic, ["both"])
    write(east, unique, ["alone 1", "alone 2"])
    plainly = Producer(east.super_client())
    plainly.produce(unique, None, None, 2, timestamp=77)
    assert plainly.flush(20) == 0
    servers = {name: plain[name].super_client()["bootstrap.servers"] for name in ("east", "west")}
    environment = topology(servers, unique)
    sides = sides_of(environment, "f")
    partitions = parted(sides, partitions_of(sides))
    to = export_topic(environment, f"west:{left}")
    with pytest.raises(ReconcilerError, match="has no topic"):
        export_to_topic(sides, partitions, LogSide.SOURCE, to)

    create_topic(west, left, 2, retention_ms="-1")
    assert export_to_topic(sides, partitions, LogSide.SOURCE, to) == (3, 0)
    found = [(m.partition(), m.value(), m.key(), m.timestamp(), m.headers()) for m in to_the_end(west, left)]

    def origin(partition: int, offset: int) -> list[tuple[str, bytes]]:
        words = {"cluster": "east", "topic": unique, "partition": str(partition), "offset": str(offset)}
        return [(f"mirror.origin.{name}", word.encode()) for name, word in words.items()]

    assert sorted(found, key=lambda record: str(record[1])) == [
        (0, None, None, (TIMESTAMP_CREATE_TIME, 77), origin(2, 0)),
        (0, b"alone 1", b"k0", (TIMESTAMP_CREATE_TIME, 1_000), [("h", b"1"), *origin(0, 2)]),
        (0, b"alone 2", b"k1", (TIMESTAMP_CREATE_TIME, 1_001), [("h", b"1"), *origin(0, 3)]),
    ]


@pytest.mark.kafka
def test_names_of_headers_come_byte_for_byte(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    """Clients in other languages name headers in other encodings than UTF-8; brokers take any bytes."""
    left, odd = f"{unique}-left", ((b"caf\xe9", b"1"), (b"\xef\xbf\xbd", None))
    for cluster, name in (("east", unique), ("west", f"east.{unique}"), ("west", left)):
        create_topic(plain[cluster], name, 1, retention_ms="-1")
    servers = {name: plain[name].super_client()["bootstrap.servers"] for name in ("east", "west")}
    environment = topology(servers, unique)
    sides = sides_of(environment, "f")
    with TopicWriter(environment.clusters["east"], Principal.MIRROR, unique) as writer:
        writer.append(0, 5, b"k", b"v", odd)
        writer.finish()
    partitions = parted(sides, partitions_of(sides))
    assert export_to_topic(sides, partitions, LogSide.SOURCE, export_topic(environment, f"west:{left}")) == (1, 0)

    async def read(opened: Sequence[ClusterClient]) -> list[WholeRecord]:
        return [record async for record in read_from(Log(opened[0], (left, 0)), 0, 1)]

    (found,) = visited((sides.target,), read)
    assert (found.key, found.value, found.headers[:2]) == (b"k", b"v", odd)


@pytest.mark.kafka
def test_times_that_the_topic_replaces_are_counted_and_a_refusal_is_reported(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, 1, retention_ms="-1")
    create_topic(west, f"east.{unique}", 1, retention_ms="-1")
    write(east, unique, ["alone"])
    servers = {name: plain[name].super_client()["bootstrap.servers"] for name in ("east", "west")}
    environment = topology(servers, unique)
    sides = sides_of(environment, "f")
    partitions = parted(sides, partitions_of(sides))
    create_topic(west, f"{unique}-now", 1, retention_ms="-1", message_timestamp_type="LogAppendTime")
    assert export_to_topic(sides, partitions, LogSide.SOURCE, export_topic(environment, f"west:{unique}-now")) == (1, 1)
    create_topic(west, f"{unique}-small", 1, retention_ms="-1", max_message_bytes="10")
    with pytest.raises(ReconcilerError) as refused:
        export_to_topic(sides, partitions, LogSide.SOURCE, export_topic(environment, f"west:{unique}-small"))
    assert f"{unique}-small" in refused.value.what


def test_a_flow_with_ordinary_offsets_has_nothing_diverged(tmp_path: Path) -> None:
    clusters = {name: {"bootstrap_servers": [f"{name}:1"]} for name in ("east", "west")}
    flows = {"f": {"source": "east", "target": "west", "topics": ["orders"]}}
    (tmp_path / "e.yaml").write_text(json.dumps({"clusters": clusters, "flows": flows}), encoding="utf-8")
    request = FailoverRequest(diverged=DivergedChoice(KeepDiverged.DISCARD))
    with pytest.raises(ReconcilerError, match="does not keep offsets") as refused:
        move(tmp_path, Way.FAILBACK, "f", FailoverOptions(request, False, True, Format.TEXT, None, ""))
    assert "travel when the failback resumes the flow" in refused.value.why
