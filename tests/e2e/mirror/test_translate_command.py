"""``offsets translate`` on real brokers: groups, positions by hand, back again, and where the map has gaps."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane import offset_map_writer as map_writing
from reconciler_mirror.lane.offset_map_writer import MapWriter
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.cli.main import main
from reconciler.replication.names import position_group
from reconciler.replication.offsets import translate as translating
from reconciler.replication.offsets.position_metadata import urlsafe
from tests.support.clusters import delete_topic
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.truth import map_topic, placed

CreateTopic = Callable[..., str]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique)
    create_topic(made.source, made.topic)
    create_topic(made.target, made.remote)
    map_topic(made.target)
    return made


def _environment(flow: Flow, folder: Path) -> Path:
    def servers(handle: object) -> str:
        return json.dumps(handle.super_client()["bootstrap.servers"].split(","))  # type: ignore[attr-defined]

    (folder / "env").mkdir()
    (folder / "env" / "topology.yaml").write_text(
        f"clusters:\n  east: {{bootstrap_servers: {servers(flow.source)}}}\n"
        f"  west: {{bootstrap_servers: {servers(flow.target)}}}\n"
        f"flows:\n  {flow.topic}: {{source: east, target: west, topics: ['{flow.topic}']}}\n"
    )
    return folder / "env"


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["offsets", "translate", *map(str, arguments)])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def _write(flow: Flow, rounds: range) -> None:
    writing = producer(flow.source, transactional_id=flow.topic)
    writing.init_transactions(30)
    for number in rounds:
        writing.begin_transaction()
        for i in range(3):
            writing.produce(flow.topic, b"%d %d" % (number, i))
        writing.flush(20)
        (writing.abort_transaction if number % 4 == 0 else writing.commit_transaction)(20)


def _truth(flow: Flow) -> dict[int, int]:
    here, there = placed(flow.source, flow.topic), placed(flow.target, flow.remote)
    pairs = sorted((here[value], there[value]) for value in there)
    end = pairs[-1][0] + 1
    return {u: min((d for o, d in pairs if o >= u), default=pairs[-1][1] + 1) for u in range(end + 1)}


def test_a_group_there_and_back(flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(flow, range(12))
    flow.run(batch_path, flow.at_end())
    right = _truth(flow)
    consumer = Consumer({**flow.source.super_client(), "group.id": flow.topic})
    consumer.commit(offsets=[TopicPartition(flow.topic, 0, 17)], asynchronous=False)
    consumer.close()
    env = _environment(flow, tmp_path)
    code, out, _ = _run(capsys, env, flow.topic, "--group", flow.topic, "--format", "csv", "--out", tmp_path / "reset")
    assert (code, out) == (0, f"{flow.remote},0,{right[17]}\n")
    assert (tmp_path / "reset").read_text() == out
    back = ("--topic", flow.remote, "--offset", right[17], "--reverse", "--format", "json")
    code, out, _ = _run(capsys, env, flow.topic, *back)
    (told,) = json.loads(out)["positions"]
    assert code == 0
    assert right[told["to_offset"]] == right[17]
    code, out, _ = _run(capsys, env, flow.topic, "--group", "nobody")
    assert "left out: group nobody: it has no committed offset on east" in out
    assert code == 2, "a script must not continue with nothing"
    code, _, err = _run(capsys, env, flow.topic)
    assert code == 1
    assert "Give --group GROUP, or --topic TOPIC --partition P --offset N." in err
    code, _, err = _run(capsys, env, "no-such-flow", "--group", "x")
    assert code == 1
    assert f"Its flows: {flow.topic}." in err


def test_gaps_of_a_killed_lane_are_counted(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs; only the second one writes its part of the map: a gap before it, and one behind it."""
    write = MapWriter.write

    async def nothing(_: MapWriter) -> bool:
        return True

    for number in range(3):
        monkeypatch.setattr(MapWriter, "write", write if number == 1 else nothing)
        _write(flow, range(number * 10, number * 10 + 10))
        flow.run(batch_path, flow.at_end())
    right = _truth(flow)
    given = [argument for offset in right for argument in ("--offset", offset)]
    _, out, _ = _run(
        capsys, _environment(flow, tmp_path), flow.topic, "--topic", flow.topic, *given, "--format", "json"
    )
    told = json.loads(out)["positions"]
    assert {one["offset"]: one["to_offset"] for one in told} == right
    inexact = [one for one in told if one["exactness"] in ("earlier", "unknown")]
    assert [one for one in inexact if one["to_offset"] != right[one["offset"]]] == []


