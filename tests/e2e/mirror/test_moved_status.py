"""A flow that comes first by name moves the status cluster of its mirror; what is paused stays paused: a real job."""

from __future__ import annotations

from pathlib import Path

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.clusters import CreateTopic
from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import reconciler, until
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka("trio"), pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


def written(env: Path, trio: Sandbox, name: str, *flows: tuple[str, str]) -> None:
    """``flows``: their targets by what comes before ``name`` in theirs."""
    text = "clusters:\n"
    for alias, handle in trio.clusters.items():
        servers = f"bootstrap_servers: [{handle.bootstrap_servers}], cluster_id: {handle.cluster_id}"
        text += f"  {alias}: {{{servers}, defaults: {{replication_factor: 1}}}}\n"
    text += "flows:\n"
    for first, target in flows:
        text += f"  {first}{name}: {{source: east, target: {target}, topics: ['{name}.*'], replication_factor: 1}}\n"
    text += f"mirrors:\n  both: {{flows: [{', '.join(first + name for first, _ in flows)}]}}\n"
    env.mkdir(exist_ok=True)
    (env / "topology.yaml").write_text(text, encoding="utf-8")


def write(cluster: ClusterHandle, topic: str, text: bytes) -> None:
    made = producer(cluster)
    made.produce(topic, text)
    assert made.flush(60) == 0


def values(cluster: ClusterHandle, topic: str) -> list[bytes | None]:
    return [message.value() for message in to_the_end(cluster, topic)]


def test_a_paused_topic_is_not_copied_when_the_status_cluster_moves(
    trio: Sandbox, unique: str, tmp_path: Path, create_topic: CreateTopic
) -> None:
    east, hub, west = trio["east"], trio["hub"], trio["west"]
    held, free = create_topic(east, f"{unique}held"), create_topic(east, f"{unique}free")
    env = tmp_path / f"{unique}env"
    written(env, trio, unique, ("b", "west"))
    try:
        write(east, held, b"first")
        assert reconciler("apply", env, "--yes").code == 0
        until("the first record is copied", lambda: values(west, f"east.{held}") == [b"first"])
        paused = reconciler("mirror", "pause", env, f"b{unique}", "--topic", held, "--reason", "audit")
        assert paused.code == 0, paused

        written(env, trio, unique, ("a", "hub"), ("b", "west"))
        note = f"1 pause on west will be carried over to hub, now the status cluster of its mirror: topic {held}"
        planned = reconciler("plan", env)
        assert note in planned.out, planned
        assert "!1 mirror restart" in planned.out or "restarts mirror both" in planned.out, planned
        write(east, held, b"while paused")
        write(east, free, b"free")
        applied = reconciler("apply", env, "--yes")
        assert applied.code == 0, applied
        assert "a new application starts beside" in applied.out + applied.err, (
            "the old application goes on until the new one can"
        )
        until("the other flow copies", lambda: values(hub, f"east.{held}") == [b"first", b"while paused"])
        until("the other topic is copied", lambda: values(west, f"east.{free}") == [b"free"])
        assert values(west, f"east.{held}") == [b"first"]
        assert "audit" in reconciler("status", env).out
        assert "will be carried over" not in reconciler("plan", env).out

        assert reconciler("mirror", "resume", env, f"b{unique}", "--topic", held).code == 0
        until("what was paused is copied", lambda: values(west, f"east.{held}") == [b"first", b"while paused"])
        written(env, trio, unique, ("b", "west"))
        back = reconciler("apply", env, "--yes")
        assert back.code == 0, back
        assert "restarts mirror both" in back.out, "the record there is of an application that ended with the move"
        assert "paused" not in reconciler("status", env).out, "a resume is not undone by the way back"
        write(east, held, b"last")
        until("it copies", lambda: values(west, f"east.{held}")[-1:] == [b"last"])
    finally:
        reconciler("mirror", "stop", env)
