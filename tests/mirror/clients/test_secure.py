"""TLS, SCRAM, client certificates and rights, against brokers that deny by default."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from reconciler_mirror.driver.heartbeats import Heartbeats
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.lane.same_offsets.holes import RANKS
from reconciler_mirror.model.lane import LaneEnd, LaneProgress, LaneReport, LaneSpec
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.replication.handover import FlowSettings, InternalTopics
from reconciler.replication.handover_reader import parse
from reconciler.replication.mirrormaker_records import HEARTBEATS, offset_syncs_topic
from tests.support.access.granted import granted_on_cluster
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_runs import Flow, Lane, UntilControl, caught_up, fill, has, running
from tests.support.lanes.load import mixed
from tests.support.lanes.mirrormaker_records import read_heartbeat, read_offset_sync
from tests.support.lanes.truth import assert_equal, map_topic, offset_map, raw_records
from tests.support.reading import to_the_end

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


@pytest.fixture
def few(secure: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    """Records enough to be refused."""
    made = Flow(secure["east"], secure["west"], unique, 2)
    create_topic(made.source, made.topic, 2)
    create_topic(made.target, made.remote, 2)
    for partition in range(2):
        fill(made.source, made.topic, _records(range(20)), partition)
    return made


@pytest.fixture
def flow(few: Flow) -> Flow:
    """Many frames of TLS."""
    for partition in range(2):
        fill(few.source, few.topic, _records(range(20, 3000)), partition, compression_type="none", linger_ms=20)
    return few


def _records(numbers: range) -> list[tuple[bytes, bytes, tuple[()], int]]:
    return [(b"%d" % number, b"v" * 2000, (), NOW) for number in numbers]


@pytest.mark.parametrize("kind", ["scram", "mtls"])
def test_the_mirrors_principal_copies(flow: Flow, kind: str) -> None:
    handles = (flow.source, flow.target)
    clients = tuple(h.client("mirror") if kind == "scram" else h.mtls_client("mirror") for h in handles)
    report, _ = replace(flow, clients=(clients[0], clients[1])).run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


def test_the_mirrors_principal_writes_maps_syncs_and_heartbeats(flow: Flow, create_topic: CreateTopic) -> None:
    syncs = offset_syncs_topic("west")
    map_topic(flow.target)
    for handle, name in ((flow.source, syncs), (flow.source, HEARTBEATS), (flow.target, HEARTBEATS)):
        create_topic(handle, name)
    mirror = replace(flow, clients=(flow.source.client("mirror"), flow.target.client("mirror")))
    lane = mirror.lane()
    mirror.run(batch_path, offset_syncs=("source", syncs))
    there = next(m.offset() for m in to_the_end(flow.target, flow.remote, [0]) if m.key() == b"1234")
    assert offset_map(flow).downstream(1234).offset == there  # beyond 1234 where the copy took several transactions
    assert read_offset_sync(*raw_records(flow.source, syncs)[-1]).upstream == 2999
    end = threading.Event()
    Heartbeats(_settings(lane), end).start()
    until = time.monotonic() + 60
    while not all(raw_records(handle, HEARTBEATS) for handle in (flow.source, flow.target)):
        assert time.monotonic() < until, "no heartbeat has come"
    end.set()
    assert read_heartbeat(*raw_records(flow.target, HEARTBEATS)[0]).source == "east"
    assert read_heartbeat(*raw_records(flow.source, HEARTBEATS)[0]).source == "west"


def _settings(lane: LaneSpec) -> FlowSettings:
    """As the hand-over would say it."""
    (made,) = parse(json.dumps(handover())).flows
    asked = InternalTopics(heartbeats_ms=100)
    return replace(made, name=lane.flow, source=lane.source, target=lane.target, mirrormaker_topics=asked)


def test_secrets_are_resolved_where_the_connection_is_opened(few: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    source = few.source.client("mirror")
    monkeypatch.setenv("EAST_PASSWORD", source["sasl.password"])
    referring = {**source, "sasl.password": "${env:EAST_PASSWORD}"}
    report, _ = replace(few, clients=(referring, few.target.client("mirror"))).run(batch_path)
    assert report.end is LaneEnd.STOPPED, report


def _fails(flow: Flow, **target: str) -> LaneReport:
    client = {**flow.target.client("mirror"), **{key.replace("_", "."): value for key, value in target.items()}}
    lane = replace(flow, clients=(flow.source.client("mirror"), client)).lane()
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
    assert report.end is LaneEnd.FAILED, report
    assert flow.target.passwords["mirror"] not in repr(report)
    return report


def test_a_wrong_password_is_reported_and_not_printed(few: Flow) -> None:
    report = _fails(few, sasl_password="not the password")
    assert "SCRAM-SHA-512" in report.error
    assert "not the password" not in repr(report)


def test_a_certificate_of_another_authority_is_refused(few: Flow) -> None:
    report = _fails(few, ssl_ca_location=str(few.source.ca))
    assert "certificate" in report.error


@pytest.mark.long
def test_a_client_certificate_that_the_broker_refuses_is_reported_and_one_put_in_its_place_is_used(
    flow: Flow, tmp_path: Path
) -> None:
    client = flow.target.mtls_client("mirror")
    ours = {name: tmp_path / Path(client[name]).name for name in ("ssl.certificate.location", "ssl.key.location")}
    foreign = flow.source.mtls_client("mirror")
    for name, path in ours.items():
        path.write_bytes(Path(foreign[name]).read_bytes())
    target = {**client, **{name: str(path) for name, path in ours.items()}}
    lane = replace(flow, clients=(flow.source.client("mirror"), target)).lane()
    control = UntilControl(lane.partitions, lambda _: False, 60)
    reports: list[LaneReport] = []
    thread = threading.Thread(target=lambda: reports.append(batch_path(lane, control)))
    thread.start()
    try:
        until = time.monotonic() + 30
        while not (told := [c.text for one in control.reports for c in one.conditions]):
            assert thread.is_alive(), reports
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "certificate" in told[0], told
        for name, path in ours.items():
            path.write_bytes(Path(client[name]).read_bytes())
        control.done = caught_up
        thread.join(40)
        assert control.finished, (reports, told)
    finally:
        control.finished = True
        thread.join(30)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.keystore.location": "store.p12"}, "ssl.keystore.location"),
        ({"ssl.crl.location": "/no/such/file"}, "ssl.crl.location"),
        ({"ssl.sigalgs.list": "RSA+SHA512"}, "ssl.sigalgs.list"),
        ({"sasl.mechanism": "EXTERNAL"}, "EXTERNAL"),
        ({"security.protocol": "tls"}, "tls"),
    ],
)
def test_a_setting_that_would_weaken_security_is_an_error(few: Flow, settings: Mapping[str, str], named: str) -> None:
    report = _fails(few, **{key.replace(".", "_"): value for key, value in settings.items()})
    assert named in report.error
    assert [one.code for one in report.progress.conditions] == ["setting_not_supported"]
    assert f"cluster {few.target.name}" in report.progress.conditions[0].text


def at_west(secure: Sandbox, topic: str, operation: AclOperation, permission: AclPermissionType) -> None:
    """Of ``mirror``, which may read all of west, as that is a source, too."""
    admin = AdminClient(secure["west"].super_client())
    of = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:mirror", "*")
    for created in admin.create_acls([AclBinding(*of, operation, permission)]).values():
        created.result(20)


@pytest.mark.parametrize("write", [False, True], ids=["neither", "write alone"])
@pytest.mark.parametrize(
    ("delivery", "begin"),
    [("exactly_once", 0), ("at_least_once", 0), ("same", 0), ("same", 1), ("same", 3)],
    ids=["exactly once", "at least once", "same offsets", "behind a marker", "behind fillers"],
)
def test_a_topic_it_may_not_use_is_a_condition_and_stops_alone(
    secure: Sandbox, unique: str, create_topic: CreateTopic, delivery: str, begin: int, *, write: bool
) -> None:
    """At west ``mirror`` may use ``east.*`` alone. A transaction takes no partition of a request that names one without
    WRITE (for copies before transaction version 2; for empty offsets before a copy always), and no position of one
    without READ: the lane then failed over and over, or for good."""
    east, west = secure["east"], secure["west"]
    flow, other = Flow(east, west, unique, 5), f"other.{unique}"
    create_topic(east, unique, 5)
    for topic in (flow.remote, other):
        create_topic(west, topic, 5)
    if write:
        at_west(secure, other, AclOperation.WRITE, AclPermissionType.ALLOW)
        at_west(secure, other, AclOperation.READ, AclPermissionType.DENY)
    for partition in range(5):
        fill(east, unique, [(b"k", b"v", (), NOW)] * (begin + 1), partition)
    if begin:
        cut = [TopicPartition(unique, partition, begin) for partition in range(5)]
        admin = AdminClient(east.super_client())
        for answer in admin.delete_records(cut).values():
            answer.result(30)
    clients = (east.client("mirror"), west.client("mirror"))
    specs = tuple(replace(spec, target_topic=other) if spec.partition in (1, 2) else spec for spec in flow.specs())
    once = "at_least_once" if delivery == "at_least_once" else "exactly_once"
    lane = replace(flow, clients=clients).lane(partitions=specs, keeps_offsets=delivery == "same", delivery=once)

    def ended(progress: LaneProgress) -> bool:
        denied = {each.partition for each in progress.conditions if each.code == "permission_denied" and each.stops}
        return denied == {1, 2} and sum(each.position == begin + 1 for each in progress.partitions) == 3

    control = UntilControl(lane.partitions, ended, 60)
    batch_path(lane, control)
    assert control.finished, control.reports[-1]
    assert {partition: len(records) for partition, records in flow.target_content().items()} == {
        0: 1, 1: 0, 2: 0, 3: 1, 4: 1,
    }  # fmt: skip
    lacks = "READ" if write else "WRITE"
    assert all(lacks in each.todo for each in control.reports[-1].conditions), control.reports[-1].conditions


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_a_topic_whose_positions_it_may_no_longer_write_gets_nothing_again_and_again(
    secure: Sandbox, unique: str, create_topic: CreateTopic, delivery: Any
) -> None:
    """At first records come before the refused position; at each further try the position is committed first."""
    east, west = secure["east"], secure["west"]
    flow, other = Flow(east, west, unique, 2), f"other.{unique}"
    create_topic(east, unique, 2)
    for topic in (flow.remote, other):
        create_topic(west, topic, 2)
    at_west(secure, other, AclOperation.WRITE, AclPermissionType.ALLOW)
    specs = tuple(replace(spec, target_topic=other) if spec.partition else spec for spec in flow.specs())
    mirror = replace(flow, clients=(east.client("mirror"), west.client("mirror")))
    lane = mirror.lane(partitions=specs, delivery=delivery)

    def write(count: int) -> None:
        for partition in range(2):
            fill(east, unique, [(b"k", b"%d" % number, (), NOW) for number in range(count)], partition)

    write(1)
    batch_path(lane, UntilControl(specs, caught_up))
    at_west(secure, other, AclOperation.READ, AclPermissionType.DENY)
    flows = replace(_settings(lane), delivery=delivery)
    claim = WireTakeover(flows).take("app", specs).claim
    write(5)
    with running(Lane(replace(lane, claim=claim))) as copying:
        copying.until(lambda told: has("permission_denied")(told) and {p.position for p in told.partitions} >= {6})
        ends = [end_of(west, other)]
        for _ in range(2):  # a first retry after 5 s, a second after 10
            time.sleep(11)
            ends.append(end_of(west, other))
        write(1)
        copying.until(lambda told: {p.position for p in told.partitions} >= {7}, 10)
    assert ends[0] == ends[1] == ends[2], ends
    assert len(flow.target_content()[0]) == 7, "nothing of the other was doubled or lost"
    admin = AdminClient(west.super_client())
    for deleted in admin.delete_acls([denied_read(other)]).values():
        deleted.result(20)
    batch_path(replace(lane, claim=claim), UntilControl(specs, caught_up))
    copied = [message.value() for message in to_the_end(west, other, [1])]
    wanted = [b"0", *(b"%d" % number for number in range(5)), b"0"]
    assert copied == wanted if delivery == "exactly_once" else set(copied) == set(wanted)


def denied_read(topic: str) -> AclBindingFilter:
    of = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:mirror", "*")
    return AclBindingFilter(*of, AclOperation.READ, AclPermissionType.DENY)


def end_of(cluster: ClusterHandle, topic: str) -> int:
    admin, place = AdminClient(cluster.super_client()), TopicPartition(topic, 1)
    return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(20).offset)


def test_a_group_it_may_not_use_fails_the_lane(flow: Flow) -> None:
    denied = AclBinding(
        ResourceType.GROUP,
        "somebody-elses",
        ResourcePatternType.LITERAL,
        "User:mirror",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    admin = AdminClient(flow.target.super_client())
    admin.create_acls([denied])[denied].result(20)
    clients = (flow.source.client("mirror"), flow.target.client("mirror"))
    lane = replace(flow, clients=clients).lane(group="somebody-elses")
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
    assert report.end is LaneEnd.FAILED
    assert "somebody-elses" in report.error


def test_a_principal_that_may_not_write_markers_leaves_them_to_the_coordinator(
    secure: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """And one that may begins to, once it is allowed: the leader then knows markers of the flow's producer of them."""
    flow = Flow(secure["east"], secure["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 2)
    mirror = replace(flow, clients=(flow.source.client("mirror"), flow.target.client("mirror")))
    for seed, cluster_action in enumerate((False, True)):
        mixed(flow, 6, seed)
        granted = granted_on_cluster(flow.target, "mirror", AclOperation.CLUSTER_ACTION)
        with granted if cluster_action else contextlib.nullcontext():
            report, _ = mirror.run(batch_path, mirror.at_end(), keeps_offsets=True)
        assert report.end is LaneEnd.STOPPED, report
        assert_equal(flow)
        markers = asyncio.run(_marker_epochs(flow))
        assert bool(markers) is cluster_action, markers


async def _marker_epochs(flow: Flow) -> list[int]:
    """Coordinator epochs of producers that have only written markers."""
    client = flow.target.super_client()
    target = ClusterClient("west", [client["bootstrap.servers"]], connection_settings(client))
    try:
        await target.refresh((flow.remote,))
        answers = await describe_producers.ask(await target.control(), [(flow.remote, 0)])
        assert answers is not None
        producers = answers[flow.remote, 0]
        assert not isinstance(producers, int), producers
        return [one.coordinator_epoch for one in producers if one.last_sequence < 0 and one.coordinator_epoch >= RANKS]
    finally:
        target.close()
