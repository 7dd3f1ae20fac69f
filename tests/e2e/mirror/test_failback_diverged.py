"""``failback --diverged``: the old source has records that were never copied, the copy has others. Each of the three
ways, killed in the middle, ends with both sides the same, and with the records where the command said."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.resources.acls.derive_from_flows import denial
from tests.support.access.acls import rules
from tests.support.access.role_users import PASSWORD, RoleUser, kafka_filter, kafka_rule
from tests.support.clusters import secured_clusters
from tests.support.jobs.environments import Running, on_sandbox
from tests.support.lanes.truth import placed
from tests.support.paths import ROOT
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

FLOW = "fra-to-dub"
PARTITIONS = 3

Content = tuple[int, int, Any, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Partition, offset, timestamp, key, value, headers."""


def test_each_way_back_ends_with_both_sides_the_same(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    clusters = {"fra": plain["east"], "dub": plain["west"]}
    running = on_sandbox("active-passive", tmp_path, clusters, {}, {FLOW: {"offsets": "same"}})
    env, topic, group = f"environments/{running.name}", f"payments.{unique}", f"{unique}-ledger"
    running.make("fra", topic, PARTITIONS)
    running.write("fra", topic, 200)
    file = tmp_path / "left.jsonl"
    try:
        running.apply()
        for way, kill_at in (("to-topic", "keep"), ("to-file", "recreate"), ("discard", "fill")):
            until_equal(running, topic)
            running.read("fra", group, topic, 50)
            alone = part(running, env, topic)
            running.read("dub", group, topic, 20)
            assert {"diverged"} == stopping(running.command(f"reconciler failback {env} {FLOW} --yes", code=3))

            more = f"--diverged {way}" + (f" --file {file}" if way == "to-file" else "")
            seen = running.command(f"reconciler failback {env} {FLOW} --dry-run {more}", code=2)
            assert sum(each["destination_records"] for each in seen["one_sided"]) == len(alone)
            assert placed(clusters["fra"], topic, 0) != placed(clusters["dub"], topic, 0), "a dry run changes nothing"
            killed(running, kill_at, "failback", str(running.folder), FLOW, "--yes", *more.split())
            refused = running.command(f"reconciler failback {env} {FLOW} --yes", code=3)
            assert stopping(refused) & {"rejoin", "diverged"}, "the way back is not over"
            report = running.command(f"reconciler failback {env} {FLOW} --yes {more}")
            assert [step["name"] for step in report["steps"]][:5] == ["keep", "recreate", "fill", "seek", "compare"]
            assert until_equal(running, topic), "both logs are equal"
            if way == "to-topic":
                kept = contents(clusters["dub"], f"{topic}.diverged.{FLOW}")
                wanted = [with_origin(each, topic) for each in alone]
                assert sorted((each[:1] + each[2:] for each in kept), key=repr) == sorted(wanted, key=repr)
            if way == "to-file":
                assert [told(line) for line in file.read_text("utf-8").splitlines()] == sorted(alone, key=in_order)
            running.write("fra", topic, 100)
            until_equal(running, topic)
        assert "Equal" in running.reconciler("verify", str(running.folder), FLOW)
        assert "offsets_diverged" not in running.reconciler("status", str(running.folder))
        running.reconciler("plan", str(running.folder))
    finally:
        running.stop()


def test_on_secure_clusters_a_standing_fence_spares_the_mirror_that_fills(
    secure: Sandbox, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror is no super user; one topic is compacted, the other begins above offset 0. Killed after each step."""
    late, compacted, folder = f"{unique}.late", f"{unique}.compacted", tmp_path / "env"
    folder.mkdir()
    monkeypatch.setenv("ROLE_PASSWORD", PASSWORD)
    mirror = f"{unique}m"
    whole = [f"allow User:{mirror} all {kind} *" for kind in ("topic", "group", "transactional_id")]
    of_cluster = ("describe", "idempotent_write", "create")
    whole += [f"allow User:{mirror} {what} cluster kafka-cluster" for what in of_cluster]
    for handle in secure.clusters.values():
        RoleUser(handle, mirror, tuple(rules(*whole))).made()
    allowed = rules(*(f"allow User:user {what} topic {unique}*" for what in ("write", "read")))
    admins = {name: AdminClient(handle.super_client()) for name, handle in secure.clusters.items()}
    for admin in admins.values():
        for made in admin.create_acls([kafka_rule(each) for each in allowed]).values():
            made.result(30)
    login = f'mirror: {{sasl.username: {mirror}, sasl.password: "${{env:ROLE_PASSWORD}}"}}'
    lines = secured_clusters(secure, monkeypatch)
    lines = [re.sub("mirror: {sasl.username: mirror, .*", login, line) for line in lines]
    topics = f"  {late}: {{clusters: [east], partitions: 2, replication_factor: 1}}\n"
    topics += f"  {compacted}: {{clusters: [east], partitions: 1, replication_factor: 1, configs: {COMPACTED}}}\n"
    flow = f"{{source: east, target: west, topics: ['{unique}.*'], naming: {{policy: identity}}"
    flow += ", replication_factor: 1, lanes: 1, offsets: same}"
    (folder / "topology.yaml").write_text(
        "\n".join(lines) + f"\ntopics:\n{topics}flows:\n  {unique}: {flow}\nmirrors:\n  west: {{}}\n"
    )
    running = Running(folder, secure.clusters, {"RECONCILER_STATE": str(tmp_path / "state"), "ROLE_PASSWORD": PASSWORD})
    east, west = secure["east"], secure["west"]
    fence = [kafka_filter(denial(name)) for name in (late, compacted)]
    named = [kafka_filter(denial(name, "User:user")) for name in (late, compacted)]

    def standing(filters: list[Any]) -> int:
        return sum(len(found.result(30)) for found in [admins["east"].describe_acls(each) for each in filters])

    try:
        running.apply()
        for topic in (late, compacted):
            append(east, topic, 0, 120)
        admins["east"].delete_records([TopicPartition(late, number, 20) for number in range(2)])
        append(east, late, 120, 130)
        until_same_end(running, late, compacted)
        running.reconciler("mirror", "stop", str(folder))
        for topic in (late, compacted):
            append(east, topic, 1000, 1040)
        running.reconciler("failover", str(folder), unique, "--yes", "--accept-loss", "--fence")
        running.reconciler("mirror", "start", str(folder))
        for topic in (late, compacted):
            append(west, topic, 2000, 2060)
        assert (standing(fence), standing(named)) == (2, 0)

        way = ["failback", str(folder), unique, "--diverged", "to-topic"]
        seen = json.loads(running.reconciler(*way, "--dry-run", "--format", "json", code=2))
        assert [step["name"] for step in seen["steps"]][:3] == ["narrow", "keep", "recreate"]
        for step in ("narrow", "keep", "recreate", "fill", "seek", "compare", "pause"):
            killed(running, step, *way, "--yes")
            assert (standing(fence), standing(named)) == (0, 2), "at no time may a producer write"
        report = json.loads(running.reconciler(*way, "--yes", "--format", "json"))
        assert {"name": "unfence", "result": "done"}.items() <= report["steps"][-1].items()
        assert (standing(fence), standing(named)) == (0, 0)
        for topic in (late, compacted):
            assert newest(east, topic) == newest(west, topic)
            assert len(contents(west, f"{topic}.diverged.{unique}")) == 40, "each record that only the source had"
            append(east, topic, 3000, 3010)
        until_same_end(running, late, compacted)
    finally:
        running.stop()
        for admin in admins.values():
            for gone in admin.delete_acls([*map(kafka_filter, allowed), *fence, *named]).values():
                gone.result(30)


COMPACTED = "{cleanup.policy: compact, segment.ms: '1000', min.cleanable.dirty.ratio: '0.01'}"


def append(cluster: ClusterHandle, topic: str, begin: int, end: int) -> None:
    """As a user that rules allow: 7 keys, so that compaction takes most of them."""
    producer, failed = Producer(cluster.client("user")), list[object]()
    for number in range(begin, end):
        key = b"%d" % (number % 7 if begin < 1000 else number)
        producer.produce(topic, b"%d" % number, key, on_delivery=lambda why, _: failed.append(why) if why else None)
    assert producer.flush(30) == 0
    assert not failed, failed


def newest(cluster: ClusterHandle, topic: str) -> dict[Any, Content]:
    """By key: what compaction has to leave, whenever it runs."""
    return {each[3]: each for each in contents(cluster, topic)}


def until_same_end(running: Running, *topics: str) -> None:
    until, (east, west) = time.monotonic() + 120, running.clusters.values()
    for topic in topics:
        while newest(east, topic) != newest(west, topic):
            assert time.monotonic() < until, topic
            time.sleep(0.5)


def part(running: Running, env: str, topic: str) -> list[Content]:
    """Leaves records on the old source that were never copied, moves consumers, and writes others on the copy."""
    running.reconciler("mirror", "stop", str(running.folder))
    before = {each[:2] for each in contents(running.clusters["fra"], topic)}
    running.write("fra", topic, 80)
    odd = Producer(running.clusters["fra"].client())
    odd.produce(topic, None, b"gone", 1, timestamp=77, headers=[("h", None), ("i", b"\x00\xff")])
    odd.produce(topic, b"\xff\xfe", None, 2, timestamp=1_700_000_000_000)
    assert odd.flush(20) == 0
    alone = [each for each in contents(running.clusters["fra"], topic) if each[:2] not in before]
    running.command(f"reconciler failover {env} {FLOW} --yes --accept-loss")
    running.reconciler("mirror", "start", str(running.folder))
    running.write("dub", topic, 120)
    return alone


def contents(cluster: ClusterHandle, topic: str) -> list[Content]:
    return [content(message) for message in to_the_end(cluster, topic)]


def content(message: Message) -> Content:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    headers = [(name, value) for name, value in message.headers() or []]
    return partition, offset, message.timestamp()[1], message.key(), message.value(), headers


def in_order(each: Content) -> tuple[int, int]:
    return each[:2]


def with_origin(each: Content, topic: str) -> tuple[Any, ...]:
    """As it lies in the topic that keeps it, but for its offset there."""
    partition, offset, *others, headers = each
    origin = {"cluster": "fra", "topic": topic, "partition": str(partition), "offset": str(offset)}
    added = [(f"mirror.origin.{name}", word.encode()) for name, word in origin.items()]
    return (partition, *others, [*headers, *added])


def told(line: str) -> Content:
    fields = json.loads(line)

    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    headers = [(name, data(value)) for name, value in fields["headers"]]
    place = fields["partition"], fields["offset"], fields["timestamp"]
    return *place, data(fields["key"]), data(fields["value"]), headers


def stopping(report: dict[str, Any]) -> set[str]:
    return {check["code"] for check in report["checks"] if check["level"] == "stops"}


def killed(running: Running, at: str, *words: str) -> None:
    """kill -9 as soon as it tells that step ``at`` is over."""
    command = [sys.executable, "-u", "-m", "reconciler", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **running.environ},
    ) as run:
        assert run.stderr is not None
        lines = []
        for line in run.stderr:
            lines.append(line)
            if line.startswith(f"{at} "):
                run.send_signal(signal.SIGKILL)
                return
        pytest.fail(f"it ended before {at}: {''.join(lines)}")


def until_equal(running: Running, topic: str) -> bool:
    """Both logs, value by value at its offset."""
    until, fra, dub = time.monotonic() + 90, running.clusters["fra"], running.clusters["dub"]
    for number in range(PARTITIONS):
        while (here := at_offsets(fra, topic, number)) != (there := at_offsets(dub, topic, number)):
            assert time.monotonic() < until, (number, len(here), len(there))
            time.sleep(0.5)
    return True


def at_offsets(cluster: ClusterHandle, topic: str, partition: int) -> list[Content]:
    return [content(message) for message in to_the_end(cluster, topic, [partition])]
