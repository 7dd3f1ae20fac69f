"""Decodes the key, value and headers of a record, as bytes.

Layout: DefaultRecord (KIP-82). Raises IndexError where the bytes end too early.
"""

from reconciler.kafka.records.records import signed, varint

HeaderBytes = tuple[bytes, bytes | None]


def headers_at(tail: memoryview) -> int:
    """Index of the header count, after key and value with their lengths."""
    size = tail[0]
    if size < 0x80:
        at, size = 1, (size >> 1) ^ -(size & 1)
    else:
        size, at = signed(tail, 0)
    if size > 0:
        at += size
    size, at = signed(tail, at)
    if size > 0:
        at += size
    if at >= len(tail):
        raise IndexError
    return at


def key_of(tail: memoryview) -> bytes | None:
    size, at = signed(tail, 0)
    return None if size < 0 else _taken(tail, at, size)


def headers_of(tail: memoryview, at: int) -> list[HeaderBytes]:
    """``at`` from ``headers_at``."""
    count, at = signed(tail, at)
    headers: list[HeaderBytes] = []
    for _ in range(count):
        size, at = signed(tail, at)
        name = _taken(tail, at, size)
        size, at = signed(tail, at + size)
        headers.append((name, None if size < 0 else _taken(tail, at, size)))
        at += max(0, size)
    if at != len(tail):
        raise IndexError
    return headers


def appended(tail: memoryview, at: int, count: int, more: bytes) -> memoryview:
    """The tail with ``count`` encoded headers behind its own."""
    if tail[at] == 0:
        return memoryview(b"".join((tail[:at], varint(count), more)))
    had, behind = signed(tail, at)
    return memoryview(b"".join((tail[:at], varint(had + count), tail[behind:], more)))


def with_headers(tail: memoryview, at: int, headers: list[HeaderBytes]) -> memoryview:
    """The tail with its headers replaced."""
    return memoryview(b"".join((tail[:at], varint(len(headers)), *(encoded(*header) for header in headers))))


def encoded(name: bytes, value: bytes | None) -> bytes:
    """One header."""
    content = varint(-1) if value is None else varint(len(value)) + value
    return varint(len(name)) + name + content


def body(key: bytes | None, value: bytes | None) -> bytes:
    """Key and value as they lie in a tail before its headers."""
    return b"".join(varint(-1) if part is None else varint(len(part)) + part for part in (key, value))


def _taken(tail: memoryview, at: int, size: int) -> bytes:
    if size < 0 or at + size > len(tail):
        raise IndexError
    return bytes(tail[at : at + size])
