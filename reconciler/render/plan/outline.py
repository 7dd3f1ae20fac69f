"""A plan as an outline: stages, clusters, and entries in which equal changes are folded; every renderer dresses it.

Border: words and grouping only; no layout, no escaping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from reconciler.changes import (
    AclChange,
    AlterConfigs,
    AlterQuota,
    Change,
    ConfigChange,
    CreateTopic,
    Risk,
    Stage,
    UserChange,
    cluster_of,
)
from reconciler.counts import counted
from reconciler.plans import Basis, Plan, Planned, SeenCluster
from reconciler.rendering.changes import (
    TAKEN_OVER,
    defaults_taken_over,
    described,
    headline,
    signature,
    subject,
)
from reconciler.rendering.reasons import reasons_words
from reconciler.rendering.stakes import stakes_lines
from reconciler.rendering.waves import later_words, wave_heading
from reconciler.summary import action
from reconciler.topic_configs import human

FOLD = 3
_RELEASES = {
    7: "3.3", 8: "3.4", 9: "3.5", 10: "3.5", 11: "3.5", 12: "3.6", 13: "3.6", 14: "3.6", 15: "3.7", 16: "3.7",
    17: "3.7", 18: "3.7", 19: "3.7", 20: "3.8", 21: "3.9", 22: "4.0", 23: "4.0", 24: "4.0", 25: "4.0", 26: "4.1",
    27: "4.1", 28: "4.2", 29: "4.2", 30: "4.3", 31: "4.4",
}  # fmt: skip
"""Finalized level of metadata.version -> the release whose metadata the cluster uses (KIP-778)."""
STAGE_WHY = {
    Stage.DENIALS: "before anything is made that they are about",
    Stage.TARGET_TOPICS: "before anything flows to them",
    Stage.USERS: "before the rules that name them",
    Stage.ACCESS: "once what it is about is there",
    Stage.QUOTAS: "how much clients may use",
    Stage.SOURCE_TOPICS: "once their remote topics are ready",
    Stage.MIRROR: "after the topics they write to",
    Stage.REPLICAS: "last but removals: copying may take long, and nothing waits for it",
    Stage.REMOVALS: "when nothing of this plan uses them any more; nothing else is ever deleted",
}


PROBED = "then its access rules are probed, and undone if that fails"


@dataclass(frozen=True, slots=True)
class Value:
    """One config in words. ``before`` is empty for a topic that is new; ``by`` is empty where origins differ."""

    key: str
    before: str
    before_source: str
    after: str
    by: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One change, or equal changes on several topics. ``lines`` hold everything under the headline, also the values.

    ``folds``: a concise form may show the first lines only, since the headline says what they come to.
    ``later``: why it comes in a later wave than its cluster.
    """

    sign: str
    names: tuple[str, ...]
    headline: str
    why: str
    lines: tuple[str, ...]
    values: tuple[Value, ...]
    risk: Risk
    risk_text: str
    reversibility: str
    needs: tuple[str, ...]
    needs_why: str
    folds: bool = False
    noun: str = "topic"
    stakes: tuple[str, ...] = ()
    later: str = ""

    @property
    def irreversible(self) -> bool:
        return self.reversibility.startswith("irreversible")

    @property
    def title(self) -> str:
        """What stands in for the names where there are several."""
        return self.names[0] if len(self.names) == 1 else f"{counted(len(self.names), self.noun)}, each"


