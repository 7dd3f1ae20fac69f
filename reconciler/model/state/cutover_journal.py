"""The journal of a cut-over, kept in Kafka beside the lock, so that another machine can continue it. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from reconciler.model.reports.failover import Key
from reconciler.replication.json_codec import SPARSE, Codec, JsonRecord


def cutovers_key(environment: str) -> str:
    """Prefix of the keys of all journals."""
    return f"cutover/{environment}/"


def cutover_key(environment: str, flow: str, plan: str) -> str:
    """``plan``: digest of its file. Each wave of a flow has its own plan, and each can be rolled back."""
    return f"{cutovers_key(environment)}{flow}/{plan[:16]}"


class CutoverState(StrEnum):
    """UNDER_WAY: begun, and neither done nor rolled back."""

    UNDER_WAY = "under-way"
    DONE = "done"
    TAKEN_BACK = "taken-back"


@dataclass(frozen=True, slots=True)
class CutoverJournal:
    """How far a cut-over has come: written as each step begins, read by the next run. Offsets are by
    ``topic/partition``."""

    environment: str
    flow: str
    plan: str
    """Digest of the plan file."""
    origin: str
    topics: tuple[str, ...]
    who: str
    at_ms: int
    state: CutoverState = CutoverState.UNDER_WAY
    done: tuple[str, ...] = ()
    """Completed steps."""
    begun: str = ""
    """The step that began last."""
    switched: bool = False
    """The step *switch* has begun, so clients may write at the destination."""
    fenced_ms: int = 0
    """Time of the fence by our clock; 0 before."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """Ends of the origin's partitions, once the fence was verified."""
    there: Mapping[str, int] = field(default_factory=dict)
    """Ends at the destination, once copying had ended."""
    started: str = ""
    """The flow that this cut-over started, or empty."""
    soaked_ms: int = field(default=0, metadata=SPARSE)
    """How long all gates have held without a break."""
    topics_expression: str = field(default="", metadata=SPARSE)
    groups_expression: str = field(default="", metadata=SPARSE)
    """As in its plan: another plan with the same choice may continue it."""
    before: Mapping[str, int] = field(default_factory=dict, metadata=SPARSE)
    """Ends at the destination before the fence."""

    def begin(self, step: str) -> CutoverJournal:
        return replace(self, begun=step)

    def end(self, step: str) -> CutoverJournal:
        return replace(self, done=tuple(dict.fromkeys((*self.done, step))))


def place(key: Key) -> str:
    """``orders/3``: names of topics have no slash."""
    return f"{key[0]}/{key[1]}"


def key_of(place: str) -> Key:
    topic, _, partition = place.partition("/")
    return topic, int(partition)


_RECORD = JsonRecord(CutoverJournal, "journal of a cut-over", codec=Codec(lenient=True))
dumps, loads = _RECORD.dumps, _RECORD.loads
