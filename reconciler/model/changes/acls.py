"""Changes of access rules."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.acls import AclBinding, Permission
from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, KindName, Reason, Stage


@dataclass(frozen=True, slots=True)
class Grant:
    """Why a rule is desired. ``title`` is what a reviewer reads, and the heading of equal changes
    (``User:orders-app: producer on orders``). ``maker``: ``declared``, or ``flow <name>`` that derived it."""

    title: str
    maker: str
    where: str = ""


class _AclChange(BaseChange):
    __slots__ = ()
    kind = KindName.ACLS
    cluster: str
    acl: AclBinding

    @property
    def id(self) -> str:
        return f"{self.verb}:{self.cluster}: {self.acl}"

    @property
    def subject(self) -> Subject:
        return Subject(About.ACLS, self.cluster)


@dataclass(frozen=True, slots=True)
class CreateAcl(_AclChange):
    """``rests_on``: for a derived rule, the rule on the flow's source, as ``cluster``/``text of the rule``."""

    word = "create_acl"
    verb = "create-acl"
    action = Action.CREATE

    cluster: str
    acl: AclBinding
    grant: Grant
    reason: Reason
    rests_on: str = ""

    @property
    def stage(self) -> Stage:
        return Stage.ACCESS if self.acl.permission is Permission.ALLOW else Stage.DENIALS


@dataclass(frozen=True, slots=True)
class DeleteAcl(_AclChange):
    """Only of a rule that an earlier run made, or that is declared absent."""

    word = "delete_acl"
    verb = "delete-acl"
    action = Action.DELETE
    stage = Stage.REMOVALS

    cluster: str
    acl: AclBinding
    grant: Grant
    reason: Reason
