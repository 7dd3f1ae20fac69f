"""A leader that moves while a log is read ends no reader; an error that does not pass is told at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from reconciler_mirror.verify import read_partition as verify_reading
from reconciler_mirror.verify.model import OffsetSpan
from reconciler_sandbox.demo import read_topic as sandbox_reading
from reconciler_sandbox.errors import SandboxError

from reconciler.backends import wait_lines
from reconciler.backends.connections import errors
from reconciler.backends.connections import retries as patience
from reconciler.backends.mirror_jobs.status import tail as status_tail
from reconciler.backends.mirror_jobs.status.tail import Tail
from reconciler.backends.state import compacted_records as record_log
from reconciler.backends.state import compare_and_set as lock_log
from reconciler.backends.state.compare_and_set import LockLog
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.handover import Endpoint

PASSING = [
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TRANSPORT,
]
TOLD = [
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
]
EAST = Cluster(name="east", bootstrap_servers=("east.example:9092",))


class ScriptedConsumer:
    """Says what it was given, in that order, and then nothing."""

    def __init__(self, said: Sequence[Message]) -> None:
        self.said = list(said)

    def poll(self, _seconds: float) -> Message | None:
        return self.said.pop(0) if self.said else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        said, self.said = self.said[:1], self.said[1:]
        return said

    def get_watermark_offsets(self, _place: object, timeout: float = 0, **_named: object) -> tuple[int, int]:
        return 0, 3

    def assign(self, _places: object) -> None: ...

    def unassign(self) -> None: ...

    def close(self) -> None: ...


class Told:
    """Stands where a Connection would."""

    cluster_id = "id"
    speaker = errors.Speaker("east", ("east.example:9092",), "apply", "User:apply")

    def error(self, error: KafkaError, asked: errors.Asked) -> ClusterError:
        return errors.translate(self.speaker, error, asked)


def record(offset: int) -> Message:
    return Message(topic="log", partition=0, offset=offset, key=b"key", value=b"%d" % offset, timestamp=(1, offset))


def failed(code: int) -> Message:
    return Message(topic="log", partition=0, offset=-1001, error=KafkaError(code))


def end(offset: int) -> Message:
    return Message(topic="log", partition=0, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


def said(code: int) -> list[Message]:
    """Three records with the error before, between and behind them."""
    return [failed(code), record(0), record(1), failed(code), record(2), failed(code), end(3)]


def _lock(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    log = LockLog(EAST, "log", "key", "")
    _patch.setattr(log, "_connected", Told)
    return log._newest(consumer, 3).get(b"key")


def _status(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    connection: Any = Told()
    tail = Tail(connection, consumer, "log", [0])
    assert tail.advance()
    return tail.newest["key"].value


def _ownership(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    kept = record_log.RecordLog(EAST, Principal.APPLY)
    renamed = [_under(message, b"access/x/1") for message in consumer.said]
    return dict(kept._records(_scripted(renamed), 0, 3, (b"access/x/",)))[b"access/x/1"]


def _under(message: Message, key: bytes) -> Message:
    if message.error() is None:
        message.set_key(key)
    return message


def _scripted(messages: Sequence[Message]) -> Any:
    return ScriptedConsumer(messages)


def _sandbox(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    return list(sandbox_reading._until_ends(consumer, {("log", 0): 3}))[-1].value()


def _verify(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    endpoint = Endpoint("east", ("east.example:9092",))
    span = OffsetSpan(endpoint, "log", 0, "read_committed", 0, 3)
    return list(verify_reading._messages(consumer, span, to_end=False))[-1][1].value()


READERS = [_lock, _status, _ownership, _sandbox, _verify]
Reader = Callable[[Any, pytest.MonkeyPatch], bytes | None]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("code", PASSING)
def test_what_passes_ends_no_reader(read: Reader, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(ScriptedConsumer(said(code)), monkeypatch) == b"2"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("code", TOLD)
def test_what_does_not_pass_is_told_at_once(read: Reader, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ClusterError, SandboxError, KafkaException)):
        read(ScriptedConsumer(said(code)), monkeypatch)


@pytest.mark.parametrize("read", [_lock, _status, _ownership])
def test_a_log_that_was_cleaned_while_it_was_read_is_read_on(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(ScriptedConsumer([failed(KafkaError.OFFSET_OUT_OF_RANGE), record(2), end(3)]), monkeypatch) == b"2"


def test_an_error_that_stays_is_told_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_log, "READ_SECONDS", 0.2)
    with pytest.raises(ClusterError, match=r"east.*cannot be reached|could not be read|does not answer"):
        _lock(ScriptedConsumer([failed(KafkaError.UNKNOWN_LEADER_EPOCH)]), monkeypatch)


class Answers:
    """Fails with each code in turn, then answers; counts how often it was asked."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        return "answer"


