"""ApiVersions by hand, held against kafka-python's generated classes."""

from __future__ import annotations

import io
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.api_versions import Offered, pack_api_versions, unpack_api_versions
from reconciler.kafka.protocol.flexible import ResponseReader, uvarint

SHORT = st.integers(0, 32_767)
VERSIONS = st.dictionaries(SHORT, st.tuples(SHORT, SHORT), max_size=200)
FEATURES = st.dictionaries(st.text(min_size=1, max_size=200), SHORT, max_size=4)


def answer(versions: dict[int, tuple[int, int]], features: dict[str, int], throttle: int) -> memoryview:
    """With the header that ApiVersions has: a correlation id and no tags."""
    kind = ApiVersionsResponse
    told = kind(
        error_code=0,
        api_keys=[kind.ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in versions.items()],
        throttle_time_ms=throttle,
        supported_features=[kind.SupportedFeatureKey(name=name, min_version=0, max_version=9) for name in features],
        finalized_features_epoch=7,
        finalized_features=[
            kind.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=0)
            for name, level in features.items()
        ],
        zk_migration_ready=False,
        version=3,
    )
    return memoryview(struct.pack(">i", 9) + bytes(told.encode()))


@given(VERSIONS, FEATURES, st.integers(0, 2**31 - 1))
def test_an_answer_is_read_as_the_generated_codec_writes_it(
    versions: dict[int, tuple[int, int]], features: dict[str, int], throttle: int
) -> None:
    assert unpack_api_versions(answer(versions, features, throttle)) == (throttle, Offered(0, versions, features))


def test_the_request_is_what_the_generated_codec_reads() -> None:
    asked = ApiVersionsRequest(version=3).decode(io.BytesIO(pack_api_versions("mirror", "1")), version=3)
    assert (asked.client_software_name, asked.client_software_version) == ("mirror", "1")


def test_a_broker_that_is_too_old_answers_in_the_oldest_layout() -> None:
    told = struct.pack(">ihi", 9, 35, 1) + struct.pack(">hhh", 18, 0, 2)
    assert unpack_api_versions(memoryview(told))[1].error == 35


@given(st.data())
def test_an_answer_that_breaks_off_is_never_believed(data: st.DataObject) -> None:
    whole = answer({3: (0, 13), 32: (1, 4)}, {"metadata.version": 29}, 0)
    with pytest.raises(MalformedResponseError):
        unpack_api_versions(whole[: data.draw(st.integers(4, len(whole) - 1))])


def test_who_packs_it_manually_does_not_wait_for_the_generated_codec() -> None:
    """A plan's reads begin with it; kafka-python is a tenth of a second of imports."""
    modules = "reconciler.kafka.client.connections, reconciler.kafka.protocol.metadata_and_configs"
    modules += ", reconciler.operations.session.early_reads"
    program = f"import sys, {modules}; sys.exit('kafka.protocol' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(("fields", "readable"), [(10_000, True), (10_001, False)])
def test_tagged_fields_are_limited_as_kafka_limits_them(fields: int, readable: bool) -> None:
    told = memoryview(bytes(4) + uvarint(fields) + b"\1\0" * fields)
    if readable:
        ResponseReader(told).finish(tagged=False)
    else:
        with pytest.raises(ValueError, match="10001 tagged fields are announced"):
            ResponseReader(told)
