"""A failover and a failback with exactly the rights that the pages list; and without one of them, told so: no group is
left behind in silence, and with the right back the rest is done.

``make test-least-privilege`` takes away every rule in turn.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.operations.session.mirror_runners import MirrorRunners
from reconciler.replication.names import STATUS_TOPIC
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.access.role_users import (
    PASSWORD,
    WHOLE,
    RoleUser,
    kafka_filter,
    names_right,
    rules_of,
    scram_cluster,
    title,
)
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, Write
from tests.support.lanes.lane_runs import Flow, fill
from tests.support.lanes.truth import map_topic

pytestmark = [pytest.mark.kafka("secure"), pytest.mark.timeout(1800 if WHOLE else 300)]
RECORDS, READ = 400, 25
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
CHOSEN = (
    ("mirror", "west", GROUP, "*", Operation.READ),
    ("apply", "west", TOPIC, STATUS_TOPIC, Operation.WRITE),
)
Cli = Callable[..., Ended]


@dataclass(frozen=True)
class Move:
    """One flow with one group, which commands move to west and back."""

    cli: Cli
    env: Path
    flow: Flow
    users: Mapping[tuple[str, str], RoleUser]
    """By principal and cluster."""
    read: list[int] = field(default_factory=lambda: [READ])
    """Where the group is, the last one. It reads on before each move, so that each has an offset to set."""

    @property
    def group(self) -> str:
        return f"{self.flow.topic}-billing"

    def run(self, way: str) -> Ended:
        words = ("--unplanned", "--fence") if way == "failover" else ()
        return self.cli(way, self.env, self.flow.topic, *words, "--yes", "--format", "json")

    def reads_on(self, way: str) -> None:
        """By one record, on the cluster that it is about to leave. The positions of copies are those of the source."""
        away = way == "failover"
        place, topic = (self.flow.source, self.flow.topic) if away else (self.flow.target, self.flow.remote)
        self.read.append(self.read[-1] + 1)
        commit(place, self.group, topic, self.read[-1])

    def state(self) -> tuple[bool, int, int]:
        """Whether the source is fenced, and where the group is on both sides, by a stranger's eyes."""
        stranger = admin(self.flow.source)
        fenced = bool(stranger.describe_acls(kafka_filter(denial(self.flow.topic))).result(60))
        here = committed(self.flow.source, self.group, self.flow.topic)
        return fenced, here, committed(self.flow.target, self.group, self.flow.remote)

    def is_done(self, way: str) -> bool:
        """By a stranger's eyes."""
        away = way == "failover"
        stranger = admin(self.flow.source)
        fenced = bool(stranger.describe_acls(kafka_filter(denial(self.flow.topic))).result(60))
        place, topic = (self.flow.target, self.flow.remote) if away else (self.flow.source, self.flow.topic)
        return fenced is away and committed(place, self.group, topic) == self.read[-1]


def admin(handle: ClusterHandle) -> AdminClient:
    return AdminClient({**handle.super_client(), "log_level": 0})


