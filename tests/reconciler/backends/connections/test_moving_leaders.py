"""A leader that moves while a log is read ends no reader; a lasting error is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from reconciler_mirror.verify import second_client
from reconciler_mirror.verify.model import OffsetSpan
from reconciler_mirror.verify.second_client import SecondClient
from reconciler_sandbox.demo import read_topic as sandbox_reading
from reconciler_sandbox.errors import SandboxError

from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster
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


def record(offset: int) -> Message:
    return Message(topic="log", partition=0, offset=offset, key=b"key", value=b"%d" % offset, timestamp=(1, offset))


def failed(code: int) -> Message:
    return Message(topic="log", partition=0, offset=-1001, error=KafkaError(code))


def end(offset: int) -> Message:
    return Message(topic="log", partition=0, offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


def said(code: int) -> list[Message]:
    """Three records with the error before, between and behind them."""
    return [failed(code), record(0), record(1), failed(code), record(2), failed(code), end(3)]


def _sandbox(consumer: Any, _patch: pytest.MonkeyPatch) -> bytes | None:
    return list(sandbox_reading._until_ends(consumer, {("log", 0): 3}))[-1].value()


def _verify(consumer: Any, patch: pytest.MonkeyPatch) -> bytes | None:
    patch.setattr(second_client, "partition_reader", lambda *_, **__: consumer)
    endpoint = Endpoint("east", ("east.example:9092",))
    span = OffsetSpan(endpoint, "log", 0, "read_committed", 0, 3)
    return list(SecondClient(span)._messages(span, to_end=False))[-1].value()


READERS = [_sandbox, _verify]
Reader = Callable[[Any, pytest.MonkeyPatch], bytes | None]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("code", PASSING)
def test_what_passes_ends_no_reader(read: Reader, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(ScriptedConsumer(said(code)), monkeypatch) == b"2"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("code", TOLD)
def test_what_does_not_pass_is_reported_at_once(read: Reader, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ClusterError, SandboxError, KafkaException)):
        read(ScriptedConsumer(said(code)), monkeypatch)
