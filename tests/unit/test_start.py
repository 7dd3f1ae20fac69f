"""What a command imports before it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CLUSTER = "clusters: {east: {bootstrap_servers: ['a:9092']}}\n"


def test_validate_asks_no_cluster_and_imports_nothing_that_could(tmp_path: Path) -> None:
    """It runs before each commit: a third of the time is the whole program's imports."""
    (tmp_path / "topology.yaml").write_text(CLUSTER + "topics: {orders: {clusters: [east], partitions: 1}}\n")
    program = """
import os
import sys
from reconciler import start

def end(code):
    late = {"confluent_kafka", "kafka", "git", "jsonschema", "reconciler.cli", "reconciler.wiring"} & sys.modules.keys()
    print(*late, code)
    sys.stdout.flush()
    os._exit(code)

start._end = end
start.main()
"""
    command = [sys.executable, "-c", program, "validate", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{tmp_path} is valid: 1 cluster, 1 topic, 0 flows", "0"]
