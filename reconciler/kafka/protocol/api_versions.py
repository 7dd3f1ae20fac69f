"""ApiVersions without a schema: the first request of every connection."""

from collections.abc import Mapping
from typing import NamedTuple

from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, reading, string

API_VERSIONS, VERSION = 18, 3
_FINALIZED = 2
"""The tagged field with the finalized features (KIP-584)."""


class Offered(NamedTuple):
    """``versions``: API key -> lowest and highest version; ``features``: finalized ones with their level.

    ``error``: 35 from a broker that does not know version 3 of this request."""

    error: int
    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]


def pack_api_versions(software: str, version: str) -> bytes:
    """ApiVersions with the client's software name and version (KIP-511)."""
    return string(software) + string(version) + NO_TAGS


@reading("an ApiVersions")
def unpack_api_versions(frame: memoryview) -> tuple[int, Offered]:
    """(throttle in ms, API key -> versions). Raises MalformedResponseError."""
    reader = ResponseReader(frame, tagged=False)
    error = reader.int16()
    if error:
        return 0, Offered(error, {}, {})
    versions: dict[int, tuple[int, int]] = {}
    for _ in range(reader.count()):
        key = reader.int16()
        versions[key] = reader.int16(), reader.int16()
        reader.tags()
    throttle, features = reader.int32(), dict[str, int]()
    for _ in range(reader.uint()):
        tag, end = reader.uint(), reader.uint() + reader.at
        if tag == _FINALIZED:
            features = _features(reader)
            if reader.at != end:
                raise ValueError("the features are longer or shorter than announced")
        else:
            reader.take(end - reader.at)
    reader.finish(tagged=False)
    return throttle, Offered(error, versions, features)


def _features(reader: ResponseReader) -> dict[str, int]:
    features: dict[str, int] = {}
    for _ in range(reader.count()):
        name = reader.string()
        features[name] = reader.int16()  # highest level; the lowest follows
        reader.int16()
        reader.tags()
    return features
