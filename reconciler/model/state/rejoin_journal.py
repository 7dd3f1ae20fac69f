"""The journal of a failback with ``--diverged``, kept in Kafka beside the lock, so that another machine can continue
it."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.replication.json_codec import JsonRecord


def rejoin_key(environment: str, flow: str) -> str:
    return f"rejoin/{environment}/{flow}"


@dataclass(frozen=True, slots=True)
class RejoinTopic:
    """A topic of the old source at the time when its own records were kept."""

    name: str
    topic_id: str
    replication_factor: int | None
    ends: tuple[int, ...]
    """High watermarks by partition."""
    configs: Mapping[str, str]
    """Its overrides."""

    @property
    def partitions(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class RejoinJournal:
    """How far a failback with ``--diverged`` has come."""

    environment: str
    flow: str
    who: str
    at_ms: int
    place: str
    """Where their own records are kept, empty if discarded."""
    topics: tuple[RejoinTopic, ...]
    """Recreated or to be recreated."""
    over: bool = False
    """Both sides are the same at last."""


_RECORD = JsonRecord(RejoinJournal, "journal of a failback")
dumps, loads = _RECORD.dumps, _RECORD.loads
