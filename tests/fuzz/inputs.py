"""Bytes as hostile producers and broken lines make them: built by the layouts with odd numbers, then mutated."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Mapping
from uuid import UUID

from crc32c import crc32c
from reconciler_mirror.lane import positions
from reconciler_mirror.model.lane import Claim

from reconciler.kafka.records import codecs
from reconciler.model.state import home, last_apply, left_by_apply, lock, rollout_progress
from reconciler.model.state.left_by_apply import LeftCluster, LeftTopic
from reconciler.model.state.mirror_control import (
    DESIRED,
    LEASE,
    PRESENCE,
    DesiredMirror,
    DesiredState,
    HostLease,
    HostPresence,
)
from reconciler.replication.offsets.codec import MapPartition
from reconciler.replication.offsets.codec import encode as chunk_of
from reconciler.replication.offsets.map import CopiedRun, Stretch
from reconciler.replication.records import pauses
from tests.support.jobs import status_records

EDGES = (
    0, 1, 2, 3, 4, 7, 8, 15, 16, 60, 61, 62, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1,
    2**63 - 1, -1, -2, -128, -(2**31), -(2**63),
)  # fmt: skip
TOPIC_ID = UUID(int=5)
NOW = 1_700_000_000_000
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"(?!:)|-?[0-9][0-9.]*|true|false|null|\[[^\[\]]*\]|\{[^{}]*\}')
_ODD_TEXTS = (
    b"{}", b"[]", b"null", b'"x"', b"NaN", b"1e999", b"-0", b"-1", b"true", b"1.5", b'""', b"9" * 5000, b"[" * 3000,
    b'{"a":' * 1500, b'"\\ud800"', b'"\\u0000"', b"\xff\xfe",
)  # fmt: skip
_HOLDER = lock.Holder("id", "ada", "host", 7, "place", "apply", 5)
_DESIRED = DesiredMirror("test", "west", 1, DesiredState.RUNNING, "f", {"a": 1}, {}, "ada", "c", 5)
_TEXTS: Mapping[str, tuple[bytes, ...]] = {
    "position": (positions.encode(("t", 0), positions.LanePosition(7, "id", 3, Claim(2, "app"), 4, (1, 2))).encode(),),
    "scope": (b"control/e/f/t/3", b"control/e/f/t/" + b"9" * 5000),
    "pause": (pauses.dumps(pauses.Pause(pauses.Scope("f"), 1, "ada", "why")),),
    "left": (left_by_apply.dumps(LeftCluster("id", 5, "ada", {"t": LeftTopic("x", 3, {"a": "b"})}, {"c": "d"})),),
    "lock": (lock.dumps(lock.LockRecord(_HOLDER, 5)),),
    "home": (home.dumps(home.Home("east", "id", ("e:1",), 2)),),
    "applied": (last_apply.dumps(last_apply.Applied("prod", 5, "ada", "c", {"east": "id"}, ("east/t",), ("f",))),),
    "rollout": (rollout_progress.dumps(rollout_progress.Promotion("prod", 5, "ada", "why")),),
    "status": (status_records.record(),),
    "desired": (DESIRED.dumps(_DESIRED),),
    "lease": (LEASE.dumps(HostLease("test", "west", "h", 1, 2, "m", 3, "v", 5)),),
    "presence": (PRESENCE.dumps(HostPresence("test", "h", "m", 3, "v", 5, "all")),),
}
"""What a right record looks like."""


class Maker:
    """One stream of inputs; the same ``seed`` gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def fresh(self, target: str) -> bytes:
        match target:
            case "fetch11" | "fetch13":
                return self.mutated(self._answer(target == "fetch11"), 4)
            case "batches":
                return self._batches()
            case "codecs":
                return self._compressed()
            case "chunk":
                return self._chunk()
            case "checkpoint":
                return self.mutated(keyed(b"\0\1g\0\1t\0\0\0\7", struct.pack(">hqq", 0, 5, 6) + b"\0\0"), 3)
            case _:
                return self._text(target)

    def mutated(self, data: bytes, times: int) -> bytes:
        out, rnd = bytearray(data), self.random
        for _ in range(rnd.randint(1, times)):
            if not out:
                return b""
            at = rnd.randrange(len(out))
            match rnd.randrange(8):
                case 0:
                    out[at] ^= 1 << rnd.randrange(8)
                case 1:
                    out[at] = rnd.getrandbits(8)
                case 2:
                    del out[at : at + rnd.randrange(1, 16)]
                case 3:
                    out[at:at] = rnd.randbytes(rnd.randrange(1, 8))
                case 4 if len(out) > at + 4:
                    struct.pack_into(">i", out, at, wrapped(rnd.choice(EDGES), 31))
                case 5 if len(out) > at + 8:
                    struct.pack_into(">q", out, at, rnd.choice(EDGES))
                case 6:
                    end = min(len(out), at + rnd.randrange(1, 60))
                    out[at:at] = out[at:end]
                case _:
                    out[at : at + 4] = b"\xff\xff\xff\xff"
        return bytes(out[: 1 << 20])

    def _text(self, target: str) -> bytes:
        """JSON with other values in it, or what is none."""
        rnd = self.random
        text = rnd.choice((*_TEXTS.get(target, ()) * 8, *_ODD_TEXTS))
        for _ in range(rnd.randrange(3)):
            if tokens := list(_TOKEN.finditer(text)):
                token = rnd.choice(tokens)
                text = text[: token.start()] + rnd.choice(_ODD_TEXTS) + text[token.end() :]
        return self.mutated(text, 3) if rnd.random() < 0.5 else text

    def _batches(self) -> bytes:
        rnd = self.random
        match rnd.randrange(4):
            case 0:
                return b"".join(self.batch(at * 30, wild=True) for at in range(rnd.randint(1, 4)))
            case 1:
                whole = b"".join(self.batch(at * 30, wild=rnd.random() < 0.5) for at in range(2))
                return with_right_sum(self.mutated(whole, 3))
            case 2:
                return self.mutated(b"".join(self.batch(at * 30, wild=False) for at in range(2)), 3)
        data = self._old(rnd.randrange(3), rnd.choice((0, 1)))
        if rnd.random() < 0.6:
            data = self.mutated(data, 2)
            if len(data) > 20:
                data = data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]
        return data

    def _odd(self) -> int:
        rnd = self.random
        odd = (0, 1, 1, 1, rnd.randrange(64), rnd.choice(EDGES), rnd.getrandbits(rnd.randrange(1, 70)))
        return rnd.choice(odd)

    def _record(self, index: int, *, wild: bool) -> bytes:
        rnd = self.random
        key = rnd.randbytes(rnd.randrange(6))
        value = bytes(rnd.randrange(2000)) if rnd.random() < 0.3 else rnd.randbytes(rnd.randrange(40))
        headers = [(b"h%d" % number, b"v" * rnd.randrange(5)) for number in range(rnd.choice((0, 0, 1, 3)))]

        def length(number: int) -> bytes:
            return zigzag(self._odd()) if wild and rnd.random() < 0.08 else zigzag(number)

        def part(data: bytes, null: float) -> bytes:
            return zigzag(-1) if rnd.random() < null else length(len(data)) + data

        timestamp = self._odd() if wild and rnd.random() < 0.2 else index
        offset = self._odd() if wild and rnd.random() < 0.1 else index
        body = bytes([rnd.getrandbits(8) if wild else 0]) + zigzag(timestamp) + zigzag(offset)
        body += part(key, 0.2) + part(value, 0.1)
        body += length(len(headers)) + b"".join(length(len(n)) + n + length(len(v)) + v for n, v in headers)
        return length(len(body)) + body

    def batch(self, base: int, *, wild: bool) -> bytes:
        rnd = self.random
        count, codec = rnd.choice((1, 1, 2, 5, 20)), rnd.randrange(5)
        data = codecs.compress(codec, b"".join(self._record(index, wild=wild) for index in range(count)))
        if wild and rnd.random() < 0.2:
            data = self.mutated(data, 2)
        attributes = codec | (rnd.choice((0, 8, 16, 32, 48, 0x40, 5, 6, 7)) if wild and rnd.random() < 0.4 else 0)
        first = rnd.choice(EDGES) if wild and rnd.random() < 0.2 else NOW
        delta = wrapped(self._odd(), 31) if wild and rnd.random() < 0.1 else count - 1
        said = wrapped(self._odd(), 31) if wild and rnd.random() < 0.1 else count
        last = first + count if first < 2**62 else first
        head = struct.pack(
            ">qiibIhiqqqhii", base, 49 + len(data), -1, 2, 0, attributes, delta, first, last,
            rnd.choice((-1, 7)), rnd.choice((-1, 0)), -1, said,
        )  # fmt: skip
        raw = head + data
        return with_right_sum(raw) if rnd.random() < 0.95 else raw

    def _old(self, base: int, magic: int, *, inner: bool = False) -> bytes:
        """Formats 0 and 1 (KIP-31, KIP-32)."""
        rnd, codec = self.random, 0
        value = bytes(rnd.randrange(50))
        if not inner and rnd.random() < 0.6:
            codec = rnd.randrange(5)
            value = codecs.compress(codec, b"".join(self._old(index, magic, inner=True) for index in range(3)))
        times = struct.pack(">q", rnd.choice((1, -1, 2**63 - 1, -(2**63)))) if magic else b""
        body = bytes([magic, codec | rnd.choice((0, 8))]) + times
        body += struct.pack(">ii", -1, len(value)) + value
        raw = struct.pack(">I", zlib.crc32(body)) + body
        return struct.pack(">qi", base, len(raw)) + raw

    def _answer(self, classic: bool) -> bytes:
        records = b"".join(self.batch(at * 30, wild=False) for at in range(2))
        aborted = [(7, 0)] if self.random.random() < 0.5 else []
        head = struct.pack(">ihqqq", 0, 0, 100, 100, 0)
        if classic:
            part = head + struct.pack(">i", len(aborted)) + b"".join(struct.pack(">qq", *pair) for pair in aborted)
            part += struct.pack(">ii", -1, len(records)) + records
            return struct.pack(">iihii", 1, 0, 0, 3, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", 1) + part
        part = head + uvarint(len(aborted) + 1) + b"".join(struct.pack(">qq", *pair) + b"\0" for pair in aborted)
        part += struct.pack(">i", -1) + uvarint(len(records) + 1) + records + b"\0"
        front = struct.pack(">i", 1) + b"\0" + struct.pack(">ihi", 0, 0, 3)
        return front + uvarint(2) + TOPIC_ID.bytes + uvarint(2) + part + b"\0\0"

    def _compressed(self) -> bytes:
        """The codec, then what it made of something, mutated."""
        rnd = self.random
        codec = rnd.randrange(1, 5)
        plain = bytes(rnd.randrange(1 << 16)) if rnd.random() < 0.5 else rnd.randbytes(rnd.randrange(300))
        data = codecs.compress(codec, plain)
        return bytes([codec]) + (self.mutated(data, 3) if rnd.random() < 0.9 else data)

    def _chunk(self) -> bytes:
        rnd = self.random
        place = MapPartition("f", "t", 3, TOPIC_ID, TOPIC_ID)
        runs, at = [], 0
        for _ in range(rnd.randrange(4)):
            at += rnd.randrange(1, 5)
            runs.append(CopiedRun(at, at + 7, rnd.randrange(1, 9)))
            at += 9
        key, value = chunk_of(place, Stretch(0, at + 1, tuple(runs), True))
        return keyed(key, value) if rnd.random() < 0.1 else self.mutated(keyed(key, value), 4)


def keyed(key: bytes, value: bytes) -> bytes:
    return struct.pack(">H", len(key)) + key + value


def parted(data: bytes) -> tuple[bytes, bytes]:
    """Key and value of ``keyed``, of any bytes."""
    size = int.from_bytes(data[:2], "big")
    return data[2 : 2 + size], data[2 + size :]


def wrapped(number: int, bits: int) -> int:
    return max(-(2**bits), min(2**bits - 1, number))


def zigzag(number: int) -> bytes:
    """Also of numbers beyond 64 bits."""
    return uvarint(((number << 1) ^ (number >> 63) if number >= -(2**63) else 1) & (1 << 70) - 1)


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def with_right_sum(raw: bytes) -> bytes:
    """As a producer would write it: the checksum of each whole batch is right."""
    out, at = bytearray(raw), 0
    while at + 61 <= len(out) and out[at + 16] == 2:
        end = at + struct.unpack_from(">i", out, at + 8)[0] + 12
        if not at + 61 <= end <= len(out):
            break
        struct.pack_into(">I", out, at + 17, crc32c(bytes(out[at + 21 : end])))
        at = end
    return bytes(out)
