"""How records and positions reach the target together: in a transaction, or at least once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mirror import clients, positions
from mirror.faults import Fault, RefusedError, SupersededError, classify, error_of
from mirror.lanes import LaneSpec

_ROUND_S = 5.0
_NO_CAUSE = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._INVALID_DIFFERENT_RECORD})


class NoAnswerError(Exception):
    """The target did not answer for as long as we were willing to wait; the outcome of the commit is not known."""


class Failures:
    """Delivery errors, first cause first; librdkafka only calls it for errors."""

    def __init__(self) -> None:
        self.first: tuple[str, int, KafkaError, int | None] | None = None

    def __call__(self, error: KafkaError, message: Message, offset: int | None = None) -> None:
        if error is not None and self.first is None and error.code() not in _NO_CAUSE:
            self.first = (message.topic() or "", message.partition() or 0, error, offset)

    def raise_refusal(self) -> None:
        if self.first is not None and classify(self.first[2]) in (Fault.RECORD, Fault.DENIED, Fault.GONE):
            raise RefusedError(*self.first)


class Delivery(Protocol):
    """``producer`` takes the records; ``commit`` makes them and the positions stand together.

    Raises RefusedError for a record the target will not take, NoAnswerError when nobody answers, else KafkaException.
    """

    careful: bool  # each record alone in its batch, so that the one that is refused is known by its offset
    failures: Failures
    producer: Producer

    def begin(self) -> None: ...

    def commit(self, moves: Sequence[TopicPartition], waiting: Callable[[], bool]) -> None: ...

    def give_up(self, error: KafkaException) -> NoReturn:
        """After a failed produce: aborts, raises RefusedError when a record was the cause, else ``error``."""
        ...


class Transactional:
    """One transaction over records and positions. The constructor fences every earlier holder of the lane."""

    def __init__(self, lane: LaneSpec, group: Consumer, careful: bool) -> None:
        self.careful = careful
        self.failures = Failures()
        more = {"batch.num.messages": 1} if careful else {}
        self.producer = clients.target_producer(lane, on_delivery=self.failures, **more)
        self._group = group
        _patiently(lambda: self.producer.init_transactions(_ROUND_S), _until(30.0))

    def begin(self) -> None:
        self.producer.begin_transaction()

    def commit(self, moves: Sequence[TopicPartition], waiting: Callable[[], bool]) -> None:
        """``waiting`` is asked after each round without an answer; False gives up and raises NoAnswerError.

        The position goes last: while records are refused it is never sent, and after it only EndTxn follows.
        """
        producer = self.producer
        try:
            member = self._group.consumer_group_metadata()
            _patiently(lambda: producer.send_offsets_to_transaction(list(moves), member, _ROUND_S), waiting)
            _patiently(lambda: producer.commit_transaction(_ROUND_S), waiting)
        except KafkaException as error:
            self.give_up(error)

    def give_up(self, error: KafkaException) -> NoReturn:
        # Once a transaction has failed in the background, produce says no more than "erroneous state": aborting brings
        # the delivery report that says why.
        if error_of(error).txn_requires_abort() or error_of(error).code() == KafkaError._STATE:
            self.producer.abort_transaction(30.0)
        self.failures.raise_refusal()
        raise error


class AtLeastOnce:
    """Idempotent produce, then the positions: a crash between the two repeats records. Nothing fences here, so a later
    application's claim is looked for before each commit."""

    def __init__(self, lane: LaneSpec, group: Consumer, careful: bool) -> None:
        self.careful = careful
        self.failures = Failures()
        more = {"batch.num.messages": 1} if careful else {}
        self.producer = clients.target_producer(lane, on_delivery=self.failures, **more)
        self._group = group
        self._claim = lane.claim

    def begin(self) -> None:
        pass

    def commit(self, moves: Sequence[TopicPartition], waiting: Callable[[], bool]) -> None:
        while self.producer.flush(_ROUND_S):
            if not waiting():
                raise NoAnswerError
        self.failures.raise_refusal()
        if self.failures.first is not None:
            raise KafkaException(self.failures.first[2])
        held = positions.read(self._group, [(move.topic, move.partition) for move in moves])
        if any(position.claim > self._claim for position in held.values()):
            raise SupersededError("another application has taken the flow")
        _patiently(lambda: self._group.commit(offsets=list(moves), asynchronous=False), waiting)

    def give_up(self, error: KafkaException) -> NoReturn:
        self.failures.raise_refusal()
        raise error


def open_delivery(lane: LaneSpec, group: Consumer, careful: bool) -> Delivery:
    return Transactional(lane, group, careful) if lane.delivery == "exactly_once" else AtLeastOnce(lane, group, careful)


def _until(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _patiently(call: Callable[[], object], waiting: Callable[[], bool]) -> None:
    """Repeats ``call`` while its error is retriable, as librdkafka demands for an outcome that is not known."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error_of(error).retriable():
                raise
            if not waiting():
                raise NoAnswerError from error
            time.sleep(0.05)
