"""Runs of offsets that a lane has copied of a partition, for the offset map.

A run enters the map only after its transaction is committed, so the map never contains aborted records. Mutable, owned
by the lane's event loop; it outlives sessions, so that a new session leaves no gap in the map.
"""

from collections.abc import Collection, Iterable

from reconciler.kafka.client.cluster import NO_ID
from reconciler.replication.offsets.codec import Ids, OffsetChunk
from reconciler.replication.offsets.map import CopiedRun
from reconciler_mirror.model.lane import TargetLoss

CHUNK_BYTES = 1024
"""Size at which a chunk of the offset map is closed: each write of an open chunk repeats all of it."""
CHUNK_RUNS = 100_000
"""Runs at which a chunk is closed: any number of equal runs takes the same few bytes, but readers expand them all."""

MOST_GAPS = 16
"""Gaps that a partition remembers between two checks."""

Spans = tuple[tuple[int, int], ...]
"""Source offsets of a batch's records: (first offset, count) of each consecutive part."""


class Copied:
    """``of``: ids of the copied topics. ``last``: the newest record's (source offset, target offset), ``synced``: the
    same in MirrorMaker 2's topic. ``version`` grows with every change. ``anchored``: the newest chunk in the map ends
    at or before the position, so a committed position below its end comes neither from a lane nor from a seek.
    ``target_end``: the target offset after the last committed record, -1 while unknown; ``lost``: the target's loss of
    committed records. ``gaps``: ranges of target offsets between or after this lane's batches that other writers or
    markers took, not yet checked; ``strange``: the first other client's record there, -1 for none."""

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
        """Whether ``chunks`` differ from the written map."""
        return self._written != self.version

    def start(self, position: int, of: Ids, *, first: bool = False) -> None:
        """A session starts at the committed ``position`` of topics ``of``; ``first``: so does the flow. Runs of former
        topics must not enter the map of these."""
        if of != self.of:
            self.chunk, self.full, self.last, self.synced, self.of = None, [], None, None, of
            self._before, self._written = None, self.version
            self.target_end, self.lost = -1, None
            self.gaps, self.strange = [], -1
        self.begin(position, first=first)

    def begin(self, position: int, *, first: bool = False) -> None:
        """Continues from the committed ``position``."""
        self._open.clear()
        self._broken = False
        if self.chunk is None or self.chunk.end != position:
            self._close()
            self.chunk = OffsetChunk(position, first=first)

    def acknowledged(self, spans: Spans, target: int) -> None:
        """``target``: the batch's base offset at the target; below 0 if the answer had none."""
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
        """Every record before ``position``, the next source offset, is committed. Where senders do not wait for a
        commit, later records may be acknowledged already: the next commit counts those."""
        chunk = self.chunk
        # After an answer without a base offset, or a step back, the runs cannot continue the chunk: a new one begins.
        if chunk is None or self._broken or position < chunk.end:
            self.begin(position)
            return
        # Takes the runs below the position, dividing one where necessary; the others stay open.
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
            if run[0] < chunk.end:  # the flow went back, to records that replace the copied ones at the source
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
        """The chunks that the map should have; the last one may still grow."""
        yield from self.full
        if self.chunk is not None and self.chunk.end > self.chunk.begin:
            yield self.chunk

    def moved_back(self) -> None:
        """The position was or will be set, perhaps to an offset before the end of the newest chunk."""
        self.anchored, self.target_end, self.lost = False, -1, None
        self._before = self.chunk if self.chunk is not None and self.chunk.end > self.chunk.begin else None

    def skipped(self, begin: int, end: int) -> None:
        """The target's log has offsets from ``begin`` to ``end`` that this lane did not write."""
        if len(self.gaps) < MOST_GAPS:
            self.gaps.append((begin, end))

    def explained(self, gaps: Collection[tuple[int, int]]) -> None:
        """``gaps`` have been checked."""
        self.gaps = [gap for gap in self.gaps if gap not in gaps]

    def others_wrote(self, first: int) -> None:
        """``first``: target offset of a record that the flow did not copy."""
        self.strange = first

    def lose(self) -> None:
        """The target has lost records of these runs: drops all chunks that are not in the map yet."""
        self.chunk, self.full, self._before, self._written = None, [], None, self.version

    @property
    def newest(self) -> OffsetChunk | None:
        """The chunk that anchors the position once it is in the map."""
        chunk = self.chunk
        return chunk if chunk is not None and chunk.end > chunk.begin and chunk is not self._before else None

    def written(self, full: int, version: int, newest: OffsetChunk | None) -> None:
        """The map has ``chunks`` as of ``version``: ``full`` closed ones, and ``newest``."""
        del self.full[:full]
        self._written = version
        if newest is not None and newest is not self._before:
            self.anchored, self._before = True, None

    def _close(self) -> None:
        if self.chunk is not None and self.chunk.end > self.chunk.begin:
            self.full.append(self.chunk)
        self.chunk = None
