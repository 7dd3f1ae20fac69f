"""``up``, ``down`` and ``status`` as a person uses them, one after the other."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from reconciler.model.schemas import schema as schema_of
from reconciler.sandbox import commands
from reconciler.sandbox.brokers import ports
from reconciler.sandbox.brokers import up_down as brokers
from reconciler.sandbox.errors import SandboxError
from reconciler.sandbox.profiles import PROFILES, QUICK_START


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A free block of ports; lasting clusters go to a folder of this test and are stopped after it."""
    monkeypatch.setattr(commands, "home_of", lambda profile: tmp_path / profile)
    monkeypatch.setattr(brokers, "PROFILES", {name: replace(one, jvm=QUICK_START) for name, one in PROFILES.items()})
    port, reserved = ports.reserve_block()
    with reserved:
        yield port
        commands.down()


@pytest.mark.kafka
def test_up_twice_down_and_up_again_on_the_same_data(base: int) -> None:
    first = commands.up("plain", base, heap="256m")
    assert not first.already
    assert commands.render_up(first).startswith("plain: up\n")

    again = commands.up("plain", base)
    assert again.already
    assert again.sandbox == first.sandbox
    assert [commands.render_status((state,)).split()[:3] for state in commands.status()] == [
        ["plain", "east", "up"],
        ["plain", "west", "up"],
    ]

    with pytest.raises(SandboxError, match="already on other ports"):
        commands.up("plain", base + 10)

    first.sandbox["west"].kill()
    assert [bool(state.running) for state in commands.status()] == [True, False]
    assert not commands.up("plain", base).already

    assert commands.render_down(commands.down()) == "plain: 2 brokers stopped"
    assert commands.render_down(commands.down()) == "nothing was running"
    assert {state.stopped for state in commands.status()} == {(1,)}

    # What was written must be found again: the cluster is the same one, on whatever ports.
    later = commands.up("plain", base + 10, heap="256m").sandbox
    assert later["east"].cluster_id == first.sandbox["east"].cluster_id
    commands.down(clear=True)
    assert commands.status() == ()


def test_programs_read_which_brokers_answer() -> None:
    schema = schema_of("sandbox")
    state = commands.ClusterState("plain", "east", "127.0.0.1:1", "sandbox-x", (1, 2), (3,), (2,))
    for states in ((), (state,)):
        told = json.loads(commands.json_status(states))
        jsonschema.validate(told, schema)
    assert told["clusters"][0]["brokers"] == {"answering": [2], "running": [1, 2], "stopped": [3]}


@pytest.mark.kafka
def test_secrets_of_a_lasting_sandbox_stay_with_its_owner(base: int) -> None:
    with pytest.raises(SandboxError, match="never started"):
        commands.environment("secure")
    sandbox = commands.up("secure", base).sandbox
    variables = commands.environment("secure")
    assert variables["SANDBOX_EAST_PLAN_PASSWORD"] == sandbox["east"].client("plan")["sasl.password"]
    assert Path(variables["SANDBOX_EAST_CA"]).read_text().startswith("-----BEGIN CERTIFICATE-----")
    secret = variables["SANDBOX_EAST_PLAN_PASSWORD"]
    assert secret not in repr(sandbox)
    assert secret not in commands.render_up(commands.Up(sandbox, already=False))
    state = sandbox.home / "sandbox.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    keys = list((sandbox["east"].folder / "certificates").iterdir())
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_an_unknown_profile_names_those_there_are() -> None:
    with pytest.raises(SandboxError) as refused:
        commands.up("palin")
    assert "palin" in str(refused.value)
    assert "plain, ha, trio, secure" in str(refused.value)


def test_no_cluster_id_looks_like_an_option() -> None:
    made = [brokers.new_cluster_id() for _ in range(2000)]
    assert all(len(cluster_id) == 22 and not cluster_id.startswith("-") for cluster_id in made)
    assert len(set(made)) == 2000
