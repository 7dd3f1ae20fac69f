"""``adopt`` against real brokers: files whose plan is empty, a second cluster beside the first, nothing overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import Ended

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.yaml"))}


def adopt(cli: Cli, sandbox: Sandbox, name: str, out: Path, *more: str) -> Ended:
    servers = sandbox[name].bootstrap_servers
    return cli("adopt", "--bootstrap-servers", servers, "--name", name, "--out", out, *more)


def test_two_clusters_one_after_the_other_and_a_plan_that_is_empty(
    cli: Cli, tmp_path: Path, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    env = tmp_path / "live"
    create_topic(plain["east"], f"{unique}-orders", 3, retention_ms="3600000", cleanup_policy="compact,delete")
    create_topic(plain["east"], f"{unique}.0123", 1, max_message_bytes="2097152")
    create_topic(plain["east"], f"-{unique}-scratch")  # first of those left out, of which eight are named
    create_topic(plain["west"], f"east.{unique}-orders", 3)
    create_topic(plain["west"], f"{unique}-west", 2)
    first = adopt(cli, plain, "east", env, "--exclude", f"(?!{unique}).*", "--exclude", ".*-scratch")
    assert first.code == 0, first.words
    assert "Adopted 2 topics of cluster east" in first.out
    assert f"{unique}-scratch" in first.out
    assert cli("plan", env).code == 0, cli("plan", env).words
    before = texts(env)
    assert f"  {unique}-orders:\n    clusters: [east]\n    partitions: 3\n" in before["east/topics.yaml"]
    assert 'cleanup.policy: "compact,delete"' in before["east/topics.yaml"]
    assert "retention.ms: 1h" in before["east/topics.yaml"]
    assert "max.message.bytes: 2MiB" in before["east/topics.yaml"]

    second = adopt(cli, plain, "west", env, "--exclude", rf"(?!{unique}|east\.{unique}).*")
    assert second.code == 0, second.words
    assert "remote topic" in second.out
    assert f"east.{unique}-orders" in second.out
    planned = cli("plan", env)
    assert planned.code == 0, planned.words
    assert f"{unique}-scratch" in cli("plan", env, "--format", "json").out, "what is not declared is listed"
    after = texts(env)
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == {"west/cluster.yaml", "west/topics.yaml"}
    assert [path.name for path in env.iterdir() if path.name.startswith(".")] == []


def test_files_and_clusters_that_exist_are_not_declared_again(cli: Cli, tmp_path: Path, plain: Sandbox) -> None:
    env = tmp_path / "live"
    assert adopt(cli, plain, "east", env).code == 0
    before = texts(env)
    again = adopt(cli, plain, "east", env)
    assert (again.code, "already exists" in again.err) == (1, True)
    servers = plain["east"].bootstrap_servers
    alias = cli("adopt", "--bootstrap-servers", servers, "--name", "other", "--out", env)
    assert (alias.code, f"have the id {plain['east'].cluster_id}" in alias.err) == (1, True)
    assert texts(env) == before


def test_what_would_be_blocked_is_no_empty_plan(
    cli: Cli, tmp_path: Path, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """An environment of the same name was applied before, and most of what it declared is not adopted."""
    names = [f"{unique}-{number}" for number in range(8)]
    declared = "".join(f"  {name}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n" for name in names)
    env = tmp_path / unique
    env.mkdir()
    east = plain["east"]
    clusters = (
        f"clusters: {{east: {{bootstrap_servers: ['{east.bootstrap_servers}'], cluster_id: {east.cluster_id}}}}}\n"
    )
    (env / "topology.yaml").write_text(f"{clusters}topics:\n{declared}")
    assert cli("apply", env, "--yes").code == 0
    (env / "topology.yaml").unlink()

    ended = adopt(cli, plain, "east", env, "--exclude", f"(?!{unique}).*", "--exclude", f"{unique}-[1-7]")
    assert ended.code == 1
    assert "7 of 8 declared topics are gone since" in ended.words
    assert f"An environment {unique} was applied here before" in ended.words
    assert cli("plan", env).code == 3, "as it said"
    (env / "east" / "cluster.yaml").unlink()
    (env / "east" / "topics.yaml").unlink()
    (env / "east").rmdir()
    ended = adopt(cli, plain, "east", env, "--exclude", f"(?!{unique}).*")
    assert (ended.code, cli("plan", env).code) == (0, 0), ended.words


def test_a_cluster_that_does_not_answer_leaves_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    ended = cli("adopt", "--bootstrap-servers", "127.0.0.1:1", "--out", tmp_path / "live")
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.words
    assert not (tmp_path / "live").exists()


def test_with_secrets_as_references(
    cli: Cli, tmp_path: Path, secure: Sandbox, monkeypatch: pytest.MonkeyPatch, unique: str, create_topic: CreateTopic
) -> None:
    east = secure["east"]
    create_topic(east, f"{unique}-orders")
    settings = east.client("plan")
    password = settings.pop("sasl.password")
    monkeypatch.setenv("ADOPT_PASSWORD", password)
    words = [f"{key}={text}" for key, text in settings.items() if key != "bootstrap.servers"]
    given = [word for text in (*words, "sasl.password=${env:ADOPT_PASSWORD}") for word in ("--client", text)]
    ended = adopt(cli, secure, "east", tmp_path / "live", *given)
    assert ended.code == 0, ended.words
    assert password not in ended.words + "".join(texts(tmp_path / "live").values())
    refused = adopt(cli, secure, "east", tmp_path / "other", "--client", f"sasl.password={password}")
    assert refused.code == 1
    assert password not in refused.words


def test_init_writes_both_clusters_and_a_flow_and_says_what_a_plan_would_do(
    cli: Cli, tmp_path: Path, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    env = tmp_path / unique
    create_topic(plain["east"], f"{unique}-orders", 3)
    given = [f"--cluster={name}={plain[name].bootstrap_servers}" for name in ("east", "west")]
    flow = f"--flow=east:west={unique}-.*"
    words = ("init", env, *given, "--security-protocol=PLAINTEXT", flow, "--exclude", f"(?!{unique}).*")
    ended = cli(*words)
    assert ended.code == 0, ended.words
    assert "flow east-to-west" in ended.out
    assert cli("validate", env).code == 0
    planned = cli("plan", env)
    assert (planned.code, f"east.{unique}-orders" in planned.out) == (2, True), planned.words
    assert f"plan: {planned.out.splitlines()[0]}" in ended.out
    before = texts(env)
    for path in env.rglob("*.yaml"):
        editor, _, schema = path.read_text("utf-8").partition("\n")[0].partition("$schema=")
        assert editor == "# yaml-language-server: "
        assert (path.parent / schema).resolve() == (env / "environment.schema.json").resolve()
        assert (path.parent / schema).is_file()
    again = cli(*words)
    assert (again.code, "already exists" in again.err, texts(env) == before) == (1, True, True)


def test_one_live_topic_is_taken_into_an_environment_that_declares_its_cluster(
    cli: Cli, tmp_path: Path, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    env = tmp_path / "live"
    create_topic(plain["east"], f"{unique}-orders", 3)
    assert adopt(cli, plain, "east", env, "--topic", f"{unique}-orders").code == 0
    create_topic(plain["east"], f"{unique}-rogue", 2, retention_ms="3600000")
    create_topic(plain["east"], f"{unique}-store-changelog", 2)
    before = texts(env)
    ended = cli("adopt", "--name", "east", "--topic", f"{unique}-.*", "--out", env)
    assert ended.code == 0, ended.words
    assert f"Adopted 1 topic of cluster east into {env}/east/adopted.yaml: {unique}-rogue" in ended.out
    assert f"left out, of an application (1): {unique}-store-changelog" in ended.out
    assert f"left out, declared already (1): {unique}-orders" in ended.out
    after = texts(env)
    assert {path: after[path] for path in before} == before
    assert "retention.ms: 1h" in after["east/adopted.yaml"]
    planned = cli("plan", env)
    assert planned.code == 0, planned.words
    (env / "environment.schema.json").write_text("{}")
    named = cli("adopt", "--name", "east", "--topic", f"{unique}-store-changelog", "--out", env)
    assert named.code == 0, named.words
    second = texts(env)["east/adopted-2.yaml"]
    assert f"{unique}-store-changelog" in second
    assert second.startswith("# yaml-language-server: $schema=../environment.schema.json\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--name", "east", "--topic", "no-such-topic-there"), "matches --topic no-such-topic-there"),
        (("--name", "north", "--topic", "orders"), "declares no cluster north"),
        (("--name", "east"), "neither --bootstrap-servers nor --topic is given"),
        (("--name", "east", "--topic", "("), "--topic is (, not a regular expression that can be matched"),
        (("--name", "east", "--topic", "a", "--client", "a=b"), "--client is given without --bootstrap-servers"),
    ],
)
def test_topics_that_cannot_be_taken_leave_the_folder_as_it_is(
    cli: Cli, tmp_path: Path, plain: Sandbox, words: tuple[str, ...], told: str
) -> None:
    env = tmp_path / "live"
    env.mkdir()
    (env / "all.yaml").write_text(f"clusters: {{east: {{bootstrap_servers: ['{plain['east'].bootstrap_servers}']}}}}\n")
    ended = cli("adopt", *words, "--out", env)
    assert ended.code == 1
    assert told in ended.words
    assert list(texts(env)) == ["all.yaml"]
