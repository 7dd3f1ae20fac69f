"""Our own client reads of a partition exactly what librdkafka reads of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.model import OffsetSpan
from reconciler_mirror.verify.own_client import OwnClient
from reconciler_mirror.verify.second_client import SecondClient
from reconciler_mirror.verify.unreadable import UnreadableError
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.log_ends import local_begins
from tests.support.jobs.records import write_awkward, write_transactions
from tests.support.jobs.verify_runs import endpoint
from tests.support.lanes.cutting_proxy import Cut, cutting

CreateTopic = Callable[..., str]
FETCH = 1


@pytest.fixture
def span(plain: Sandbox, unique: str, create_topic: CreateTopic) -> OffsetSpan:
    """Awkward records among transactions, without the first ten; half of the transactions are aborted."""
    east = plain["east"]
    create_topic(east, unique, max_message_bytes="2000000")
    write_awkward(east, unique, 1, 800)
    write_transactions(east, unique, 1, 6, unique)
    write_awkward(east, unique, 1, 50, seed=1)
    admin, place = AdminClient({**east.super_client(), "log_level": 0}), TopicPartition(unique, 0, 10)
    admin.delete_records([place])[place].result(20)
    made = OffsetSpan(endpoint(east), unique, 0, "read_committed", 10, 0)
    with closing(OwnClient(made.endpoint)) as own:
        last = [record.offset for record in own.records(made, to_end=True)][-1]
    return replace(made, end=last + 1)


def test_a_broker_without_remote_storage_has_all_that_is_left_on_its_own_disks(span: OffsetSpan) -> None:
    """By this an answer without records is known for the end of a log, and not for a remote storage that is slow."""

    async def begins() -> dict[tuple[str, int], int]:
        with closing(cluster_of(span.endpoint)) as cluster:
            await cluster.refresh([span.topic])
            return await local_begins(cluster, [(span.topic, 0)])

    assert asyncio.run(begins()) == {(span.topic, 0): 10}


def test_what_retention_has_removed_is_reported_by_the_second_client_too(span: OffsetSpan) -> None:
    """Retention may come between the look of our own client and the reading."""
    with closing(SecondClient(span)) as second, pytest.raises(UnreadableError, match="were removed while they were"):
        next(second.records(replace(span, start=3)))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("to_end", [False, True])
def test_both_read_the_same(span: OffsetSpan, isolation: str, to_end: bool) -> None:
    span = replace(span, isolation=isolation)
    middle = (span.start + span.end) // 2
    with closing(OwnClient(span.endpoint)) as own, closing(SecondClient(span)) as second:
        assert own.low(span) == 10
        for part in (span, replace(span, start=middle), replace(span, end=middle + 7)):
            ours, theirs = (list(client.records(part, to_end=to_end)) for client in (own, second))
            assert ours == theirs
            assert ours[0].offset >= part.start
            second.rest()


@pytest.mark.parametrize("cut", Cut)
def test_a_connection_that_is_cut_costs_and_doubles_no_record(plain: Sandbox, span: OffsetSpan, cut: Cut) -> None:
    with closing(OwnClient(span.endpoint)) as own:
        whole = list(own.records(span))
    with cutting(plain["east"].brokers[0].port) as (address, wishes):
        wishes.wanted[FETCH] = cut  # the first one, too: all that is left may lie in the client by then
        there = replace(span, endpoint=replace(span.endpoint, bootstrap_servers=(address,)))
        with closing(OwnClient(there.endpoint)) as own:
            seen = []
            for number, record in enumerate(own.records(there)):
                seen.append(record)
                if number % 100 == 50:
                    wishes.wanted[FETCH] = cut
    assert seen == whole
    assert wishes.done[FETCH, cut]
