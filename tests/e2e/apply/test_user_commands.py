"""SCRAM users by the commands, where brokers ask for passwords: who is declared logs in, a killed run is completed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import may_log_in
from tests.support.commands import Ended

Cli = Callable[..., Ended]
Write = Callable[..., Path]

# SIGKILL to itself when the record is about to say that the version is set.
DIES = """
import os, signal, sys
from reconciler.cli.main import main
from reconciler.backends.state.environment_records import SubjectRecord
write, left = SubjectRecord.write, [1]
def dying(self, entries):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    write(self, entries)
SubjectRecord.write = dying
main(sys.argv[1:])
"""
SECRETS = ("first-secret", "second-secret", "third-secret")


@pytest.fixture
def env(write: Write, secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """``env(entry, ...)`` writes an environment with these users on the secure cluster east."""
    east = secure["east"]
    for name, text in east.secrets().items():
        monkeypatch.setenv(name, text)

    def make(*entries: str) -> Path:
        users = "".join(f"  - {{clusters: [east], {entry}}}\n" for entry in entries)
        return write(
            f"clusters:\n  east:\n    bootstrap_servers: ['{east.bootstrap_servers}']\n"
            f"    cluster_id: {east.cluster_id}\n"
            "    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512,"
            " ssl.ca.location: '${env:SANDBOX_EAST_CA}'}\n"
            "    principals:\n"
            "      plan: {sasl.username: plan, sasl.password: '${env:SANDBOX_EAST_PLAN_PASSWORD}'}\n"
            "      apply: {sasl.username: apply, sasl.password: '${env:SANDBOX_EAST_APPLY_PASSWORD}'}\n"
            f"users:{f'{chr(10)}{users}' if users else ' []'}",
            unique,
        )

    return make


def test_what_is_declared_logs_in_and_no_secret_is_ever_reported(
    cli: Cli, env: Callable[..., Path], secure: Sandbox, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, told = secure["east"], []
    entry = f"name: {unique}, password: '${{env:USER_PASSWORD}}', version"
    other = f"name: {unique}b, password: '${{file:{tmp_path / 'none'}}}', version: 1"
    planned = cli("plan", env(f"{entry}: 1", other))
    assert planned.code == 2, "a plan needs no secret"
    missing = cli("apply", env(f"{entry}: 1", other), "--yes")
    assert missing.code == 1
    assert "${env:USER_PASSWORD}" in missing.words
    assert str(tmp_path / "none") in missing.words

    monkeypatch.setenv("USER_PASSWORD", SECRETS[0])
    told.append(cli("apply", env(f"{entry}: 1"), "--yes"))
    assert may_log_in(east, unique, SECRETS[0])
    saved = tmp_path / "plan.json"
    assert cli("plan", env(f"{entry}: 2"), "--out", saved).code == 2
    monkeypatch.setenv("USER_PASSWORD", SECRETS[1])
    told.append(cli("apply", env(f"{entry}: 2"), "--yes"))
    assert may_log_in(east, unique, SECRETS[1])
    assert not may_log_in(east, unique, SECRETS[0])
    stale = cli("apply", env(f"{entry}: 2"), "--plan", saved, "--yes")
    assert (stale.code, f"user east/{unique}" in stale.words) == (4, True)
    lowered = cli("apply", env(f"{entry}: 1"), "--yes")
    assert (lowered.code, "version-lowered" in lowered.words) == (3, True)
    gone = cli("apply", env(), "--prune", "--allow-shrink", "--yes")
    assert gone.code == 0, gone.words
    told += [gone, stale, lowered, planned, missing]
    assert not may_log_in(east, unique, SECRETS[1])
    audit = "".join(path.read_text() for path in tmp_path.rglob("audit*.jsonl"))
    assert f"user:east: user {unique}" in audit
    for words in (*(one.words for one in told), audit, saved.read_text()):
        assert not any(secret in words for secret in SECRETS)


def test_killed_between_the_password_and_its_record(
    cli: Cli, env: Callable[..., Path], secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = f"name: {unique}, password: '${{env:USER_PASSWORD}}', version"
    monkeypatch.setenv("USER_PASSWORD", SECRETS[0])
    assert cli("apply", env(f"{entry}: 1"), "--yes").code == 0
    monkeypatch.setenv("USER_PASSWORD", SECRETS[1])
    folder = env(f"{entry}: 2")
    command = [sys.executable, "-c", DIES, "apply", str(folder), "--yes"]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=240, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert may_log_in(secure["east"], unique, SECRETS[1]), "killed after the password was set"
    left = cli("plan", folder)
    assert left.code == 2
    assert "set the password of version 2, before 1; an earlier run began to set version 2" in left.out
    assert cli("apply", folder, "--yes").code == 0
    assert may_log_in(secure["east"], unique, SECRETS[1])
    assert "checked: a new plan is empty" in cli("apply", env(), "--prune", "--allow-shrink", "--yes").words
