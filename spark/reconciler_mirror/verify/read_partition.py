"""Reads a partition between two offsets as a committed reader, without a group or a stored position.

librdkafka reads the records, so that a fault of the copy's own code cannot hide itself. Before that our own client
checks the batches: librdkafka decompresses each as a whole, so one that would exhaust the memory is refused. If
librdkafka cannot log in, our own client reads the records, too, and the report says so.
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
    """Keeps clients for further partitions, because a new client costs more time than reading a small partition.

    Owned by one thread. ``close`` closes all; a client that failed is not reused. Raises UnreadableError.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[Endpoint, str, bool, SecondClient]] = []
        self._own: list[tuple[Endpoint, OwnClient]] = []
        self.one_client: dict[str, str] = {}
        """Clusters that only our own client reads, with librdkafka's reason."""

    def own(self, endpoint: Endpoint) -> OwnClient:
        for place, client in self._own:
            if place == endpoint:
                return client
        self._own.append((endpoint, OwnClient(endpoint)))
        return self._own[-1][1]

    @contextmanager
    def second(self, span: OffsetSpan, *, sample: bool = False) -> Iterator[SecondClient | None]:
        """A client for one stream at a time; two streams of one side get two. None: librdkafka cannot log in.
        ``sample``: a client for few records, which fetches little ahead."""
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
        # The state of a consumer after a failure is unknown, so only a sound one is kept for reuse.
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
    """Every committed record of ``span`` in order. ``sample``: only a few records. Without ``timestamps`` each is 0.
    ``to_end``: continues to the partition's end at that time.

    Raises UnreadableError, also if the log now begins after ``span.start``.
    """
    if span.start >= span.end and not to_end:
        return
    own = readers.own(span.endpoint)
    with readers.second(span, sample=sample) as second:
        if second is not None:
            own.require_openable(span, to_end=to_end)
        yield from (second or own).records(span, timestamps=timestamps, to_end=to_end)
