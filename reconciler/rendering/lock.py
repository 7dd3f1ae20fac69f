"""Who holds the lock of an environment, as ``status`` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.errors import Unknown
from reconciler.locks import LockRecord

Lock = LockRecord | Unknown | None
"""None: nobody ever held it. Unknown: it could not be read."""


def lock_value(lock: Lock, now_ms: int) -> Mapping[str, Any]:
    """For JSON."""
    if isinstance(lock, Unknown):
        return {"state": "unknown", "error": lock.error, "todo": lock.todo}
    if lock is None or lock.left_ms(now_ms) <= 0:
        return {"state": "free"}
    holder = lock.holder
    return {
        "state": "held",
        "who": holder.who,
        "host": holder.host,
        "pid": holder.pid,
        "purpose": holder.purpose,
        "since_ms": holder.since_ms,
        "renewed_ms": lock.renewed_ms,
        "lease_left_ms": lock.left_ms(now_ms),
        "taken_from": lock.steal.who if lock.steal else None,
        "taken_because": lock.steal.reason if lock.steal else None,
    }


def lock_line(lock: Lock, now_ms: int) -> str:
    if isinstance(lock, Unknown):
        return f"lock: unknown: {lock.error}. {lock.todo}"
    if lock is None or lock.left_ms(now_ms) <= 0:
        return "lock: nobody holds it"
    stolen = f"; taken from {lock.steal.who} ({lock.steal.reason})" if lock.steal else ""
    return f"lock: held by {lock.words(now_ms)}{stolen}"
