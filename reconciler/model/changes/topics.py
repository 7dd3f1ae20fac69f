"""Changes of topics, their configs, and their replicas."""

from dataclasses import dataclass, field

from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, ChangeOfTopic, KindName, Reason, Role, Stage
from reconciler.model.environment.topology import TopicRef
from reconciler.model.replicas import Placement, ReassignmentPace
from reconciler.replication.json_codec import SPARSE
from reconciler.text import counted


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One key of a topic."""

    key: str
    before: str | None
    before_source: str
    """Source of the present value (``Source``); empty for a new topic."""
    after: str | None
    """New value; None removes the override."""
    origin: str
    """Source of the desired value, in words."""
    goal: str | None = None
    """The final desired value, if ``after`` is only a step towards it."""
    undeclared: bool = field(default=False, metadata=SPARSE)
    """Whether the value comes from the source topic, and no file declares it."""

    @property
    def source(self) -> str:
        """``east/orders`` in ``source east/orders, a step to 1d``; empty for a value without a source topic."""
        word, _, ref = self.origin.partition(" ")
        return ref.partition(",")[0] if word == "source" else ""


class _TopicChange(ChangeOfTopic):
    __slots__ = ()
    kind = KindName.TOPICS
    depth: int

    @property
    def batch(self) -> str:
        return f"{type(self).__name__} {max(self.depth, 1)}"


class _DesiredTopicChange(_TopicChange):
    """A change of a topic that stays, unlike a deletion."""

    __slots__ = ()
    role: Role

    @property
    def stage(self) -> Stage:
        return Stage.SOURCE_TOPICS if self.role is Role.DECLARED and self.depth == 0 else Stage.TARGET_TOPICS


@dataclass(frozen=True, slots=True)
class CreateTopic(_DesiredTopicChange):
    """A topic that does not exist."""

    word = "create_topic"
    verb = "create"
    action = Action.CREATE

    ref: TopicRef
    partitions: int
    replication_factor: int | None
    """None: as the brokers have it by default."""
    configs: tuple[ConfigChange, ...]
    role: Role
    reason: Reason
    depth: int = 0
    """Mirror hops from the declared topic: the last copy is made first, so that records find a place."""

    @property
    def shape(self) -> str:
        partitions = counted(self.partitions, "partition") if self.partitions > 0 else "the brokers' partition count"
        if self.replication_factor is None:
            return f"{partitions}, the brokers' replication factor"
        return f"{partitions}, replication factor {self.replication_factor}"


@dataclass(frozen=True, slots=True)
class AddPartitions(_DesiredTopicChange):
    """A higher number of partitions: Kafka cannot take partitions away. Records of a key may change their partition."""

    word = "add_partitions"
    verb = "partitions"
    action = Action.UPDATE

    ref: TopicRef
    topic_id: str
    """Of the compared topic: a topic that was recreated since is not changed."""
    before: int
    """Live number at the time of the plan."""
    after: int
    role: Role
    reason: Reason
    depth: int = 0
    """As in ``CreateTopic``: deeper ones come first."""

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = {self.after}",)


@dataclass(frozen=True, slots=True)
class AlterConfigs(_DesiredTopicChange):
    """Sets or removes overrides of one topic."""

    word = "alter_configs"
    verb = "configs"
    action = Action.UPDATE

    ref: TopicRef
    topic_id: str
    """Id of the compared topic: a topic that was recreated since is not changed."""
    configs: tuple[ConfigChange, ...]
    """Only the changed overrides: Kafka's IncrementalAlterConfigs leaves the others alone."""
    role: Role
    reason: Reason
    depth: int = 0
    """As in ``CreateTopic``."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(f"{self.id} {config.key} = {config.after}" for config in self.configs)


@dataclass(frozen=True, slots=True)
class DeleteTopic(_TopicChange):
    """Deletes a topic by a tombstone or by prune, and only the topic with this id."""

    word = "delete_topic"
    verb = "delete"
    action = Action.DELETE
    stage = Stage.REMOVALS

    ref: TopicRef
    topic_id: str
    partitions: int
    """As seen."""
    expires: str
    """The tombstone's last day; empty for a prune."""
    reason: Reason
    depth: int = 0
    """A copy is deleted after its source: while that exists, the flow would make it again."""


@dataclass(frozen=True, slots=True)
class ReassignReplicas(ChangeOfTopic):
    """Another replication factor: Kafka copies whole replicas to other brokers, while clients continue."""

    kind = KindName.REPLICAS
    stage = Stage.REPLICAS
    word = "reassign_replicas"
    verb = "replicas"
    batch = "replicas"
    action = Action.UPDATE

    ref: TopicRef
    topic_id: str
    """As in ``AlterConfigs``."""
    before: int | None
    """None: the partitions differ."""
    after: int
    """The desired factor."""
    partitions: int
    """Planned partition count; new partitions are placed once they exist."""
    placements: tuple[Placement, ...]
    """Changed placements."""
    in_flight: int
    """Number of partitions that an earlier run began."""
    bytes_to_copy: int
    """Missing of all new replicas; ``seconds``: for it, at the throttle."""
    seconds: int
    pace: ReassignmentPace
    """Throttle and number of partitions at a time."""
    role: Role
    reason: Reason
    depth: int = 0
    """As in ``CreateTopic``."""

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = {self.after}",)


@dataclass(frozen=True, slots=True)
class FinishReassignment(BaseChange):
    """Finishes an earlier run's reassignment: waits for ``in_flight`` partitions, and clears only the throttles that it
    set on ``brokers`` and ``topics``."""

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
