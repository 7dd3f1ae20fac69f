"""The exact offset map of one mirrored partition: source offset -> target offset.

A *run* is a range of offsets that is consecutive on both sides. A *stretch* covers a range of source offsets
completely: offsets in its runs were copied, all others never (control markers, aborted records, holes after compaction,
filtered records), so later compaction of either side cannot invalidate it. Nothing is known between stretches, where a
lane was killed before it could write; there a translation gives a safe offset, and the gap to count for a better one.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote
from typing import NamedTuple


class CopiedRun(NamedTuple):
    """``records`` records from offset ``source`` on were copied to ``target`` on, without a hole on either side."""

    source: int
    target: int
    records: int

    @property
    def source_end(self) -> int:
        return self.source + self.records

    @property
    def target_end(self) -> int:
        return self.target + self.records


@dataclass(frozen=True, slots=True)
class Stretch:
    """All that was copied of source offsets ``begin`` <= o < ``end``; both offsets of its runs grow. Without runs it is
    *silent*: nothing of the range was copied (records of other clusters that came back, filtered ones, markers).

    ``first``: the flow began here. It copied nothing before ``begin``, but another tool may have (a take-over).
    """

    begin: int
    end: int
    runs: tuple[CopiedRun, ...]
    first: bool = False


class Exactness(StrEnum):
    """RECORD: the record's counterpart. NEXT: the record has none (marker, aborted, compacted, filtered); the next
    counterpart. END: no record from there on has a counterpart yet; the offset after the last one. These three are
    exact: a consumer that continues there misses no record and reads none twice.

    EARLIER: not exact but never ahead, so records in between are read again. UNKNOWN: only the partition's start is
    safe.
    """

    RECORD = "record"
    NEXT = "next"
    END = "end"
    EARLIER = "earlier"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Gap:
    """A gap of the map: if records in [``source``, ``source_end``) were copied, then to target offsets in [``target``,
    ``target_end``). None: that bound is unknown."""

    source: int | None
    """First source offset of the gap; ``source_end``: the one after its last."""
    target: int | None
    """Likewise, at the target."""
    source_end: int | None
    target_end: int | None


@dataclass(frozen=True, slots=True)
class Translation:
    """An offset's counterpart on the other side of a flow."""

    offset: int | None
    """Where to continue on the other side; None only for UNKNOWN."""
    exactness: Exactness
    reason: str = ""
    """Why it is not exact, else empty."""
    gap: Gap | None = None
    """Set if counting records on both sides may make it exact."""

    @property
    def exact(self) -> bool:
        return self.exactness in (Exactness.RECORD, Exactness.NEXT, Exactness.END)


def beyond_log(offset: int, key: tuple[str, int], cluster: str, end: int) -> str:
    """Why a committed offset has no counterpart: the log of ``key``, where it was committed, ends before it."""
    topic, partition = key
    return (
        f"offset {offset} is beyond the log of {topic}-{partition} on {cluster}, which ends at {end}: the topic was"
        f" recreated, it lost records, or the offset was set. A consumer there goes to where auto.offset.reset says."
        f" Reset the group on {cluster} first: kafka-consumer-groups.sh --group GROUP"
        f" --topic {quote(topic)}:{partition} --reset-offsets --to-earliest --execute (or --to-latest)"
    )


THE_MAP = "the offset map"


def beyond_copy(offset: int, key: tuple[str, int], end: int, says: str) -> str:
    """Why an offset from ``says`` is not used: the log of ``key`` ends before it, so a consumer set there would jump by
    auto.offset.reset, past records that it has not read."""
    topic, partition = key
    return (
        f"{says} names offset {offset} of {topic}-{partition}, whose log ends at {end}: the log lost records, or"
        f" another client than the mirror wrote there. Check which principals may: kafka-acls.sh --list"
    )


