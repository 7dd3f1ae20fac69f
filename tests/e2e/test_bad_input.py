"""Bad input of every kind ends with words that say what, why and what to do, the right code, and nothing half done."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.names import STATUS_TOPIC
from tests.support.commands import Ended, Write, two_clusters
from tests.support.jobs.mirror_job import create_topics

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]

CLUSTER = "clusters:\n  east: {bootstrap_servers: [127.0.0.1:1]}\n"


TOPIC = CLUSTER + "topics:\n  a: "
FLOW = CLUSTER + "  west: {bootstrap_servers: [127.0.0.1:2]}\nflows:\n  f: {source: east, target: west, topics: "


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param("clusters: {east: [\n", 2, ("YAML",), id="broken YAML"),
        pytest.param(TOPIC + "{clusters: [east], partition: 3}\n", 4, ("partition", "partitions"), id="unknown field"),
        pytest.param(TOPIC + "{clusters: [east], partitions: many}\n", 4, ("partitions", "many"), id="wrong type"),
        pytest.param(TOPIC + "{clusters: [eats], partitions: 3}\n", 4, ("eats", "east"), id="unknown cluster"),
        pytest.param(FLOW + "['a(']}\n", 5, ("a(",), id="bad regex"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_a_bad_topology_names_its_line_and_connects_to_nothing(
    cli: Cli, write: Write, command: str, text: str, line: int, words: tuple[str, ...]
) -> None:
    env = write(text)
    ended = cli(command, env)
    assert ended.code == 1
    assert f"topology.yaml:{line}:" in ended.words
    for word in words:
        assert word in ended.words


def test_all_problems_come_at_once(cli: Cli, write: Write) -> None:
    text = CLUSTER + "topics:\n  a: {clusters: [eats], partitions: many}\n  b: {cluster: [east]}\n"
    ended = cli("validate", write(text))
    assert ended.code == 1
    assert {"eats", "many", "cluster"} <= {word for word in ("eats", "many", "cluster") if word in ended.words}


@pytest.mark.parametrize("words", [("validate", ""), ("plan", "", "prod"), ("apply", ""), ("compare", "prod", "")])
def test_an_unset_variable_is_not_the_current_folder(
    cli: Cli, write: Write, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(CLUSTER))
    ended = cli(*words)
    assert ended.code == 1
    assert "An argument is empty" in ended.words


@pytest.mark.parametrize("place", ["soon", "-5", "\u0663", "9" * 26])
def test_a_place_in_no_log_is_refused_before_a_cluster_is_asked(cli: Cli, write: Write, place: str) -> None:
    ended = cli("mirror", "seek", write(FLOW + "[a]}\n"), "f", "--topic", "a", "--to", place)
    assert ended.code == 1
    assert f'--to is "{place}"' in ended.words
    assert "answer" not in ended.words


@pytest.mark.parametrize(
    ("option", "number"), [("--offset", "-5"), ("--offset", str(1 << 63)), ("--partition", str(1 << 31))]
)
def test_a_position_that_no_log_has_is_not_translated(cli: Cli, write: Write, option: str, number: str) -> None:
    given = {"--partition": "0", "--offset": "0", option: number}
    words = [word for pair in given.items() for word in pair]
    ended = cli("offsets", "translate", write(FLOW + "[a]}\n"), "f", "--topic", "a", *words)
    assert ended.code == 1
    assert f"Invalid value for '{option}'" in ended.words
    assert "answer" not in ended.words


def test_a_folder_that_is_missing(cli: Cli, tmp_path: Path) -> None:
    ended = cli("plan", tmp_path / "nowhere")
    assert ended.code == 1
    assert "nowhere" in ended.words


def test_a_wrong_word_on_the_command_line_is_never_taken_for_changes(cli: Cli, write: Write) -> None:
    assert cli("plan", write(CLUSTER), "--formt", "json").code == 1
    assert cli("plam", write(CLUSTER)).code == 1


def test_a_missing_secret_is_named_and_the_cluster_unknown(cli: Cli, write: Write, plain: Sandbox) -> None:
    secret = ", client: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: me, "
    secret += "sasl.password: '${env:NO_SUCH_VARIABLE}'}"
    ended = cli("plan", write(two_clusters(plain, west=secret)))
    assert ended.code == 1
    assert "NO_SUCH_VARIABLE" in ended.words
    assert "not set" in ended.words


def test_an_unreachable_cluster_is_unknown_and_blocks_what_rests_on_it(
    cli: Cli, write: Write, plain: Sandbox, unique: str
) -> None:
    with socket.socket() as probe:  # nobody listens on a port that was just given back
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    text = (
        two_clusters(plain).replace(plain["west"].bootstrap_servers, f"127.0.0.1:{port}")
        + f"topics:\n  {unique}: {{clusters: [east, west], partitions: 1, replication_factor: 1}}\n"
    )
    env = write(text)
    began = time.monotonic()
    ended = cli("plan", env, "--format", "json")
    assert time.monotonic() - began < 60
    assert ended.code == 1
    value = json.loads(ended.out)
    assert any(str(port) in json.dumps(one) for one in value["unknown"])
    applied = cli("apply", env, "--yes")
    assert applied.code == 1
    assert unique not in AdminClient(plain["east"].client()).list_topics(timeout=30).topics


def test_another_cluster_than_the_declared_one_is_left_alone(
    cli: Cli, write: Write, plain: Sandbox, unique: str
) -> None:
    text = two_clusters(plain).replace(plain["west"].cluster_id, "AAAAAAAAAAAAAAAAAAAAAA")
    text += f"topics:\n  {unique}: {{clusters: [west], partitions: 1, replication_factor: 1}}\n"
    env = write(text)
    for command in (("plan", env), ("apply", env, "--yes")):
        ended = cli(*command)
        assert ended.code == 3
        assert "AAAAAAAAAAAAAAAAAAAAAA" in ended.words
        assert plain["west"].cluster_id in ended.words
    assert unique not in AdminClient(plain["west"].client()).list_topics(timeout=30).topics


def test_a_denied_principal_learns_what_it_lacks(
    cli: Cli, write: Write, secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secure.secrets().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("USER_PASSWORD", secure["east"].client("user")["sasl.password"])
    settings = dict(secure["east"].client("user"))
    servers = settings.pop("bootstrap.servers")
    settings["sasl.password"] = "${env:USER_PASSWORD}"
    client = json.dumps({key: str(value) for key, value in settings.items()})
    east = f"bootstrap_servers: ['{servers}'], cluster_id: {secure['east'].cluster_id}, client: {client}"
    text = f"clusters:\n  east: {{{east}}}\n"
    text += f"topics:\n  {unique}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n"
    ended = cli("apply", write(text), "--yes")
    assert ended.code in (1, 3)
    assert "denied" in ended.words.lower() or "may not" in ended.words.lower()
    assert secure["east"].client("user")["sasl.password"] not in ended.words


def test_a_replication_factor_above_the_brokers_blocks(cli: Cli, write: Write, plain: Sandbox, unique: str) -> None:
    text = two_clusters(plain) + f"topics:\n  {unique}: {{clusters: [east], partitions: 1, replication_factor: 3}}\n"
    ended = cli("plan", write(text))
    assert ended.code == 3
    assert "3" in ended.words
    assert unique in ended.words


def test_fewer_partitions_than_live_are_refused_with_the_alternative(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    create_topic(plain["east"], unique, partitions=6)
    text = two_clusters(plain) + f"topics:\n  {unique}: {{clusters: [east], partitions: 3}}\n"
    ended = cli("apply", write(text), "--yes")
    assert ended.code == 3
    assert "6" in ended.words
    assert "3" in ended.words


def test_a_stale_plan_is_refused_with_what_moved(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    text = two_clusters(plain) + f"topics:\n  {unique}: {{clusters: [east], partitions: 3, replication_factor: 1}}\n"
    env, saved = write(text), tmp_path / "plan.json"
    assert cli("plan", env, "--out", saved).code == 2
    create_topic(plain["east"], unique, partitions=1)
    ended = cli("apply", env, "--plan", saved, "--yes")
    assert ended.code == 4
    assert unique in ended.words
    topic = AdminClient(plain["east"].client()).list_topics(unique, timeout=30).topics[unique]
    assert len(topic.partitions) == 1


def test_a_plan_edited_manually_is_refused(cli: Cli, write: Write, plain: Sandbox, unique: str, tmp_path: Path) -> None:
    text = two_clusters(plain) + f"topics:\n  {unique}: {{clusters: [east], partitions: 3, replication_factor: 1}}\n"
    env, saved = write(text), tmp_path / "plan.json"
    assert cli("plan", env, "--out", saved).code == 2
    saved.write_text(saved.read_text().replace(unique, unique + "x"))
    ended = cli("apply", env, "--plan", saved, "--yes")
    assert ended.code in (1, 4)
    assert "digest" in ended.words


def test_no_one_to_ask_means_nothing_is_done(cli: Cli, write: Write, plain: Sandbox, unique: str) -> None:
    text = two_clusters(plain) + f"topics:\n  {unique}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n"
    ended = cli("apply", write(text))
    assert ended.code == 1
    assert "--yes" in ended.words
    assert unique not in AdminClient(plain["east"].client()).list_topics(timeout=30).topics


@pytest.mark.parametrize("command", ["validate", "plan", "run", "apply", "drift"])
def test_a_folder_whose_links_lead_to_each_other_is_missing(
    cli: Callable[..., Ended], tmp_path: Path, command: str
) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    ended = cli(command, tmp_path / "a")
    assert (ended.code, "does not exist" in ended.words) == (1, True), ended.words


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "ENV"),
        ("plan", "ENV", "--format", "json"),
        ("apply", "ENV", "--yes"),
        ("drift", "ENV"),
        ("drift", "ENV", "--parity"),
        ("doctor", "ENV"),
        ("status", "ENV"),
        ("run", "ENV"),
        ("reassignments", "show", "ENV"),
    ],
)
def test_an_environment_without_clusters_is_reported(cli: Cli, write: Write, words: tuple[str, ...]) -> None:
    env = write("topics: {}\n")
    ended = cli(*(env if word == "ENV" else word for word in words))
    assert (ended.code, ended.out) == (1, "")
    assert "declares no cluster\n" in ended.err


def test_a_resume_of_what_is_not_paused_says_no_more(cli: Cli, write: Write, plain: Sandbox, unique: str) -> None:
    """Nothing is recorded, and nothing holds from a next start."""
    create_topics(plain["west"], STATUS_TOPIC)
    flow = f"flows: {{{unique}: {{source: east, target: west, topics: [{unique}]}}}}\n"
    ended = cli("mirror", "resume", write(two_clusters(plain) + flow))
    assert (ended.code, ended.out) == (0, f"flow {unique} was not paused\n"), ended.words
