"""The audit record as a hash chain, in which each record has the digest of the one before it in the same file or topic;
and the findings of ``audit verify`` on each place with a record.

A chain has no secret. Anyone who may write the record can write a whole new chain; a head kept elsewhere reveals that.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from reconciler.errors import ExitCode, Unknown

PREVIOUS = "previous"
"""Null in the first record of a chain; records of releases before 2026-11 lack the field."""

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first record whose predecessor is missing."""

    run: str
    kind: str
    at: str
    problem: str
    expected: str
    """The digest of the predecessor that it names, empty if it names none."""
    present: str
    """The digest of the record before it."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What the chain of audit records proves, and what it cannot prove."""

    records: int
    unchained: int
    """Earlier records, of older releases."""
    since: str
    """Time of the chain's first record, empty without one."""
    before: str
    """The digest of the missing record before the first."""
    heads: tuple[str, ...]
    """Records without a successor; several if runs wrote at the same time."""
    broken: ChainBreak | None
    pinned: bool | None
    """Whether the chain has the requested head; None without such a request."""
    doubts: tuple[str, ...] = ()
    """What the records cannot prove."""

    @property
    def whole(self) -> bool:
        return self.broken is None and self.pinned is not False and not self.doubts


def digest(record: Record) -> str:
    """SHA-256 of the record in canonical JSON, as ``sha256:`` and 64 hexadecimal digits."""
    text = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def check(records: Iterable[Record], pinned: str = "") -> ChainReport:
    """``records``: of one environment and one place, oldest first; a record that was sent twice counts once."""
    # The chain begins at the first record with a digest of another: releases before it wrote none, and their records
    # cannot be checked.
    by_digest = {digest(record): record for record in records}
    ordered = list(by_digest.items())
    first = next((index for index, (_, record) in enumerate(ordered) if PREVIOUS in record), len(ordered))
    chained = ordered[first:]
    followed = {record.get(PREVIOUS) for _, record in chained}
    start = chained[0][1] if chained else {}
    before = str(start.get(PREVIOUS) or "")
    # The first record of the chain may follow one of an older release, which is there. Otherwise the log lost its
    # beginning: retention or a person removed it.
    before = "" if before in by_digest else before
    # The lock lets one run write at a time, so a chain has one end. A second one is a fork.
    heads = tuple(name for name, _ in chained if name not in followed)
    doubts: list[str] = []
    if first and not chained:
        doubts.append(
            f"none of its {first} records carries a digest of the one before it: an older release wrote them, or the"
            " digests were taken away"
        )
    if before:
        doubts.append(f"its beginning is missing: the first record follows {before}, which is missing")
    if len(heads) > 1:
        doubts.append("several heads: records were put in, or runs wrote at the same time, as after a stolen lock")
    return ChainReport(
        records=len(chained),
        unchained=first,
        since=str(start.get("at", "")),
        before=before,
        heads=heads,
        broken=_first_break(ordered, first, by_digest),
        pinned=pinned in by_digest if pinned else None,
        doubts=tuple(doubts),
    )


def compared(reports: Mapping[str, ChainReport], records: Mapping[str, Sequence[Record]]) -> dict[str, ChainReport]:
    """Adds to each place what the others hold against it. ``records``: of the same places. Commands without a lock
    write only to the file, and lines are missing in a topic that could not be written, so a file may hold more than a
    topic."""
    lines_of = {
        place: {json.dumps({**record, PREVIOUS: None}, sort_keys=True): record for record in lines}
        for place, lines in records.items()
    }
    doubts: dict[str, list[str]] = {place: [] for place in reports}
    for place, other in permutations(reports, 2):
        if not lines_of[place] and lines_of[other]:
            doubts[place].append(
                f"it holds no record, and {other} holds {len(lines_of[other])}: records were taken off"
            )
    # Lines are compared without digests, because each place has its own chain.
    topic = next((place for place in reports if "/" in place), "")
    file = next((place for place in reports if place != topic), "")
    if topic and file:
        runs = {line.get("run") for line in lines_of[file].values()}
        left = [
            line for text, line in lines_of[topic].items() if text not in lines_of[file] and line.get("run") in runs
        ]
        if left:
            run, kind, at = (str(left[0].get(name, "")) for name in ("run", "kind", "at"))
            words = f"{kind} of run {run} at {at} is in {topic} as it is not in {file}: one of the two was changed"
            doubts[topic].append(words)
            doubts[file].append(words)
    return {place: replace(report, doubts=(*report.doubts, *doubts[place])) for place, report in reports.items()}