class PartitionMap:
    """Translates positions (the next offset to read) of one partition. Immutable; about 10 µs a translation."""

    __slots__ = ("_begins", "_copies", "_copy_targets", "_known", "_silent", "_stretches")

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        """``stretches``: in any order. Of records copied twice (after a seek backwards), the last copy counts."""
        # A compacted topic loses the order of writing, but target offsets only grow: a higher one was copied later.
        given = list(stretches)
        self._silent = sorted((s for s in given if not s.runs), key=lambda s: s.begin)

        # A stretch is as long as the silent ones that follow it without a gap.
        with_runs: list[Stretch] = []
        for stretch in (s for s in given if s.runs):
            end = stretch.end
            for silent in self._silent:
                if silent.begin <= end:
                    end = max(end, silent.end)
            with_runs.append(stretch if end == stretch.end else replace(stretch, end=end))
        self._copies = _without_repeated(sorted(with_runs, key=lambda s: (s.runs[0].target, s.runs[-1].target_end)))
        self._copy_targets = [stretch.runs[0].target for stretch in self._copies]

        # By source offset, a later copy replaces earlier ones from its beginning on: one that reaches beyond is cut.
        kept: list[Stretch] = []
        for stretch in self._copies:
            while kept and kept[-1].begin >= stretch.begin:
                kept.pop()
            if kept and kept[-1].end > stretch.begin:
                before = kept.pop()
                runs = [run for run in before.runs if run.source < stretch.begin]
                if runs:
                    records = min(runs[-1].records, stretch.begin - runs[-1].source)
                    runs[-1] = runs[-1]._replace(records=records)
                    kept.append(Stretch(before.begin, stretch.begin, tuple(runs), before.first))
            kept.append(stretch)

        # Nothing was copied before this source offset. A silent stretch that is only the flow's ``first`` one does not
        # prove that: another tool may have copied before it.
        silent_to = 0
        for silent in self._silent:
            if silent.begin > silent_to:
                break
            silent_to = max(silent_to, silent.end)
        if kept and silent_to >= kept[0].begin:
            kept[0] = replace(kept[0], begin=0)
        self._stretches = kept
        self._begins = [stretch.begin for stretch in kept]
        self._known: list[tuple[int, int]] | None = None

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Effective stretches by source offset; silent ones are merged into the stretch before them."""
        return tuple(self._stretches)

    @property
    def source_end(self) -> int | None:
        """The source offset up to which the map knows, None for an empty map."""
        return self._stretches[-1].end if self._stretches else None

    def known_to(self, begin: int) -> int:
        """The source offset up to which the map covers every offset from ``begin`` on; ``begin`` if it does not cover
        that one."""
        if self._known is None:  # as spans that do not touch
            self._known = []
            every = (*self._stretches, *self._silent)
            for first, end in sorted((0 if each.first else each.begin, each.end) for each in every):
                if self._known and first <= self._known[-1][1]:
                    self._known[-1] = (self._known[-1][0], max(end, self._known[-1][1]))
                else:
                    self._known.append((first, end))
        at = bisect_right(self._known, begin, key=lambda span: span[0]) - 1
        return max(begin, self._known[at][1]) if at >= 0 else begin

    def copied(self, begin: int, end: int) -> bool:
        """Whether a source offset ``begin`` <= o < ``end`` is known to have been copied."""
        for stretch in self._stretches[max(0, bisect_right(self._begins, begin) - 1) :]:
            run = _next_run(stretch.runs, begin)
            if run is not None or stretch.begin >= end:
                return run is not None and run.source < end
        return False

    def uncopied(self, begin: int, end: int, drained: int) -> list[tuple[int, int]]:
        """Ranges of target offsets ``begin`` <= o < ``end`` that certainly hold no copy, once the source is copied to
        ``drained``. In a gap of the map, where a lane was killed before it could write, nothing is certain."""
        gaps, at, known = list[tuple[int, int]](), begin, 0
        for stretch in self._copies:
            certain, known = stretch.first or stretch.begin == known, stretch.end
            for run in stretch.runs:
                if certain and at < (until := min(run.target, end)):
                    gaps.append((at, until))
                at, certain = max(at, run.target_end), True
        return [*gaps, (at, end)] if at < end and known >= drained else gaps

    def downstream(self, source: int) -> Translation:
        """The target position for source position ``source``: of the first record at or after it."""
        at = bisect_right(self._begins, source) - 1
        if at < 0:
            return self._before(back=False)
        run = _next_run(self._stretches[at].runs, source) if source < self._stretches[at].end else None
        if run is None:
            return _after(self._stretches, at, source, back=False)
        if source < run.source:
            return Translation(run.target, Exactness.NEXT)
        return Translation(run.target + source - run.source, Exactness.RECORD)

    def upstream(self, target: int) -> Translation:
        """The source position for target position ``target``, for failback: of the first record at or after it."""
        at = bisect_right(self._copy_targets, target) - 1
        if at < 0:
            return self._before(back=True)
        runs = self._copies[at].runs
        low = bisect_right(runs, target, key=lambda run: run.target) - 1
        if target < runs[low].target_end:
            return Translation(runs[low].source + target - runs[low].target, Exactness.RECORD)
        if low + 1 < len(runs):
            return Translation(runs[low + 1].source, Exactness.NEXT)
        return _after(self._copies, at, target, back=True)

    def _before(self, *, back: bool) -> Translation:
        """A position before all that the map knows; ``back``: of the target."""
        if not self._stretches:
            return Translation(None, Exactness.UNKNOWN, "the map has no entry for the partition", _NOTHING)
        first, run = self._stretches[0], (self._copies if back else self._stretches)[0].runs[0]
        if back and first.begin == 0:
            return Translation(first.runs[0].source, Exactness.NEXT)
        if not back and run.target == 0:
            return Translation(0, Exactness.NEXT)
        gap = Gap(None, None, run.source if back else first.begin, run.target)
        return Translation(None, Exactness.UNKNOWN, "older than the map", gap)


def _after(stretches: list[Stretch], at: int, position: int, *, back: bool) -> Translation:
    """A position after the last run of stretch ``at``; ``back``: of the target."""
    stretch, last = stretches[at], stretches[at].runs[-1]
    following = stretches[at + 1] if at + 1 < len(stretches) else None
    end = stretch.end if back else last.target_end
    if following is not None and following.begin <= stretch.end:
        run = following.runs[0]
        return Translation(run.source if back else run.target, Exactness.NEXT)
    if following is not None:
        gap = Gap(stretch.end, last.target_end, following.begin, following.runs[0].target)
        reason = f"the map has a gap from source offset {stretch.end} to {following.begin}"
        return Translation(end, Exactness.EARLIER, reason, gap)
    known = last.target_end if back else stretch.end
    if position <= known:
        return Translation(end, Exactness.END)
    gap = Gap(stretch.end, last.target_end, None, None)
    reason = f"the map ends at {'target' if back else 'source'} offset {known}"
    return Translation(end, Exactness.EARLIER, reason, gap)


_NOTHING = Gap(None, None, None, None)


def _next_run(runs: tuple[CopiedRun, ...], source: int) -> CopiedRun | None:
    """The run that contains ``source``, else the first one after it."""
    at = bisect_right(runs, source, key=lambda run: run.source) - 1
    if at >= 0 and source < runs[at].source_end:
        return runs[at]
    return runs[at + 1] if at + 1 < len(runs) else None


def _without_repeated(copies: list[Stretch]) -> list[Stretch]:
    """``copies``, sorted by target, without those that repeat a part of another: a counted gap that its lane has
    written after all."""
    kept: list[Stretch] = []
    for stretch in copies:
        if kept and _covers(kept[-1], stretch):
            continue
        while kept and _covers(stretch, kept[-1]):
            kept.pop()
        kept.append(stretch)
    return kept


def _covers(stretch: Stretch, given_stretch: Stretch) -> bool:
    first, last = given_stretch.runs[0], given_stretch.runs[-1]
    return (
        stretch.begin <= given_stretch.begin
        and given_stretch.end <= stretch.end
        and stretch.runs[0].target <= first.target
        and last.target_end <= stretch.runs[-1].target_end
    )
