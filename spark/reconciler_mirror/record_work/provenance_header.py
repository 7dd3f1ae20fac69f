"""The provenance header: the clusters that a record has been on (docs/mirror/provenance.md)."""

import hashlib
from collections.abc import Iterable

from crc32c import crc32c

from reconciler.replication.expressions.record_filter import PROVENANCE_HEADER
from reconciler.replication.handover import LOCAL

NAME = PROVENANCE_HEADER.encode()
VERSION = 1
ID_BYTES, CHECK_BYTES = 6, 4
_HEAD = 1 + CHECK_BYTES

Path = tuple[bytes, ...]
"""Short ids: the cluster where the record was produced, then each cluster that it was copied from, in order."""


def short_id(cluster_id: str) -> bytes:
    """A digest of Kafka's cluster id, so that a cluster recreated under the same address gets another one."""
    return hashlib.sha256(cluster_id.encode()).digest()[:ID_BYTES]


def check_of(topic: str, body: bytes | memoryview) -> int:
    """Binds a header to its record. ``body``: key and value as encoded in the record; ``topic``: the record's topic."""
    return int(crc32c(body, crc32c(topic.encode())))


def value(check: int, path: Path) -> bytes:
    return b"".join((bytes((VERSION,)), check.to_bytes(CHECK_BYTES, "big"), *path))


def path_of(given: bytes | None, check: int) -> Path:
    """The path of a header. Empty if it is not this very record's, for example copied by an application."""
    if given is None or len(given) < _HEAD + ID_BYTES or (len(given) - _HEAD) % ID_BYTES or given[0] != VERSION:
        return ()
    if int.from_bytes(given[1:_HEAD], "big") != check:
        return ()
    return tuple(given[at : at + ID_BYTES] for at in range(_HEAD, len(given), ID_BYTES))


def path_among(headers: Iterable[tuple[bytes, bytes | None]], check: int) -> Path:
    """The path of the last valid header."""
    parts: Path = ()
    for name, given in headers:
        if name == NAME:
            parts = path_of(given, check) or parts
    return parts


def carried(path: Path, source: bytes, target: bytes, carry: str) -> bool:
    """Whether a record with ``path`` travels from ``source`` to ``target``.

    Never to a cluster that it has been on, never twice from one cluster, and with LOCAL only from its first cluster.
    """
    return not path or (carry != LOCAL and source not in path and target not in path)
