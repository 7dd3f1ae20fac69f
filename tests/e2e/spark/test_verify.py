"""``reconciler verify`` as a user runs it, on Spark and real brokers: two runs, one over every fault, one over equal
sides while the mirror copies."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.runner.command_line import QUICK_START
from tests.support.commands import two_clusters
from tests.support.jobs.records import digest, total, write_awkward, write_transactions
from tests.support.jobs.verify_runs import (
    Ended,
    HandMadeFlow,
    Load,
    RunningLane,
    by_topic,
    loaded,
    numbered,
    reconciler,
    until,
    write,
)
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

SECRET = "a value that no report may show"
COMPACT = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
LAZY = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}


def environment(folder: Path, plain: Sandbox, flows: dict[str, str]) -> Path:
    folder.mkdir()
    lines = [f"{two_clusters(plain)}flows:"]
    for name, pattern in flows.items():
        lines.append(f"  {name}: {{source: east, target: west, topics: ['{pattern}'], replication_factor: 1}}")
    lines += ["mirrors:", "  west:", "    master: local[2]", "    parallelism: 2"]
    lines += [f"    spark_conf: {{spark.driver.extraJavaOptions: '{QUICK_START}'}}", ""]
    (folder / "topology.yaml").write_text("\n".join(lines))
    return folder


@dataclass(frozen=True)
class Run:
    ended: Ended
    told: dict[str, Any]
    unit: str
    env: Path

    def of(self, topic: str, partition: int = 0) -> dict[str, Any]:
        return by_topic(self.told)[f"{self.unit}-{topic}", partition]


@pytest.fixture(scope="module")
def faults(plain: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A flow whose target was spoilt in every way, verified once."""
    unit = f"f{uuid.uuid4().hex[:6]}"
    flow = HandMadeFlow(f"{unit}-flow", plain["east"], plain["west"])
    good = numbered(6_000)

    def one(name: str, theirs: list[Any], ours: list[Any] = good, position: int | None = None) -> None:
        flow.fill(flow.topics(f"{unit}-{name}"), ours, theirs, position)

    one("equal", good)
    one("altered", [*good[:5_000], (b"k5000", SECRET.encode(), good[5_000][2], good[5_000][3]), *good[5_001:]])
    one("missing", good[:7] + good[8:])
    one("cut", good[:-3])
    one("swapped", [*good[:41], good[42], good[41], *good[43:]])
    one("extra", [*good, (b"new", SECRET.encode(), (), 1)])
    empty = (b"k10", b"", good[10][2], good[10][3])
    one("null", [*good[:10], empty, *good[11:100]], [*good[:10], (b"k10", None, *empty[2:]), *good[11:100]])
    one("never", [], good[:10], position=-1)
    one("behind", good[:50], good[:200], position=50)
    several = [
        *good[:9],
        (b"k9", b"other", *good[9][2:]),
        *good[10:2_000],
        *good[2_002:4_000],
        good[3_999],
        *good[4_000:],
    ]
    one("several", several)
    one("gap", good[:100] + good[3_000:])
    keyed = flow.topics(f"{unit}-keyed", source=LAZY, target=LAZY)
    ours = [(b"k%d" % (i % 20), b"v%d" % i, (), 1_700_000_000_000 + i) for i in range(100)]
    flow.fill(keyed, ours, [*ours[:90], (b"k10", b"other", (), 1_700_000_000_000), *ours[91:]])
    env = environment(tmp_path_factory.mktemp("faults") / "env", plain, {flow.name: f"{unit}-.*"})
    out = env.parent / "found.json"
    ended = reconciler("verify", env, "--out", out)
    assert out.exists(), ended.out + ended.err
    return Run(ended, loaded(out), unit, env)


