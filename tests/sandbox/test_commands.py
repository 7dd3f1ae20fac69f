"""``up``, ``down`` and ``status`` as a person uses them, one after the other."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from confluent_kafka.admin import AdminClient
from reconciler_sandbox import commands
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import up_down as brokers
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import PROFILES, QUICK_START, Profile, cluster_id_of, layout

from reconciler.model.schemas import schema as schema_of
from tests.support.clusters import CreateTopic


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
@pytest.mark.long
def test_up_twice_down_and_up_again_on_the_same_data(
    base: int, monkeypatch: pytest.MonkeyPatch, create_topic: CreateTopic
) -> None:
    with monkeypatch.context() as older_release:
        older_release.setattr(brokers, "cluster_id_of", lambda _, cluster: f"sandbox-older-{cluster}-AAA")
        first = commands.up("plain", base, heap="256m")
    create_topic(first.sandbox["east"], "written")
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
    again = commands.up("plain", base + 10, heap="256m")
    seen = AdminClient(again.sandbox["east"].client()).list_topics(timeout=30)
    assert "written" in seen.topics
    assert seen.cluster_id == again.sandbox["east"].cluster_id == "sandbox-older-east-AAA"
    note = commands.render_up(again).partition("note: ")[2]
    assert "east is sandbox-older-east-AAA, not sandbox-plain-east-AAA" in note
    assert "`reconciler sandbox down --profile plain --clear` removes the data" in note
    assert "declare the ids that it has" in note
    commands.down(clear=True)
    assert commands.status() == ()


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_data_of_this_release_needs_no_note(profile: Profile, tmp_path: Path) -> None:
    brokers_of = layout(profile)
    handles = {
        name: ClusterHandle(name, tmp_path, cluster_id_of(profile.name, name), brokers_of[name])
        for name in profile.clusters
    }
    up = commands.Up(Sandbox(profile.name, tmp_path, handles), already=False)
    assert "note" not in commands.render_up(up)


def test_programs_read_which_brokers_answer() -> None:
    schema = schema_of("sandbox")
    state = commands.ClusterState("plain", "east", "127.0.0.1:1", "an-id", (1, 2), (3,), (2,))
    for states in ((), (state,)):
        told = json.loads(commands.json_status(states))
        jsonschema.validate(told, schema)
    assert told["clusters"][0]["brokers"] == {"answering": [2], "running": [1, 2], "stopped": [3]}


@pytest.mark.kafka
@pytest.mark.long
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


def test_every_cluster_has_an_id_of_its_own_as_kafka_makes_them() -> None:
    made = [cluster_id_of(profile.name, cluster) for profile in PROFILES.values() for cluster in profile.clusters]
    assert len(set(made)) == len(made)
    for cluster_id in made:
        assert not cluster_id.startswith("-"), "it would be taken for an option"
        raw = base64.urlsafe_b64decode(f"{cluster_id}==")
        assert (len(raw), base64.urlsafe_b64encode(raw).decode()) == (16, f"{cluster_id}==")
