"""A failover that dies between two of its steps, or in one, is run again: the end is that of a run nobody killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.acls_and_quotas import AccessControl
from reconciler.backends.clusters.groups import Side
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.state.audit import AuditFile
from reconciler.cli.main import main
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.live import LiveAccess
from reconciler.model.principals import AclBinding
from reconciler.model.reports.failover import Key
from reconciler.operations.session.mirror_runners import MirrorRunners
from reconciler.replication.names import STATUS_TOPIC, status_key
from reconciler.replication.records.pauses import Scope
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.clusters import real_cluster
from tests.support.commands import Ended, two_clusters
from tests.support.jobs.status_records import FLOW, record
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.truth import map_topic, placed

Cli = Callable[..., Ended]
CreateTopic = Callable[..., str]

LINES_OF_A_STEP = 3  # begin, what came of it, end
STEPS = ("drain", "pause", "offsets", "start")
BEFORE = {f"before {step}": number * LINES_OF_A_STEP for number, step in enumerate(STEPS[1:], 1)}
UNTOLD = {f"{step} done, not recorded": number * LINES_OF_A_STEP + 1 for number, step in enumerate(STEPS) if number}
MOMENTS = {**UNTOLD, **BEFORE, "half of the groups set": -1}
QUICK = {"offsets done, not recorded", "half of the groups set"}
GROUPS = {"first": 0, "odd": 7, "aborted": 12, "late": 33, "end": 60}
"""Group -> which committed record it reads next."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying() -> None:
    """In a process of its own: the audit line where it dies (-1: with half of the groups set), then a command."""
    left = [int(sys.argv.pop(1))]
    write, commit = AuditFile.write, Side.commit

    def write_or_die(file: AuditFile, line: Mapping[str, object]) -> None:
        if left[0] == 0:
            die()
        left[0] -= 1
        write(file, line)

    def commit_half(
        side: Side, wanted: Mapping[str, Mapping[Key, CommittedPosition]], share: Collection[str]
    ) -> Mapping[str, Mapping[Key, str]]:
        commit(side, {group: wanted[group] for group in sorted(wanted)[: len(wanted) // 2]}, share)
        die()
        raise AssertionError

    AuditFile.write = write_or_die  # type: ignore[assignment,method-assign]
    if left[0] < 0:
        Side.commit = commit_half  # type: ignore[assignment,method-assign]
    MirrorRunners.start = start_on_paper  # type: ignore[assignment,method-assign]
    main(sys.argv[1:])


def start_on_paper(_: MirrorRunners, mirror: str, handover: str, progress: object) -> None:
    """In place of Spark: a line in a file, and a job that says it runs."""
    desired = json.loads(handover)
    with Path(os.environ["STARTS"]).open("a", encoding="utf-8") as starts:
        starts.write(f"{mirror}\n")
    flows = {flow["name"]: FLOW | {"state": "running", "conditions": []} for flow in desired["flows"]}
    now = int(time.time() * 1000)
    told = record(
        mirror=mirror, environment=desired["environment"], flows=flows,
        started_at_ms=now, updated_at_ms=now, status_interval_ms=60_000,
    )  # fmt: skip
    telling = Producer({"bootstrap.servers": os.environ["EAST"]})
    telling.produce(STATUS_TOPIC, told, status_key(desired["environment"], mirror))
    assert telling.flush(30) == 0


@dataclass(frozen=True)
class Moving:
    """Records with aborted ones between, copied; groups on the source; flows both ways, of which none runs."""

    flow: Flow
    env: Path
    starts: Path

    @property
    def words(self) -> list[str]:
        return ["failover", str(self.env), self.flow.topic, "--yes", "--format", "json"]

    def name(self, group: str) -> str:
        return f"{self.flow.topic}-{group}"

    def committed(self) -> dict[str, int]:
        """Group -> where it stands on the target."""
        return {group: self._committed(self.name(group)) for group in GROUPS}

    def paused(self) -> dict[Scope, str]:
        """What is paused -> why, which the failback goes by."""
        records = StatusRecords(real_cluster(self.flow.target), self.env.name)
        found = {scope: pause.reason for scope, pause in records.pauses().items()}
        records.close()
        return found

    def _committed(self, group: str) -> int:
        consumer = Consumer({**self.flow.target.super_client(), "group.id": group})
        (at,) = consumer.committed([TopicPartition(self.flow.remote, 0)], timeout=20)
        consumer.close()
        return int(at.offset)


@pytest.fixture
def moving(
    plain: Sandbox,
    unique: str,
    create_topic: CreateTopic,
    write: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Moving:
    east, west = plain["east"], plain["west"]
    flow = Flow(east, west, unique)
    create_topic(east, unique)
    for cluster, topic in ((west, unique), (west, flow.remote), (east, f"west.{unique}")):
        create_topic(cluster, topic)
    for cluster in (east, west):
        map_topic(cluster)
        with contextlib.suppress(KafkaException):  # another test has made it
            create_topic(cluster, STATUS_TOPIC, cleanup_policy="compact")
    stands = list(_written(flow))
    flow.run(batch_path, flow.at_end())
    _commit(flow, stands)
    groups = f"groups: {{include: ['{unique}-.*']}}"
    env = write(
        two_clusters(plain)
        + "flows:\n"
        + f"  {unique}: {{source: east, target: west, topics: [{unique}], {groups}}}\n"
        + f"  {unique}-back: {{source: west, target: east, topics: [{unique}], {groups}}}\n"
        + f"mirrors:\n  there: {{flows: [{unique}]}}\n  back: {{flows: [{unique}-back]}}\n",
        unique,
    )
    moved = Moving(flow, env, tmp_path / "starts")
    monkeypatch.setenv("STARTS", str(moved.starts))
    monkeypatch.setenv("EAST", east.bootstrap_servers)
    monkeypatch.setattr(MirrorRunners, "start", start_on_paper)
    return moved


def _written(flow: Flow) -> Iterator[bytes]:
    """Values that were committed, in order."""
    writer = producer(flow.source, transactional_id=flow.topic)
    writer.init_transactions(20)
    for number in range(18):
        writer.begin_transaction()
        values = [b"%d %d" % (number, n) for n in range(5)]
        for value in values:
            writer.produce(flow.topic, value, partition=0)
        writer.flush(20)
        if number % 3 == 2:
            writer.abort_transaction(20)
        else:
            writer.commit_transaction(20)
            yield from values


def _commit(flow: Flow, stands: list[bytes]) -> None:
    at = placed(flow.source, flow.topic)
    for group, number in GROUPS.items():
        offset = at[stands[number]] if number < len(stands) else at[stands[-1]] + 1
        consumer = Consumer({**flow.source.super_client(), "group.id": f"{flow.topic}-{group}"})
        consumer.commit(offsets=[TopicPartition(flow.topic, 0, offset)], asynchronous=False)
        consumer.close()


def _kill_at(moving: Moving, line: int) -> None:
    child = "from tests.e2e.mirror.test_killed_failover import dying; dying()"
    command = [sys.executable, "-c", child, str(line), *moving.words]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr


@pytest.mark.parametrize(
    "moment", [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in MOMENTS]
)
def test_killed_and_run_again(cli: Cli, moving: Moving, moment: str) -> None:
    flow = moving.flow
    there = list(placed(flow.target, flow.remote).items())
    wanted = {g: there[n][1] if n < len(there) else there[-1][1] + 1 for g, n in GROUPS.items()}
    _kill_at(moving, MOMENTS[moment])
    if moment == "half of the groups set":
        assert 0 < sum(moving.committed()[group] == wanted[group] for group in GROUPS) < len(GROUPS)

    ended = cli(*moving.words)
    assert ended.code == 0, ended.words
    assert moving.committed() == wanted
    for one in _report(ended)["groups"]:
        assert (one["read_again"], one["missed"], one["exact"], one["note"]) == (0, 0, True, ""), one
    assert moving.starts.read_text().split() == ["back"], "started once, whoever did it"
    assert moving.paused() == {Scope(flow.topic): f"failover to {flow.target.name}; started for it: {flow.topic}-back"}

    again = cli(*moving.words)
    assert again.code == 0, again.words
    assert not {"done", "planned", "failed"} & {step["result"] for step in _report(again)["steps"]}
    assert moving.committed() == wanted


def test_without_an_authorizer_no_producer_can_be_fenced_off(cli: Cli, moving: Moving) -> None:
    ended = cli(*moving.words, "--fence", "--dry-run")
    (stops,) = (check for check in _report(ended)["checks"] if check["level"] == "stops")
    assert (ended.code, stops["code"]) == (3, "fence")
    assert "has no authorizer (SECURITY_DISABLED), so nothing can keep producers from writing there" in str(stops)
    back = cli("failback", *moving.words[1:], "--fence")
    assert (back.code, "--fence is of failover" in back.err) == (1, True)


def test_a_failback_takes_back_the_rules_that_the_failover_made(
    cli: Cli, moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps and the record on real clusters; the rules themselves are held by test_access_rules.py."""
    stand: set[AclBinding] = set()

    def sent(_: AccessControl, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        for change in changes:
            (stand.add if isinstance(change, CreateAcl) else stand.discard)(change.acl)
        return {}

    monkeypatch.setattr(AccessControl, "read", lambda _: LiveAccess(frozenset(stand)))
    monkeypatch.setattr(AccessControl, "sent", sent)
    monkeypatch.setattr(
        "reconciler.operations.mirror.pause._await", lambda *_, **__: []
    )  # no job is there to confirm it
    name = moving.flow.topic
    there = _report(cli(*moving.words, "--fence"))
    assert [step["name"] for step in there["steps"]] == ["fence", *STEPS]
    assert stand == {denial(name)}
    again = _report(cli(*moving.words, "--fence"))
    assert {step["result"] for step in again["steps"]} == {"already"}
    back = cli("failback", *moving.words[1:])
    assert (back.code, stand) == (0, set()), back.words
    assert [(step["name"], step["result"]) for step in _report(back)["steps"]][-1] == ("unfence", "done")
    assert "unfence" not in str(_report(cli("failback", *moving.words[1:]))["steps"])


def _report(ended: Ended) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(ended.out)
    return found