@pytest.mark.long
def test_differences_are_found_and_nothing_else(faults: Run) -> None:
    assert faults.ended.code == 2
    jsonschema.validate(faults.told, loaded(ROOT / "schemas" / "verify.schema.json"))
    states = {one["source_topic"].removeprefix(f"{faults.unit}-"): one["state"] for one in faults.told["partitions"]}
    different = dict.fromkeys(
        ("altered", "missing", "cut", "swapped", "extra", "null", "several", "gap", "keyed"), "different"
    )
    assert states == {**different, "equal": "equal", "behind": "equal", "never": "unknown"}
    assert faults.told["exit_code"] == 2
    assert faults.ended.out.startswith("Different: 9 of 12 partitions, 1 unknown")


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "what", "record", "offsets"),
    [
        ("altered", ["value"], 5_000, (5_000, 5_000)),
        ("missing", ["missing"], 7, (7, 7)),
        ("cut", ["missing"], 5_997, (5_997, None)),
        ("swapped", ["swapped"], 41, (41, 41)),
        ("extra", ["extra"], 6_000, (None, 6_000)),
        ("null", ["value"], 10, (10, 10)),
    ],
)
def test_the_first_difference_has_its_name_and_both_offsets(
    faults: Run, topic: str, what: list[str], record: int, offsets: tuple[int | None, int | None]
) -> None:
    found = faults.of(topic)["difference"]
    assert (found["what"], found["record"]) == (what, record)
    assert (found["source_offset"], found["target_offset"]) == offsets


@pytest.mark.long
def test_it_goes_on_behind_a_difference_and_names_each(faults: Run) -> None:
    found = faults.of("several")
    told = [(one["what"][0], one["source_offset"], one["target_offset"], one["count"]) for one in found["differences"]]
    assert told == [("value", 9, 9, 1), ("missing", 2_000, 2_000, 2), ("extra", 4_000, 3_998, 1)]
    assert (found["equal"], found["differing"], found["source_records"]) == (5_997, 4, 6_000)
    assert found["difference"] == found["differences"][0]
    assert faults.of("altered")["equal"] == 5_999
    gap = faults.of("gap")
    assert [(one["what"], one["source_offset"], one["count"]) for one in gap["differences"]] == [
        (["missing"], 100, 2_900)
    ]
    assert (gap["equal"], gap["differing"]) == (3_100, 2_900)


@pytest.mark.long
def test_a_sample_says_what_it_did_not_look_at(faults: Run) -> None:
    ended = reconciler("verify", faults.env, "--sample", "10%", "--seed", "5", "--format", "json")
    (faults.env.parent / "sample.json").write_text(ended.out)
    told = loaded(faults.env.parent / "sample.json")
    jsonschema.validate(told, loaded(ROOT / "schemas" / "verify.schema.json"))
    assert told["sample"] == {"of_each": "10 %", "seed": 5}
    equal = by_topic(told)[f"{faults.unit}-equal", 0]
    [(start, end)] = equal["parts"]
    assert (end - start, equal["equal"], equal["state"]) == (600, 600, "equal")
    assert by_topic(told)[f"{faults.unit}-keyed", 0]["parts"] is None


@pytest.mark.long
def test_null_is_not_empty(faults: Run) -> None:
    found = faults.of("null")["difference"]
    assert (found["source"]["value"]["length"], found["target"]["value"]["length"]) == (None, 0)


@pytest.mark.long
def test_a_key_whose_last_record_differs_is_reported(faults: Run) -> None:
    found = faults.of("keyed")
    assert (found["compared"], found["equal"], found["differing"]) == ("keys", 19, 1)
    assert found["difference"]["what"] == ["value", "timestamp"]
    assert (found["difference"]["source_offset"], found["difference"]["target_offset"]) == (90, 90)


@pytest.mark.long
def test_lag_is_not_compared_and_a_flow_never_started_is_not_equal(faults: Run) -> None:
    behind, never = faults.of("behind"), faults.of("never")
    assert (behind["equal"], behind["lag"]) == (50, 150)
    assert "no position" in never["reason"]
    assert "mirror start" in never["todo"]


