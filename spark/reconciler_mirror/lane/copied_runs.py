"""Runs of offsets that a lane has copied of a partition, for the offset map.

Nothing gets into the map before its transaction is committed, so the map never claims what was aborted. Mutable, owned
by the lane's event loop; it outlives a session, so that a session that begins again leaves no gap.
"""

from collections.abc import Iterable

from reconciler.kafka.client.cluster import NO_ID
from reconciler.replication.offsets.codec import Ids, OffsetChunk
from reconciler.replication.offsets.map import CopiedRun
from reconciler_mirror.model.lane import TargetLoss

CHUNK_BYTES = 1024
"""A chunk of the offset map that is as large is complete, and the next one begins: each write of an unfinished chunk
repeats it."""
CHUNK_RUNS = 100_000
"""Equal runs take no more bytes, however many they are; a reader of the chunk makes each of them."""

MOST_GAPS = 16
"""Of a partition between two looks."""

Spans = tuple[tuple[int, int], ...]
"""Records of a batch in source offsets: (first offset, how many) of each consecutive part."""


class Copied:
    """``of``: ids of the topics that were copied. ``last``: the newest record's (source offset, target offset),
    ``synced`` what MirrorMaker 2's topic has of it. ``version`` grows with every change. ``anchored``: the newest chunk
    in the map is not beyond the position, so a position below its end was not put there by a seek, nor by a lane.
    ``target_end``: the target offset behind the last record that is committed, -1 while it is not known; ``lost``: what
    the target's log has lost of it. ``gaps``: stretches of target offsets between batches of this lane, or behind them,
    that it has not written and not looked at; ``strange``: the first record there that it did not copy, -1 for none."""

    __slots__ = (
        "_before",
        "_broken",
        "_open",
        "_written",
        "anchored",
        "chunk",
        "full",
        "gaps",
        "last",
        "lost",
        "of",
        "strange",
        "synced",
        "target_end",
        "version",
    )

    def __init__(self) -> None:
        self.of: Ids = (NO_ID, NO_ID)
        self.chunk: OffsetChunk | None = None
        self.full: list[OffsetChunk] = []  # closed since the last write
        self.last: tuple[int, int] | None = None
        self.synced: tuple[int, int] | None = None
        self.version = 0
        self.anchored = True
        self.target_end = -1
        self.lost: TargetLoss | None = None
        self.gaps: list[tuple[int, int]] = []
        self.strange = -1
        self._before: OffsetChunk | None = None
        self._written = 0
        self._open: list[list[int]] = []
        self._broken = False

    @property
    def changed(self) -> bool:
        """Something of ``chunks`` is not written yet."""
        return self._written != self.version

    def start(self, position: int, of: Ids, *, first: bool = False) -> None:
        """A session starts at the committed ``position`` of topics ``of``; ``first``: the flow does. What was copied of
        former topics must not get into the map of these."""
        if of != self.of:
            self.chunk, self.full, self.last, self.synced, self.of = None, [], None, None, of
            self._before, self._written = None, self.version
            self.target_end, self.lost = -1, None
            self.gaps, self.strange = [], -1
        self.begin(position, first=first)

    def begin(self, position: int, *, first: bool = False) -> None:
        """Goes on from the committed ``position``."""
        self._open.clear()
        self._broken = False
        if self.chunk is None or self.chunk.end != position:
            self._close()
            self.chunk = OffsetChunk(position, first=first)

    def acknowledged(self, spans: Spans, target: int) -> None:
        """``target``: the base offset the batch got; below 0 the broker did not say."""
        if target < 0:
            self._broken = True
            return
        runs = self._open
        for source, records in spans:
            if runs:
                last = runs[-1]
                if source == last[0] + last[2] and target == last[1] + last[2]:
                    last[2] += records
                    target += records
                    continue
            runs.append([source, target, records])
            target += records

    def committed(self, position: int) -> None:
        """What was acknowledged below ``position``, the next source offset, is committed. What lies behind it may have
        been acknowledged meanwhile, where nothing waits for a commit: the next commit counts it."""
        chunk = self.chunk
        if chunk is None or self._broken or position < chunk.end:
            self.begin(position)
            return
        # The runs below the position are taken, and one of them may be divided there; the others stay open.
        runs: list[list[int]] = []
        left: list[list[int]] = []
        for source, target, records in self._open:
            below = min(records, max(0, position - source))
            if below:
                runs.append([source, target, below])
            if below < records:
                left.append([source + below, target + below, records - below])
        self._open = left
        if runs or position != chunk.end:
            self.version += 1
        for run in runs:
            if run[0] < chunk.end:  # the flow went back to what its source has instead
                self._close()
                chunk = self.chunk = OffsetChunk(run[0])
            chunk.add(CopiedRun(*run))
            chunk.end = run[0] + run[2]
        chunk.end = position
        if not runs:
            return
        source, target, records = runs[-1]
        self.last = (source + records - 1, target + records - 1)
        self.target_end = target + records
        if chunk.size >= CHUNK_BYTES or chunk.runs >= CHUNK_RUNS:
            self._close()
            self.chunk = OffsetChunk(position)

    def chunks(self) -> Iterable[OffsetChunk]:
        """What the map should have; the last one may still grow."""
        yield from self.full
        if self.chunk is not None and self.chunk.end > self.chunk.begin:
            yield self.chunk

    def moved_back(self) -> None:
        """The position was, or is about to be, set to an offset that may lie before the end of the newest chunk."""
        self.anchored, self.target_end, self.lost = False, -1, None
        self._before = self.chunk if self.chunk is not None and self.chunk.end > self.chunk.begin else None

    def skipped(self, begin: int, end: int) -> None:
        """The target's log has offsets from ``begin`` to ``end`` that this lane did not write."""
        if len(self.gaps) < MOST_GAPS:
            self.gaps.append((begin, end))

    def taken_gaps(self) -> list[tuple[int, int]]:
        """They are checked now."""
        taken, self.gaps = self.gaps, []
        return taken

    def others_wrote(self, first: int) -> None:
        """``first``: target offset of a record that the flow did not copy."""
        self.strange = first

    def lose(self) -> None:
        """The target has lost some of it: nothing that is not in the map yet is written there."""
        self.chunk, self.full, self._before, self._written = None, [], None, self.version

    @property
    def newest(self) -> OffsetChunk | None:
        """The chunk that anchors the position once the map has it."""
        chunk = self.chunk
        return chunk if chunk is not None and chunk.end > chunk.begin and chunk is not self._before else None

    def written(self, full: int, version: int, newest: OffsetChunk | None) -> None:
        """The map has ``chunks`` as they were at ``version``, when ``full`` of them were closed and ``newest`` was."""
        del self.full[:full]
        self._written = version
        if newest is not None and newest is not self._before:
            self.anchored, self._before = True, None

    def _close(self) -> None:
        if self.chunk is not None and self.chunk.end > self.chunk.begin:
            self.full.append(self.chunk)
        self.chunk = None
