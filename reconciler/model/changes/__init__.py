"""Changes by kind: one frozen class for each thing that can be done, and for what cannot.

Belongs here: changes by kind, refusals, unknowns. Not here: deciding which of them apply (`resources`).
"""

from typing import get_args

from reconciler.model.changes.mirrors import FlowEdit as FlowEdit
from reconciler.model.changes.mirrors import RestartMirror as RestartMirror
from reconciler.model.changes.mirrors import StartMirror as StartMirror
from reconciler.model.changes.mirrors import StopMirror as StopMirror
from reconciler.model.changes.not_done import COUNTED as COUNTED
from reconciler.model.changes.not_done import AdoptedAcl as AdoptedAcl
from reconciler.model.changes.not_done import CopiedAgain as CopiedAgain
from reconciler.model.changes.not_done import Ignored as Ignored
from reconciler.model.changes.not_done import Outside as Outside
from reconciler.model.changes.not_done import OutsideChange as OutsideChange
from reconciler.model.changes.not_done import Refused as Refused
from reconciler.model.changes.not_done import Unmanaged as Unmanaged
from reconciler.model.changes.not_done import UnmanagedAcl as UnmanagedAcl
from reconciler.model.changes.principals import AlterQuota as AlterQuota
from reconciler.model.changes.principals import AlterUser as AlterUser
from reconciler.model.changes.principals import CreateAcl as CreateAcl
from reconciler.model.changes.principals import CredentialChange as CredentialChange
from reconciler.model.changes.principals import DeleteAcl as DeleteAcl
from reconciler.model.changes.principals import DeleteUser as DeleteUser
from reconciler.model.changes.principals import Grant as Grant
from reconciler.model.changes.principals import LimitChange as LimitChange
from reconciler.model.changes.subject import About as About
from reconciler.model.changes.subject import Subject as Subject
from reconciler.model.changes.subject import of_topic as of_topic
from reconciler.model.changes.topics import AddPartitions as AddPartitions
from reconciler.model.changes.topics import AlterConfigs as AlterConfigs
from reconciler.model.changes.topics import ConfigChange as ConfigChange
from reconciler.model.changes.topics import CreateTopic as CreateTopic
from reconciler.model.changes.topics import DeleteTopic as DeleteTopic
from reconciler.model.changes.topics import FinishReassignment as FinishReassignment
from reconciler.model.changes.topics import ReassignReplicas as ReassignReplicas
from reconciler.model.changes.vocabulary import Action as Action
from reconciler.model.changes.vocabulary import BaseChange as BaseChange
from reconciler.model.changes.vocabulary import ChangeOfTopic as ChangeOfTopic
from reconciler.model.changes.vocabulary import KindName as KindName
from reconciler.model.changes.vocabulary import Reason as Reason
from reconciler.model.changes.vocabulary import Risk as Risk
from reconciler.model.changes.vocabulary import Role as Role
from reconciler.model.changes.vocabulary import Stage as Stage
from reconciler.model.changes.vocabulary import Why as Why

TopicChange = CreateTopic | AddPartitions | AlterConfigs | DeleteTopic
MirrorChange = StartMirror | RestartMirror | StopMirror
AclChange = CreateAcl | DeleteAcl
ReplicaChange = ReassignReplicas | FinishReassignment
UserChange = AlterUser | DeleteUser
Change = TopicChange | AclChange | AlterQuota | UserChange | MirrorChange | ReplicaChange

CHANGES: tuple[type[Change], ...] = get_args(Change)
"""Every class of change."""