def test_without_a_map_the_whole_log_is_paired(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_writing, "WRITE_EVERY", 1000.0)
    monkeypatch.setattr(MapWriter, "last", lambda _: asyncio.sleep(0))
    _write(flow, range(10))
    flow.run(batch_path, flow.at_end())
    right = _truth(flow)
    given = [argument for offset in right for argument in ("--offset", offset)]
    _, out, _ = _run(
        capsys, _environment(flow, tmp_path), flow.topic, "--topic", flow.topic, *given, "--format", "json"
    )
    assert {one["offset"]: one["to_offset"] for one in json.loads(out)["positions"]} == right


def test_while_the_mirror_commits_its_position_is_waited_for_and_then_done_without(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers tell no position that an open transaction is about to change (KIP-447, UNSTABLE_OFFSET_COMMIT)."""
    monkeypatch.setattr(MapWriter, "write", lambda _: asyncio.sleep(0, True))
    _write(flow, range(10))
    flow.run(batch_path, flow.at_end())
    right = _truth(flow)
    member = Consumer({**flow.target.super_client(), "group.id": position_group(flow.topic)})
    writing = Producer({**flow.target.super_client(), "transactional.id": f"{flow.topic}-undecided"})
    writing.init_transactions(20)
    writing.begin_transaction()
    undecided = [TopicPartition(flow.remote, 0, max(right))]
    writing.send_offsets_to_transaction(undecided, member.consumer_group_metadata(), 20)
    given = [argument for offset in right for argument in ("--offset", offset)]
    question = (_environment(flow, tmp_path), flow.topic, "--topic", flow.topic, *given, "--format", "json")
    _, out, _ = _run(capsys, *question)
    assert {one["offset"]: one["to_offset"] for one in json.loads(out)["positions"]} == right
    deciding = threading.Timer(translating.UNDECIDED_WITHIN / 4, lambda: writing.commit_transaction(20))
    deciding.start()
    _, out, _ = _run(capsys, *question)
    deciding.join()
    member.close()
    assert {one["offset"]: one["to_offset"] for one in json.loads(out)["positions"]} == right


def test_what_lies_beyond_a_log_and_what_is_of_a_former_topic_is_called_so(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str], create_topic: CreateTopic
) -> None:
    _write(flow, range(1, 3))
    flow.run(batch_path, flow.at_end())
    env = _environment(flow, tmp_path)

    def reason(topic: str, offset: int, *more: str) -> str:
        asked = ("--topic", topic, "--offset", offset, *more, "--format", "json")
        code, out, _ = _run(capsys, env, flow.topic, *asked)
        (told,) = json.loads(out)["positions"]
        assert code == 2
        return str(told["reason"])

    beyond = reason(flow.topic, 5_000)
    assert beyond.startswith(f"offset 5000 is beyond the log of {flow.topic}-0 on east, which ends at 8: ")
    assert f"--topic {flow.topic}:0 --reset-offsets --to-earliest" in beyond
    back = reason(flow.remote, 5_000, "--reverse")
    assert back.startswith(f"offset 5000 is beyond the log of {flow.remote}-0 on west, which ends at ")

    def ids(handle: ClusterHandle, topic: str) -> str:
        admin = AdminClient(handle.super_client())
        return urlsafe(str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id))

    by_itself = f"until the mirror has copied {flow.topic} again: its position went with the former topic"
    seek = f"reconciler mirror seek {env} {flow.topic} --topic {flow.topic} --to earliest"
    for handle, topic, todo in ((flow.target, flow.remote, by_itself), (flow.source, flow.topic, seek)):
        was = ids(handle, topic)
        delete_topic(handle, topic)
        if todo == by_itself:
            gone = reason(flow.topic, 3)
            assert gone == f"{flow.remote} is not on west"
        create_topic(handle, topic)
        anew = f"{topic} on {handle.name} was deleted and recreated since it was mirrored (id {was}, now "
        for offset in (0, 3):
            said = reason(flow.topic, offset)
            assert said.startswith(f"{anew}{ids(handle, topic)})")
            assert todo in said
    assert f"offset 3 is beyond the log of {flow.topic}-0 on east, which ends at 0" in said
