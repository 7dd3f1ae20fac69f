"""Compares topic config values in different spellings, and formats them."""

import re

# Set by the tool that runs a reassignment, while it runs; touching them would remove another tool's throttle.
THROTTLES = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
TIERED_STORAGE = frozenset({
    "local.retention.bytes", "local.retention.ms", "remote.copy.lag.bytes", "remote.copy.lag.ms",
    "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
})  # fmt: skip
"""Where a cluster keeps older segments (KIP-405): brokers without remote storage refuse some of these."""
IN_EVERY_RELEASE = frozenset({
    "cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
    "index.interval.bytes", "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.type",
    "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "retention.bytes",
    "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
    "unclean.leader.election.enable",
})  # fmt: skip
"""Topic configs of every Kafka from 2.8 to 4.4."""
_UNLIMITED = frozenset({"retention.ms", "retention.bytes"})
SET_LIKE = frozenset({"cleanup.policy"})
LONG_MAX = 2**63 - 1
UNLIMITED, MOST = "unlimited", "max"
"""Words of ``human`` for -1 and for the largest number that Kafka holds."""

_INTEGER = re.compile(r"[+-]?\d{1,400}")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_SIZES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def canonical(key: str, value: str) -> str:
    """One spelling for equal values: ``007`` and ``7``, ``TRUE`` and ``true``, ``delete,compact`` in any order."""
    text = value.strip()
    if key in SET_LIKE:
        return ",".join(sorted({part.strip() for part in text.split(",") if part.strip()}))
    if _INTEGER.fullmatch(text):
        return str(int(text))
    if _DECIMAL.fullmatch(text):
        return repr(float(text))
    return text.lower() if text.lower() in ("true", "false") else text


def same(key: str, name: str | None, other: str | None) -> bool:
    if name is None or other is None:
        return name is other
    return canonical(key, name) == canonical(key, other)


def number(value: str | None) -> float | None:
    """The value as a number, with -1 of Kafka's limits as infinity. None if it is no number."""
    if value is None or not (_INTEGER.fullmatch(value.strip()) or _DECIMAL.fullmatch(value.strip())):
        return None
    seconds = float(value.strip())  # float does not take all that strip takes for space
    return float("inf") if seconds == -1 else seconds


def words_for(key: str) -> tuple[str, ...]:
    """The words that ``human`` may print as a value of ``key``."""
    most = (MOST,) if key.endswith((".ms", ".bytes")) else ()
    return (UNLIMITED, *most) if key in _UNLIMITED else most


def unworded(key: str, text: str) -> str:
    """What ``human`` printed as a word, as Kafka's number; any other text as it is."""
    if text not in words_for(key):
        return text
    return "-1" if text == UNLIMITED else str(LONG_MAX)


def duration(milliseconds: int) -> str:
    """``10m``; never rounds."""
    return human("soak.ms", str(milliseconds)) if milliseconds else "0s"


def human(key: str, value: str | None) -> str:
    """A value for people: ``604800000`` of ``retention.ms`` is ``7d``, ``-1`` is ``unlimited``. Never rounds; without a
    unit it stays."""
    if value is None:
        return "(not set)"
    if value == "":
        return '""'
    if not _INTEGER.fullmatch(value):
        return value
    amount = int(value)
    if amount == -1 and key in _UNLIMITED:
        return UNLIMITED
    if not key.endswith((".ms", ".bytes")):
        return value
    if amount == LONG_MAX:
        return MOST
    if amount <= 0:
        return value
    for unit, size in _DURATIONS if key.endswith(".ms") else _SIZES:
        if amount % size == 0:
            return f"{amount // size}{unit}"
    return f"{amount}ms" if key.endswith(".ms") else value
