"""The way back of a flow that keeps offsets, by the commands that the page names: a failover, writes on the copy, a
flow the other way in its place, and the failback. Numbers stay what they are all the way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox.handles import Sandbox
from ruamel.yaml import YAML

from tests.support.jobs.environments import Running, exactly, on_sandbox
from tests.support.lanes.truth import placed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

FLOW, BACK = "fra-to-dub", "dub-to-fra"
PARTITIONS = 3


def test_the_old_source_is_filled_from_its_copy_and_takes_over_again(
    plain: Sandbox, tmp_path: Path, unique: str
) -> None:
    clusters = {"fra": plain["east"], "dub": plain["west"]}
    running = on_sandbox("active-passive", tmp_path, clusters, {}, {FLOW: {"offsets": "same"}})
    env, topic, group = f"environments/{running.name}", f"payments.{unique}", f"{unique}-ledger"
    running.make("fra", topic, PARTITIONS)
    written = running.write("fra", topic, 300)
    files = declared(running)
    try:
        running.apply()
        read = [running.read("fra", group, topic, 100)]
        running.command(f"reconciler failover {env} {FLOW} --yes")
        read.append(running.read("dub", group, topic, 50))
        written += running.write("dub", topic, 300)
        refused = running.command(f"reconciler failback {env} {FLOW} --yes", code=3)
        assert "not-filled" in {check["code"] for check in refused["checks"]}

        turned_round(running, files)
        running.apply()
        until_equal(running, topic)
        read.append(running.read("dub", group, topic, 120))

        restored(running, files)
        running.apply()
        report = running.command(f"reconciler failback {env} {FLOW} --yes")
        (moved,) = (one for one in report["groups"] if one["group"] == group)
        assert moved["exact"]
        assert all(one["committed"] == one["after"] for one in moved["offsets"])
        assert until_equal(running, topic), "the logs are equal"

        written += running.write("fra", topic, 100)
        read.append(running.read("fra", group, topic, 10_000))
        assert exactly(read, written)
        until_equal(running, topic)
        assert "Equal" in running.reconciler("verify", str(running.folder), FLOW)
        assert "offsets_diverged" not in running.reconciler("status", str(running.folder))

        running.write("fra", topic, 100)
        said = running.reconciler("mirror", "start", str(running.folder), "--until-caught-up")
        assert "has caught up and has stopped by itself" in said
        until_equal(running, topic)
        assert "stopped" in running.reconciler("status", str(running.folder))
    finally:
        running.stop()


Files = dict[Path, dict[str, Any]]


def declared(running: Running) -> Files:
    return {file: YAML(typ="safe").load(file.read_text("utf-8")) for file in sorted(running.folder.glob("*.yaml"))}


def turned_round(running: Running, files: Files) -> None:
    """The flow the other way stands in the place of the first one, in a mirror of its own."""
    for file, content in files.items():
        if FLOW not in content.get("flows", {}):
            continue
        flow = {**content["flows"][FLOW], "source": "dub", "target": "fra"}
        mirror = {**content["mirrors"]["dub"], "flows": [BACK]}
        _write(file, {**content, "flows": {BACK: flow}, "mirrors": {"fra": mirror}})


def restored(running: Running, files: Files) -> None:
    for file, content in files.items():
        _write(file, content)


def _write(file: Path, content: dict[str, Any]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    with file.open("w", encoding="utf-8") as out:
        yaml.dump(content, out)


def until_equal(running: Running, topic: str) -> bool:
    """Both logs, value by value at its offset."""
    until, fra, dub = time.monotonic() + 90, running.clusters["fra"], running.clusters["dub"]
    for number in range(PARTITIONS):
        while (here := placed(fra, topic, number)) != (there := placed(dub, topic, number)):
            assert time.monotonic() < until, (number, len(here), len(there))
            time.sleep(0.5)
    return True
