"""Changes of SCRAM users."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, KindName, Reason, Stage
from reconciler.model.users import Mechanism, user_words


@dataclass(frozen=True, slots=True)
class CredentialChange:
    """One SCRAM credential. ``before``: its iterations now, None: it is not there."""

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

    @property
    def action(self) -> Action:
        return Action.CREATE if self.is_new else Action.UPDATE

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = version {self.version}",)


@dataclass(frozen=True, slots=True)
class DeleteUser(_UserChange):
    """Deletes credentials of a SCRAM user. ``left``: those it keeps; with none of them the user is gone."""

    word = "delete_user"
    verb = "delete-user"
    action = Action.DELETE
    stage = Stage.REMOVALS

    cluster: str
    user: str
    mechanisms: tuple[Mechanism, ...]
    left: tuple[Mechanism, ...]
    reason: Reason
