"""A Deny rule hides one declared, existing topic from the plan principal, who may describe every other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import CreateTopic, denied
from tests.support.commands import Ended, Write

Cli = Callable[..., Ended]


@pytest.fixture
def env(write: Write, secure: Sandbox, monkeypatch: pytest.MonkeyPatch, create_topic: CreateTopic, unique: str) -> Path:
    east = secure["east"]
    for name, secret in east.secrets().items():
        monkeypatch.setenv(name, secret)
    logins = [
        f'      {who}: {{sasl.username: {who}, sasl.password: "${{env:SANDBOX_EAST_{who.upper()}_PASSWORD}}"}}'
        for who in ("plan", "apply")
    ]
    topics = ", ".join(f"{unique}.{last}: {{clusters: [east], partitions: 1}}" for last in ("t", "new"))
    lines = [
        "clusters:",
        "  east:",
        f"    bootstrap_servers: [{east.bootstrap_servers}]",
        f"    cluster_id: {json.dumps(east.cluster_id)}",
        "    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512,"
        ' ssl.ca.location: "${env:SANDBOX_EAST_CA}"}',
        "    principals:",
        *logins,
        f"topics: {{{topics}}}",
    ]
    create_topic(east, f"{unique}.t")
    return write("\n".join(lines) + "\n")


def document(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_plan_drift_explain_and_doctor_say_that_it_is_not_known(
    cli: Cli, env: Path, secure: Sandbox, unique: str
) -> None:
    hidden, ref = f"{unique}.t", f"east/{unique}.t"
    grant = f"--allow-principal 'User:plan' --operation Describe --topic {hidden}"
    assert [one["id"] for one in document(cli("plan", env, "--format", "json"))["changes"]] == [f"create:{ref[:-1]}new"]
    with denied(secure["east"], "plan", hidden):
        planned = cli("plan", env, "--format", "json")
        drifted = cli("drift", env, "--format", "json")
        explained = cli("explain", env, ref)
        examined = cli("doctor", env, "--within", "5m", "--format", "json")
    plan, drift = document(planned), document(drifted)
    assert (planned.code, [one["id"] for one in plan["changes"]]) == (1, [f"create:east/{unique}.new"])
    [unknown] = plan["unknown"]
    assert (unknown["subject"], grant in unknown["todo"]) == (ref, True)
    assert "principal plan may not" in unknown["error"]
    assert "it is not known whether it exists" in unknown["error"]
    assert drifted.code == 1
    assert hidden not in json.dumps(drift["differences"])
    assert [one["subject"] for one in drift["unknown"]] == [ref]
    assert explained.code == 1
    assert f"cannot be read: {unknown['error']}" in explained.out
    assert grant in explained.out
    assert "not on the cluster" not in explained.out
    assert f"lacks Describe on {hidden}" in {one["text"] for one in document(examined)["findings"]}