@dataclass(frozen=True, slots=True)
class Place:
    """``cluster`` is empty for changes of no one cluster, such as those of mirrors."""

    cluster: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of the plan, numbered from 1. ``count`` is of single changes. ``opens``: the heading of the wave that
    begins with it, or empty."""

    number: int
    title: str
    why: str
    count: int
    places: tuple[Place, ...]
    opens: str = ""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for place in self.places for entry in place.entries)


def outline(plan: Plan, heedless: bool = False) -> tuple[Step, ...]:
    """``heedless``: gates and soaks of its waves are left out."""
    found: list[Step] = []
    waves: set[str] = {""}
    targets = any(one.stage == Stage.TARGET_TOPICS for one in plan.changes)
    for number, ((wave, stage), planned) in enumerate(groupby(plan.changes, key=_wave_and_stage), start=1):
        together = list(planned)
        places = tuple(Place(where, entries(list(some))) for where, some in groupby(together, key=_cluster))
        title, why = stage, STAGE_WHY[Stage(stage)]
        if stage == Stage.SOURCE_TOPICS:
            title = "declared topics"  # most are no flow's source
            why = why if targets else "as git describes them"
        if any(isinstance(one.change, AclChange) for one in together):
            why = f"{why}; {PROBED}"
        opens = "" if wave in waves else wave_heading(plan, wave, heedless)
        waves.add(wave)
        found.append(Step(number, title, why, len(together), places, opens))
    return tuple(found)


def _wave_and_stage(planned: Planned) -> tuple[str, str]:
    return planned.wave, planned.stage


def entries(planned: Sequence[Planned]) -> tuple[Entry, ...]:
    """Equal changes on many topics become one entry."""
    alike: dict[object, list[Planned]] = {}
    for one in planned:
        key = (signature(one.change), one.risk, one.needs_why, bool(one.wave_why))
        alike.setdefault(key, []).append(one)
    return tuple(_all_entries(alike.values()))


def ground(basis: Basis) -> str:
    """What was planned, of which state of git."""
    revision = f", commit {basis.revision[:12]}" if basis.revision else ""
    dirty = " with uncommitted changes" if basis.dirty else ""
    return f"environment {basis.environment}{revision}{dirty}, topology {basis.topology_digest[:12]}"


def seen(cluster: SeenCluster) -> str:
    if cluster.cluster_id is None:
        return "could not be read"
    parts = [f"cluster id {cluster.cluster_id}", counted(cluster.brokers, "broker")]
    if cluster.metadata_version is not None:
        release = _RELEASES.get(cluster.metadata_version)
        parts.append(f"Kafka {release}" if release else f"metadata.version {cluster.metadata_version}")
    if cluster.authorizer is not None:
        parts.append("with authorizer" if cluster.authorizer else "no authorizer")
    parts.append(f"{counted(cluster.topics, 'topic')} visible" + ("" if cluster.sees_all else ", others hidden"))
    if cluster.acls is not None:
        parts.append(counted(cluster.acls, "access rule"))
    if cluster.quotas is not None:
        parts.append(counted(cluster.quotas, "quota"))
    if cluster.users is not None:
        parts.append(counted(cluster.users, "SCRAM user"))
    return ", ".join(parts)


def risk_words(entry: Entry) -> str:
    """``HIGH risk: why (reversibility)``, or nothing to say."""
    if entry.risk == Risk.LOW and not entry.risk_text:
        return ""
    label = f"{entry.risk.upper()} risk" if entry.risk == Risk.HIGH else f"{entry.risk} risk"
    return f"{label}: {entry.risk_text} ({entry.reversibility})"


def _all_entries(groups: Iterable[Sequence[Planned]]) -> Iterator[Entry]:
    for members in groups:
        if isinstance(members[0].change, AclChange):
            yield _access(members)
        elif len(members) >= FOLD:
            yield _entry(members)
        else:
            yield from (_entry([one]) for one in members)


def _entry(members: Sequence[Planned]) -> Entry:
    first, single = members[0], len(members) == 1
    return Entry(
        sign=action(first.change).value,
        names=tuple(subject(one.change) for one in members),
        headline=headline(first.change, alone=single),
        why="" if single else reasons_words(one.change.reason.text for one in members),
        lines=tuple(described([one.change for one in members])),
        values=_values(members),
        risk=Risk(first.risk),
        risk_text=first.risk_why,
        reversibility=first.reversibility,
        needs=tuple(dict.fromkeys(need for one in members for need in one.needs)),
        needs_why=first.needs_why,
        noun=_noun(first.change),
        stakes=stakes_lines([one.stakes for one in members]),
        later=later_words(members),
    )


def _noun(change: Change) -> str:
    if isinstance(change, AlterQuota):
        return "quota"
    return "user" if isinstance(change, UserChange) else "topic"


def _access(members: Sequence[Planned]) -> Entry:
    """Rules are read by what they are for; what Kafka stores stands below, folded in text."""
    entry = _entry(members[:1])
    return replace(
        entry,
        headline=f"{counted(len(members), 'rule')}; {entry.headline}",
        lines=tuple(described([one.change for one in members])),
        folds=True,
    )


def _values(members: Sequence[Planned]) -> tuple[Value, ...]:
    change = members[0].change
    if not isinstance(change, CreateTopic | AlterConfigs):
        return ()
    found = []
    usual = defaults_taken_over(change)
    for index, one in enumerate(change.configs):
        origins = {other.change.configs[index].origin for other in members if isinstance(other.change, type(change))}
        if one not in usual:
            found.append(_value(one, one.origin if len(origins) == 1 else ""))
    if usual:
        found.append(Value(", ".join(one.key for one in usual), "", "", "", TAKEN_OVER.format(len(usual))))
    return tuple(found)


def _value(change: ConfigChange, by: str) -> Value:
    fresh = change.before is None and not change.before_source
    before = "" if fresh else human(change.key, change.before)
    after = "remove the override" if change.after is None else human(change.key, change.after)
    return Value(change.key, before, change.before_source, after, by)


def _cluster(planned: Planned) -> str:
    return cluster_of(planned.change)
