"""Common properties of changes: kind, sign, risk, stage, and machine-readable reasons."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from reconciler.model.changes.subject import Subject, of_topic
from reconciler.model.environment.topology import TopicRef


class Why(StrEnum):
    """The value is the code in plans and other JSON documents: stable, and never taken away, since saved plans hold it.
    The last one is of changes that are compared without their reason."""

    # Why topics change.
    DECLARED = "declared"
    DECLARED_REMOTE = "declared-remote"
    FLOW_MATCHES = "flow-matches"
    MIRROR_NEEDS = "mirror-needs"
    AUDIT = "audit"
    CONFIG_DIFFERS = "config-differs"
    MORE_PARTITIONS_WISHED = "more-partitions-wished"
    SOURCE_HAS_MORE_PARTITIONS = "source-has-more-partitions"
    SOURCE_GETS_MORE_PARTITIONS = "source-gets-more-partitions"
    TOMBSTONE = "tombstone"
    PRUNE = "prune"
    # Why replicas change.
    REPLICATION_FACTOR_DIFFERS = "replication-factor-differs"
    REASSIGNMENT_UNFINISHED = "reassignment-unfinished"
    # Why access rules change.
    FLOW_DERIVED = "flow-derived"
    DECLARED_ABSENT = "declared-absent"
    DECLARED_NO_LONGER = "declared-no-longer"
    SOURCE_RULE_GONE = "source-rule-gone"
    REMOVED_OUTSIDE = "removed-outside"
    NOT_PROBED = "not-probed"
    PROBE = "probe"
    UNDO = "undo"
    # Why users change, besides.
    AS_FOUND = "as-found"
    TAKE_OVER = "take-over"
    UNFINISHED = "unfinished"
    VERSION_RAISED = "version-raised"
    MECHANISM_MISSING = "mechanism-missing"
    ITERATIONS = "iterations"
    # Why mirror jobs change.
    DEFINITION_CHANGED = "definition-changed"
    NOT_RUNNING = "not-running"
    FAILED = "failed"
    STALE = "stale"
    STARTING = "starting"
    NOT_DECLARED = "not-declared"
    # What is refused of topics and flows.
    NAME_TOO_LONG = "name-too-long"
    NAME_COLLISION = "name-collision"
    PARTITIONS_NOT_DECLARED = "partitions-not-declared"
    FEWER_THAN_SOURCE = "fewer-than-source"
    PARTITIONS_SHRINK = "partitions-shrink"
    MIN_INSYNC_ABOVE_FACTOR = "min-insync-above-factor"
    RETENTION_WITHOUT_START = "retention-without-start"
    UNKNOWN_CONFIG = "unknown-config"
    NOT_OFFERED_BY_SERVICE = "not-offered-by-service"
    UNDECLARED_LOWER_LIMIT = "undeclared-lower-limit"
    TOMBSTONE_OTHER_ID = "tombstone-other-id"
    TOMBSTONE_PROTECTED = "tombstone-protected"
    TOMBSTONE_EXPIRED = "tombstone-expired"
    TOMBSTONE_STILL_WISHED = "tombstone-still-wished"
    MIRROR_LOOP = "mirror-loop"
    REMOTE_NAME_COLLISION = "remote-name-collision"
    BROKER_REFUSES = "broker-refuses"
    SAME_OFFSETS_PARTITIONS = "same-offsets-partitions"
    SAME_OFFSETS_NOT_NEW = "same-offsets-not-new"
    SAME_OFFSETS_CHAIN = "same-offsets-chain"
    SAME_OFFSETS_TARGET_TOO_OLD = "same-offsets-target-too-old"
    SAME_OFFSETS_FILLERS = "same-offsets-fillers"
    FLOW_STATE_LEFT = "flow-state-left"
    TARGET_HAS_NO_TRANSACTIONS = "target-has-no-transactions"
    BROKERS_LACK_REQUESTS = "brokers-lack-requests"
    FLOW_NOT_OURS = "flow-not-ours"
    REMOTE_TOPIC_NOT_EMPTY = "remote-topic-not-empty"
    REMOTE_TOPIC_NOT_OURS = "remote-topic-not-ours"
    HEARTBEATS_NOT_OURS = "heartbeats-not-ours"
    # What is refused of replicas.
    REPLICATION_FACTOR_ABOVE_BROKERS = "replication-factor-above-brokers"
    BROKER_AWAY = "broker-away"
    RACKS_UNCLEAR = "racks-unclear"
    REASSIGNMENT_BY_OTHERS = "reassignment-by-others"
    NO_LEADER = "no-leader"
    REPLICA_OFFLINE = "replica-offline"
    UNDER_REPLICATED = "under-replicated"
    FACTOR_BELOW_MIN_INSYNC = "factor-below-min-insync"
    # What guards refuse.
    PRUNE_ABOVE_LIMIT = "prune-above-limit"
    PRUNE_BLIND = "prune-blind"
    ACCESS_ABOVE_LIMIT = "access-above-limit"
    SHRUNKEN_WISH = "shrunken-wish"
    FIRST_CONTACT = "first-contact"
    OTHER_REPOSITORY = "other-repository"
    WRONG_CLUSTER_ID = "wrong-cluster-id"
    SAME_CLUSTER_TWICE = "same-cluster-twice"
    # What is refused of users, and of ourselves.
    LOCKS_ITSELF_OUT = "locks-itself-out"
    OWN_PASSWORD = "own-password"  # noqa: S105 - the name of a rule
    VERSION_LOWERED = "version-lowered"
    USER_NOT_OURS = "user-not-ours"
    USER_MISSING = "user-missing"
    NEEDS_A_PASSWORD = "needs-a-password"  # noqa: S105 - the name of a rule
    NOTHING = ""


class KindName(StrEnum):
    """Name of a kind of resource. The kind's record is in ``engine.kinds``."""

    TOPICS = "topics"
    REPLICAS = "replicas"
    ACLS = "acls"
    QUOTAS = "quotas"
    USERS = "users"
    MIRRORS = "mirrors"


