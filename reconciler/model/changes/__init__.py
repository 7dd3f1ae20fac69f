"""Changes by kind: one frozen class for each thing that can be done, and for what cannot.

Belongs here: changes by kind, refusals, unknowns. Not here: deciding which of them apply (`resources`).
"""

from typing import get_args

from reconciler.model.changes.mirrors import FlowEdit, RestartMirror, StartMirror, StopMirror
from reconciler.model.changes.not_done import (
    COUNTED,
    AdoptedAcl,
    CopiedAgain,
    Ignored,
    Outside,
    OutsideChange,
    Refused,
    Unmanaged,
    UnmanagedAcl,
)
from reconciler.model.changes.principals import (
    AlterQuota,
    AlterUser,
    CreateAcl,
    CredentialChange,
    DeleteAcl,
    DeleteUser,
    Grant,
    LimitChange,
)
from reconciler.model.changes.subject import About, Subject, of_topic
from reconciler.model.changes.topics import (
    AddPartitions,
    AlterConfigs,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    FinishReassignment,
    ReassignReplicas,
)
from reconciler.model.changes.vocabulary import (
    Action,
    BaseChange,
    ChangeOfTopic,
    KindName,
    Reason,
    Risk,
    Role,
    Stage,
    Why,
)

__all__ = [
    "CHANGES",
    "COUNTED",
    "About",
    "AclChange",
    "Action",
    "AddPartitions",
    "AdoptedAcl",
    "AlterConfigs",
    "AlterQuota",
    "AlterUser",
    "BaseChange",
    "Change",
    "ChangeOfTopic",
    "ConfigChange",
    "CopiedAgain",
    "CreateAcl",
    "CreateTopic",
    "CredentialChange",
    "DeleteAcl",
    "DeleteTopic",
    "DeleteUser",
    "FinishReassignment",
    "FlowEdit",
    "Grant",
    "Ignored",
    "KindName",
    "LimitChange",
    "MirrorChange",
    "Outside",
    "OutsideChange",
    "Reason",
    "ReassignReplicas",
    "Refused",
    "ReplicaChange",
    "RestartMirror",
    "Risk",
    "Role",
    "Stage",
    "StartMirror",
    "StopMirror",
    "Subject",
    "TopicChange",
    "Unmanaged",
    "UnmanagedAcl",
    "UserChange",
    "Why",
    "of_topic",
]

TopicChange = CreateTopic | AddPartitions | AlterConfigs | DeleteTopic
MirrorChange = StartMirror | RestartMirror | StopMirror
AclChange = CreateAcl | DeleteAcl
ReplicaChange = ReassignReplicas | FinishReassignment
UserChange = AlterUser | DeleteUser
Change = TopicChange | AclChange | AlterQuota | UserChange | MirrorChange | ReplicaChange

CHANGES: tuple[type[Change], ...] = get_args(Change)
"""Every class of change."""
