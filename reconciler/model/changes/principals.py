"""Changes of what principals may do: access rules, client quotas, SCRAM users."""

from dataclasses import dataclass

from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, KindName, Reason, Stage, Why
from reconciler.model.principals import (
    AclBinding,
    Credentials,
    Mechanism,
    Permission,
    QuotaEntity,
    QuotaLimits,
    user_words,
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Why a rule is desired. ``title``: for reviewers, and the heading of equal changes (``User:orders-app: producer on
    orders``). ``maker``: ``declared``, or the deriving ``flow <name>``."""

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


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One key of a quota. ``before`` None: not set; ``after`` None: removed."""

    key: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class AlterQuota(BaseChange):
    """Changed keys of one entity; its other keys stay."""

    kind = KindName.QUOTAS
    word = "alter_quota"

    cluster: str
    entity: QuotaEntity
    limits: tuple[LimitChange, ...]
    reason: Reason

    @property
    def id(self) -> str:
        verb = "prune-quota" if self.reason.code is Why.PRUNE else "quota"
        return f"{verb}:{self.cluster}: {self.entity}"

    @property
    def subject(self) -> Subject:
        return Subject(About.QUOTA, self.cluster, str(self.entity))

    @property
    def stage(self) -> Stage:
        return Stage.REMOVALS if self.reason.code is Why.PRUNE else Stage.QUOTAS

    @property
    def action(self) -> Action:
        if all(limit.before is None for limit in self.limits):
            return Action.CREATE
        return Action.DELETE if all(limit.after is None for limit in self.limits) else Action.UPDATE

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(f"{self.id} {limit.key} = {limit.after}" for limit in self.limits)

    def is_done(self, live: QuotaLimits) -> bool:
        return all(live.get(limit.key) == limit.after for limit in self.limits)


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """One SCRAM credential. ``before``: its iterations now, None: it does not exist."""

    mechanism: Mechanism
    before: int | None
    after: int


class _UserChange(BaseChange):
    __slots__ = ()
    kind = KindName.USERS
    cluster: str
    user: str

    @property
    def id(self) -> str:
        return f"{self.verb}:{self.cluster}: {user_words(self.user)}"

    @property
    def subject(self) -> Subject:
        return Subject(About.USER, self.cluster, self.user)


@dataclass(frozen=True, slots=True)
class AlterUser(_UserChange):
    """Sets the password that ``password`` refers to, with a new salt, for each of ``credentials``. ``recorded``: the
    version that is known to be set, None: none is."""

    word = "alter_user"
    verb = "user"
    stage = Stage.USERS

    cluster: str
    user: str
    credentials: tuple[CredentialChange, ...]
    recorded: int | None
    version: int
    password: str
    reason: Reason

    @property
    def is_new(self) -> bool:
        """No password of it is replaced."""
        return all(credential.before is None for credential in self.credentials)

    def is_done(self, live: Credentials) -> bool:
        """As far as a cluster shows: no request returns a password, so a new one counts as set."""
        return all(live.get(credential.mechanism) == credential.after for credential in self.credentials)

    @property
    def action(self) -> Action:
        return Action.CREATE if self.is_new else Action.UPDATE

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = version {self.version}",)


@dataclass(frozen=True, slots=True)
class DeleteUser(_UserChange):
    """Deletes credentials of a SCRAM user. ``left``: remaining ones; without any the user is deleted."""

    word = "delete_user"
    verb = "delete-user"
    action = Action.DELETE
    stage = Stage.REMOVALS

    cluster: str
    user: str
    mechanisms: tuple[Mechanism, ...]
    left: tuple[Mechanism, ...]
    reason: Reason

    def is_done(self, live: Credentials) -> bool:
        return live.keys().isdisjoint(self.mechanisms)
