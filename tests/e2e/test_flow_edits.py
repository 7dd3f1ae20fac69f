"""Keys of a flow edited under its running mirror: what the plan says beforehand, and what has been copied afterwards.

Each edit goes through plan, apply and the real job. What follows is written to the source, and the copies are compared
with what the plan said: nothing twice, and nothing missing that it does not name.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import topics
from tests.support.jobs.environments import Running
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]
PATIENCE_S = 120


class Edited:
    """One environment with one flow of topics ``a``, ``b``, ``c``, whose entry a test edits."""

    def __init__(self, place: Path, plain: Sandbox, unique: str, metrics_port: int) -> None:
        folder = place / unique
        folder.mkdir()
        self.plain, self.unique = plain, unique
        self.running = Running(folder, dict(plain.clusters), {"RECONCILER_STATE": str(place / "state")})
        self.flow: dict[str, Any] = {
            "source": "east", "target": "west", "topics": [self.topic("a")], "replication_factor": 1, "lanes": 1,
        }  # fmt: skip
        self.mirror = {"flows": ["f"], "status_interval": "1s", "metrics_port": metrics_port}
        self.written: dict[str, list[bytes]] = {name: [] for name in "abc"}
        self.number = 0
        self.producer = Producer(plain["east"].client())
        for name in "abc":
            self.running.make("east", self.topic(name), 1)

    def topic(self, name: str) -> str:
        return f"{self.unique}.{name}"

    def write(self, name: str, count: int, key: bytes = b"k") -> list[bytes]:
        values = [b"%s%d" % (name.encode(), self.number + each) for each in range(count)]
        self.number += count
        self.written[name] += values
        for value in values:
            self.producer.produce(self.topic(name), value, key=key)
        assert self.producer.flush(30) == 0
        return values

    def files(self) -> None:
        clusters = {
            alias: {
                "bootstrap_servers": self.plain[alias].bootstrap_servers.split(","),
                "cluster_id": self.plain[alias].cluster_id,
                "defaults": {"partitions": 1, "replication_factor": 1},
            }
            for alias in ("east", "west")
        }
        declared = {"clusters": clusters, "flows": {"f": self.flow}, "mirrors": {"west": self.mirror}}
        (self.running.folder / "all.yaml").write_text(json.dumps(declared))

    def edit(self, **changed: Any) -> str:
        """The plan's words, before it is applied; a value of None takes the key away."""
        words = self.planned(2, **changed)
        self.running.reconciler("apply", str(self.running.folder), "--yes")
        return words

    def planned(self, code: int, **changed: Any) -> str:
        self.flow = {name: value for name, value in {**self.flow, **changed}.items() if value is not None}
        self.files()
        return " ".join(self.running.reconciler("plan", str(self.running.folder), code=code).split())

    def copied(self, remote: str) -> list[bytes]:
        if remote not in topics(self.plain["west"]):
            return []
        return [value for message in to_the_end(self.plain["west"], remote) if (value := message.value()) is not None]

    def offsets(self, cluster: str, topic: str) -> list[int]:
        """Of records that committed readers see."""
        return [message.offset() for message in to_the_end(self.plain[cluster], topic)]

    def comes(self, remote: str, wanted: list[bytes]) -> None:
        """The copy has exactly these, in this order."""
        until = time.monotonic() + PATIENCE_S
        while len(self.copied(remote)) < len(wanted) and time.monotonic() < until:
            time.sleep(1)
        time.sleep(1)
        assert self.copied(remote) == wanted

    def status(self) -> str:
        return self.running.reconciler("status", str(self.running.folder))


def test_edits_under_a_running_mirror(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        here = Edited(tmp_path, plain, unique, int(taken.getsockname()[1]))
        of_a, of_b, of_c = here.write("a", 20), here.write("b", 20), here.write("c", 20)
        here.files()
        here.running.apply()
        try:
            a, b, c = (f"east.{here.topic(name)}" for name in "abc")
            here.comes(a, of_a)
            until = time.monotonic() + 60
            while "metrics_not_served" not in (said := here.status()) and time.monotonic() < until:
                time.sleep(2)
            assert "metrics are not served at 127.0.0.1" in " ".join(said.split())

            # more topics, fewer, and back: what came in between is copied once
            here.edit(topics=[here.topic("a"), here.topic("b")])
            here.comes(b, of_b)
            here.edit(topics=[here.topic("b")])
            of_a += here.write("a", 10)
            of_b += here.write("b", 10)
            here.comes(b, of_b)
            assert here.copied(a) == of_a[:20]
            here.edit(topics=[here.topic("a"), here.topic("b")])
            here.comes(a, of_a)
            here.comes(b, of_b)

            # a filter comes and goes
            here.edit(where={"key": {"equals": "x"}})
            here.write("a", 5)
            of_a += here.write("a", 5, b"x")
            here.comes(a, of_a)
            here.edit(where=None)
            of_a += here.write("a", 5)
            here.comes(a, of_a)

            # at least once and back
            here.edit(delivery="at_least_once")
            of_a += here.write("a", 5)
            here.comes(a, of_a)
            here.edit(delivery=None, lanes=2)
            of_a += here.write("a", 5)
            here.comes(a, of_a)

            # a later start is no start of a flow that has begun
            words = here.edit(start="latest", topics=[here.topic(name) for name in "abc"])
            assert "topics that begin to travel later are copied from their first record" in words
            of_c += here.write("c", 5)
            here.comes(c, of_c)
            of_a += here.write("a", 5)
            here.comes(a, of_a)

            # other names are new topics, with what the filter had left out
            words = here.edit(naming={"separator": "-"})
            assert "every topic is copied again from its first record into a new topic" in words
            here.write("a", 5)
            here.comes(f"east-{here.topic('a')}", here.written["a"])
            assert here.copied(a) == of_a
            assert "position_" not in here.status()
        finally:
            here.running.stop()


def test_offsets_of_a_running_flow_are_edited_both_ways(plain: Sandbox, tmp_path: Path, unique: str) -> None:
    """What lies in a copy cannot be moved: the same offsets need new topics, and translated ones go on in the old."""
    here = Edited(tmp_path, plain, unique, 0)
    of_a, topic = here.write("a", 20), here.topic("a")
    here.files()
    here.running.apply()
    try:
        here.comes(f"east.{topic}", of_a)

        # into the topic that is there: refused, and the running flow goes on
        assert "same-offsets-not-new" in here.planned(3, offsets="same")
        of_a += here.write("a", 5)
        here.comes(f"east.{topic}", of_a)

        # into new ones: from the first record on, at the source's offsets
        kept = f"east-{topic}"
        here.edit(offsets="same", naming={"separator": "-"})
        here.comes(kept, of_a)
        of_a += here.write("a", 5)
        here.comes(kept, of_a)
        assert here.offsets("west", kept) == here.offsets("east", topic)

        # back: nothing twice, nothing missing, and the plan says what ends
        words = here.edit(offsets="translated")
        assert "copies no longer keep offsets" in words
        of_a += here.write("a", 5)
        here.comes(kept, of_a)

        # and not again into the same topics
        assert "same-offsets-not-new" in here.planned(3, offsets="same")
        of_a += here.write("a", 5)
        here.comes(kept, of_a)
        assert "OK: 1 of 1 mirror running" in here.status()
    finally:
        here.running.stop()
