"""A real MirrorMaker 2 is taken over by one command, left and gone on with: every record once, and proved."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import CreateTopic
from tests.support.lanes.lane_runs import Flow
from tests.support.lanes.mirrormaker_records import mirrormaker, values, write
from tests.support.paths import ROOT

RECORDS, PATIENCE_S = 20, 240.0


@pytest.mark.spark
@pytest.mark.long
def test_mirrormaker_is_taken_over_by_one_command_that_is_run_again(
    plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    east, west, env = plain["east"], plain["west"], tmp_path / "environments" / "prod"
    create_topic(east, unique, partitions=2)
    flow, until = Flow(east, west, unique, partitions=2), time.monotonic() + PATIENCE_S
    environ = {**os.environ, "RECONCILER_STATE": str(tmp_path / "state"), "NO_COLOR": "1"}

    def reconciler(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "reconciler", *map(str, words)]
        return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=200, check=False)

    def take_over() -> subprocess.CompletedProcess[str]:
        return reconciler("takeover", tmp_path / "mm2.properties", "--out", env, "--yes")

    def wait_for(done: Callable[[], bool]) -> None:
        while not done():
            assert time.monotonic() < until, (tmp_path / "mm2.log").read_text()[-3000:]
            time.sleep(0.3)

    write(east, unique, range(RECORDS))
    with mirrormaker(plain, unique, tmp_path) as process:
        wait_for(lambda: (tmp_path / "mm2.log").is_file() and _copied(flow) == RECORDS)
        running = take_over()
        assert running.returncode == 3, running.stdout + running.stderr
        again = shlex.join(["reconciler", "takeover", str(tmp_path / "mm2.properties"), "--out", str(env)])
        assert "Stop MirrorMaker 2 now" in running.stderr
        assert f"Then continue: {again}" in running.stderr
        assert "import-positions" not in running.stdout, "takeover does this step itself"
        written = {path: path.read_text() for path in env.iterdir()}
        assert written, "what an earlier run wrote stays"
        process.send_signal(SIGTERM)
        process.wait(60)
    write(east, unique, range(RECORDS, 2 * RECORDS))
    try:
        while (begun := take_over()).returncode == 3:  # its group is not empty until its session ends
            assert time.monotonic() < until, begun.stderr
            time.sleep(0.5)
        assert begun.returncode == 0, begun.stdout + begun.stderr
        assert "start: {offsets:" in "".join(path.read_text() for path in env.iterdir())
        wait_for(lambda: _copied(flow) >= 2 * RECORDS)
        proved = take_over()
        assert proved.returncode == 0, proved.stdout + proved.stderr
        assert "Equal" in proved.stdout
        assert values(flow) == [list(range(start, 2 * RECORDS, 2)) for start in (0, 1)], "each once, in order"
    finally:
        reconciler("mirror", "stop", env)


def _copied(flow: Flow) -> int:
    try:
        return sum(map(len, values(flow)))
    except Exception:  # noqa: BLE001  # MirrorMaker 2 has not made the remote topic yet
        return 0
