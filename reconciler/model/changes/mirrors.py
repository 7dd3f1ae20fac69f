"""Changes of mirror jobs: start, restart, stop."""

from dataclasses import dataclass, field

from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, KindName, Reason, Risk, Stage
from reconciler.replication.json_codec import SPARSE


@dataclass(frozen=True, slots=True)
class FlowEdit:
    """The effect of one edited setting of a flow, or of its mirror (``flow`` empty)."""

    flow: str
    setting: str
    """As in YAML."""
    short: str
    """For a headline."""
    why: str
    risk: Risk
    lasting: bool = False
    """Reverting the edit does not undo it."""


class _MirrorChange(BaseChange):
    __slots__ = ()
    kind = KindName.MIRRORS
    cluster = ""
    stage = Stage.MIRROR
    mirror: str

    @property
    def id(self) -> str:
        return f"{self.verb}:{self.mirror}"

    @property
    def subject(self) -> Subject:
        return Subject(About.MIRROR, "", self.mirror)

    @property
    def batch(self) -> str:
        """Each mirror is a separate batch."""
        return self.id


class _Begun(_MirrorChange):
    """``edits``: of its flows, since the definition that its job runs with, or last ran with. None: that is not known
    here, or there was none."""

    __slots__ = ()
    fingerprint: str
    edits: tuple[FlowEdit, ...] | None

    @property
    def values(self) -> tuple[str, ...]:
        return (f"{self.id} = {self.fingerprint}",)


@dataclass(frozen=True, slots=True)
class StartMirror(_Begun):
    """``because`` names the fields of flows that decided, one line each."""

    word = "start_mirror"
    verb = "start"
    action = Action.CREATE

    mirror: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()
    edits: tuple[FlowEdit, ...] | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class RestartMirror(_Begun):
    """``before``, ``fingerprint``: of the running job's hand-over, and of the desired one. ``edits``: None if the
    former hand-over, and so the effect of the restart, is unknown."""

    word = "restart_mirror"
    verb = "restart"
    action = Action.RESTART

    mirror: str
    before: str
    fingerprint: str
    reason: Reason
    because: tuple[str, ...] = ()
    edits: tuple[FlowEdit, ...] | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class StopMirror(_MirrorChange):
    word = "stop_mirror"
    verb = "stop"
    action = Action.STOP

    mirror: str
    fingerprint: str | None
    reason: Reason