def committed(handle: ClusterHandle, group: str, topic: str) -> int:
    consumer = Consumer({**handle.super_client(), "group.id": group, "log_level": 0})
    (at,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(at.offset)


def commit(handle: ClusterHandle, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({**handle.super_client(), "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def rights(sandbox: Sandbox, unique: str) -> dict[tuple[str, str], RoleUser]:
    """The roles ``mirror`` and ``reconciler-apply``, and what a failback without a flow back needs besides."""
    text = (
        "clusters: {east: {bootstrap_servers: [e:1]}, west: {bootstrap_servers: [w:1]}}\n"
        f"topics: {{{unique}: {{clusters: [east], partitions: 1}}}}\n"
        f"flows: {{{unique}: {{source: east, target: west, topics: [{unique}], groups: {{sync_offsets: true}}}}}}\n"
        f"mirrors: {{there: {{flows: [{unique}]}}}}\n"
        "access:\n"
        f"  - {{role: mirror, principal: 'User:{unique}mirror'}}\n"
        f"  - {{role: reconciler-apply, principal: 'User:{unique}apply', clusters: [east, west]}}\n"
    )
    users = {}
    for who in ("mirror", "apply"):
        for name, handle in sandbox.clusters.items():
            rules = rules_of(text, f"{unique}{who}", name)
            if (who, name) == ("mirror", "east"):
                where = (GROUP, "*", PatternType.LITERAL, f"User:{unique}mirror", "*")
                rules = (*rules, AclBinding(*where, Operation.READ, Permission.ALLOW))
            users[who, name] = RoleUser(handle, f"{unique}{who}", rules)
    return users


@pytest.fixture
def move(
    secure: Sandbox, unique: str, create_topic: CreateTopic, cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Move]:
    flow = Flow(secure["east"], secure["west"], unique)
    create_topic(flow.source, unique)
    create_topic(flow.target, flow.remote)
    map_topic(flow.target)
    with contextlib.suppress(KafkaException):  # another test has made it
        create_topic(flow.target, STATUS_TOPIC, cleanup_policy="compact")
    fill(flow.source, unique, [(b"%d" % number, b"v", (), -1) for number in range(RECORDS)])
    flow.run(batch_path, flow.at_end())
    users = {key: user.made() for key, user in rights(secure, unique).items()}
    monkeypatch.setenv("ROLE_PASSWORD", PASSWORD)
    # A failback resumes the flow. Its job would read and confirm pauses, which other tests look at.
    monkeypatch.setattr(MirrorRunners, "start", lambda *_: None)
    made = Move(cli, write(environment(secure, flow, users), unique), flow, users)
    commit(flow.source, made.group, unique, READ)
    yield made
    stranger = admin(flow.source)
    for gone in stranger.delete_acls([kafka_filter(denial(unique))]).values():
        gone.result(30)


def environment(sandbox: Sandbox, flow: Flow, users: Mapping[tuple[str, str], RoleUser]) -> str:
    names = {name: {who: users[who, name].name for who in ("apply", "mirror")} for name in sandbox.clusters}
    clusters = {name: scram_cluster(handle, names[name]) for name, handle in sandbox.clusters.items()}
    groups = {"include": [f"{flow.topic}-.*"], "sync_offsets": True}
    flows = {flow.topic: {"source": "east", "target": "west", "topics": [flow.topic], "groups": groups}}
    return json.dumps({"clusters": clusters, "flows": flows, "mirrors": {"there": {"flows": [flow.topic]}}})


def taken_away(move: Move) -> list[tuple[RoleUser, AclBinding, str]]:
    every = [(user, rule, who) for (who, _), user in move.users.items() for rule in user.rules]
    return [
        (user, rule, who)
        for user, rule, who in every
        if WHOLE or (who, user.handle.name, rule.resource, rule.name, rule.operation) in CHOSEN
    ]


def test_what_a_broker_hides_is_not_taken_for_what_is_not_there(move: Move) -> None:
    """Brokers leave topics and groups out of their lists silently; a failover said that all was done."""
    mirror = move.users["mirror", "east"]
    of_topic = [rule for rule in mirror.rules if rule.resource is TOPIC and rule.name == move.flow.topic]
    of_groups = [rule for rule in mirror.rules if rule.resource is GROUP]
    for rules, hidden in ((of_topic, f"hides topics .*: {move.flow.topic}"), (of_groups, "may not describe groups")):
        assert rules
        with contextlib.ExitStack() as stack:
            for rule in rules:
                stack.enter_context(mirror.without(rule))
            ended = move.run("failover")
        assert (ended.code, committed(move.flow.target, move.group, move.flow.remote)) == (3, -1001), ended.words
        assert re.search(hidden, ended.words), ended.words
        assert PASSWORD not in ended.words
    ended = move.run("failover")
    assert (ended.code, move.is_done("failover")) == (0, True), ended.words


@pytest.mark.long
def test_without_a_rule_no_group_is_left_behind_in_silence(move: Move, capfd: pytest.CaptureFixture[str]) -> None:
    for way in ("failover", "failback"):
        ended = move.run(way)
        assert (ended.code, move.is_done(way)) == (0, True), f"the documented rights are enough: {ended.words}"
    lines = []
    chosen = taken_away(move)
    assert len(chosen) >= len(CHOSEN)
    for user, rule, who in chosen:
        for way in ("failover", "failback"):
            move.reads_on(way)
            before = move.state()
            with user.without(rule):
                ended = move.run(way)
            line = f"{who} on {user.handle.name}, {title(rule)}: {way} exit {ended.code}"
            lines.append(line)
            with capfd.disabled():
                sys.stdout.write(f"\n  {line}" if WHOLE else "")
            if ended.code == 0:
                assert move.is_done(way), f"{line}, and yet it is not done: {ended.words}"
            else:
                assert names_right(ended.words, rule), f"{line}: {ended.words}"
                assert (ended.code in (1, 3), move.state()) == (True, before), f"{line}, in part: {ended.words}"
            ended = move.run(way)
            assert (ended.code, move.is_done(way)) == (0, True), f"{line}; with the rule back: {ended.words}"
