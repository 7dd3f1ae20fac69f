"""Remembers how transactions of this process ended, for markers that a broker forgot."""

from __future__ import annotations


class Endings:
    """How the transactions of one transactional.id ended, as far as this process knows.

    All that began here was committed, but for what a fence or a closing session aborted.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._known: dict[tuple[int, int], bool | None] = {}

    def began(self, producer_id: int, epoch: int) -> None:
        self._first.setdefault(producer_id, epoch)

    def ended(self, producer_id: int, epoch: int, *, committed: bool, version_2: bool) -> None:
        """In the classic protocol an epoch has many transactions: one that was aborted makes them all uncertain."""
        uncertain = not committed and not version_2 and epoch >= self._first.get(producer_id, epoch + 1)
        self._known[producer_id, epoch] = None if uncertain else committed

    def of(self, producer_id: int, epoch: int) -> bool | None:
        """True: committed. None: not known."""
        if (producer_id, epoch) in self._known:
            return self._known[producer_id, epoch]
        first = self._first.get(producer_id)
        return True if first is not None and epoch >= first else None


class Aborted(Endings):
    """Of a transactional.id whose transactions are all aborted."""

    def of(self, producer_id: int, epoch: int) -> bool | None:  # noqa: ARG002 - of any
        return False
