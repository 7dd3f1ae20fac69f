"""Bandwidth and round-trip time of each broker, and the limits that follow: fetch sessions per connection, bytes per
fetch, and bytes in flight to a target. It knows no connections.
"""

import math

LONG = 0.01
A_SESSION_FOR, MOST_SESSIONS, MOST_NARROW = 0.05, 4, 8
"""Fetch sessions for a broker: each has one request in flight, so every 50 ms of round-trip time add one; a connection
that carries little in a round trip gets the most."""
ANSWER_WITHIN, LEAST_FETCH, FIRST_FETCH = 1.0, 256 << 10, 1 << 20
NARROW = 1 << 20
"""Bytes in a round trip, below which a connection is narrow."""
LEAST_FLIGHT, FIRST_FLIGHT, QUEUED_S = 4 << 20, 8 << 20, 2.0


class BrokerLink:
    """The link to one source broker. ``round_trip`` in seconds, 0 unknown; ``near``: bytes per fetch from a nearby
    broker, ``far``: the most from a distant one, because rarer answers have to bring more.

    A session has one fetch in flight, so its connection would idle for a round trip after each answer. With a distant
    broker, partitions with a backlog are spread over several sessions, and their requests queue at the broker.
    """

    def __init__(self, near: int, far: int) -> None:
        self.round_trip = 0.0
        self.pipelined = False
        self.narrow = False
        self._near = near
        self._far = far
        self._fetch = 0

    @property
    def long(self) -> bool:
        return self.round_trip >= LONG

    @property
    def _most(self) -> int:
        return self._far if self.long else self._near

    def sessions(self) -> int:
        """Sessions for partitions with a backlog; a nearby broker needs one."""
        if not self.long:
            return 1
        self.pipelined = True
        return MOST_NARROW if self.narrow else min(MOST_SESSIONS, 1 + math.ceil(self.round_trip / A_SESSION_FOR))

    def fetch_bytes(self) -> int:
        """An answer should take a second at most, so a distant broker begins with few; a nearby one is not limited."""
        if not self._fetch:
            return min(FIRST_FETCH, self._most) if self.long else self._most
        return min(self._fetch, self._most)

    def answered(self, size: int, seconds: float) -> None:
        """An answer of ``size`` bytes arrived within ``seconds`` from its first byte to its last."""
        fetch = self.fetch_bytes()
        if seconds > ANSWER_WITHIN and size > LEAST_FETCH:
            self._fetch = max(LEAST_FETCH, min(fetch, int(size * ANSWER_WITHIN / seconds)))
        elif size > fetch // 2 and seconds < ANSWER_WITHIN / 2:
            self._fetch = min(self._most, max(2 * fetch, int(size * ANSWER_WITHIN / 2 / max(seconds, 1e-3))))
        if size > LEAST_FETCH and self.long:
            # Few bytes in flight mean that socket buffers limit the connection, not the network: Kafka's are 100 KiB
            # by default. A connection for each session multiplies the buffers.
            self.narrow = size / max(seconds, 1e-6) * self.round_trip < NARROW


class Flight:
    """Limits bytes in flight to one target broker, so that an answer takes a second or two longer than the round trip.
    More bytes would only queue on a slow network, and delay the end of each transaction."""

    def __init__(self, most: int) -> None:
        self.limit = min(FIRST_FLIGHT, most)
        self._most = most
        self._cut_at = 0.0

    def acknowledged(self, size: int, sent_at: float, now: float, round_trip: float) -> None:
        """A request of ``size`` bytes was answered. Requests from before the last cut do not cause another one."""
        took = now - sent_at
        if took < round_trip + QUEUED_S / 2:
            self.limit = min(self._most, self.limit + size)
        elif took > round_trip + QUEUED_S and sent_at > self._cut_at:
            self._cut_at = now
            self.limit = max(LEAST_FLIGHT, int(self.limit * (round_trip + QUEUED_S / 2) / took))