def test_a_request_is_asked_again_until_the_leader_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    answers = Answers(*PASSING)
    assert patience.patiently(answers, 5.0) == "answer"
    assert answers.asked == len(PASSING) + 1


@pytest.mark.parametrize("code", TOLD)
def test_a_refusal_is_not_asked_again(code: int) -> None:
    answers = Answers(code)
    with pytest.raises(KafkaException):
        patience.patiently(answers, 5.0)
    assert answers.asked == 1


def test_patience_has_an_end() -> None:
    began = time.monotonic()
    with pytest.raises(KafkaException) as raised:
        patience.patiently(Answers(*[KafkaError.UNKNOWN_LEADER_EPOCH] * 10_000), 0.3)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_LEADER_EPOCH
    assert time.monotonic() - began >= 0.3


def test_a_leader_that_is_being_chosen_is_waited_for_longer_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    heard: list[int] = []
    answers = Answers(*[KafkaError.LEADER_NOT_AVAILABLE] * 50)
    assert patience.patiently(answers, 0.0, 60.0, lambda error: heard.append(error.code())) == "answer"
    assert heard == [KafkaError.LEADER_NOT_AVAILABLE] * 50
    with pytest.raises(KafkaException):  # nobody answers: that is no leader that is being chosen
        patience.patiently(Answers(*[KafkaError._TRANSPORT] * 10_000), 0.05, 60.0)


class Leaderless:
    """A cluster that answers, whose lock topic has no leader for so many questions."""

    def __init__(self, asked: int) -> None:
        self.left = asked
        self.speaker = Told.speaker
        self.admin = self
        self.error = Told().error

    def list_offsets(self, parts: Any, **_: object) -> Any:
        self.left -= 1
        [part] = parts
        error = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        future: Future[Any] = Future()
        future.set_exception(error) if self.left >= 0 else future.set_result(SimpleNamespace(offset=3))
        return {part: future}

    def settle(self, _futures: object) -> None: ...


def test_a_lock_topic_without_a_leader_is_waited_for_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that was just made, or is busy. A plan does not wait for long."""
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(lock_log, "CONNECT_SECONDS", 0.0)
    monkeypatch.setattr(wait_lines, "SOON_S", 0.0)
    said: list[str] = []
    patient, hasty = LockLog(EAST, "log", "key", "", progress=said.append), LockLog(EAST, "log", "key", "")
    soon, never = Leaderless(20), Leaderless(100_000)
    monkeypatch.setattr(patient, "_connected", lambda: soon)
    assert patient._end() == 3
    assert said == ["cluster east: waiting for a leader of topic log"]
    monkeypatch.setattr(hasty, "_connected", lambda: never)
    with pytest.raises(ClusterError, match="its partition has no leader") as told:
        hasty._end()
    assert "--unavailable-partitions" in told.value.todo
    assert "refused" not in told.value.what


class LostConsumer:
    """Its brokers are gone, and it says so in one way or another."""

    def __init__(self, code: int) -> None:
        self.code = code

    def get_watermark_offsets(self, _place: object, _within: float) -> tuple[int, int]:
        raise KafkaException(KafkaError(self.code))


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_PARTITION, KafkaError._DESTROY_BROKER, KafkaError._TRANSPORT])
def test_brokers_that_go_away_while_a_status_is_read_did_not_refuse_it(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(status_tail, "CONNECT_SECONDS", 0.05)
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0.0)
    connection: Any = Told()
    consumer: Any = LostConsumer(code)
    with pytest.raises(ClusterError) as caught:
        Tail(connection, consumer, "log", [0])
    assert caught.value.kind == "unreachable"
