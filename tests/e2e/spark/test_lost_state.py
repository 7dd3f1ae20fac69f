"""What a mirror keeps on its target is deleted under it, and then its job is killed: nothing is copied that should not
be. A real job, and commands as a user would run them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.names import STATUS_TOPIC
from tests.support.clusters import CreateTopic, delete_topic
from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import Ended, reconciler, until
from tests.support.lanes.high_offsets import backup, restore
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def env(plain: Sandbox, unique: str, tmp_path: Path, create_topic: CreateTopic) -> Iterator[Path]:
    """A flow that took MirrorMaker 2 over: its ``start`` says at which offsets. The first 10 of ``late`` were copied by
    that. ``held`` is what a failover leaves paused."""
    east, west = plain["east"], plain["west"]
    for topic in ("late", "held"):
        create_topic(east, f"{unique}{topic}")
        create_topic(west, f"east.{unique}{topic}")
        write(east, f"{unique}{topic}", range(20))
    write(west, f"east.{unique}late", range(10))
    folder = tmp_path / unique
    folder.mkdir()
    text = "clusters:\n"
    for handle in (east, west):
        servers = f"bootstrap_servers: [{handle.bootstrap_servers}], cluster_id: {handle.cluster_id}"
        text += f"  {handle.name}: {{{servers}, defaults: {{replication_factor: 1}}}}\n"
    start = f"{{offsets: {{{unique}late: {{0: 10}}}}}}"
    flow = f"{{source: east, target: west, topics: ['{unique}.*'], replication_factor: 1, start: {start}}}"
    text += f"flows:\n  {unique}: {flow}\nmirrors:\n  m: {{flows: [{unique}], status_interval: 1s}}\n"
    (folder / "topology.yaml").write_text(text, encoding="utf-8")
    yield folder
    run(folder, "mirror", "stop", folder)


def run(env: Path, *words: object) -> Ended:
    return reconciler(*words, RECONCILER_STATE=str(env.parent / "state"))


def write(cluster: ClusterHandle, topic: str, numbers: range) -> None:
    made = producer(cluster)
    for number in numbers:
        made.produce(topic, b"%d" % number)
    assert made.flush(60) == 0


def copied(cluster: ClusterHandle, topic: str, numbers: range) -> Callable[[], bool]:
    """All of them, in order, each once."""
    return lambda: [int(message.value()) for message in to_the_end(cluster, topic, {0: []})] == [*numbers]


def mirror_of(env: Path) -> Mapping[str, Any]:
    seen: Mapping[str, Any] = json.loads(run(env, "status", env, "--format", "json").out)["mirrors"]["m"]
    return seen


@pytest.mark.long
def test_what_was_paused_stays_so(env: Path, plain: Sandbox, unique: str) -> None:
    east, west = plain["east"], plain["west"]
    late, held = f"east.{unique}late", f"east.{unique}held"
    applied = run(env, "apply", env, "--yes")
    assert applied.code == 0, applied
    until("both copies", lambda: copied(west, late, range(20))() and copied(west, held, range(20))(), 120)
    paused = run(env, "mirror", "pause", env, unique, "--topic", f"{unique}held", "--reason", "failover to west")
    assert paused.code == 0, paused
    write(east, f"{unique}held", range(20, 27))

    # The topic of pauses is deleted under the job, and comes back: so does the pause.
    delete_topic(west, STATUS_TOPIC)
    write(east, f"{unique}late", range(20, 25))
    until("more of the other topic", copied(west, late, range(25)), 60)
    refused = run(env, "mirror", "resume", env, unique, "--topic", f"{unique}held")
    assert (refused.code, "what is paused is not known" in refused.err) == (1, True), refused
    applied = run(env, "apply", env, "--yes")
    assert applied.code == 0, applied
    assert "what was paused was written there" in applied.out
    until("the pause", lambda: mirror_of(env)["flows"][unique]["pauses"] != [], 60)
    assert copied(west, held, range(20))()

    # It is deleted again, and the job is killed: what its successor cannot know is paused.
    delete_topic(west, STATUS_TOPIC)
    write(east, f"{unique}late", range(25, 30))
    until("all of the other topic", copied(west, late, range(30)), 60)
    killed = driver_of(env)
    os.killpg(os.getpgid(killed), signal.SIGKILL)
    until("its successor", lambda: driver_of(env) not in (0, killed), 120)
    applied = run(env, "apply", env, "--yes")
    assert applied.code == 0, applied
    until("the pause of all", lambda: mirror_of(env)["flows"][unique]["state"] == "paused", 90)
    assert "was deleted, so what was paused is not known" in run(env, "status", env).out
    assert copied(west, held, range(20))()
    assert run(env, "mirror", "resume", env, unique).code == 0
    until("what waited", copied(west, held, range(27)), 60)

    # Another hand leaves a topic out of the definition that the supervisor starts again: nothing runs by it.
    folder = env.parent / "state" / env.name / "m"
    handover = folder / "handover.json"
    text = handover.read_text(encoding="utf-8")
    handover.write_text(text.replace(f"{unique}.*", f"{unique}late"), encoding="utf-8")
    os.killpg(os.getpgid(driver_of(env)), signal.SIGKILL)
    write(east, f"{unique}late", range(30, 35))
    write(east, f"{unique}held", range(27, 30))
    until("its refusal", lambda: "handover.json is not as it was written" in (folder / "job.log").read_text(), 120)
    until("its end", lambda: json.loads((folder / "supervisor.json").read_text())["state"] == "failed", 30)
    told = run(env, "status", env)
    assert "its process is gone: " in " ".join(told.out.split()), told
    assert "What was reviewed is not what would run" in " ".join(told.out.split()), told
    applied = run(env, "apply", env, "--yes")
    assert applied.code == 0, applied
    until("both copies", lambda: copied(west, late, range(35))() and copied(west, held, range(30))(), 120)


def driver_of(env: Path) -> int:
    file = env.parent / "state" / env.name / "m" / "driver.json"
    return int(json.loads(file.read_text(encoding="utf-8"))["pid"]) if file.is_file() else 0


@pytest.mark.long
def test_a_source_that_was_restored_and_has_grown_again(env: Path, plain: Sandbox, unique: str) -> None:
    east, topic = plain["east"], f"{unique}held"
    copy = f"east.{topic}"
    assert run(env, "apply", env, "--yes").code == 0
    until("the copy", copied(plain["west"], copy, range(20)), 120)
    kept = backup(east)
    write(east, topic, range(20, 30))
    until("what the source will lose", copied(plain["west"], copy, range(30)), 120)
    assert run(env, "mirror", "stop", env).code == 0
    restore(east, kept)
    write(east, topic, range(30, 50))
    run(env, "apply", env, "--yes")

    def codes() -> set[str]:
        return {one["code"] for one in mirror_of(env)["flows"][unique]["conditions"]}

    until("what is at stake", lambda: "source_truncated" in codes(), 90)
    told = run(env, "status", env)
    words = " ".join(told.out.split())
    assert "what was copied only up to 20" in words, told
    assert "up to 10 at offsets 20 to 29 of the source" in words, told
    assert copied(plain["west"], copy, range(30))()
    [offset] = {*re.findall(rf"mirror seek \S+ \S+ --topic {topic} --partition 0 --to (\d+)", words)}
    assert run(env, "mirror", "stop", env).code == 0
    sought = run(env, "mirror", "seek", env, unique, "--topic", topic, "--partition", 0, "--to", offset, "--yes")
    assert sought.code == 0, sought
    applied = run(env, "apply", env, "--yes")
    assert applied.code == 0, applied
    until("the source's other records", copied(plain["west"], copy, range(50)), 120)