@pytest.mark.long
def test_no_value_is_shown(faults: Run) -> None:
    assert SECRET not in faults.ended.out + faults.ended.err + str(faults.told)
    assert str(len(SECRET)) + " bytes" in faults.ended.out


@pytest.mark.long
def test_nothing_is_left_behind_of_a_job_that_answered(faults: Run) -> None:
    west = faults.env.parent / ".reconciler" / faults.env.name / "west"
    assert not list(west.glob("verify-*/result.json"))


@pytest.mark.long
def test_a_killed_run_is_continued_from_what_it_had_compared(plain: Sandbox, tmp_path: Path) -> None:
    """Retention removes what was compared before the second run: it can be known from the first one alone."""
    unit = f"r{uuid.uuid4().hex[:6]}"
    flow = HandMadeFlow(f"{unit}-flow", plain["east"], plain["west"])
    first, rest = f"{unit}-first", f"{unit}-rest"
    flow.fill(flow.topics(first), numbered(6_000), numbered(6_000))
    # Cut and large, so that it is read by Spark's tasks, which start after the first topic is compared and kept.
    flow.fill(flow.topics(rest), numbered(200_000), numbered(200_000))
    delete_records(plain, rest, 1)
    env = environment(tmp_path / "env", plain, {flow.name: f"{unit}-.*"})
    progress = tmp_path / ".reconciler" / "env" / "west" / "verify-progress.json"
    command = subprocess.Popen([sys.executable, "-m", "reconciler", "verify", str(env)], stderr=subprocess.PIPE)
    until("what is compared is kept", progress.exists)
    command.kill()
    assert command.wait(30) == -signal.SIGKILL
    until("its job is gone, with its folder", lambda: not list(progress.parent.glob("verify-*/")))

    delete_records(plain, first, 6_000)
    out = tmp_path / "found.json"
    ended = reconciler("verify", env, "--resume", "--out", out)
    assert ended.code == 0, ended.out + ended.err
    assert "compared in part by an earlier run: " in ended.err
    found = by_topic(loaded(out))
    assert (found[first, 0]["state"], found[first, 0]["equal"]) == ("equal", 6_000)
    assert (found[rest, 0]["state"], found[rest, 0]["equal"]) == ("equal", 199_999)


def delete_records(plain: Sandbox, topic: str, before: int) -> None:
    for handle, name in ((plain["east"], topic), (plain["west"], f"east.{topic}")):
        admin, place = AdminClient(handle.client()), TopicPartition(name, 0, before)
        admin.delete_records([place])[place].result(20)


