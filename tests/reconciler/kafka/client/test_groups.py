"""Groups of a real cluster: every kind is recognised, offsets are read and committed, members are never overrun."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import GROUP, ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.flexible import NO_TAGS, count, string
from reconciler.kafka.protocol.groups.describe_groups import DescribedGroup, GroupKind, ListedGroup
from reconciler.kafka.protocol.groups.group_offsets import OFFSET_FETCH, CommittedOffset
from reconciler.replication.groups import UnsupportedGroup, unsupported
from tests.support.clusters import CreateTopic, member

ACTIVE_MEMBERS = 25
NOT_YET = (15, 14, 16)
"""The coordinator of a cluster's very first group."""
SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT = 76, 88

Answer = TypeVar("Answer")


def ask(handle: ClusterHandle, question: Callable[[GroupClient], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        cluster = ClusterClient(handle.name, handle.bootstrap_servers.split(","), connection_settings({}))
        try:
            return await question(GroupClient(cluster))
        finally:
            cluster.close()

    return asyncio.run(run())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members(plain: Sandbox, create_topic: CreateTopic, unique: str, protocol: str) -> None:
    east = plain.clusters["east"]
    topic = create_topic(east, f"{unique}.in", 2)
    group = f"{unique}-{protocol}"

    async def both(groups: GroupClient) -> tuple[ListedGroup, DescribedGroup]:
        one = (await groups.listed())[group]
        return one, (await groups.described([one]))[group]

    with member(east, group, topic, protocol):
        listed, described = ask(east, both)
        assert (listed.kind, listed.state) == (GroupKind(protocol), "Stable")
        assert [one.client_id for one in described.members] == ["a-client"]
        assert sorted(described.members[0].assigned) == [(topic, 0), (topic, 1)]
        refused = ask(east, lambda groups: groups.commit({group: {(topic, 0): CommittedOffset(1)}}))
        assert set(refused[group].values()) == {ACTIVE_MEMBERS}
        found = ask(east, lambda groups: groups.offsets([group]))[group]
        (one,) = found.offsets.values()
        assert (one.offset, one.metadata.rstrip("\0")) == (5, "by a member")  # librdkafka adds the NUL

    written = {(topic, 0): CommittedOffset(1, metadata="from outside"), (topic, 1): CommittedOffset(0)}
    assert set(ask(east, lambda groups: groups.commit({group: written}))[group].values()) == {0}
    assert ask(east, lambda groups: groups.offsets([group], stable=True))[group].offsets == written
    assert ask(east, both)[0].state == "Empty"


def joined(east: ClusterHandle, group: str, api: int, version: int, body: bytes) -> ListedGroup:
    """A member of a kind that no client here speaks, by the request that makes it one."""

    async def join_and_list() -> ListedGroup:
        cluster = ClusterClient("east", east.bootstrap_servers.split(","), connection_settings({}))
        try:
            await cluster.refresh(())
            error = NOT_YET[0]
            while error in NOT_YET:
                try:
                    connection = await cluster.control(await cluster.coordinator(group, GROUP))
                    frame = await connection.send((api, version, True), [body])
                    (error,) = struct.unpack_from(">h", frame.body, 9)
                except BrokerError as refused:
                    error = refused.code
                await asyncio.sleep(0.1)
            assert error == 0
            return (await GroupClient(cluster).listed())[group]
        finally:
            cluster.close()

    return asyncio.run(join_and_list())


def test_a_share_group_is_recognised(plain: Sandbox, create_topic: CreateTopic, unique: str) -> None:
    east = plain.clusters["east"]
    topic, group = create_topic(east, f"{unique}.in"), f"{unique}-share"
    body = string(group) + string(str(uuid.uuid4())) + struct.pack(">i", 0) + b"\0"  # epoch 0 joins; no rack
    body += count(1) + string(topic) + NO_TAGS
    listed = joined(east, group, SHARE_GROUP_HEARTBEAT, 1, body)
    assert (listed.kind, listed.protocol) == (GroupKind.SHARE, "share")


def test_a_streams_group_is_recognised(plain: Sandbox, create_topic: CreateTopic, unique: str) -> None:
    """KIP-1071: a topology of one subtopology that reads one topic, and keeps no state."""
    east = plain.clusters["east"]
    topic, group = create_topic(east, f"{unique}.in"), f"{unique}-streams"
    null, none = b"\0", count(0)
    subtopology = string("0") + count(1) + string(topic) + none * 5 + NO_TAGS
    topology = b"\1" + struct.pack(">i", 0) + count(1) + subtopology + NO_TAGS
    body = string(group) + string(str(uuid.uuid4())) + struct.pack(">ii", 0, 0) + null * 2  # epoch 0 joins
    body += struct.pack(">i", 60_000) + topology + none * 3 + string(str(uuid.uuid4()))
    body += b"\xff" + none + null * 2 + b"\0" + NO_TAGS  # no endpoint, no tags, no task offsets, no shutdown
    listed = joined(east, group, STREAMS_GROUP_HEARTBEAT, 0, body)
    assert (listed.kind, listed.protocol) == (GroupKind.STREAMS, "streams")
    assert unsupported(listed.kind, group, "", ()) is UnsupportedGroup.STREAMS


def test_a_thousand_groups_are_read_in_few_requests(
    plain: Sandbox, create_topic: CreateTopic, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10,000 offsets, and none is mixed up."""
    east = plain.clusters["east"]
    topic = create_topic(east, f"{unique}.in", 10)
    wanted = {
        f"{unique}-{number}": {(topic, p): CommittedOffset(number * 100 + p, metadata=str(number)) for p in range(10)}
        for number in range(1000)
    }
    written = ask(east, lambda groups: groups.commit(wanted))
    send, apis = Connection.send, []

    def counting(self: Connection, api: tuple[int, int, bool], *rest: Any, **named: Any) -> Any:
        apis.append(api[0])
        return send(self, api, *rest, **named)

    monkeypatch.setattr(Connection, "send", counting)
    found = ask(east, lambda groups: groups.offsets(wanted))
    assert OFFSET_FETCH in apis
    assert len(apis) <= 20, apis  # a hundred groups a request, not one
    assert {code for codes in written.values() for code in codes.values()} == {0}
    assert {group: one.offsets for group, one in found.items()} == wanted
