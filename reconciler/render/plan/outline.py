"""The outline of a plan: stages, clusters, folded entries; every format is rendered from it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from reconciler.engine.rollout.waves import RolloutStatus, wave_state
from reconciler.errors import Unknown
from reconciler.model.changes import AclChange, ChangeOfTopic, CreateTopic, Risk, Stage
from reconciler.model.config_values import duration
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.plan import Basis, Edition, Plan, Planned, SeenCluster
from reconciler.model.principals import word
from reconciler.model.state.rollout_progress import Promotion
from reconciler.render.plan.impact import stakes_lines
from reconciler.render.plan.kinds import OutlinedValue, headline, outlined_values, words_of
from reconciler.resources.topics.kind import EXCLUDE
from reconciler.text import counted, grouped, time_words

FOLD = 3
SHOWN_REASONS = 3
_RELEASES = {
    7: "3.3", 8: "3.4", 9: "3.5", 10: "3.5", 11: "3.5", 12: "3.6", 13: "3.6", 14: "3.6", 15: "3.7", 16: "3.7",
    17: "3.7", 18: "3.7", 19: "3.7", 20: "3.8", 21: "3.9", 22: "4.0", 23: "4.0", 24: "4.0", 25: "4.0", 26: "4.1",
    27: "4.1", 28: "4.2", 29: "4.2", 30: "4.3", 31: "4.4", 32: "4.4",
    33: "4.4",
}  # fmt: skip
"""Finalized level of metadata.version -> the release whose metadata the cluster uses (KIP-778)."""
STAGE_WHY = {
    Stage.DENIALS: "before the topics they protect exist",
    Stage.TARGET_TOPICS: "before anything flows to them",
    Stage.USERS: "before the rules that name them",
    Stage.ACCESS: "once its topics and users exist",
    Stage.QUOTAS: "how much clients may use",
    Stage.SOURCE_TOPICS: "once their remote topics are ready",
    Stage.MIRROR: "after the topics they write to",
    Stage.REPLICAS: "last but removals: copying may take long, and nothing waits for it",
    Stage.REMOVALS: "when nothing of this plan uses them any more; nothing else is ever deleted",
}


PROBED = "then its access rules are probed, and undone if that fails"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One change, or equal changes on several topics."""

    sign: str
    """Of the change's action: ``+``, ``~``, ``!`` or ``-``."""
    names: tuple[str, ...]
    """Subjects within their cluster."""
    headline: str
    why: str
    """Shared reason; empty where the headline has it."""
    lines: tuple[str, ...]
    """Everything under the headline, also the values."""
    values: tuple[OutlinedValue, ...]
    """Configs of creations and alterations, for formats that show tables."""
    risk: Risk
    risk_text: str
    """Why the risk is what it is."""
    reversibility: str
    needs: tuple[str, ...]
    """Ids of changes that come first."""
    needs_why: str
    folds: bool = False
    """A concise form may show the first lines only, since the headline sums them up."""
    noun: str = "topic"
    """For the number of several equal changes."""
    stakes: tuple[str, ...] = ()
    """Records and readers that a dangerous change affects, a line each."""
    later: str = ""
    """Why it comes in a later wave than its cluster."""
    rules: tuple[str, ...] = ()
    """Each access rule; ``lines`` has one line for those that differ only in their names."""

    @property
    def irreversible(self) -> bool:
        return self.reversibility.startswith("irreversible")

    @property
    def title(self) -> str:
        """Its name, or the number of its subjects."""
        return self.names[0] if len(self.names) == 1 else f"{counted(len(self.names), self.noun)}, each"


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """``cluster`` is empty for changes of no one cluster, such as those of mirrors."""

    cluster: str
    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One stage of the plan, numbered from 1. ``count`` is of single changes. ``opens``: the heading of the wave that
    begins with it, or empty."""

    number: int
    title: str
    why: str
    count: int
    places: tuple[EntryPlace, ...]
    opens: str = ""

    @property
    def entries(self) -> tuple[PlanEntry, ...]:
        return tuple(entry for place in self.places for entry in place.entries)


def outline(plan: Plan, ungated: bool = False) -> tuple[PlanStep, ...]:
    """``ungated``: without gates and soaks of its waves."""
    steps: list[PlanStep] = []
    waves: set[str] = {""}
    targets = any(planned.stage == Stage.TARGET_TOPICS for planned in plan.changes)
    stages = groupby(plan.changes, key=lambda planned: (planned.wave, planned.stage))
    for number, ((wave, stage), planned) in enumerate(stages, start=1):
        together = list(planned)
        # Topics are sorted by cluster and name, so that a reader finds one: their order within a stage means nothing,
        # and changes of one topic keep theirs. All other changes are shown in the order of apply.
        of_topics = all(isinstance(planned.change, ChangeOfTopic) for planned in together)
        if of_topics:
            together.sort(key=lambda planned: planned.change.cluster)
        places = []
        for where, some in groupby(together, key=lambda planned: planned.change.cluster):
            members = list(some)
            shown = entries(members)
            if all(isinstance(each.change, ChangeOfTopic) for each in members):
                shown = tuple(sorted(shown, key=lambda entry: entry.names[0]))
            places.append(EntryPlace(where, shown))
        title, why = stage, STAGE_WHY[Stage(stage)]
        if stage == Stage.SOURCE_TOPICS:
            title = "declared topics"  # most are no flow's source
            why = why if targets else "as git describes them"
        if any(isinstance(planned.change, AclChange) for planned in together):
            why = f"{why}; {PROBED}"
        opens = "" if wave in waves else wave_heading(plan, wave, ungated)
        waves.add(wave)
        steps.append(PlanStep(number, title, why, len(together), tuple(places), opens))
    return tuple(steps)


def entries(planned: Sequence[Planned]) -> tuple[PlanEntry, ...]:
    """Equal changes on many topics become one entry."""
    alike: dict[object, list[Planned]] = {}
    for each in planned:
        # New copies of an application's internal topics get an entry for each application.
        excluded = isinstance(each.change, CreateTopic) and EXCLUDE in each.risk_why
        owner = each.risk_why.partition(EXCLUDE)[0] if excluded else ""
        key = words_of(each.change).signature(each.change), each.risk, owner, each.needs_why, bool(each.wave_why)
        alike.setdefault(key, []).append(each)
    # Fewer than ``FOLD`` equal changes stay entries of their own: "2 topics, each" hides more than it saves.
    shown: list[PlanEntry] = []
    access = [members for members in alike.values() if isinstance(members[0].change, AclChange)]
    grants = grouped((_whose(members[0]), members) for members in access)
    for members in alike.values():
        if isinstance(members[0].change, AclChange):
            # Many grants of one principal together say what it may do: one entry, at the place of the first.
            same = grants[_whose(members[0])]
            if len(same) < FOLD:
                shown.append(_access([members]))
            elif members is same[0]:
                shown.append(_access(same))
        elif len(members) >= FOLD:
            shown.append(_entry(members))
        else:
            shown += [_entry([planned]) for planned in members]
    return tuple(shown)


def _whose(planned: Planned) -> object:
    """Equal for grants of one principal, for one kind of reason, at one risk."""
    change = planned.change
    if not isinstance(change, AclChange):
        return None
    why = (planned.risk, planned.risk_why, planned.needs_why, bool(planned.wave_why))
    return (change.action, change.acl.principal, change.acl.permission, change.reason.code, *why)


def _access(grants: Sequence[Sequence[Planned]]) -> PlanEntry:
    """Rules appear by their purpose; their form in Kafka comes below, folded in text."""
    members = [planned for grant in grants for planned in grant]
    entry, first = _entry(members[:1]), members[0].change
    lines = tuple(words_of(first).lines([planned.change for planned in members]))
    rules = [planned.change.acl for planned in members if isinstance(planned.change, AclChange)]
    reasons = reasons_words(planned.change.reason.text for planned in members)
    headline = f"{counted(len(members), 'rule')}; {reasons}"
    names = entry.names if len(grants) == 1 else (f"{word(rules[0].principal)}: {counted(len(grants), 'grant')}",)
    return replace(entry, names=names, headline=headline, lines=lines, rules=tuple(map(str, rules)), folds=True)


def _entry(members: Sequence[Planned]) -> PlanEntry:
    first, changes, single = members[0], [planned.change for planned in members], len(members) == 1
    words = words_of(first.change)
    return PlanEntry(
        sign=first.change.action.value,
        names=tuple(map(words.subject, changes)),
        headline=headline(first.change, alone=single),
        why="" if single else reasons_words(change.reason.text for change in changes),
        lines=tuple(words.lines(changes)),
        values=tuple(outlined_values(changes)),
        risk=Risk(first.risk),
        risk_text=first.risk_why,
        reversibility=first.reversibility,
        needs=tuple(dict.fromkeys(need for planned in members for need in planned.needs)),
        needs_why=first.needs_why,
        noun=words.noun,
        stakes=stakes_lines([planned.stakes for planned in members]),
        later=reasons_words(planned.wave_why for planned in members if planned.wave_why),
    )


def basis_words(basis: Basis) -> str:
    """The subject of the plan, and its state of git."""
    return f"{edition_words(basis.environment, basis)}, topology {basis.topology_digest[:12]}"


def edition_words(environment: str, of: Basis | Edition) -> str:
    revision = f", commit {of.revision[:12]}" if of.revision else ""
    return f"environment {environment}{revision}{' with uncommitted changes' if of.dirty else ''}"


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
    kinds = ((cluster.acls, "access rule"), (cluster.quotas, "quota"), (cluster.users, "SCRAM user"))
    parts += [counted(count, name) for count, name in kinds if count is not None]
    return ", ".join(parts)


def risk_words(entry: PlanEntry) -> str:
    """``HIGH risk: why (reversibility)``, or nothing to say."""
    if entry.risk == Risk.LOW and not entry.risk_text:
        return ""
    return f"{risk_label(entry.risk)}: {entry.risk_text} ({entry.reversibility})"


def risk_label(risk: Risk) -> str:
    return f"{risk.upper() if risk is Risk.HIGH else risk} risk"


# Reasons of folded changes differ in the name of a source, or in its number of partitions. The first reason of a group
# is shown, with the number of similar ones.


@dataclass(slots=True)
class _Alike:
    """Reasons that are ``words`` but for one name, which comes ``at`` these places."""

    words: list[str]
    at: frozenset[int] = frozenset()
    things: set[str] = field(default_factory=set)

    def takes(self, words: list[str]) -> bool:
        if len(words) != len(self.words):
            return False
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(self.words, words, strict=True)) if a != b]
        at = frozenset(i for i, _, _ in pairs)
        # One name may come twice in a reason, with other punctuation; two names that differ make two reasons.
        if len({(a.strip(",;:"), b.strip(",;:")) for _, a, b in pairs}) != 1 or (self.at and at != self.at):
            return False
        self.at = at
        self.things.add(pairs[0][2])
        return True

    def __str__(self) -> str:
        more = len(self.things)
        return f"{' '.join(self.words)}{f' and {more} more' if more else ''}"


def reasons_words(reasons: Iterable[str]) -> str:
    """``flow east-to-west mirrors east/a and 7 more; flow west-to-hub mirrors west/b and 2 more``."""
    alikes: list[_Alike] = []
    not_shown = 0
    for words in (text.split(" ") for text in dict.fromkeys(reasons)):
        if any(entry.takes(words) for entry in alikes):
            continue
        if len(alikes) < SHOWN_REASONS:
            alikes.append(_Alike(words))
        else:
            not_shown += 1
    others = [f"and {not_shown} other reasons" if not_shown > 1 else "and 1 other reason"] if not_shown else []
    return "; ".join([*map(str, alikes), *others])


# The waves of a rollout: in a plan, the opening and gates of each; in a status, the progress of each.


def wave_heading(plan: Plan, name: str, ungated: bool = False) -> str:
    """``wave canary (1 of 2): east; 3 changes; then its gates and 10m of soak``. ``ungated``: without that."""
    assert plan.rollout is not None
    wave, index = plan.rollout.wave(name), plan.rollout.index(name)
    count = sum(planned.wave == name for planned in plan.changes)
    soak = f" and {duration(wave.soak_ms)} of soak" if wave.soak_ms else ""
    then = "" if ungated else f"; then its gates{soak}"
    place = f"{index + 1} of {len(plan.rollout.waves)}"
    return f"wave {name} ({place}): {', '.join(wave.clusters)}; {counted(count, 'change')}{then}"


def gates_words(gates: Gates) -> str:
    parts = [
        f"at most {gates.offline_partitions} offline and"
        f" {gates.under_replicated_partitions} under-replicated partitions a cluster"
    ]
    if gates.mirrors is not MirrorGate.IGNORED:
        parts.append(f"mirrors {gates.mirrors}")
    if gates.lag_ms is not None:
        parts.append(f"flows at most {duration(gates.lag_ms)} behind")
    wait = f"after a wave they have {duration(gates.wait_ms)} to hold"
    return f"gates before the first wave, after each and through its soak: {', '.join(parts)}; {wait}"


def ignored_words(reason: str) -> str:
    return f"gates and soaks are left out: {reason}"


def rollout_value(status: RolloutStatus, now_ms: int) -> Mapping[str, Any]:
    """For JSON."""
    kept = status.promotion if isinstance(status.promotion, Promotion) else None
    return {
        "under_way": None if isinstance(status.promotion, Unknown) else status.under_way,
        "halted": kept.halted if kept else "",
        "holder": _holder(status, now_ms) or None,
        "waves": [
            {"name": wave.name, "clusters": list(wave.clusters), "state": wave_state(wave, status.promotion)}
            | ({"soaked_ms": kept.soaked_ms(wave.clusters), "soak_ms": wave.soak_ms} if kept else {})
            for wave in status.course.waves
        ],
        "gates": [{"gate": fault.gate, "subject": fault.subject, "text": fault.text} for fault in status.found],
    }


def rollout_lines(status: RolloutStatus, now_ms: int) -> list[str]:
    if isinstance(status.promotion, Unknown):
        lines = [f"rollout: unknown: {status.promotion.with_todo}"]
    elif status.under_way:
        holder = _holder(status, now_ms)
        lines = [f"rollout: under way, {'by ' + holder if holder else 'and no run continues with it'}"]
        for wave in status.course.waves:
            state = wave_state(wave, status.promotion)
            if state == "begun":
                state = "begun, its changes are not all done"
            elif state == "soaking" and status.promotion is not None:
                rest = max(0, wave.soak_ms - status.promotion.soaked_ms(status.promotion.pending(wave.clusters)))
                left = f"{time_words(rest / 1000)} of {time_words(wave.soak_ms / 1000)} left to soak"
                state = f"its changes are done, {left}"
            lines.append(f"  wave {wave.name}: {state}")
        if status.promotion is not None and status.promotion.halted:
            lines.append(f"  halted: {status.promotion.halted}")
    else:
        lines = [f"rollout: none under way; waves: {', '.join(status.course.names)}"]
    lines += [f"  gate: {fault}" for fault in status.found] or ["  all gates hold"]
    return lines


def _holder(status: RolloutStatus, now_ms: int) -> str:
    if status.lock is None or status.lock.left_ms(now_ms) <= 0:
        return ""
    return status.lock.words(now_ms)
