"""The connection to the target is cut at each request that matters, before, within and after what it does: every record
arrives once, in order, and nobody has to act."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

import pytest
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, TxnOffsetCommitRequest
from reconciler_mirror.lane import session as batch_session
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import transactions
from reconciler.kafka.protocol import generated as protocol
from tests.support.lanes.cutting_proxy import Cut, cutting
from tests.support.lanes.lane_runs import Flow, UntilControl
from tests.support.lanes.load import PARTITIONS, Load, assert_once, shortly_before
from tests.support.lanes.truth import map_topic

CreateTopic = Callable[..., str]
INIT, ADD, ADD_OFFSETS = (
    one.API_KEY for one in (protocol.InitProducerIdRequest, AddPartitionsToTxnRequest, protocol.AddOffsetsToTxnRequest)
)
END, POSITIONS = protocol.EndTxnRequest.API_KEY, TxnOffsetCommitRequest.API_KEY
COMMIT = OffsetCommitRequest.API_KEY
REQUESTS = {
    "classic": (protocol.PRODUCE, ADD, ADD_OFFSETS, POSITIONS, END, INIT),
    "version 2": (protocol.PRODUCE, POSITIONS, END, INIT),
    "at_least_once": (protocol.PRODUCE,),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", [pytest.param("classic", marks=pytest.mark.long), "version 2", "at_least_once"])
def test_every_record_arrives_once(
    plain: Sandbox, unique: str, create_topic: CreateTopic, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "classic":
        monkeypatch.setattr(transactions, "speaks_version_2", lambda _: False)
    if mode == "at_least_once":  # what is sent again is known again, where sequences pass 2^31 too
        monkeypatch.setattr(batch_session, "Partition", shortly_before)
    west = plain["west"]
    (broker,) = west.brokers
    with cutting(broker.port) as (address, wishes):
        clients = (plain["east"].super_client(), {**west.super_client(), "bootstrap.servers": address})
        flow = Flow(plain["east"], west, unique, PARTITIONS, clients)
        create_topic(flow.source, flow.topic, PARTITIONS)
        create_topic(flow.target, flow.remote, PARTITIONS)
        map_topic(flow.target)
        lane = flow.lane(delivery="at_least_once" if mode == "at_least_once" else "exactly_once")
        control, reports = UntilControl(lane.partitions, lambda _: False, 300), []
        thread = threading.Thread(target=lambda: reports.append(batch_path(lane, control)))
        cuts = list(itertools.product(REQUESTS[mode], Cut))
        try:
            with Load(flow.source, flow.topic, 2000) as load:
                thread.start()
                for api, cut in cuts:
                    wishes.wanted[api] = cut
                    _await(lambda: _nothing_wanted(wishes.wanted), control)
                    control.until_all_copy()
            control.done = flow.at_end()
        finally:
            control.seconds = min(control.seconds, time.monotonic() - control.began + 60)
            thread.join(90)
        assert control.finished, reports
        assert wishes.done.total() >= len(cuts)
        assert_once(flow, load.written)


def _nothing_wanted(wanted: dict[int, Cut]) -> bool:
    if INIT in wanted:  # only a lane that begins again asks for it; an earlier cut may have met the offset map's writer
        wanted[protocol.PRODUCE] = Cut.UNANSWERED
    return not wanted


def _await(done: Callable[[], bool], control: UntilControl) -> None:
    until = time.monotonic() + 180
    while not done():
        assert time.monotonic() < until, control.reports[-1:]
        time.sleep(0.02)
