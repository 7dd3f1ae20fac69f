"""Clusters are read while the rest of the environment is still being read, and no command waits for them in vain."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics.read import ANSWER_WITHIN, ReadAhead
from reconciler.cli.commands import review as cli_review
from reconciler.environment.load import load
from reconciler.environment.load_clusters import read_head
from reconciler.errors import ReconcilerError, TopologyError
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveCluster
from reconciler.operations.review.plan import PlanRequest, review
from reconciler.operations.session import early_reads as beginning
from reconciler.operations.session import session as wiring
from reconciler.operations.session.early_reads import begin
from reconciler.operations.session.session import open_session, read_topology
from reconciler.render.console import run_app
from tests.support.builders import cluster

CLUSTERS = "clusters:\n  east: {bootstrap_servers: ['127.0.0.1:1']}\n"
TOPICS = "topics:\n  orders: {clusters: [east], partitions: 1}\n"


@contextmanager
def silent_broker() -> Iterator[str]:
    """Takes connections and never says a word, as a stopped process does."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def environment(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, in order."""
    told: list[str] = []

    class Recorded(ReadAhead):
        def __init__(self, clusters: Mapping[str, object], principal: Principal) -> None:
            told.append(f"read {', '.join(clusters)} as {principal}")
            super().__init__({}, principal)

        def close(self) -> None:
            told.append("broken off")
            super().close()

    def loads(*words: object, **more: object) -> Topology:
        told.append("load")
        return load(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(beginning, "ReadAhead", Recorded)
    monkeypatch.setattr(wiring, "load", loads)
    return told


def test_reads_begin_before_the_topics_are_read_from_yaml(tmp_path: Path, story: list[str]) -> None:
    folder = environment(tmp_path / "env", clusters=CLUSTERS, topics=TOPICS)
    with open_session(folder, Principal.PLAN, begin(folder, Principal.PLAN)):
        assert story == ["read east as plan", "load"]
    assert story[2:] == ["broken off"]


@pytest.mark.parametrize("wrong", ["topics:\n  orders: {clusters: [west]}\n", "topics: [", "topics: 7\n"])
def test_an_error_of_the_files_ends_the_reads(tmp_path: Path, story: list[str], wrong: str) -> None:
    folder = environment(tmp_path / "env", clusters=CLUSTERS, topics=wrong)
    with pytest.raises(TopologyError), open_session(folder, Principal.PLAN, begin(folder, Principal.PLAN)):
        pass
    assert story == ["read east as plan", "load", "broken off"]


@pytest.mark.parametrize(
    "clusters",
    [
        "clusters:\n  east: {bootstrap_servers: ['127.0.0.1:99999']}\n",
        "clusters:\n  east: {bootstrap_servers: ['127.0.0.1:1'], regoin: eu}\n",
        "clusters:\n  east: {bootstrap_servers: ['a:1']}\n  west: {bootstrap_servers: ['a:1']}\n",
        "clusters: [",
    ],
)
def test_nothing_is_connected_with_settings_that_are_wrong(tmp_path: Path, story: list[str], clusters: str) -> None:
    folder = environment(tmp_path / "env", clusters=clusters, topics=TOPICS)
    with pytest.raises(TopologyError), open_session(folder, Principal.PLAN, begin(folder, Principal.PLAN)):
        pass
    assert story == ["load"]


def test_validate_apply_and_an_offline_plan_connect_nothing_beforehand(tmp_path: Path, story: list[str]) -> None:
    folder = environment(tmp_path / "env", clusters=CLUSTERS, topics=TOPICS)
    read_topology(folder)
    with open_session(folder, Principal.APPLY):
        pass
    with pytest.raises(ReconcilerError, match="without --base"):
        review(folder, PlanRequest(offline=True))
    assert story == ["load", "load"]


def test_the_head_of_files_says_what_all_of_them_say() -> None:
    texts = {"a.yaml": TOPICS, "b.yaml": CLUSTERS + TOPICS.replace("orders", "pay"), "c.yaml": "defaults: {}\n"}
    head = read_head(texts)
    assert list(head.documents) == ["b.yaml"], "topics are not read twice, nor before the clusters are"
    whole = load(texts, "env")
    assert dict(head.clusters) == dict(whole.clusters)
    assert load(texts, "env", head=head) == whole


def test_the_first_whole_read_is_the_one_that_began() -> None:
    found, asked = LiveCluster("east", "id", (), {}), []

    def begun() -> LiveCluster:
        asked.append(1)
        return found

    reader = KafkaCluster(cluster("east", bootstrap_servers=("127.0.0.1:1",)), ahead=begun)
    assert reader.read() is found
    with pytest.raises(ReconcilerError, match="does not answer"):
        reader.read()
    assert len(asked) == 1


def test_who_is_silent_keeps_no_one_waiting_once_it_is_not_wanted() -> None:
    with silent_broker() as address:
        ahead = ReadAhead({"east": cluster("east", bootstrap_servers=(address,))}, Principal.PLAN)
        time.sleep(0.1)
        began = time.monotonic()
        ahead.close()
        assert ahead.take("east") is None
        assert time.monotonic() - began < ANSWER_WITHIN / 2
        assert not any(thread.name == "read-ahead" for thread in threading.enumerate())


def test_ctrl_c_ends_a_plan_at_once_also_while_a_cluster_keeps_it_waiting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        folder = environment(tmp_path / "env", all=CLUSTERS.replace("127.0.0.1:1", address) + TOPICS)
        process = subprocess.Popen([sys.executable, "-m", "reconciler", "plan", folder], stderr=subprocess.PIPE)
        listening.accept()
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, b"interrupted\n")
        assert time.monotonic() - began < ANSWER_WITHIN


