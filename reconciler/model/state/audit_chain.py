"""The audit record as a hash chain: each record carries the digest of the one before it in the same file or topic.

A chain has no secret. Whoever may write the record can write a whole new chain; a head kept elsewhere tells.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PREVIOUS = "previous"
"""Null in the first record of a chain; records of releases before 2026-11 have no such field."""

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first record whose predecessor is not there. ``expected``: the digest it carries, empty for none.
    ``present``: that of the record which stands before it."""

    run: str
    kind: str
    at: str
    problem: str
    expected: str
    present: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """``since``: when the first record of the chain was written, empty where there is none. ``unchained``: records
    before it, of older releases. ``before``: the digest of a record before the first, which is not there any more.
    ``heads``: records that none follows; several when runs wrote at the same time. ``pinned``: whether the head that
    was asked for is in the chain; None when none was asked for."""

    records: int
    unchained: int
    since: str
    before: str
    heads: tuple[str, ...]
    broken: ChainBreak | None
    pinned: bool | None

    @property
    def whole(self) -> bool:
        return self.broken is None and self.pinned is not False


def digest(record: Record) -> str:
    """SHA-256 of the record in canonical JSON, as ``sha256:`` and 64 hexadecimal digits."""
    text = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def check(records: Iterable[Record], pinned: str = "") -> ChainReport:
    """``records``: of one environment and one place, oldest first; one that was sent twice counts once."""
    by_digest = {digest(record): record for record in records}
    ordered = list(by_digest.items())
    first = next((index for index, (_, record) in enumerate(ordered) if PREVIOUS in record), len(ordered))
    chained = ordered[first:]
    followed = {record.get(PREVIOUS) for _, record in chained}
    start = chained[0][1] if chained else {}
    before = str(start.get(PREVIOUS) or "")
    return ChainReport(
        records=len(chained),
        unchained=first,
        since=str(start.get("at", "")),
        before="" if before in by_digest else before,
        heads=tuple(name for name, _ in chained if name not in followed),
        broken=_first_break(ordered, first, by_digest),
        pinned=pinned in by_digest if pinned else None,
    )


def _first_break(ordered: Sequence[tuple[str, Record]], first: int, known: Mapping[str, Record]) -> ChainBreak | None:
    for index in range(first + 1, len(ordered)):
        record = ordered[index][1]
        expected = record.get(PREVIOUS)
        if expected in known:
            continue
        if PREVIOUS not in record:
            problem = "it carries no digest of the record before it: an older release wrote it, or it was edited"
        elif expected is None:
            problem = "a chain begins anew here: its writer could not read the records before it, or they were replaced"
        else:
            problem = "the record before it is missing, or was changed"
        run, kind, at = (str(record.get(name, "")) for name in ("run", "kind", "at"))
        return ChainBreak(run, kind, at, problem, str(expected or ""), ordered[index - 1][0])
    return None
