"""Completion as a shell asks for it: commands, options, environments, names of their YAML; never a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.cli.main import main
from reconciler.render.completion import environments, topics

YAML = """
clusters: {east: {bootstrap_servers: [east.invalid:9092]}, west: {bootstrap_servers: [west.invalid:9092]}}
flows: {east-to-west: {source: east, target: west, topics: [orders]}}
topics: {orders: {clusters: [east]}, clicks: {clusters: [east]}}
"""
ASK = """
eval "$SCRIPT"
while IFS= read -r line; do
  IFS='|' read -r -a COMP_WORDS <<< "$line|"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _reconciler_completion reconciler
  echo "${COMPREPLY[@]}"
done
"""
ASKED = {
    "reconciler|pl": "plan",
    "reconciler|mirror|pau": "pause",
    "reconciler|plan|envs/p": "envs/prod",
    "reconciler|plan|envs/prod|--off": "--offline",
    "reconciler|verify|envs/prod|e": "east-to-west",
    "reconciler|mirror|pause|envs/prod|east-to-west|--topic|o": "orders",
    "reconciler|apply|envs/prod|--move-lock|w": "west",
    "reconciler|verify|envs/broken|e": "",
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "envs/prod/topology.yaml": YAML,
        "envs/broken/topology.yaml": "clusters:\n  - [\n",
        "envs/live/east/cluster.yaml": "clusters: {east: {bootstrap_servers: [e:1]}}\n",
        "envs/live/west/cluster.yaml": "clusters: {west: {bootstrap_servers: [w:1]}}\n",
        "envs/docs/other.yaml": "a: 1\n",
        ".git/hidden/topology.yaml": YAML,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_environments_are_folders_that_declare_clusters() -> None:
    assert environments("") == ["envs/broken", "envs/live", "envs/prod"]
    assert environments("envs/l") == ["envs/live"]
    assert environments("./envs/p") == ["./envs/prod"]
    assert environments("nowhere/x") == []


def test_names_come_from_files_with_slips_too(repository: Path) -> None:
    """A day that no calendar has, and brackets without end, are for validate to report."""
    slips = "deletions: [{cluster: east, topic: old, expires: 2026-02-30}]\ntopics: {2026-01-01: {}, on: {}}\n"
    (repository / "envs/prod/slips.yaml").write_text(slips)
    (repository / "envs/prod/deep.yaml").write_text("topics: " + "[" * 100_000)
    asked = SimpleNamespace(params={"env": repository / "envs/prod"}, args=[])
    assert topics(asked) == ["2026-01-01", "clicks", "on", "orders"]


@pytest.mark.long
def test_bash_completes_by_the_script_it_sourced(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "bash"])
    assert ended.value.code == 0
    command = repository / "bin" / "reconciler"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m reconciler "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    bash = subprocess.run(
        ["bash", "-c", ASK],
        input="".join(f"{line}\n" for line in ASKED),
        env={**os.environ, "SCRIPT": capsys.readouterr().out, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(zip(ASKED, bash.stdout.splitlines(), strict=True)) == ASKED
    assert bash.stderr == ""


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef reconciler"), ("fish", "complete --command")])
def test_each_shell_has_its_script(shell: str, begins: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", shell])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(begins)