def _first_break(ordered: Sequence[tuple[str, Record]], first: int, known: Mapping[str, Record]) -> ChainBreak | None:
    """The first record after ``first`` whose predecessor is not before it. Several writers may continue the same
    record, so a predecessor need not be the record right before it."""
    seen = {name for name, _ in ordered[: first + 1]}
    for index in range(first + 1, len(ordered)):
        name, record = ordered[index]
        expected = record.get(PREVIOUS)
        if expected in seen:
            seen.add(name)
            continue
        # Each of these sends the reader elsewhere: to an older release, to the writer's log, or to those who may edit
        # the place.
        if PREVIOUS not in record:
            problem = "it carries no digest of the record before it: an older release wrote it, or it was edited"
        elif expected is None:
            problem = (
                "a chain starts again here: its writer could not read the records before it, or they were replaced"
            )
        elif expected in known:
            problem = "the record before it comes after it: records were put in another order"
        else:
            problem = "the record before it is missing, or was changed"
        run, kind, at = (str(record.get(name, "")) for name in ("run", "kind", "at"))
        return ChainBreak(run, kind, at, problem, str(expected or ""), ordered[index - 1][0])
    return None


@dataclass(frozen=True, slots=True)
class RecordedReport:
    """A requested report. ``places``: those whose records have its ``digest``, empty for none; ``at``, ``who`` and
    ``commit``: of the run that recorded it."""

    digest: str
    places: tuple[str, ...] = ()
    at: str = ""
    who: str = ""
    commit: str = ""


def report_in(seal: str, records: Mapping[str, Sequence[Record]]) -> RecordedReport:
    """``records``: of places."""
    lines_by_place = {
        place: next((line for line in lines if str(line.get("id", "")).endswith(f":report:{seal}")), None)
        for place, lines in records.items()
    }
    places = tuple(place for place, line in lines_by_place.items() if line is not None)
    if not places:
        return RecordedReport(seal)
    line = lines_by_place[places[0]] or {}
    begun = next((each for each in records[places[0]] if each.get("run") == line.get("run")), {})
    return RecordedReport(seal, places, *(str(each.get(name, "")) for each, name in (
        (line, "at"), (begun, "who"), (begun, "commit"),
    )))  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """``places``: by name, ``this machine`` or cluster and topic. ``report``: None unless requested."""

    environment: str
    places: Mapping[str, ChainReport | Unknown]
    report: RecordedReport | None = None

    @property
    def exit_code(self) -> ExitCode:
        """A broken chain outweighs an unreadable one."""
        reports = [report for report in self.places.values() if not isinstance(report, Unknown)]
        if any(not report.whole for report in reports):
            return ExitCode.CHANGES
        if self.report is not None and not self.report.places and len(reports) == len(self.places):
            return ExitCode.CHANGES
        return ExitCode.DONE if len(reports) == len(self.places) else ExitCode.ERROR


def pinned_somewhere(places: Mapping[str, ChainReport | Unknown]) -> dict[str, ChainReport | Unknown]:
    """A head belongs to one place and says nothing about the others. An unknown place may have it."""
    reports = [report for report in places.values() if not isinstance(report, Unknown)]
    if len(reports) == len(places) and not any(report.pinned for report in reports):
        return dict(places)
    return {
        name: report if isinstance(report, Unknown) or report.pinned else replace(report, pinned=None)
        for name, report in places.items()
    }
