"""A real MirrorMaker 2 copies, is stopped or killed, and its positions are taken over: every record once, in order."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import pytest
from confluent_kafka import Producer
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.cli.main import main
from reconciler.operations.importers import positions as inheritance
from reconciler.operations.session.session import read_topology
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handovers
from tests.support.clusters import CreateTopic
from tests.support.commands import two_clusters
from tests.support.lanes.lane_runs import Flow

RECORDS = 20
PATIENCE_S = 240.0


@contextmanager
def mirrormaker(sandbox: Sandbox, topic: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """In dedicated mode, from east to west. Killed in the end, if it was not stopped."""
    servers = {name: sandbox[name].bootstrap_servers for name in ("east", "west")}
    kinds = ("", "offset.storage.", "status.storage.", "config.storage.", "offset-syncs.topic.")
    lines = {
        "clusters": "east,west",
        **{f"{name}.bootstrap.servers": address for name, address in servers.items()},
        "east->west.enabled": "true",
        "east->west.topics": topic,
        "east->west.emit.heartbeats.enabled": "false",
        "east->west.emit.checkpoints.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "west->east.enabled": "false",
        "west.offset.flush.interval.ms": "3000",
        **{f"{kind}replication.factor": "1" for kind in kinds},
    }
    config, log = folder / "mm2.properties", folder / "mm2.log"
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    command = [
        prerequisites.java(),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars.ensure(release=MIRRORMAKER)}{os.sep}*",
    ]
    command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(config)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(60)


def write(east: ClusterHandle, topic: str, numbers: range) -> None:
    producer = Producer(east.super_client())
    for number in numbers:
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(60) == 0


def values(flow: Flow) -> list[list[int]]:
    return [[int(value or b"") for _, value, _, _ in records] for _, records in sorted(flow.target_content().items())]


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("end", [SIGKILL, SIGTERM], ids=["killed", "stopped"])
def test_our_mirror_goes_on_where_mirrormaker_ended(
    end: Signals,
    plain: Sandbox,
    unique: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(inheritance, "LOOK_AGAIN_S", 0.1)
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=2)
    create_topic(west, f"east.{unique}", partitions=2)
    write(east, unique, range(RECORDS))
    flow = Flow(east, west, unique, partitions=2)
    env = tmp_path / "env"
    env.mkdir()
    text = f"{two_clusters(plain)}flows:\n  {unique}: # by hand\n    source: east\n    target: west\n"
    (env / "topology.yaml").write_text(f"{text}    topics: [{unique}]\n")
    words = ("mirror", "import-positions", env, unique, "--write")

    with mirrormaker(plain, unique, tmp_path) as process:
        until = time.monotonic() + PATIENCE_S

        def wait_for(done: Callable[[], bool]) -> None:
            while not done():
                assert process.poll() is None, (tmp_path / "mm2.log").read_text()[-4000:]
                assert time.monotonic() < until, (tmp_path / "mm2.log").read_text()[-4000:]
                time.sleep(0.3)

        wait_for(lambda: sum(map(len, values(flow))) == RECORDS)
        for command in (("plan", env), ("apply", env, "--yes")):
            assert run(*command) == 3, "it would copy all of it again"
            beside = capfd.readouterr().out
            assert f"1 topic with {RECORDS} records (east.{unique} {RECORDS})" in beside
            assert "perhaps MirrorMaker 2 (group east-mm2, Stable; topics " in beside
            assert f"to copy: at most {RECORDS} records, again" in beside
        stored = "2 positions of 1 topic from west/mm2-offsets.east.internal"
        if end is SIGKILL:
            assert run(*words) == 3, "it runs"
            assert "workers of MirrorMaker 2 are running: group east-mm2" in capfd.readouterr().err
            wait_for(lambda: run(*words[:-1]) == 0 and stored in capfd.readouterr().out)
        write(east, unique, range(RECORDS, 2 * RECORDS))
        wait_for(lambda: sum(map(len, values(flow))) == 2 * RECORDS)
        process.send_signal(end)  # a kill comes most often before their positions are stored
        process.wait(60)
    write(east, unique, range(2 * RECORDS, 3 * RECORDS))

    while (code := run(*words)) == 3:  # its group is not empty until its session ends
        assert time.monotonic() < until, capfd.readouterr()
        time.sleep(0.5)
    assert code == 0, capfd.readouterr()
    said = capfd.readouterr().out
    assert stored in said
    if end is SIGTERM:
        assert "MirrorMaker 2 was killed" not in said, "it stored all that it had copied"
    written = (env / "topology.yaml").read_text()
    start = f"start: {{offsets: {{{unique}: {{0: {RECORDS}, 1: {RECORDS}}}}}}}"
    assert written == f"{text}    {start}\n    topics: [{unique}]\n"

    assert run("plan", env) == 2, "nothing is blocked any more"
    assert "remote-topic-not-empty" not in capfd.readouterr().out
    [handed] = handovers(read_topology(env)).values()
    [settings] = parse(handed).flows
    flow.run(batch_path, flow.at_end(), start_offsets=settings.start_offsets)
    assert values(flow) == [list(range(side, 3 * RECORDS, 2)) for side in (0, 1)]
    assert run(*words) == 1, "now the flow has positions of its own"
    assert f"{unique}-0: the flow has a position of its own, {3 * RECORDS // 2}, " in capfd.readouterr().err
