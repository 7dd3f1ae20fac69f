"""kafka-python's decoders of answers: what a broker sends, before the login too, costs no more than its size."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.flexible import MOST_TAGS, string, uvarint
from reconciler.kafka.protocol.generated import NEWEST, CreatePartitionsRequest, SaslAuthenticateRequest, decode

TAG = b"\7\2ab"
ODD = st.sampled_from((b"\xff" * 12 + b"\x7f", b"\xff" * 4 + b"\x0f", b"\x7f\xff\xff\xff", b"\x80" * 6, b"\1" + TAG))


def asked(request: Any, version: int) -> Any:
    made = request(version=version)
    made.with_header(correlation_id=7, client_id="test")
    return made


def created(entries: list[bytes]) -> memoryview:
    """An answer to CreatePartitions: each entry begins with its name."""
    return memoryview(bytes(9) + uvarint(len(entries) + 1) + b"".join(entries) + b"\0")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [6, 2_000_000])
def test_a_length_of_more_bytes_than_a_number_has_is_refused_at_once(size: int) -> None:
    login = memoryview(bytes(7) + b"\xff" * size)
    with pytest.raises(MalformedResponseError, match="a length has too many bytes"):
        decode(asked(SaslAuthenticateRequest, 2), login)


@pytest.mark.timeout(20)
def test_tagged_fields_of_newer_brokers_are_passed_over_in_one_walk() -> None:
    entry = b"\2t\0\0\0\1" + TAG
    long = b"\2u\0\5" + string("x" * 20_000_000) + b"\0"
    answer = decode(asked(CreatePartitionsRequest, 3), created([entry] * 4_000 + [long]))
    assert [(one.name, one.error_code) for one in answer.results[-2:]] == [("t", 0), ("u", 5)]
    assert len(answer.results) == 4_001


@pytest.mark.parametrize("fields", [MOST_TAGS, MOST_TAGS + 1])
def test_tagged_fields_are_limited_as_in_our_own_readers(fields: int) -> None:
    told = created([b"\2t\0\0\0" + uvarint(fields) + b"\1\0" * fields])
    if fields <= MOST_TAGS:
        assert decode(asked(CreatePartitionsRequest, 3), told).results[0].name == "t"
    else:
        with pytest.raises(MalformedResponseError, match="10001 tagged fields are announced"):
            decode(asked(CreatePartitionsRequest, 3), told)


@pytest.mark.parametrize("request_type", NEWEST, ids=lambda each: each.__name__)
@given(st.lists(st.one_of(st.binary(max_size=12), st.just(bytes(8)), ODD), max_size=8))
def test_nothing_but_a_malformed_response_is_raised_for_noise(request_type: Any, noise: list[bytes]) -> None:
    with suppress(MalformedResponseError):
        decode(asked(request_type, NEWEST[request_type]), memoryview(struct.pack(">ib", 7, 0) + b"".join(noise)))