def test_what_cannot_be_read_is_left_to_who_asks_and_keeps_no_other_waiting() -> None:
    secret = cluster("west", bootstrap_servers=("127.0.0.1:1",), client={"sasl.password": "${env:NOT_THERE}"})
    gone = cluster("east", bootstrap_servers=("127.0.0.1:1",))
    with silent_broker() as address:
        silent = cluster("hub", bootstrap_servers=(address,))
        ahead = ReadAhead({"east": gone, "west": secret, "hub": silent}, Principal.PLAN)
        began = time.monotonic()
        assert ahead.take("east") is None
        assert ahead.take("west") is None
        assert time.monotonic() - began < ANSWER_WITHIN / 2, "the silent one may take longer"
        ahead.close()


def test_a_cluster_with_other_settings_is_not_taken_for_the_one_that_is_read() -> None:
    east = cluster("east", bootstrap_servers=("127.0.0.1:1",))
    ahead = ReadAhead({"east": east}, Principal.PLAN)
    assert ahead.reads(cluster("east", bootstrap_servers=("127.0.0.1:1",)))
    assert not ahead.reads(cluster("east", bootstrap_servers=("127.0.0.1:2",)))
    assert not ahead.reads(cluster("west", bootstrap_servers=("127.0.0.1:1",)))
    ahead.close()


def test_reads_begin_before_most_of_the_program_is_imported() -> None:
    program = """
import sys
from reconciler.cli.commands import review as cli_review
from reconciler.operations.session import early_reads as beginning
from reconciler.render.console import run_app

def begin(folder, principal):
    late = {"reconciler.operations.session.session", "reconciler.environment.load", "reconciler.model.changes",
            "confluent_kafka", "jsonschema", "ruamel",
            "kafka", "git"} & sys.modules.keys()
    sys.exit(" ".join(late) or 7)

beginning.begin = begin
run_app(cli_review.app, ["plan", "env"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")


LIVE = [["env"], ["env", "--prune"], ["--format", "json", "env"], ["--format=json", "env"], ["env", "--out", "p.json"],
        ["--write", "a.md", "--write", "b.html", "env"], ["env", "--artifact=--prune"]]  # fmt: skip


@pytest.mark.parametrize("words", LIVE, ids=" ".join)
def test_what_is_surely_a_live_plan_is_one(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []

    def begin(folder: Path, principal: Principal) -> None:
        begun.append(folder)
        sys.exit(0)

    monkeypatch.setattr(beginning, "begin", begin)
    with pytest.raises(SystemExit):
        run_app(cli_review.app, ["plan", *words])
    assert begun == [Path("env")]


def test_files_that_cannot_be_read_are_reported_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run_app(cli_review.app, ["plan", str(tmp_path / "nowhere")])
    assert "nowhere does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--base", "main"], ["--changed-since", "main"], ["--offline"], ["--revert"]])
def test_a_plan_that_may_need_no_cluster_begins_no_read(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "begin", lambda *_: pytest.fail("a cluster is read"))
    with pytest.raises(SystemExit):
        run_app(cli_review.app, ["plan", "nowhere", *words])
