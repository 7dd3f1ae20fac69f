"""The vocabulary of change: one small frozen class for each thing that can be done, and for what cannot.

``match`` over ``Change`` with ``assert_never`` makes a forgotten kind a type error.
"""

from __future__ import annotations

from typing import assert_never

from reconciler.changes.mirrors import RestartMirror, StartMirror, StopMirror
from reconciler.changes.principals import (
    AlterQuota,
    AlterUser,
    CreateAcl,
    CredentialChange,
    DeleteAcl,
    DeleteUser,
    Grant,
    LimitChange,
)
from reconciler.changes.terms import Action, Reason, Risk, Role, Stage
from reconciler.changes.topics import (
    AddPartitions,
    AlterConfigs,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    FinishReassignment,
    ReassignReplicas,
)
from reconciler.changes.untouched import Ignored, Refused, Unmanaged, UnmanagedAcl

__all__ = [
    "AclChange",
    "Action",
    "AddPartitions",
    "AlterConfigs",
    "AlterQuota",
    "AlterUser",
    "Change",
    "ConfigChange",
    "CreateAcl",
    "CreateTopic",
    "CredentialChange",
    "DeleteAcl",
    "DeleteTopic",
    "DeleteUser",
    "FinishReassignment",
    "Grant",
    "Ignored",
    "LimitChange",
    "MirrorChange",
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
    "TopicChange",
    "Unmanaged",
    "UnmanagedAcl",
    "UserChange",
    "cluster_of",
    "touched",
]

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
