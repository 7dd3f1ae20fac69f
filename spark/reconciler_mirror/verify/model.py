"""What is compared: one partition of a flow on both sides, with bounds that hold while the mirror runs.

Everything here is frozen and pickles, because it travels from the driver to Spark tasks and back.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror.decoded_work import DecodedWorker
from mirror.lanes import Endpoint

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True, slots=True)
class Window:
    """Record timestamps in ms: ``from_ms`` up to but not with ``to_ms``. None: open."""

    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets ``start`` up to but not with ``end`` of one partition, as a reader of ``isolation`` sees them.

    ``cut``: older records may have left this side (its log does not start at 0), or never came to it.
    """

    endpoint: Endpoint
    topic: str
    partition: int
    isolation: str
    start: int
    end: int
    cut: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition} at {self.endpoint.cluster}"


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """``index`` identifies it in all frames. Every committed source record below ``position`` must be in ``target``;
    everything in ``target`` must come from ``source`` (docs/decisions/0020-how-verify-bounds-both-sides.md).
    ``until``: source offset up to which records were asked for; those beyond the position are lag.
    ``worker``: the flow's record work; the source is then what passes it, the target what came by this flow."""

    index: int
    flow: str
    source: Span
    target: Span
    position: int
    until: int
    window: Window = Window()
    compacted: bool = False
    timestamps: bool = True
    worker: DecodedWorker | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A partition, or a whole flow where ``topic`` is empty, of which nothing can be said."""

    flow: str
    topic: str
    target_topic: str
    partition: int
    reason: str
    todo: str
