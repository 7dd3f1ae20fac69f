"""The vocabulary of change: one small frozen class for each thing that can be done, and for what cannot.

``match`` over ``Change`` with ``assert_never`` makes a forgotten kind a type error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from reconciler.acls import AclBinding
from reconciler.quotas import QuotaEntity
from reconciler.replicas import Pace, Placement
from reconciler.topology import TopicRef
from reconciler.users import Mechanism


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
    """The order over all clusters. Target topics exist before anything flows; removals come last.

    What is denied is denied before a topic is made that it is about; what is allowed, once the topic is there.
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
    """Why a topic is wished: declared in git, the remote topic of a flow, or needed by the mirror job."""

    DECLARED = "declared"
    REMOTE = "remote"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable and for machines; ``text`` is for people."""

    code: str
    text: str


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


@dataclass(frozen=True, slots=True)
class StartMirror:
    """``because`` tells which field of which flow decided, one line each."""

    mirror: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestartMirror:
    mirror: str
    before: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StopMirror:
    mirror: str
    fingerprint: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Grant:
    """Why a rule is wished. ``title`` is what a reviewer reads, and what equal changes are told under
    (``User:orders-app: producer on orders``). ``maker``: ``declared``, or ``flow <name>`` that derived it."""

    title: str
    maker: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class CreateAcl:
    """``rests_on``: for a derived rule, the rule on the flow's source, as ``cluster``/``text of the rule``."""

    cluster: str
    acl: AclBinding
    grant: Grant
    reason: Reason
    rests_on: str = ""


@dataclass(frozen=True, slots=True)
class DeleteAcl:
    """Only of a rule that an earlier run made, or that is declared absent."""

    cluster: str
    acl: AclBinding
    grant: Grant
    reason: Reason


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One key of a quota. ``before`` None: not set; ``after`` None: removed."""

    key: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class AlterQuota:
    """The keys of one entity that differ; its other keys stay as they are."""

    cluster: str
    entity: QuotaEntity
    limits: tuple[LimitChange, ...]
    reason: Reason


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """One SCRAM credential. ``before``: its iterations now, None: it is not there."""

    mechanism: Mechanism
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class AlterUser:
    """Sets the password that ``password`` refers to, salted anew, for each of ``credentials``. ``recorded``: the
    version that is known to be set, None: none is."""

    cluster: str
    user: str
    credentials: tuple[CredentialChange, ...]
    recorded: int | None
    version: int
    password: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Deletes credentials of a SCRAM user. ``left``: those it keeps; with none of them the user is gone."""

    cluster: str
    user: str
    mechanisms: tuple[Mechanism, ...]
    left: tuple[Mechanism, ...]
    reason: Reason


TopicChange = CreateTopic | AddPartitions | AlterConfigs | DeleteTopic
MirrorChange = StartMirror | RestartMirror | StopMirror
AclChange = CreateAcl | DeleteAcl
ReplicaChange = ReassignReplicas | FinishReassignment
UserChange = AlterUser | DeleteUser
Change = TopicChange | AclChange | AlterQuota | UserChange | MirrorChange | ReplicaChange


def cluster_of(change: Change) -> str:
    """Empty for a change of no one cluster, such as that of a mirror."""
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs() | DeleteTopic() | ReassignReplicas():
            return change.ref.cluster
        case CreateAcl() | DeleteAcl() | AlterQuota() | AlterUser() | DeleteUser() | FinishReassignment():
            return change.cluster
        case StartMirror() | RestartMirror() | StopMirror():
            return ""
        case _:
            assert_never(change)


def touched(change: Change) -> str:
    """What it acts on, as refusals name it: ``east/orders``, ``mirror west``."""
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs() | DeleteTopic() | ReassignReplicas():
            return str(change.ref)
        case CreateAcl() | DeleteAcl():
            return f"access {change.cluster}"
        case AlterQuota():
            return f"quota {change.cluster}: {change.entity}"
        case AlterUser() | DeleteUser():
            return f"user {change.cluster}/{change.user}"
        case FinishReassignment():
            return f"reassignment of {change.cluster}"
        case StartMirror() | RestartMirror() | StopMirror():
            return f"mirror {change.mirror}"
        case _:
            assert_never(change)


@dataclass(frozen=True, slots=True)
class Refused:
    """A wish that cannot be granted. Blocks apply (exit 3) and is shown beside the changes.

    ``wished`` and ``found`` where a live value differs from the wish, and is therefore drift as well.
    """

    subject: str
    reason: Reason
    todo: str
    wished: str = ""
    found: str = ""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A declared or live field that this run leaves alone, by a named rule."""

    subject: str
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Exists on a cluster, is neither declared nor made by a flow. Never touched."""

    ref: TopicRef
    partitions: int


@dataclass(frozen=True, slots=True)
class UnmanagedAcl:
    """A rule of a cluster whose access is declared that is neither declared nor made by us. Never touched."""

    cluster: str
    acl: AclBinding
