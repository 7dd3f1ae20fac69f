"""What can go wrong between a client and a broker, by what the caller has to do about it."""

from __future__ import annotations

from wire.error_names import FIRST, NAMES

# Leader or coordinator moved, or not there yet: refresh metadata and try again.
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 27, 51, 56, 72, 74, 75, 76, 78, 88, 89, 100, 103})
MOVED = frozenset({3, 5, 6, 9, 56, 72, 74, 75, 76, 78, 100, 103})
COORDINATOR_MOVED = frozenset({14, 15, 16})
CONCURRENT_TRANSACTIONS = 51
FENCED = frozenset({47, 90})
DENIED = frozenset({29, 30, 31, 53, 65})
OUT_OF_RANGE = 1
CORRUPT = 2
UNKNOWN_TOPIC = 3
TRANSACTION_TIMEOUT_REFUSED = 50
UNSTABLE = 88
TOO_LARGE = frozenset({10, 18})
DUPLICATE_SEQUENCE = 46


def name_of(code: int) -> str:
    """Kafka's name of an error code, with the code: ``NOT_LEADER_OR_FOLLOWER (6)``; of a later one only the code."""
    at = code - FIRST
    return f"{NAMES[at]} ({code})" if 0 <= at < len(NAMES) else f"error code {code}"


class WireError(Exception):
    """Base of all errors of this package."""


class ConnectionLostError(WireError):
    """The broker cannot be reached, closed the connection, or did not answer in time. Try again."""


class MalformedResponseError(WireError):
    """A response that breaks the protocol: nothing in it may be used."""


class SettingError(WireError):
    """A client setting that is unknown where security depends on it, missing, or contradicts another."""


class AuthenticationFailedError(WireError):
    """TLS or SASL refused us, or we refused the broker. Never carries a secret."""


class UnsupportedBrokerError(WireError):
    """The broker lacks a request version that the mirror needs."""


class BrokerError(WireError):
    """A broker answered with an error code."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"{what}: {name_of(code)}")
        self.code = code

    @property
    def retriable(self) -> bool:
        return self.code in RETRIABLE


class FencedError(BrokerError):
    """A newer holder of the transactional.id fenced us: stop, and do not fight back."""


def check(code: int, what: str) -> None:
    """Raises FencedError or BrokerError for a code that is not 0."""
    if code in FENCED:
        raise FencedError(code, what)
    if code:
        raise BrokerError(code, what)
