"""Steady load on some topics, a stranger at the target who notes when each record arrives, and clients that move."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle

from tests.support.jobs.mirror_job import Job, until


class Load(threading.Thread):
    """``rate`` records a second and topic, numbered, spread over the partitions."""

    def __init__(self, cluster: ClusterHandle, topics: dict[str, int], rate: int) -> None:
        super().__init__(name="load", daemon=True)
        self.sent = dict.fromkeys(topics, 0)
        self.over = threading.Event()
        self._topics = topics
        self._rate = rate
        # A broker of a busy machine may answer late: what is sent again then must not be there twice.
        self._producer = Producer({**cluster.client(), "linger.ms": 0, "enable.idempotence": True})

    def run(self) -> None:
        began, rounds = time.monotonic(), 0
        while not self.over.is_set():
            for topic, partitions in self._topics.items():
                number = self.sent[topic]
                self._producer.produce(topic, b"%d" % number, partition=number % partitions)
                self.sent[topic] = number + 1
            rounds += 1
            self._producer.poll(0)  # it returns at the first report of a delivery, however long it may wait
            self.over.wait(max(0.0, began + rounds / self._rate - time.monotonic()))
        self._producer.flush(30)


class Arrivals(threading.Thread):
    """Reads ``prefix + topic`` at the target from where it ends now, committed records only."""

    def __init__(self, cluster: ClusterHandle, topics: dict[str, int], prefix: str) -> None:
        super().__init__(name="arrivals", daemon=True)
        self.at: dict[str, list[float]] = {topic: [] for topic in topics}
        self.numbers: dict[tuple[str, int], list[int]] = {(t, p): [] for t, n in topics.items() for p in range(n)}
        self.over = threading.Event()
        self._prefix = prefix
        self._consumer = Consumer(
            {
                **cluster.client(),
                "group.id": "arrivals",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        places = [TopicPartition(prefix + topic, partition) for topic, partition in self.numbers]
        ends = [self._end(place) for place in places]
        self._consumer.assign([TopicPartition(p.topic, p.partition, end) for p, end in zip(places, ends, strict=True)])

    def _end(self, place: TopicPartition) -> int:
        """A broker of a busy machine tells of a new topic before it leads its partitions."""
        give_up = time.monotonic() + 60
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(place, 20)[1])
            except KafkaException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.2)

    def run(self) -> None:
        while not self.over.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    topic = (message.topic() or "").removeprefix(self._prefix)
                    self.numbers[topic, message.partition() or 0].append(int(message.value() or b""))
                    self.at[topic].append(time.monotonic())
        self._consumer.close()

    def go_on(self, seconds: float = 5.0) -> bool:
        """Whether something new arrives in every partition within some seconds."""
        before = {place: len(numbers) for place, numbers in self.numbers.items()}
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if all(len(numbers) > before[place] for place, numbers in self.numbers.items()):
                return True
            time.sleep(0.1)
        return False

    def have_all_from(self, topic: str, number: int) -> bool:
        """Whether every partition has a record that was sent as ``number`` or later."""
        mine = [numbers for (of, _), numbers in self.numbers.items() if of == topic]
        return all(numbers and numbers[-1] >= number for numbers in mine)

    def longest_gap(self, topic: str, since: float) -> float:
        """Seconds between two arrivals, or until now."""
        times = [since, *(at for at in self.at[topic] if at > since), time.monotonic()]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


@contextmanager
def flowing(
    source: ClusterHandle, target: ClusterHandle, topics: dict[str, int], rate: int = 20
) -> Iterator[tuple[Load, Arrivals]]:
    arrivals, load = Arrivals(target, topics, f"{source.name}."), Load(source, topics, rate)
    arrivals.start()
    load.start()
    try:
        yield load, arrivals
    finally:
        for thread in (load, arrivals):
            thread.over.set()
            thread.join(40)


def copying(load: Load, arrivals: Arrivals, topic: str, job: Job, patience_s: float) -> Callable[[str], None]:
    """A wait, by the words for it, until records of ``topic`` that are sent from its call on are in every partition."""

    def copies(what: str) -> None:
        began, sent = time.monotonic(), load.sent[topic]
        until(what, lambda: arrivals.have_all_from(topic, sent), job, patience_s)
        sys.stdout.write(f"{what}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.0f}\n")

    return copies


def assert_all_once_in_order(load: Load, arrivals: Arrivals, topics: dict[str, int], seconds: float = 30.0) -> None:
    """After the load has ended: what was sent to each partition is what arrived, in order."""
    load.over.set()
    load.join(40)
    end = time.monotonic() + seconds
    while any(len(arrivals.at[topic]) < load.sent[topic] for topic in topics) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)  # a doubled record would come now
    for topic, partitions in topics.items():
        for partition in range(partitions):
            found, sent = arrivals.numbers[topic, partition], list(range(partition, load.sent[topic], partitions))
            assert found == sent, f"{topic}-{partition}: {_difference(found, sent)}"


def _difference(found: list[int], sent: list[int]) -> str:
    missing, doubled = sorted({*sent} - {*found}), sorted(n for n, times in Counter(found).items() if times > 1)
    late = [later for earlier, later in itertools.pairwise(found) if later < earlier]
    return f"of {len(sent)} missing {missing[:20]}, doubled {doubled[:20]}, behind a later one {late[:20]}"


Settings = Callable[[], Mapping[str, str]]


class MovingProducer(threading.Thread):
    """Numbered records in one topic, idempotent. One that is refused is tried again, wherever it is allowed.
    ``accepted``: all that a cluster has taken, in order; ``refused``: how often one was not."""

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        super().__init__(name="moving producer", daemon=True)
        self.accepted: list[bytes] = []
        self.refused = 0
        self.over = threading.Event()
        self._settings, self._topic, self._partitions = settings, topic, partitions

    def run(self) -> None:
        number, at, producer = 0, dict[str, str](), None
        failed: list[KafkaError | None] = []
        while not self.over.is_set():
            now = dict(self._settings())
            if now != at or producer is None:
                at, producer = now, Producer({**now, "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
            value, partition = b"%d" % number, number % self._partitions
            try:
                producer.produce(self._topic, value, partition=partition, on_delivery=lambda why, _: failed.append(why))
                producer.flush()
            except KafkaException as error:  # it knows already that it may not
                failed.append(error.args[0])
            if failed.pop() is None:
                self.accepted.append(value)
                number += 1
                self.over.wait(0.02)
            else:
                self.refused += 1
                self.over.wait(0.2)


class MovingConsumer(threading.Thread):
    """A member of one group that commits what it has read before it reads on. ``read``: values, in order;
    ``unconfirmed``: those whose commit failed, which may be read again."""

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        super().__init__(name="moving consumer", daemon=True)
        self.read: list[bytes] = []
        self.unconfirmed: list[bytes] = []
        self.over = threading.Event()
        self._settings, self._topic, self._group = settings, topic, group

    def run(self) -> None:
        while not self.over.is_set():
            at = dict(self._settings())
            consumer = Consumer(
                {
                    "group.id": self._group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                    "session.timeout.ms": 6000, "fetch.wait.max.ms": 50, "log_level": 0, **at,
                }
            )  # fmt: skip
            consumer.subscribe([self._topic])
            while not self.over.is_set() and dict(self._settings()) == at:
                some = [message for message in consumer.consume(500, 0.2) if message.error() is None]
                if some:
                    values = [message.value() or b"" for message in some]
                    self.read += values
                    try:
                        consumer.commit(asynchronous=False)
                    except KafkaException:
                        self.unconfirmed += values
            consumer.close()

    def await_read(self, count: int, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while len(self.read) < count:
            assert time.monotonic() < until, f"{len(self.read)} of {count} are read"
            time.sleep(0.1)
