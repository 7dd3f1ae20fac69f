"""Changes of what principals may do, how much, and how they log in: access rules, quotas, SCRAM users."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.acls import AclBinding
from reconciler.changes.terms import Reason
from reconciler.quotas import QuotaEntity
from reconciler.users import Mechanism


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
