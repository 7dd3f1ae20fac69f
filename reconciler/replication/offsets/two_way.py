"""Translates group offsets of a topic that clients write under one name on two clusters, by the maps of both flows.

The two logs order records differently, so the records that a group has read here do not end at one position there. The
safe position is that of the first record, own or copy, that the group has not read. *Here* is the cluster that the
group leaves, *there* its destination.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.replication.offsets.map import CopiedRun, Exactness, PartitionMap, Translation


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Knowledge about one partition that clients write on both sides.

    For a translation that is never ahead, read in this order: the group's offset, ``back_to``, ``back``, ``out_to``,
    ``out``. Then ``back`` covers all that the group can have read, and ``out`` all that lies before its end.
    """

    out: PartitionMap
    """The map from here to there."""
    out_to: int | None
    """That flow's position here; None: not begun."""
    back: PartitionMap
    """The map of the flow from there to here."""
    back_to: int | None
    """Its position, in offsets there; None: not begun."""

    def translate(self, position: int, out: Translation | None = None) -> Translation:
        """Where a group that has read everything before ``position`` here continues there.

        ``out``: a better translation by the map ``out`` alone, if there is one. Exact: no record lies between this
        offset and the first record that the group has not read.
        """
        theirs = self._theirs(position)
        if theirs.offset is None:
            return theirs
        mine = out or self.out.downstream(position)
        if theirs.exactness is Exactness.END and not self._nothing_read_behind(position, theirs.offset):
            why = f"the flow back has come to offset {theirs.offset} only; copies already read come after it"
            theirs = Translation(theirs.offset, Exactness.EARLIER, why)
        if self._nothing_unread(position):
            return theirs
        if mine.offset is None:
            return mine
        if theirs.offset is not None and theirs.offset <= mine.offset:
            return theirs
        if mine.exactness is Exactness.END:
            why = "the map of what was copied does not reach the flow's position yet"
            return Translation(mine.offset, Exactness.EARLIER, why, mine.gap)
        return mine

    def read_again(self, position: int, there: int) -> int:
        """Records from offset ``there`` on that a group at ``position`` here has read already, as far as is known."""
        copies = sum(_records(run, run.source + there - run.target, position) for run in _runs(self.out))
        return copies + sum(_records(run, there, run.source + position - run.target) for run in _runs(self.back))

    def missed(self, position: int, there: int) -> int:
        """Records before offset ``there`` that a group at ``position`` here has not read, as far as is known."""
        copies = sum(_records(run, position, run.source + there - run.target) for run in _runs(self.out))
        return copies + sum(_records(run, run.source + position - run.target, there) for run in _runs(self.back))

    def counts(self, position: int, there: int) -> tuple[int, int] | None:
        """(``read_again``, ``missed``) if the maps cover all relevant records, else None; also None if the group has
        read records that are not copied yet."""
        unread = self.back.upstream(position)
        first = unread.offset if unread.exactness in (Exactness.RECORD, Exactness.NEXT) else self.back_to
        first, out_to = first or 0, self.out_to or 0
        if self.back.known_to(min(there, first)) < max(there, first) or not self._knows_before(there, position):
            return None
        if there > 0 and self.out.known_to(position) < out_to and not self._copied_from(there, position):
            return None
        return self.read_again(position, there), self.missed(position, there)

    def _theirs(self, position: int) -> Translation:
        """The first record of the other cluster, there, that the group has not read."""
        if self.back_to is None:
            return Translation(None, Exactness.UNKNOWN, "nothing has come back yet: the group has read none of that")
        translation = self.back.upstream(position)
        if translation.exactness in (Exactness.RECORD, Exactness.NEXT):
            return translation
        if translation.gap is not None and translation.gap.source_end is not None:
            return translation  # a gap between what is known, or before it
        end = self.back.known_to(self.back.source_end or 0)
        if self.back.source_end is None and end == 0:  # it began later than at the beginning, and has carried nothing
            why = "the map of what came back is empty"
            return Translation(None, Exactness.UNKNOWN, why) if self.back_to else Translation(0, Exactness.END)
        if end >= self.back_to:
            return Translation(end, Exactness.END)
        why = f"the map of what came back ends at offset {end}, its flow has come to {self.back_to}"
        return Translation(end, Exactness.EARLIER, why)

    def _nothing_unread(self, position: int) -> bool:
        """Whether it is sure that no record from ``position`` on was copied there before ``back`` was read."""
        if self.out_to is None or position >= self.out_to:
            return True
        return self.out.known_to(position) >= self.out_to and not self.out.copied(position, self.out_to)

    def _nothing_read_behind(self, position: int, there: int) -> bool:
        """Whether it is sure that no copy from offset ``there`` on is of a record before ``position``."""
        read = (run.source + max(0, there - run.target) for run in _runs(self.out) if run.target_end > there)
        return all(source >= position for source in read) and self._knows_before(there, position)

    def _knows_before(self, there: int, end: int) -> bool:
        """Whether every copy from offset ``there`` on of a record before ``end`` is known."""
        before = (min(run.source_end, run.source + there - run.target) for run in _runs(self.out) if run.target < there)
        return self.out.known_to(max(before, default=0)) >= end

    def _copied_from(self, there: int, position: int) -> bool:
        """Whether it knows every record from ``position`` on up to a record with its copy at ``there`` or behind."""
        behind = (run.source + max(0, there - run.target) for run in _runs(self.out) if run.target_end > there)
        first = min(behind, default=None)
        return first is not None and self.out.known_to(position) >= first


def _runs(known: PartitionMap) -> Iterator[CopiedRun]:
    for stretch in known.stretches:
        yield from stretch.runs


def _records(run: CopiedRun, begin: int, end: int) -> int:
    """Records of ``run`` at source offsets in [``begin``, ``end``)."""
    return max(0, min(run.source_end, end) - max(run.source, begin))
