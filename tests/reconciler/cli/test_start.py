"""What a command imports before it works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {"asyncio", "confluent_kafka", "git", "jsonschema", "kafka", "prometheus_client", "reconciler.model.changes"}
HEAVY |= {
    "reconciler.model.environment.topology",
    "reconciler.operations.session.session",
    "ruamel",
    "reconciler_sandbox",
    "structlog",
    "reconciler.kafka.client",
    "reconciler.kafka.protocol",
}
COMPLETION = {"_RECONCILER_COMPLETE": "complete_bash", "COMP_WORDS": "reconciler mirror st", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("words", "environment", "code"),
    [(["--help"], {}, 0), (["plam"], {}, 1), ([], COMPLETION, 0)],
    ids=["help", "wrong command", "complete"],
)
def test_what_needs_no_cluster_imports_nothing_that_could_ask_one(
    words: list[str], environment: dict[str, str], code: int
) -> None:
    """Three quarters of the time were imports."""
    program = f"""
import atexit
import os
import sys
from reconciler.cli import start

def told():
    print("late:", *sorted({HEAVY!r} & sys.modules.keys()))

atexit.register(told)
start.main()
"""
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "late:"), done.stderr
