"""Whether the holder of a lease lives, by the reader's own clock: clocks of two machines are never compared."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.state.mirror_control import LEASE_MS, HostLease


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """A record's value, and since when (seconds, of a clock that only goes forward) it has not changed."""

    value: bytes | None
    since: float

    def again(self, value: bytes | None, now: float) -> LeaseWatch:
        return self if value == self.value else LeaseWatch(value, now)

    def is_free(self, lease: HostLease | None, now: float) -> bool:
        """Whether another host may take the mirror: no host has it, it was given back, or the record, understood or
        not, has not changed for as long as a lease lasts."""
        if self.value is None or (lease is not None and lease.released):
            return True
        lasts = lease.lease_ms if lease is not None else LEASE_MS
        return now - self.since >= lasts / 1000
