"""Applies that meet, are killed, or find a cluster silent: one acts, the next continues, the record tells it all."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.state.audit import AuditFile, read_lines
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.drift import History
from reconciler.model.schemas import schema as schema_of
from reconciler.model.state.audit_chain import PREVIOUS, digest
from reconciler.model.state.lock import LEASE_MS
from reconciler.operations.review.drift import past
from reconciler.operations.session.session import open_session
from tests.support.clusters import real_cluster, topics
from tests.support.commands import Ended, audit, running, two_clusters
from tests.support.lanes.lane_runs import content

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]


@pytest.fixture
def env_of(tmp_path: Path, unique: str) -> Callable[[str, str], Path]:
    """``env_of(host, text)``: the same environment, checked out on several hosts."""

    def make(host: str, text: str) -> Path:
        folder = tmp_path / host / unique
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "topology.yaml").write_text(text, encoding="utf-8")
        return folder

    return make


def declared(sandbox: Sandbox, *names: str, cluster: str = "east", **extra: str) -> str:
    lines = [f"  {name}: {{clusters: [{cluster}], partitions: 2, replication_factor: 1}}" for name in names]
    return two_clusters(sandbox, **extra) + "topics:\n" + "\n".join(lines) + "\n"


def test_two_applies_at_once_from_two_hosts(cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str) -> None:
    text = declared(plain, f"{unique}-a")
    with running(env_of("one", text), "--interval", "60s") as first:
        first.until("round")
        ended = cli("apply", env_of("two", text), "--yes")
        assert ended.code == 6
        for word in (str(first.process.pid), "(run)", "--steal-lock"):
            assert word in ended.words
        assert f"{unique}-a" not in topics(plain["east"])
        assert cli("plan", env_of("two", text)).code == 2, "looking needs no lock"
        told = cli("status", env_of("two", text)).out
        assert "lock: held by " in told
        assert f"process {first.process.pid} (run), for " in told
        assert first.ends() == 0
    assert "lock: no one holds it" in cli("status", env_of("two", text)).out
    assert cli("apply", env_of("two", text), "--yes").code == 0


def test_a_stolen_lock_ends_its_holder_and_is_recorded(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    text = declared(plain, f"{unique}-a")
    here = env_of("two", text)
    with running(env_of("one", text), "--interval", "2s", "--autonomy", "all") as first:
        first.until("done")
        (here / "topology.yaml").write_text(declared(plain, f"{unique}-a", f"{unique}-b"), encoding="utf-8")
        ended = cli("apply", here, "--yes", "--steal-lock", "the night shift sleeps")
        assert ended.code == 0
        assert first.process.wait(30) == 6
        assert "the night shift sleeps" in first.log.read_text()
    begin = audit(here)[0]
    assert begin["steal"]["reason"] == "the night shift sleeps"
    assert begin["steal"]["pid"] == first.process.pid
    assert begin["steal"]["purpose"] == "run"


def test_the_record_says_who_did_what_from_which_plan(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_ACTOR", "ada")
    env = env_of("one", declared(plain, f"{unique}-a"))
    assert cli("plan", env, "--out", env.parent / "plan.json").code == 2
    saved = json.loads((env.parent / "plan.json").read_text())
    assert cli("apply", env, "--plan", env.parent / "plan.json", "--yes").code == 0
    begin, change, end = audit(env)
    assert (begin["kind"], change["kind"], end["kind"]) == ("begin", "change", "end")
    assert begin["run"] == change["run"] == end["run"]
    assert begin["plan_digest"] == saved["digest"]
    assert (begin["who"], begin["pid"], begin["command"]) == ("ada", os.getpid(), "apply")
    assert change["change"] == saved["changes"][0]["change"]
    assert (end["done"], end["failed"], end["skipped"], end["lost"]) == (1, 0, 0, "")
    assert cli("apply", env, "--yes").code == 0
    assert [line["kind"] for line in audit(env)][3:] == ["begin", "end"], "also of a run that had nothing to do"


def test_a_copy_of_the_record_goes_to_its_topic(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    place = f"{unique}-audit"
    env = env_of("copied", declared(plain, f"{unique}-a") + f"audit: {{topic: {place}, cluster: west}}\n")
    ended = cli("apply", env, "--yes")
    assert ended.code == 0, ended.words
    assert "in the file alone" not in ended.words
    ended_again = cli("apply", env, "--yes")
    assert ended_again.code == 0
    (records,) = content(plain["west"], place, 1).values()
    copied = [json.loads(value or b"") for _, value, _, _ in records]
    assert [{**line, PREVIOUS: None} for line in copied] == [{**line, PREVIOUS: None} for line in audit(env)]
    verified = cli("audit", "verify", env, "--head", digest(copied[-1]), "--format", "json")
    jsonschema.validate(json.loads(verified.out), schema_of("audit-verification"))
    assert f"head of the audit record, west/{place}: {digest(copied[-1])}" in ended_again.words
    assert [each["verdict"] for each in json.loads(verified.out)["places"]] == ["whole", "whole"]
    assert {key for key, _, _, _ in records} == {unique.encode()}
    kept = env.parent / ".reconciler" / env.name / "audit.jsonl"
    whole = kept.read_text()
    lines = whole.splitlines(keepends=True)
    for forged, why in (
        ("", "holds no record, and"),
        ("".join(lines[2:]), "its beginning is missing"),
        ("".join([*lines[:-1], lines[-1].replace('"lost": ""', '"lost": "x"')]), "one of the two was changed"),
    ):
        kept.write_text(forged)
        verified = cli("audit", "verify", env)
        assert (verified.code, why in verified.words) == (2, True), verified.words
    kept.write_text(whole)
    assert cli("drift", env).code == 0
    shutil.rmtree(env.parent / ".reconciler")
    assert f"create:east/{unique}-a" in elsewhere(env).changes, "on a machine that keeps no record"
    (env / "topology.yaml").write_text(declared(plain, f"{unique}-a"))
    assert not elsewhere(env).known


def elsewhere(env: Path) -> History:
    """What drift goes by."""
    with open_session(env, Principal.PLAN) as session:
        session.observe()
        return past(session, print)


def test_nothing_is_begun_when_the_copy_cannot_be_written(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    place = create_topic(plain["west"], f"{unique}-audit", 1, max_message_bytes="50")
    env = env_of("unheard", declared(plain, f"{unique}-a") + f"audit: {{topic: {place}, cluster: west}}\n")
    ended = cli("apply", env, "--yes")
    assert ended.code == 1
    assert f"the audit topic west/{place} cannot be written" in ended.words
    assert f"{unique}-a" not in topics(plain["east"])


def test_no_secret_reaches_the_record(
    cli: Cli, env_of: Callable[..., Path], secure: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dict(secure["east"].client("apply"))
    servers, password = settings.pop("bootstrap.servers"), settings["sasl.password"]
    monkeypatch.setenv("APPLY_PASSWORD", password)
    client = json.dumps(
        {**{key: str(value) for key, value in settings.items()}, "sasl.password": "${env:APPLY_PASSWORD}"}
    )
    east = f"bootstrap_servers: ['{servers}'], cluster_id: {secure['east'].cluster_id}, client: {client}"
    text = f"clusters:\n  east: {{{east}}}\n"
    env = env_of("one", text + f"topics:\n  {unique}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n")
    ended = cli("apply", env, "--yes")
    assert ended.code == 0, ended.words
    assert {line["kind"] for line in audit(env)} == {"begin", "change", "end"}
    assert password not in json.dumps(audit(env)) + ended.words


def test_what_is_done_manually_is_recorded_too(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    text = two_clusters(plain) + f"flows:\n  f: {{source: east, target: west, topics: ['{unique}']}}\n"
    env = env_of("one", text)
    ended = cli("mirror", "stop", env, "--steal-lock", "nobody has it, which is no harm")
    assert ended.code == 0, ended.words
    begin, change, end = audit(env)
    assert (begin["command"], begin["plan_digest"], begin["steal"]) == ("mirror stop", None, None)
    assert (change["id"], change["result"], change["change"]) == ("stop:west", "done", None)
    assert end["done"] == 1


def test_nothing_is_begun_without_a_record(cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str) -> None:
    env = env_of("one", declared(plain, f"{unique}-a"))
    (env.parent / ".reconciler" / env.name / "audit.jsonl").mkdir(parents=True)
    ended = cli("apply", env, "--yes")
    assert ended.code == 1
    assert "audit" in ended.words
    assert f"{unique}-a" not in topics(plain["east"])


def test_a_record_that_takes_no_more_ends_an_apply_in_order(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    """A disk that fills between two changes: what was done is told, and nothing further begins."""
    env = env_of("full", declared(plain, f"{unique}-first"))
    assert cli("apply", env, "--yes").code == 0
    record = env.parent / ".reconciler" / env.name / "audit.jsonl"
    begin = record.read_bytes().splitlines(keepends=True)[0]
    limit = 1 << 17
    record.write_bytes(b'{"padding": "' + b"x" * (limit - len(begin) - 200) + b'"}\n')
    west = f"  {unique}-west: {{clusters: [west], partitions: 1, replication_factor: 1}}\n"
    (env / "topology.yaml").write_text(declared(plain, f"{unique}-first", f"{unique}-east") + west, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "reconciler", "apply", str(env), "--yes"],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert f"done: create:east/{unique}-east" in ended.stdout
    assert f"not begun: create:west/{unique}-west: the audit record" in ended.stdout
    assert "cannot be written" in ended.stderr
    assert f"{unique}-east" in topics(plain["east"])
    assert f"{unique}-west" not in topics(plain["west"])
    last = json.loads(record.read_bytes().splitlines()[-1])
    assert last["kind"] in ("begin", "end"), "a line that only fits in part is taken out again"
    record.write_bytes(record.read_bytes() + b'{"kind": "cha')
    assert cli("apply", env, "--yes").code == 0
    assert [line["kind"] for line in read_lines(record.parent)[-3:]] == ["begin", "change", "end"]


def test_killed_again_and_again_an_apply_continues(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    """SIGKILL right after the first word of progress, and a little later each time; then one more apply finishes."""
    names = [f"{unique}-{number:02}" for number in range(50)]
    text = declared(plain, *names[:25]) + "\n".join(
        f"  {name}: {{clusters: [west], partitions: 2, replication_factor: 1, configs: {{retention.ms: 1h}}}}"
        for name in names[25:]
    )
    env = env_of("one", text + "\n")
    codes = [killed_apply(env, pause) for pause in (0.0, 0.02, 0.1)]
    assert -signal.SIGKILL in codes
    began = time.monotonic()
    last = cli("apply", env, "--yes")
    assert last.code == 0, last.words
    assert time.monotonic() - began < LEASE_MS / 1000, "the lock of the killed one does not hold it up"
    assert cli("plan", env).code == 0
    assert set(names[:25]) <= topics(plain["east"])
    assert set(names[25:]) <= topics(plain["west"])
    assert [line["kind"] for line in audit(env)].count("begin") >= 2


def killed_apply(env: Path, pause: float) -> int:
    """The exit code of an apply that is killed ``pause`` seconds after its first request of changes was begun."""
    command = [sys.executable, "-m", "reconciler", "apply", str(env), "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()  # the plan is shown: requests follow
    if pause == 0.0:
        process.stderr.readline()
    time.sleep(pause)
    process.kill()
    process.communicate()
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_cancelled_apply_gives_the_lock_back(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str, number: signal.Signals
) -> None:
    """SIGTERM, as a CI system sends it, or a terminal that is closed: another host need not wait for the lease."""
    text = declared(plain, *[f"{unique}-{number:02}" for number in range(30)])
    command = [sys.executable, "-m", "reconciler", "apply", str(env_of("one", text)), "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    words = "".join(process.communicate(timeout=60))
    assert process.returncode in (1, 5, 130)
    assert "Traceback" not in words
    assert cli("apply", env_of("two", text), "--yes").code == 0
    kinds = [line["kind"] for line in audit(env_of("one", text))]
    assert kinds.count("begin") == kinds.count("end")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("line", range(3))
def test_interrupted_at_any_line_the_record_has_its_end(
    cli: Cli,
    env_of: Callable[..., Path],
    plain: Sandbox,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    line: int,
    when: str,
) -> None:
    """Else the run looks as if it was killed, which ``drift`` tells as a half-finished apply."""
    env, write, lines = env_of("one", declared(plain, unique)), AuditFile.write, itertools.count()

    def interrupted(self: AuditFile, told: Mapping[str, Any]) -> None:
        now = next(lines) == line
        if now and when == "before":
            raise KeyboardInterrupt
        write(self, told)
        if now:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(AuditFile, "write", interrupted)
        assert cli("apply", env, "--yes").code in (0, 5, 130)  # 0: nothing was left to be done
    kinds = [one["kind"] for one in audit(env)] if (line, when) != (0, "before") else []
    assert kinds.count("begin") == kinds.count("end") + ((line, when) == (2, "before"))
    assert cli("apply", env, "--yes").code == 0, "the lock was given back"


def test_a_line_that_is_interrupted_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with AuditFile(tmp_path) as kept:
        kept.write({"run": "one"})
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                kept.write({"run": "two"})
        assert kept.holds("two"), "it was written"
        whole = kept._handle

        def half(data: bytes) -> None:
            whole.write(data[:4])
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            stand_in = SimpleNamespace(
                seek=whole.seek, truncate=whole.truncate, write=half, read=whole.read, fileno=whole.fileno
            )
            patched.setattr(kept, "_handle", stand_in)
            with pytest.raises(KeyboardInterrupt):
                kept.write({"run": "three"})
        kept.write({"run": "four"})
    assert [one["run"] for one in read_lines(tmp_path)] == ["one", "two", "four"]
    assert (tmp_path / "audit.jsonl").read_bytes().count(b"\n") == 3


def silent_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def one_silent(sandbox: Sandbox, unique: str) -> str:
    return (
        two_clusters(sandbox).replace(sandbox["west"].bootstrap_servers, silent_address())
        + f"topics:\n  {unique}-a: {{clusters: [east, west], partitions: 1, replication_factor: 1}}\n"
    )


def test_partial_leaves_out_a_silent_cluster_and_says_so(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str
) -> None:
    env = env_of("one", one_silent(plain, unique))
    begun = cli("apply", env, "--yes", "--partial")
    assert begun.code == 1
    assert "Cluster west may keep the lock of environment" in begun.words, "nobody applied here before"
    assert cli("apply", env_of("one", two_clusters(plain)), "--yes").code == 0
    env = env_of("one", one_silent(plain, unique))
    whole = cli("apply", env, "--yes")
    assert whole.code == 1
    assert "--partial" in whole.words
    assert f"{unique}-a" not in topics(plain["east"])
    ended = cli("apply", env, "--yes", "--partial", "--format", "json")
    assert ended.code == 5
    assert f"{unique}-a" in topics(plain["east"])
    told = json.loads(ended.out)
    assert told["exit_code"] == 5
    assert "1 unknown" in told["verdict"]
    assert cli("apply", env, "--yes", "--partial").code == 1, "nothing is left that could be done"


def test_partial_leaves_out_what_is_refused_and_deletes_nothing(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str, create_topic: Callable[..., str]
) -> None:
    east = plain["east"]
    create_topic(east, f"{unique}-wide", 5)
    create_topic(east, f"{unique}-old")
    text = declared(plain, f"{unique}-wide", f"{unique}-new")
    text += f"deletions:\n  - {stone(f'{unique}-old', topic_id(east, f'{unique}-old'))}\n"
    env = env_of("one", text)
    assert cli("apply", env, "--yes").code == 3
    ended = cli("apply", env, "--yes", "--partial")
    assert ended.code == 5
    assert {f"{unique}-new", f"{unique}-old"} <= topics(east)
    assert "nothing is deleted" in ended.words
    assert cli("apply", env, "--yes", "--partial").code == 3


def test_a_tombstone_deletes_its_topic_and_no_other(
    cli: Cli, env_of: Callable[..., Path], plain: Sandbox, unique: str, create_topic: Callable[..., str]
) -> None:
    east = plain["east"]
    create_topic(east, f"{unique}-old", 3)
    create_topic(east, f"{unique}-stays", 1)
    stones = f"deletions:\n  - {stone(f'{unique}-old', topic_id(east, f'{unique}-old'))}\n"
    env = env_of("one", declared(plain, f"{unique}-new") + stones)
    shown = cli("plan", env)
    assert shown.code == 2
    assert "HIGH risk" in shown.words
    assert cli("apply", env, "--yes").code == 0
    assert f"{unique}-old" not in topics(east)
    assert {f"{unique}-stays", f"{unique}-new"} <= topics(east)
    after = cli("plan", env)
    assert after.code == 0
    assert "can be removed" in after.words
    create_topic(east, f"{unique}-old", 1)
    again = cli("apply", env, "--yes")
    assert again.code == 3, "recreated under its name, it is another topic"
    assert f"{unique}-old" in topics(east)


def stone(name: str, identity: str) -> str:
    return f"{{topic: {name}, cluster: east, topic_id: '{identity}', reason: replaced, expires: 2099-12-31}}"


def topic_id(cluster: ClusterHandle, name: str) -> str:
    until = time.monotonic() + 30
    with KafkaCluster(real_cluster(cluster)) as reader:
        while name not in (found := reader.read([name]).topics):
            assert time.monotonic() < until
            time.sleep(0.05)
    return found[name].topic_id
