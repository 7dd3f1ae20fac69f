"""A kind of resource as one record with everything that the engine needs, besides its changes.

The records are in ``resources/<kind>/kind.py``, all of them in ``engine.kinds.KINDS``; CONTRIBUTING.md.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Generic, TypeVar

from reconciler.errors import Unknown
from reconciler.model.changes import About, Action, Change, ConfigChange, KindName, Risk, Subject
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import BrokerConfigs, LiveCluster, LiveState, LiveTopic, usual_configs
from reconciler.model.plan import Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.reports.drift import Deviation, FoundCause, History
from reconciler.resources.topics.limits import KeptLess
from reconciler.text import counted, grouped

REVERSIBLE = "reversible"
ABSENT = "absent"
UNKNOWN = "unknown"

Changed = TypeVar("Changed")
StateOf = Callable[[LiveState], Callable[[Subject], str]]
"""Called once for a plan, then for each subject: returns its state as text that differs after a change."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The risk of a change, its reason, and whether the change can be reverted."""

    risk: Risk
    why: str = ""
    reversibility: str = REVERSIBLE


@dataclass(frozen=True, slots=True)
class World:
    """Context of an assessment."""

    topology: Topology
    live: LiveState
    fallbacks: Callable[[str], BrokerConfigs]
    """Cluster -> values of topics without overrides, as far as other topics show them."""
    kept_less: Mapping[TopicRef, Sequence[KeptLess]] = field(default_factory=dict)
    """Copies that retain less than their sources by limits that no file declares."""


def world_of(topology: Topology, live: LiveState, copies: Iterable[KeptLess] = ()) -> World:
    """Fallbacks are computed lazily, once for each cluster."""

    @cache
    def fallbacks(cluster: str) -> BrokerConfigs:
        known = live.known(cluster)
        return usual_configs(known) if known else {}

    return World(topology, live, fallbacks, grouped((each.remote, each) for each in copies))


@dataclass(frozen=True, slots=True)
class Counts:
    """Verbs and objects of a verdict, such as "creates", "5 topics". ``removed``: shown last, after all kinds."""

    changed: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...] = ()


_VERBS = {Action.CREATE: "creates", Action.UPDATE: "changes", Action.DELETE: "deletes"}


def tally(changes: Iterable[Change], nouns: Mapping[type[Change], str]) -> Counts:
    """Counts by action and class, in the order of ``nouns``."""
    counts = Counter((change.action, type(change)) for change in changes)

    def words(*actions: Action) -> tuple[tuple[str, str], ...]:
        return tuple(
            (_VERBS[action], counted(counts[action, each], noun))
            for action in actions
            for each, noun in nouns.items()
            if counts[action, each]
        )

    return Counts(words(Action.CREATE, Action.UPDATE), words(Action.DELETE))


@dataclass(frozen=True, slots=True)
class Kind(Generic[Changed]):
    """A kind of resource: what the rest of the program asks about its changes."""

    name: KindName
    changes: tuple[type[Changed], ...]
    """Its classes of ``Change``, each of which belongs to one kind."""
    assess: Callable[[Changed, World], Assessment]
    """The risk of a change."""
    place: Callable[[Changed], tuple[int, str]]
    """Where it comes within its stage, and the name that decides among equals."""
    rests_on: Callable[[Changed, Mapping[TopicRef, TopicRef]], Iterable[Subject]]
    """What must be as it was for a saved plan to be applied, given source topics by remote topic."""
    states: Mapping[About, StateOf]
    """How such subjects are."""
    deviations: Callable[[Changed], Iterable[Deviation]]
    """What the change would bring back."""
    counts: Callable[[Sequence[Changed]], Counts]
    """Its part of a verdict."""
    is_safe: Callable[[Changed, Risk], bool] = lambda _, __: False
    """Whether autonomy ``safe`` makes the change by itself, at that risk."""
    takes_away: tuple[type[Change], ...] = ()
    """Classes that do harm with a folder that was half read."""
    confirm: Callable[[ClusterAdmin, Sequence[Changed]], Callable[[Changed], bool | None]] | None = None
    """Asks a cluster once, after an interruption, and says of each change whether it was done, None where that cannot
    be read (raises ClusterError); None: nothing shows it, or only the probe that follows (``resources.acls.probe``)."""
    cause: Callable[[Planned, History, ConfigChange | None], FoundCause | None] = lambda _, __, ___: None
    """How that came to be, where this kind knows more than when runs ended; of one config, where one is given."""


def of_clusters(words: Callable[[LiveCluster, str], str]) -> StateOf:
    """State by ``words`` of a cluster and the name within it; of a silent cluster it is unknown."""

    def of(live: LiveState) -> Callable[[Subject], str]:
        def state(subject: Subject) -> str:
            cluster = live.clusters.get(subject.cluster)
            return UNKNOWN if cluster is None or isinstance(cluster, Unknown) else words(cluster, subject.name)

        return state

    return of


def of_topics(words: Callable[[LiveTopic | None], str]) -> StateOf:
    """State by ``words`` of a topic, None for a missing one."""
    return of_clusters(lambda cluster, name: words(cluster.topics.get(name)))
