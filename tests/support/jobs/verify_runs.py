"""What the tests of verify share: flows written by hand or copied by a lane, and the command as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, Condition, LaneProgress, LaneSpec, PartitionSpec
from reconciler_sandbox.handles import ClusterHandle

from reconciler.replication.handover import Endpoint, FlowSettings, Naming, Start
from tests.support.jobs.records import producer
from tests.support.lanes.lane_spec import ClaimedControl
from tests.support.lanes.positions import committed
from tests.support.paths import ROOT

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""Key, value, headers, timestamp in ms."""


def numbered(count: int) -> list[Content]:
    return [(b"k%d" % i, b"v%d" % i, (("h", b"%d" % i),), 1_700_000_000_000 + i) for i in range(count)]


def endpoint(handle: ClusterHandle) -> Endpoint:
    client = handle.client()
    return Endpoint(handle.name, tuple(client.pop("bootstrap.servers").split(",")), client)


def write(handle: ClusterHandle, topic: str, records: Sequence[Content], partition: int = 0, **settings: Any) -> None:
    made = producer(handle, **settings)
    for key, value, headers, timestamp in records:
        made.produce(topic, value, key, partition, timestamp=timestamp, headers=list(headers))
        made.poll(0)
    assert made.flush(60) == 0


def topic_id(handle: ClusterHandle, topic: str) -> str:
    admin = AdminClient(handle.client())
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(20)
    return str(found.topic_id).replace("+", "-").replace("/", "_")


@dataclass(frozen=True)
class HandMadeFlow:
    """Topic ``t`` of ``source`` is ``<source>.t`` of ``target``; positions are written as the mirror writes them."""

    name: str
    source: ClusterHandle
    target: ClusterHandle

    def topics(self, topic: str, partitions: int = 1, source: Any = None, target: Any = None) -> str:
        """``source`` and ``target``: configs of the two topics."""
        sides = ((self.source, topic, source), (self.target, f"{self.source.name}.{topic}", target))
        for handle, name, configs in sides:
            admin = AdminClient(handle.client())
            made = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(configs or {})})
            admin.create_topics([made], operation_timeout=20)[name].result(30)
        return topic

    def fill(self, topic: str, ours: Sequence[Content], theirs: Sequence[Content], position: int | None = None) -> None:
        """Both sides of partition 0. ``position``: all of ``ours`` where it is left out; below 0: none at all."""
        write(self.source, topic, ours)
        write(self.target, f"{self.source.name}.{topic}", theirs)
        at = len(ours) if position is None else position
        if at >= 0:
            self.set_position(topic, at)

    def set_position(self, topic: str, offset: int, identity: str | None = None, *, proved: bool = True) -> None:
        known = topic_id(self.source, topic) if identity is None else identity
        entry = committed(f"{self.source.name}.{topic}", 0, LanePosition(offset, known, proved=proved))
        with closing(Consumer({**self.target.client(), "group.id": f"mirror.{self.name}"})) as group:
            group.commit(offsets=[entry], asynchronous=False)

    def settings(self, pattern: str, **changes: Any) -> FlowSettings:
        given: dict[str, Any] = {
            "name": self.name,
            "fingerprint": "00000000000000aa",
            "source": endpoint(self.source),
            "target": endpoint(self.target),
            "topics": (pattern,),
            "exclude_topics": (),
            "naming": Naming(),
            "delivery": "exactly_once",
            "isolation": "read_committed",
            "start": Start(),
            "lanes": 1,
        }
        return FlowSettings(**{**given, **changes})


@dataclass
class RunningLane(ClaimedControl):
    """A lane of the mirror that copies in a thread until ``stop``."""

    flow: HandMadeFlow
    partitions_of: dict[str, int]
    ended: threading.Event = field(default_factory=threading.Event)
    latest: LaneProgress | None = None
    conditions: set[Condition] = field(default_factory=set)

    def start(self) -> RunningLane:
        source = self.flow.source
        self._specs = tuple(
            PartitionSpec(topic, number, f"{source.name}.{topic}", topic_id(source, topic))
            for topic, count in self.partitions_of.items()
            for number in range(count)
        )
        lane = LaneSpec(
            self.flow.name,
            0,
            f"mirror.{self.flow.name}.0",
            f"mirror.{self.flow.name}",
            endpoint(source),
            endpoint(self.flow.target),
            "exactly_once",
            "read_committed",
            "earliest",
            None,
            self._specs,
            Claim(1, "test"),
        )
        self._thread = threading.Thread(target=batch_path, args=(lane, self))
        self._thread.start()
        return self

    def stop(self) -> None:
        self.ended.set()
        self._thread.join(60)

    def caught_up(self) -> bool:
        found = self.latest.partitions if self.latest else ()
        known = len(found) == len(self._specs)
        return known and all(p.position is not None and p.end is not None and p.position >= p.end for p in found)

    # the lane's Control

    def stopping(self) -> bool:
        return self.ended.is_set()

    def partitions(self) -> tuple[PartitionSpec, ...]:
        return self._specs

    def report(self, progress: LaneProgress) -> None:
        self.latest = progress
        self.conditions.update(progress.conditions)


class Load:
    """Numbered records to all partitions in turns, until ``stop`` gives how many there were."""

    def __init__(self, handle: ClusterHandle, topic: str, partitions: int) -> None:
        self._end = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run, args=(handle, topic, partitions))
        self._thread.start()

    def _run(self, handle: ClusterHandle, topic: str, partitions: int) -> None:
        made = producer(handle)
        while not self._end.wait(0.1):
            for _ in range(20):
                made.produce(topic, b"%d" % self.count, b"k%d" % (self.count % 50), self.count % partitions)
                self.count += 1
            made.poll(0)
        made.flush(30)

    def stop(self) -> int:
        self._end.set()
        self._thread.join(60)
        return self.count


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def reconciler(*words: object, **environment: str) -> Ended:
    """The command in a process of its own; no traceback ever reaches the user."""
    command = [sys.executable, "-m", "reconciler", *map(str, words)]
    env = {**os.environ, **environment, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spark'}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT, env=env, check=False)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def by_topic(document: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(one["source_topic"], one["partition"]): one for one in document["partitions"]}


def loaded(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def until(what: str, wanted: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted():
            return
        time.sleep(0.5)  # most looks start a command or read a topic
    raise AssertionError(f"never seen: {what}")