class Action(StrEnum):
    """The value is the sign shown in plans."""

    CREATE = "+"
    UPDATE = "~"
    RESTART = "!"
    STOP = "-"
    DELETE = "-"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Stage(StrEnum):
    """The order over all clusters. Target topics are created before anything flows; removals come last.

    Denials precede the creation of their topic, grants follow it.
    """

    DENIALS = "denials"
    TARGET_TOPICS = "target topics"
    USERS = "users"
    ACCESS = "access"
    QUOTAS = "quotas"
    SOURCE_TOPICS = "source topics"
    MIRROR = "mirror"
    REPLICAS = "replicas"
    REMOVALS = "removals"


class Role(StrEnum):
    """Why a topic is desired: declared in git, the remote topic of a flow, or needed by the mirror job."""

    DECLARED = "declared"
    REMOTE = "remote"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable and for machines; ``text`` is for people."""

    code: Why
    text: str


class BaseChange:
    """Common properties of changes of every kind. Each class of ``Change`` also has ``cluster`` (empty for a change of
    no single cluster), ``subject`` and ``stage``.

    ``word``: in the schemas. ``verb``: prefix of its id.
    """

    __slots__ = ()
    kind: ClassVar[KindName]
    word: ClassVar[str]
    verb: ClassVar[str]

    @property
    def id(self) -> str:
        """Verb and subject; stable across plans."""
        raise NotImplementedError

    @property
    def batch(self) -> str:
        """Equal for changes of one stage and cluster that may share one request."""
        return type(self).__name__

    @property
    def values(self) -> tuple[str, ...]:
        """Each field with the value desired for it: ``configs:west/east.orders retention.ms = 60000``."""
        return (self.id,)


class ChangeOfTopic(BaseChange):
    """A change of one topic, or of its replicas."""

    __slots__ = ()
    ref: TopicRef

    @property
    def id(self) -> str:
        return f"{self.verb}:{self.ref}"

    @property
    def cluster(self) -> str:
        return self.ref.cluster

    @property
    def subject(self) -> Subject:
        return of_topic(self.ref)
