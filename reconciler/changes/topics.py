"""Changes of topics, their configs and their replicas."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.changes.terms import Reason, Role
from reconciler.replicas import Pace, Placement
from reconciler.topology import TopicRef


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key. ``after`` None removes the override. ``origin`` says where the wished value comes from.

    ``goal``: what is wished in the end, where ``after`` is only a step on the way.
    """

    key: str
    before: str | None
    before_source: str
    after: str | None
    origin: str
    goal: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTopic:
    ref: TopicRef
    partitions: int
    replication_factor: int | None
    configs: tuple[ConfigChange, ...]
    role: Role
    reason: Reason
    depth: int = 0


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """``depth`` counts mirror hops from the declared topic; deeper is done first."""

    ref: TopicRef
    topic_id: str
    before: int
    after: int
    role: Role
    reason: Reason
    depth: int = 0


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    ref: TopicRef
    topic_id: str
    configs: tuple[ConfigChange, ...]
    role: Role
    reason: Reason
    depth: int = 0


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """From a tombstone or by prune, and only the topic with this id. ``partitions`` as seen.

    ``expires``: the tombstone's last day; empty for a prune.
    """

    ref: TopicRef
    topic_id: str
    partitions: int
    expires: str
    reason: Reason
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ReassignReplicas:
    """Another replication factor. ``before`` None: the partitions differ. ``placements``: those that change.

    ``partitions``: how many the topic will have; those that are not there yet are placed once they are. ``in_flight``:
    how many an earlier run began. ``bytes_to_copy``: missing of all new replicas; ``seconds``: for it, at the throttle.
    """

    ref: TopicRef
    topic_id: str
    before: int | None
    after: int
    partitions: int
    placements: tuple[Placement, ...]
    in_flight: int
    bytes_to_copy: int
    seconds: int
    pace: Pace
    role: Role
    reason: Reason
    depth: int = 0


@dataclass(frozen=True, slots=True)
class FinishReassignment:
    """What an earlier run of ours left on a cluster: waits for ``in_flight`` partitions, clears the throttles it set on
    ``brokers`` and ``topics``, and nothing else."""

    cluster: str
    in_flight: int
    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    reason: Reason
