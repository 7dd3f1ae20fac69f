"""A real MirrorMaker 2 copies, is stopped or killed, and its positions are taken over: every record once, in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import pytest
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.cli.main import main
from reconciler.operations.importers import positions as inheritance
from reconciler.operations.session.session import read_topology
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handovers
from tests.support.clusters import CreateTopic
from tests.support.commands import two_clusters
from tests.support.lanes.lane_runs import Flow
from tests.support.lanes.mirrormaker_records import mirrormaker, values, write

RECORDS = 20
PATIENCE_S = 240.0


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("end", [pytest.param(SIGKILL, id="killed"), pytest.param(SIGTERM, id="stopped")])
@pytest.mark.long
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
            for start in ("latest", "again"):
                (env / "topology.yaml").write_text(f"{text}    start: {start}\n    topics: [{unique}]\n")
                assert run("apply", env, "--yes") == 3, "both would copy each new record"
                assert "is running (group east-mm2 on west is Stable)" in capfd.readouterr().out
            (env / "topology.yaml").write_text(f"{text}    topics: [{unique}]\n")
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