@pytest.fixture(scope="module")
def live(plain: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Topics mirrored by a lane that goes on copying while they are verified; the chunk table goes to Parquet."""
    unit = f"l{uuid.uuid4().hex[:6]}"
    flow = HandMadeFlow(f"{unit}-flow", plain["east"], plain["west"])
    east = plain["east"]
    counts = {"transactions": 2, "awkward": 3, "compacted": 1, "load": 2, "retained": 1}
    configs = {"compacted": (LAZY, LAZY)}
    for name, partitions in counts.items():
        flow.topics(f"{unit}-{name}", partitions, *configs.get(name, (None, None)))
    write_transactions(east, f"{unit}-transactions", 2, 9, f"{unit}-writer")
    write_awkward(east, f"{unit}-awkward", 3, 1_500)
    write(east, f"{unit}-retained", numbered(500))
    states = [(b"k%d" % (i % 30), b"v%d" % i, (), 1_700_000_000_000 + i) for i in range(600)]
    gone = [(b"k%d" % i, None, (), 1_700_000_001_000 + i) for i in range(5)]
    write(east, f"{unit}-compacted", [*states, *gone])
    lane = RunningLane(flow, {f"{unit}-{name}": partitions for name, partitions in counts.items()}).start()
    load = Load(east, f"{unit}-load", 2)
    try:
        until("the mirror copies", lambda: lane.latest and lane.latest.transactions > 3)
        until("605 records mirrored", lambda: total(digest(plain["west"], f"east.{unit}-compacted")) == 605)
        admin, place = AdminClient(east.client()), TopicPartition(f"{unit}-retained", 0, 120)
        eager = [ConfigEntry(*one, incremental_operation=AlterConfigOpType.SET) for one in COMPACT.items()]
        topic = ConfigResource(ResourceType.TOPIC, f"{unit}-compacted", incremental_configs=eager)
        admin.incremental_alter_configs([topic])[topic].result(20)
        admin.delete_records([place])[place].result(20)
        stamps = itertools.count(1_700_000_002_000, 1_000)

        def compacted() -> bool:
            write(east, f"{unit}-compacted", [(b"last", b"closes a segment", (), next(stamps))])
            return total(digest(east, f"{unit}-compacted")) < 100

        until("the source is compacted", compacted)
        env = environment(tmp_path_factory.mktemp("live") / "env", plain, {flow.name: f"{unit}-.*"})
        before = load.count
        ended = reconciler("verify", env, flow.name, "--format", "json", "--parquet", env.parent / "table")
        assert load.count > before, "the load had ended"
        (env.parent / "found.json").write_text(ended.out)
        yield Run(ended, loaded(env.parent / "found.json"), unit, env)
    finally:
        load.stop()
        lane.stop()


def test_a_running_mirror_is_proved_equal(live: Run) -> None:
    assert live.ended.code == 0, live.ended.out + live.ended.err
    jsonschema.validate(live.told, loaded(ROOT / "schemas" / "verify.schema.json"))
    assert {one["state"] for one in live.told["partitions"]} == {"equal"}
    assert len(live.told["partitions"]) == 9
    assert live.told["verdict"].startswith("Equal: 9 partitions")
    assert sum(live.of("load", partition)["equal"] for partition in (0, 1)) > 0
    assert sum(live.of("awkward", partition)["equal"] for partition in range(3)) == 1_500


def test_control_markers_and_aborted_records_do_not_count(live: Run) -> None:
    found = [live.of("transactions", partition) for partition in (0, 1)]
    assert sum(one["equal"] for one in found) == 120
    assert all(one["source"]["end"] > one["equal"] for one in found)


def test_a_topic_compacted_on_one_side_only_is_equal(live: Run) -> None:
    found = live.of("compacted")
    assert (found["compared"], found["differing"]) == ("keys", 0)
    assert found["equal"] >= 26


def test_what_retention_removed_at_the_source_is_counted_as_older(live: Run) -> None:
    found = live.of("retained")
    assert (found["equal"], found["older_at_target"], found["older_at_source"]) == (380, 120, 0)


def test_progress_is_distinguished_from_the_answer(live: Run) -> None:
    assert "Spark is starting" in live.ended.err
    # A comparison that ends before the first tick says no more than what it compares.
    assert re.search(r"mirror west: partitions to compare: \d+; not readable: \d+", live.ended.err)


@pytest.mark.long
def test_what_an_earlier_run_proved_is_not_read_again(live: Run) -> None:
    ended = reconciler("verify", live.env, "--resume", "--format", "json")
    assert "compared in part by an earlier run: 8" in ended.err, ended.err
    (live.env.parent / "again.json").write_text(ended.out)
    again = by_topic(loaded(live.env.parent / "again.json"))
    assert {one["state"] for one in again.values()} == {"equal"}
    assert again[f"{live.unit}-load", 0]["equal"] > live.of("load")["equal"]


def test_the_chunk_table_is_parquet(live: Run) -> None:
    folder = live.env.parent / "table" / "chunks"
    files = list(folder.glob("*.parquet"))
    assert files
    assert all(file.read_bytes()[:4] == b"PAR1" for file in files)
    assert (folder / "_SUCCESS").exists()
