"""Changes of the replicas of topics."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, ChangeOfTopic, KindName, Reason, Role, Stage
from reconciler.model.environment.topology import TopicRef
from reconciler.model.replicas import Placement, ReassignmentPace


@dataclass(frozen=True, slots=True)
class ReassignReplicas(ChangeOfTopic):
    """Another replication factor. ``before`` None: the partitions differ. ``placements``: those that change.

    ``partitions``: how many the topic will have; those that are not there yet are placed once they are. ``in_flight``:
    how many an earlier run began. ``bytes_to_copy``: missing of all new replicas; ``seconds``: for it, at the throttle.
    """

    kind = KindName.REPLICAS
    stage = Stage.REPLICAS
    word = "reassign_replicas"
    verb = "replicas"
    batch = "replicas"
    action = Action.UPDATE

    ref: TopicRef
    topic_id: str
    before: int | None
    after: int
    partitions: int
    placements: tuple[Placement, ...]
    in_flight: int
    bytes_to_copy: int
    seconds: int
    pace: ReassignmentPace
    role: Role
    reason: Reason
    depth: int = 0

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = {self.after}",)


@dataclass(frozen=True, slots=True)
class FinishReassignment(BaseChange):
    """What an earlier run of ours left on a cluster: waits for ``in_flight`` partitions, clears the throttles it set on
    ``brokers`` and ``topics``, and nothing else."""

    kind = KindName.REPLICAS
    stage = Stage.REPLICAS
    word = "finish_reassignment"
    batch = "replicas"
    action = Action.STOP

    cluster: str
    in_flight: int
    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    reason: Reason

    @property
    def id(self) -> str:
        return f"finish-reassignment:{self.cluster}"

    @property
    def subject(self) -> Subject:
        return Subject(About.REASSIGNMENT, self.cluster)
