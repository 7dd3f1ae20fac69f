"""Losses of a partition whose flow goes on after a condition: counted exactly, once committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Loss:
    """``code``: the condition. Offsets of the source that are not at the target, or not what they are at the source
    any more; ``records`` and ``batches`` as far as they are known one by one. ``text``: the newest, in words."""

    code: str
    offsets: int = 0
    records: int = 0
    batches: int = 0
    text: str = ""

    def plus(self, later: Loss) -> Loss:
        return replace(
            self,
            offsets=self.offsets + later.offsets,
            records=self.records + later.records,
            batches=self.batches + later.batches,
            text=later.text or self.text,
        )


Losses = tuple[Loss, ...]
"""At most one a code, in the order of the codes."""


def added(losses: Iterable[Loss], later: Iterable[Loss]) -> Losses:
    all_losses = {loss.code: loss for loss in losses}
    for loss in later:
        known = all_losses.get(loss.code)
        all_losses[loss.code] = loss if known is None else known.plus(loss)
    return tuple(all_losses[code] for code in sorted(all_losses))


def since(now: Losses, before: Losses) -> Losses:
    """What came after ``before``, an earlier count of the same. A count that went back adds nothing."""
    known = {loss.code: loss for loss in before}
    losses = []
    for loss in now:
        old = known.get(loss.code, Loss(loss.code))
        more = Loss(
            loss.code,
            max(0, loss.offsets - old.offsets),
            max(0, loss.records - old.records),
            max(0, loss.batches - old.batches),
            loss.text,
        )
        if more.offsets or more.records or more.batches:
            losses.append(more)
    return tuple(losses)


class LossCounter:
    """Of one partition. A loss counts when the position behind it is committed; a fall back before it forgets it."""

    def __init__(self) -> None:
        self.counted: Losses = ()
        self._open: deque[tuple[int, Loss]] = deque()

    def add(self, position: int, loss: Loss) -> None:
        self._open.append((position, loss))

    def committed(self, position: int) -> None:
        while self._open and self._open[0][0] <= position:
            self.counted = added(self.counted, [self._open.popleft()[1]])

    def forget_beyond(self, position: int) -> None:
        while self._open and self._open[-1][0] > position:
            self._open.pop()
