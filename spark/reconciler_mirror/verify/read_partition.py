"""Reads a partition between two offsets as a committed reader: no group, no stored position.

Records are read by librdkafka, so that a fault of the copy's own code cannot hide itself; before that, our own code
looks at the batches: librdkafka opens each whole, and one that would take the memory is refused. Where librdkafka
cannot log in, our own code reads the records, too, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reconciler.replication.handover import Endpoint
from reconciler_mirror.verify.model import OffsetSpan, VerifiedRecord
from reconciler_mirror.verify.own_client import OwnClient
from reconciler_mirror.verify.unreadable import CannotLogInError

if TYPE_CHECKING:
    from reconciler_mirror.verify.second_client import SecondClient


class Readers:
    """Clients that serve one partition after the other: to make one takes longer than to read a small partition.

    Owned by one thread. ``close`` closes all; one that failed is not used again. Raises UnreadableError.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[Endpoint, str, bool, SecondClient]] = []
        self._own: list[tuple[Endpoint, OwnClient]] = []
        self.one_client: dict[str, str] = {}
        """Clusters that are read by our own client alone, and why, in librdkafka's words."""

    def own(self, endpoint: Endpoint) -> OwnClient:
        for place, client in self._own:
            if place == endpoint:
                return client
        self._own.append((endpoint, OwnClient(endpoint)))
        return self._own[-1][1]

    @contextmanager
    def second(self, span: OffsetSpan, *, sample: bool = False) -> Iterator[SecondClient | None]:
        """No other stream uses it meanwhile; two streams of one side get two. None: librdkafka cannot log in.
        ``sample``: of a few records, so it fetches few ahead."""
        if span.endpoint.cluster in self.one_client:
            yield None
            return
        same = (idle for idle in self._idle if idle[:3] == (span.endpoint, span.isolation, sample))
        if (idle := next(same, None)) is not None:
            self._idle.remove(idle)
            client = idle[3]
        else:
            try:
                from reconciler_mirror.verify.second_client import SecondClient  # librdkafka may not be installed

                client = SecondClient(span, sample=sample)
            except (ImportError, CannotLogInError) as error:
                self.one_client[span.endpoint.cluster] = str(error)
                yield None
                return
        sound = True
        try:
            yield client
        except Exception:
            sound = False
            raise
        finally:
            if sound:
                client.rest()
                self._idle.append((span.endpoint, span.isolation, sample, client))
            else:
                client.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[3].close()
        while self._own:
            self._own.pop()[1].close()


def records(
    span: OffsetSpan, readers: Readers, *, timestamps: bool = True, to_end: bool = False, sample: bool = False
) -> Iterator[VerifiedRecord]:
    """Every committed record of ``span`` in order. ``sample``: it is a few. Without ``timestamps`` all of them are 0.
    ``to_end``: on to the end that the partition has when it is reached.

    Raises UnreadableError, also when the log begins after ``span.start`` by now.
    """
    if span.start >= span.end and not to_end:
        return
    own = readers.own(span.endpoint)
    with readers.second(span, sample=sample) as second:
        if second is not None:
            own.require_openable(span, to_end=to_end)
        yield from (second or own).records(span, timestamps=timestamps, to_end=to_end)


def log_start(span: OffsetSpan, readers: Readers) -> int:
    """Where the log begins now. Raises UnreadableError."""
    return readers.own(span.endpoint).low(span)
