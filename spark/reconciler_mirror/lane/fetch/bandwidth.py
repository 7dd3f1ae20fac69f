"""Bandwidth and round trip to each broker, and the sizes of fetches that follow from them.

From both follows how many fetch sessions share a connection, how much each asks for, and how much may be under way to
a target. It knows no connections.
"""

import math

LONG = 0.01
A_SESSION_FOR, MOST_SESSIONS, MOST_NARROW = 0.05, 4, 8
"""Fetch sessions for a broker: one more for each 50 ms of round trip, since one request is under way in each; more
still where the line carries little in a round trip."""
ANSWER_WITHIN, LEAST_FETCH, FIRST_FETCH = 1.0, 256 << 10, 1 << 20
NARROW = 1 << 20
"""Bytes in a round trip, below which a line is narrow."""
LEAST_FLIGHT, FIRST_FLIGHT, QUEUED_S = 4 << 20, 8 << 20, 2.0


class BrokerLink:
    """To one source broker. ``round_trip`` in seconds, 0 unknown; ``near`` and ``far``: bytes that a fetch asks for
    where answers are quick, and at most where they take long. The less often an answer comes, the more is in it.

    One session has one fetch under way, so a connection would be silent for a round trip after each answer. On a long
    line those with a backlog are spread over several sessions, whose requests wait at the broker one behind the other.
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
        """For partitions with a backlog. Nearby one is enough."""
        if not self.long:
            return 1
        self.pipelined = True
        return MOST_NARROW if self.narrow else min(MOST_SESSIONS, 1 + math.ceil(self.round_trip / A_SESSION_FOR))

    def fetch_bytes(self) -> int:
        """An answer should take a second at most, so a long line begins with little; nearby this limits nothing."""
        if not self._fetch:
            return min(FIRST_FETCH, self._most) if self.long else self._most
        return min(self._fetch, self._most)

    def answered(self, size: int, seconds: float) -> None:
        """An answer of ``size`` bytes came in within ``seconds``, its first byte to its last."""
        fetch = self.fetch_bytes()
        if seconds > ANSWER_WITHIN and size > LEAST_FETCH:
            self._fetch = max(LEAST_FETCH, min(fetch, int(size * ANSWER_WITHIN / seconds)))
        elif size > fetch // 2 and seconds < ANSWER_WITHIN / 2:
            self._fetch = min(self._most, max(2 * fetch, int(size * ANSWER_WITHIN / 2 / max(seconds, 1e-3))))
        if size > LEAST_FETCH and self.long:
            # What is on its way at once: if little, socket buffers limit it rather than the line, and Kafka's own
            # are 100 KiB by default. Then each session gets a connection, and with it buffers, of its own.
            self.narrow = size / max(seconds, 1e-6) * self.round_trip < NARROW


class Flight:
    """Bytes that may be under way to one target broker: so few that an answer takes a second or two more than the round
    trip. More would fill a slow line for longer than anybody waits, and hold up the end of each transaction."""

    def __init__(self, most: int) -> None:
        self.limit = min(FIRST_FLIGHT, most)
        self._most = most
        self._cut_at = 0.0

    def acknowledged(self, size: int, sent_at: float, now: float, round_trip: float) -> None:
        """A request of ``size`` bytes was answered. What was sent before the last cut does not count."""
        took = now - sent_at
        if took < round_trip + QUEUED_S / 2:
            self.limit = min(self._most, self.limit + size)
        elif took > round_trip + QUEUED_S and sent_at > self._cut_at:
            self._cut_at = now
            self.limit = max(LEAST_FLIGHT, int(self.limit * (round_trip + QUEUED_S / 2) / took))
