"""``status --watch`` as a process: it goes on while clusters are silent, and Ctrl-C is an ordinary end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.commands import Write

NOBODY = """
clusters:
  east: {bootstrap_servers: [127.0.0.1:1]}
  west: {bootstrap_servers: [127.0.0.1:2]}
flows:
  f: {source: east, target: west, topics: [a], replication_factor: 1}
"""


def interrupted(env: Path, *words: str, seen: str) -> tuple[int, str, str]:
    """Exit code and both outputs of a process that gets SIGINT once it has shown ``seen`` twice."""
    out, err = env.parent / "out", env.parent / "err"
    command = [sys.executable, "-m", "reconciler", "status", str(env), "--watch", *words]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        try:
            give_up = time.monotonic() + 90
            while out.read_text().count(seen) < 2:
                assert time.monotonic() < give_up, out.read_text() + err.read_text()
                assert process.poll() is None, err.read_text()
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            return process.wait(60), out.read_text(), err.read_text()
        finally:
            process.kill()


@pytest.mark.slow
def test_silent_clusters_are_rows_and_ctrl_c_ends_with_0(write: Write) -> None:
    code, out, err = interrupted(write(NOBODY), seen="does not answer")
    assert code == 0
    assert "(mirror west)" in out
    assert "Traceback" not in err


@pytest.mark.slow
def test_json_is_one_document_after_the_other(write: Write) -> None:
    code, out, err = interrupted(write(NOBODY), "--format", "json", seen='"format_version"')
    assert code == 0
    decoder, rest = json.JSONDecoder(), out.lstrip()
    for _ in range(2):
        told, end = decoder.raw_decode(rest)
        assert told["mirrors"]["west"]["state"] == "unknown"
        rest = rest[end:].lstrip()
    assert "Traceback" not in err
