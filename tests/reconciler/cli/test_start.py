"""What a command imports before it works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


HEAVY = {"asyncio", "confluent_kafka", "git", "jsonschema", "kafka", "prometheus_client", "reconciler.changes"}
HEAVY |= {"reconciler.topology", "reconciler.wiring", "ruamel", "sandbox", "structlog", "wire"}
COMPLETION = {"_RECONCILER_COMPLETE": "complete_bash", "COMP_WORDS": "reconciler mirror st", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("words", "environment", "code"),
    [
        (["--help"], {}, 0),
        (["--version"], {}, 0),
        (["drift", "--help"], {}, 0),
        (["apply", "env", "--no-such"], {}, 1),
        (["drift", "env", "--no-such"], {}, 1),
        (["plam"], {}, 1),
        ([], COMPLETION, 0),
    ],
    ids=["help", "version", "help of a command", "wrong option", "wrong option of a read", "wrong command", "complete"],
)
def test_what_needs_no_cluster_imports_nothing_that_could_ask_one(
    words: list[str], environment: dict[str, str], code: int
) -> None:
    """Three quarters of the time were imports."""
    program = f"""
import atexit
import os
import sys
from reconciler import start

def told():
    print("late:", *sorted({HEAVY!r} & sys.modules.keys()))

atexit.register(told)
start.main()
"""
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "late:"), done.stderr
