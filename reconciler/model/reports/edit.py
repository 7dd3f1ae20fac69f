"""Report of an edit: the differences between two versions of an environment, without asking clusters. Also of the edit
that would make a second environment declare what the first does."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.errors import ExitCode
from reconciler.model.changes import Risk
from reconciler.model.environment.topology import TopicRef


class Sign(StrEnum):
    ADDED = "+"
    CHANGED = "~"
    REMOVED = "-"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A changed field of an entry. ``path`` as in YAML (``configs.retention.ms``); values in words."""

    path: str
    before: str
    after: str
    means: str = ""
    """Empty if the values explain themselves."""
    risk: Risk = Risk.LOW
    irreversible: bool = False
    """Reverting the edit does not bring back what was."""


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One entry that an edit adds, removes or changes."""

    sign: Sign
    kind: str
    """The YAML's word for an entry: cluster, topic, flow, mirror, deletion, or remote topic."""
    name: str
    where: str = ""
    means: str = ""
    fields: tuple[FieldChange, ...] = ()
    renamed: str = ""
    """For a removed or new topic, the one like it on the other side."""


@dataclass(frozen=True, slots=True)
class NoEffect:
    """An entry of an edit, or one ``setting`` of it, that changes nothing on a cluster. ``headline``: if it looks like
    a removal, what it does not do (``revokes nothing: ...``); else empty."""

    kind: str
    name: str
    setting: str
    why: str
    todo: str = ""
    headline: str = ""


@dataclass(frozen=True, slots=True, order=True)
class TopicTravel:
    """One topic on one flow."""

    source: TopicRef
    remote: TopicRef

    def __str__(self) -> str:
        return f"{self.source} as {self.remote}"


@dataclass(frozen=True, slots=True)
class FlowImpact:
    """Declared topics, and remote topics of them, that a flow begins or ceases to mirror."""

    flow: str
    gained: tuple[TopicTravel, ...] = ()
    lost: tuple[TopicTravel, ...] = ()

    @property
    def count(self) -> int:
        return len(self.gained) + len(self.lost)


class Fate(StrEnum):
    STARTS = "starts"
    RESTARTS = "restarts"
    STOPS = "stops"
    KEEPS_RUNNING = "keeps running"


@dataclass(frozen=True, slots=True)
class MirrorImpact:
    """What an edit does to one mirror; ``because`` and ``harmless`` have a line each."""

    mirror: str
    fate: Fate
    before: str = ""
    after: str = ""
    because: tuple[str, ...] = ()
    """The fields that cause the restart."""
    harmless: tuple[str, ...] = ()
    """Other edits, which need none, and why."""

    @property
    def disturbed(self) -> bool:
        return self.fate is not Fate.KEEPS_RUNNING


@dataclass(frozen=True, slots=True)
class EditComparison:
    """What an edit means, by the files alone."""

    environment: str
    items: tuple[ItemChange, ...] = ()
    """Entries that the edit adds, removes or changes."""
    follows: tuple[ItemChange, ...] = ()
    """Remote topics that appear or vanish with them."""
    flows: tuple[FlowImpact, ...] = ()
    mirrors: tuple[MirrorImpact, ...] = ()
    new: bool = False
    """The base has no such environment."""
    same_text: bool = True
    """False and nothing else: the edit is only of comments, layout, order or spelling."""

    @property
    def empty(self) -> bool:
        return not (self.items or self.follows or self.flows or any(mirror.disturbed for mirror in self.mirrors))


@dataclass(frozen=True, slots=True)
class Against:
    """The commit that the present files are compared with."""

    base: str
    """As the user wrote it; ``commit``: the commit that it names."""
    commit: str
    dirty: bool = False
    """The other side is not committed."""
    revert: bool = False


@dataclass(frozen=True, slots=True)
class PromotionReport:
    """Two environments, compared by what they declare."""

    source: str
    target: str
    comparison: EditComparison
    """The edit of ``target`` that makes it declare what ``source`` does."""
    names: Mapping[str, str]
    """Name in the source and in the target, as they were given."""
    paired: Mapping[str, str]
    """Those that were found by their contents."""

    @property
    def equal(self) -> bool:
        return not self.comparison.items

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DONE if self.equal else ExitCode.CHANGES
