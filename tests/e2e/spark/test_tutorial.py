"""The tutorial, block after block as its reader types them, on clusters and ports of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs.free_ports import free_ports
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "begin" / "tutorial.md"
BLOCK = re.compile(r"^(?:<!-- exit (\d) -->\n)?```shell\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""The exit code that is expected is a comment above the block, which neither GitHub nor the site shows."""
SETUP, EAST, WEST = "make install", "127.0.0.1:19092", "127.0.0.1:29092"

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.long]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment variables of a reader with an empty sandbox."""
    environ = {
        **os.environ,
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "RECONCILER_SANDBOX": str(tmp_path / "sandbox"),
        "SANDBOX_PORT": str(free_ports()),
    }
    yield environ
    for words in (
        ["mirror", "stop", "environments/tutorial"],
        ["sandbox", "down", "--clear"],
    ):  # a block may have failed
        subprocess.run(["reconciler", *words], env=environ, cwd=tmp_path, check=False)


def test_every_block_does_what_the_page_says(reader: dict[str, str], tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) > 10
    addresses: dict[str, str] = {}
    for expected, commands in blocks:
        if commands.startswith(SETUP):
            continue
        for printed, here in addresses.items():
            commands = commands.replace(printed, here)
        words = ["bash", "-euo", "pipefail", "-c", commands.replace("/tmp/", f"{tmp_path}/")]
        done = subprocess.run(words, env=reader, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == int(expected or 0), f"{commands}\n{done.stdout}\n{done.stderr}"
        if not addresses:
            asked = ["reconciler", "sandbox", "status", "--format", "json"]
            shown = subprocess.run(asked, env=reader, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
            servers = {each["cluster"]: each["bootstrap_servers"] for each in json.loads(shown)["clusters"]}
            addresses = {EAST: servers["east"], WEST: servers["west"]}
        told(commands, done.stdout)


def told(commands: str, output: str) -> None:
    """What the page says of these blocks beyond their exit code."""
    if "verify" in commands:
        assert "10,000" in output or output.count("equal") >= 4, output
    if "7d/retention.ms: 14d" in commands:
        assert "mirror west keeps running" in output
        assert "east.orders" in output
    if "retention.ms: 1m/" in commands and "payments" in commands:
        assert "HIGH risk" in output
        assert "restart once" in output
    if "translate" in commands:
        assert "exact" in output
