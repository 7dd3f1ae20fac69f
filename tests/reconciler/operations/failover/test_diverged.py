"""Two logs on real brokers, one of which was the beginning of the other: where they part, what is alone, exported."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.environment.load import load
from reconciler.model.options import LogSide
from reconciler.model.reports.failover import PartedPartition
from reconciler.operations.failover.diverged import export, parted, partitions_of, sides_of
from tests.support.clusters import CreateTopic
from tests.support.lanes.load import write


@pytest.mark.kafka
def test_where_two_logs_part_is_found_and_what_is_alone_is_exported(
    plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    names = (unique, f"east.{unique}")
    for cluster, topic in zip(("east", "west"), names, strict=True):
        create_topic(plain[cluster], topic, 2)
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
    expected = PartedPartition((unique, 0), (names[1], 0), begin, begin + 3, begin + 2, 2, 1)
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
