"""Changes in words, by kind of resource, all of them in ``WORDS``.

Decisions about a change are in ``resources.<kind>.kind``; this module only words them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, assert_never

from reconciler.engine.kinds import kind_of
from reconciler.model import changes
from reconciler.model.config_values import human
from reconciler.model.live import Source
from reconciler.model.principals import WILDCARD, AclBinding, Operation, PatternType, limit_words, user_words, word
from reconciler.text import counted, first_of, grouped, size_words, time_words

Changed = TypeVar("Changed")
SHOWN = 5
FEWEST_TOGETHER, NAMES_TOGETHER = 3, 8
"""Number of names from which equal rules share a line, and number of names that the line then shows."""
FEW = 2
"""Configs that a headline names with their values."""
_FEW_REPLICAS = 3
_TAKEN_OVER = "and {} configs at what the source's brokers have by default (use_defaults_from: source)"


@dataclass(frozen=True, slots=True)
class FieldValues:
    """One field of a change, for a table: present and future value. ``name``: empty for the whole resource. ``before``:
    empty for a new one, None if not applicable; ``after``: empty for a removal."""

    name: str
    before: str | None
    after: str


class Words(ABC, Generic[Changed]):
    """Words for one kind of resource."""

    noun: ClassVar[str]
    """Plural noun of several equal changes."""

    @abstractmethod
    def subject(self, change: Changed) -> str:
        """Its name within its cluster."""

    @abstractmethod
    def headline(self, change: Changed, why: str) -> str:
        """What happens. ``why``: as ``; why``, or empty."""

    @abstractmethod
    def signature(self, change: Changed) -> object:
        """Equal for changes that can share an entry: they have the same headline and the same values. Names and origins
        may differ."""

    @abstractmethod
    def lines(self, alike: Sequence[Changed]) -> Iterable[str]:
        """Under the headline. ``alike`` have one signature; origins may differ and are then left out."""

    @abstractmethod
    def fields(self, change: Changed) -> Iterable[FieldValues]:
        """How it is and how it will be, field by field."""


@dataclass(frozen=True, slots=True)
class OutlinedValue:
    """One config in words. Without ``after``: several keys that share the origin ``by``."""

    key: str
    before: str
    """Empty for a new topic."""
    before_source: str
    """The level at which the present value is set, in Kafka's words."""
    after: str
    by: str
    """The layer or flow that decided; empty if origins differ."""

    def __str__(self) -> str:
        if not self.after:
            return f"{self.by}: {self.key}"
        by = f" ({self.by})" if self.by else ""
        before = f": {self.before} ({self.before_source}) ->" if self.before else " ="
        return f"{self.key}{before} {self.after}{by}"


def outlined_values(alike: Sequence[changes.Change]) -> Iterator[OutlinedValue]:
    """The configs of changes with one signature; none of other changes."""
    first = alike[0]
    if not isinstance(first, changes.CreateTopic | changes.AlterConfigs):
        return
    # With ``use_defaults_from: source`` a new topic gets mere defaults of the source. Many of them share one line, so
    # that twenty do not hide the few that an author chose.
    fresh = [config for config in first.configs if config.before is None and not config.before_source]
    usual = [config for config in fresh if config.origin.endswith(f", {Source.BUILT_IN.value}")]
    usual = usual if len(usual) > SHOWN else []
    for index, config in enumerate(first.configs):
        if config in usual:
            continue
        origins = {other.configs[index].origin for other in alike if isinstance(other, type(first))}
        by = (config.origin if len(origins) == 1 else "", "in no file" if config.undeclared else "")
        before = "" if config in fresh else human(config.key, config.before)
        after = "remove the override" if config.after is None else human(config.key, config.after)
        yield OutlinedValue(config.key, before, config.before_source, after, ", ".join(filter(None, by)))
    if usual:
        yield OutlinedValue(", ".join(config.key for config in usual), "", "", "", _TAKEN_OVER.format(len(usual)))


class TopicWords(Words[changes.TopicChange]):
    noun = "topic"

    def subject(self, change: changes.TopicChange) -> str:
        return change.ref.name

    def headline(self, change: changes.TopicChange, why: str) -> str:
        match change:
            case changes.CreateTopic():
                return f"create, {change.shape}{why}"
            case changes.AddPartitions():
                return f"partitions {change.before} -> {change.after}{why}"
            case changes.AlterConfigs(configs=configs) if len(configs) > FEW:
                return f"{counted(len(configs), 'config')}{why}"
            case changes.AlterConfigs():
                few = []  # with their values, which are the change
                for config in change.configs:
                    before = human(config.key, config.before) if config.before else "(not set)"
                    after = "no override" if config.after is None else human(config.key, config.after)
                    few.append(f"{config.key} {before} -> {after}")
                return f"{', '.join(few)}{why}"
            case changes.DeleteTopic():
                return f"DELETE, {counted(change.partitions, 'partition')}{why}"
            case _:
                assert_never(change)

    def signature(self, change: changes.TopicChange) -> object:
        match change:
            case changes.CreateTopic():
                return (
                    "create",
                    change.partitions,
                    change.replication_factor,
                    _values(change.configs),
                    change.reason.code,
                )
            case changes.AddPartitions():
                return "grow", change.before, change.after, change.reason.code
            case changes.AlterConfigs():
                return "configs", _values(change.configs), change.reason.code
            case changes.DeleteTopic():
                return change  # a reader looks at each: its records do not come back
            case _:
                assert_never(change)

    def lines(self, alike: Sequence[changes.TopicChange]) -> Iterator[str]:
        first = alike[0]
        if isinstance(first, changes.DeleteTopic):
            until = f"; the tombstone counts until {first.expires}" if first.expires else ""
            yield f"topic id {first.topic_id}{until}"
        yield from map(str, outlined_values(alike))

    def fields(self, change: changes.TopicChange) -> Iterator[FieldValues]:
        match change:
            case changes.CreateTopic():
                yield FieldValues("", "", change.shape)
            case changes.AddPartitions():
                yield FieldValues("partitions", f"{change.before:,}", f"{change.after:,}")
            case changes.DeleteTopic():
                yield FieldValues("", counted(change.partitions, "partition"), "")
            case changes.AlterConfigs():
                pass
            case _:
                assert_never(change)
        for value in outlined_values([change]):
            before = f"{value.before} ({value.before_source})" if value.before_source else value.before
            yield FieldValues(value.key, before, value.after or value.by)


def _values(configs: Sequence[changes.ConfigChange]) -> tuple[tuple[str, str | None, str, str | None, bool], ...]:
    """Without their origins."""
    return tuple(
        (config.key, config.before, config.before_source, config.after, config.undeclared) for config in configs
    )


class ReplicaWords(Words[changes.ReplicaChange]):
    noun = "topic"

    def subject(self, change: changes.ReplicaChange) -> str:
        return change.ref.name if isinstance(change, changes.ReassignReplicas) else "reassignment"

    def headline(self, change: changes.ReplicaChange, why: str) -> str:
        if isinstance(change, changes.FinishReassignment):
            return f"finish and clear its throttles{why}"
        return f"replication factor {change.before or 'mixed'} -> {change.after}{why}"

    def signature(self, change: changes.ReplicaChange) -> object:
        if isinstance(change, changes.FinishReassignment):
            return change  # each finishes reassignments of its own
        return "replicas", change.before, change.after, change.pace, change.in_flight > 0, change.reason.code

    def lines(self, alike: Sequence[changes.ReplicaChange]) -> Iterator[str]:
        first = alike[0]
        if isinstance(first, changes.FinishReassignment):
            if first.in_flight:
                yield f"waits for {counted(first.in_flight, 'partition')} on the way"
            if first.brokers:
                yield f"clears our throttle rates on broker {', '.join(map(str, first.brokers))}"
            if first.topics:
                more = len(first.topics) - _FEW_REPLICAS
                others = f" and {counted(more, 'topic')} more" if more > 0 else ""
                yield f"clears our throttled replicas of {', '.join(first.topics[:_FEW_REPLICAS])}{others}"
            return
        moves = [change for change in alike if isinstance(change, changes.ReassignReplicas)]
        moved = [placement for change in moves for placement in change.placements]
        if len(moves) == 1:  # a single topic has room for the places of its partitions
            for placement in moved[:_FEW_REPLICAS]:
                before, after = (", ".join(map(str, brokers)) for brokers in (placement.before, placement.after))
                yield f"partition {placement.partition}: {before} -> {after}"
            if len(moved) > _FEW_REPLICAS:
                yield f"and {counted(len(moved) - _FEW_REPLICAS, 'partition')} more"
            if first.before is not None and first.partitions > len(moved):
                yield f"partitions that come in this plan follow: {first.partitions} in all"
        else:
            yield counted(len(moved), "partition")
        if begun := sum(change.in_flight for change in moves):
            yield f"continues with {counted(begun, 'partition')} that an earlier run began"
        if size := sum(change.bytes_to_copy for change in moves):
            pace, together = first.pace, time_words(sum(change.seconds for change in moves))
            at_once = f"{size_words(pace.bytes_in_flight)} or {counted(pace.partitions_in_flight, 'partition')}"
            throttled = f"throttled to {size_words(pace.throttle)}/s a broker"
            yield f"{size_words(size)} to copy, {throttled}, about {together}; at most {at_once} at a time"

    def fields(self, change: changes.ReplicaChange) -> Iterator[FieldValues]:
        if isinstance(change, changes.FinishReassignment):
            yield FieldValues("reassignment", "on the way", "finished")
            return
        yield FieldValues("replication factor", str(change.before or "mixed"), str(change.after))
        if change.bytes_to_copy:
            yield FieldValues(
                "to copy", None, f"{size_words(change.bytes_to_copy)}, about {time_words(change.seconds)}"
            )


class AclWords(Words[changes.AclChange]):
    noun = "access rule"

    def subject(self, change: changes.AclChange) -> str:
        return change.grant.title

    def headline(self, change: changes.AclChange, why: str) -> str:  # noqa: ARG002 - all there is to say of a rule is why
        return change.reason.text

    def signature(self, change: changes.AclChange) -> object:
        return type(change).__name__, change.grant.title, change.reason

    def lines(self, alike: Sequence[changes.AclChange]) -> Iterable[str]:
        return (words for words, _ in rules_together(change.acl for change in alike))

    def fields(self, change: changes.AclChange) -> Iterator[FieldValues]:
        rule = str(change.acl)
        yield FieldValues("", "", rule) if isinstance(change, changes.CreateAcl) else FieldValues("", rule, "")


def rules_together(rules: Iterable[AclBinding]) -> Iterator[tuple[str, tuple[AclBinding, ...]]]:
    """Lines of words with their rules. From three names on, rules that differ only in names share a line with a
    count."""
    alike = grouped((replace(rule, name=""), rule) for rule in rules)
    names_of = {form: tuple(rule.name for rule in its) for form, its in alike.items()}
    # A role has the same operations on each of its names: these are one line, too.
    by_names = grouped(((replace(form, operation=Operation.ALL), names_of[form]), form) for form in alike)
    for (form, names), forms in by_names.items():
        together = tuple(rule for each in forms for rule in alike[each])
        if len(names) < FEWEST_TOGETHER:
            yield from ((str(rule), (rule,)) for rule in together)
            continue
        noun = f"{form.resource} prefix" if form.pattern is PatternType.PREFIXED else str(form.resource)
        on = counted(len(names), noun, f"{noun}es" if form.pattern is PatternType.PREFIXED else "")
        where = "" if form.host == WILDCARD else f" from {form.host}"
        shown = first_of([word(name) for name in names], NAMES_TOGETHER)
        operations = ", ".join(each.operation for each in forms)
        yield f"{form.permission} {word(form.principal)} {operations} on {on}{where}: {shown}", together


class QuotaWords(Words[changes.AlterQuota]):
    noun = "quota"

    def subject(self, change: changes.AlterQuota) -> str:
        return str(change.entity)

    def headline(self, change: changes.AlterQuota, why: str) -> str:
        gone = all(limit.after is None for limit in change.limits)
        return f"{'remove ' if gone else ''}{counted(len(change.limits), 'limit')}{why}"

    def signature(self, change: changes.AlterQuota) -> object:
        return "quota", change.limits, change.reason.code

    def lines(self, alike: Sequence[changes.AlterQuota]) -> Iterator[str]:
        for limit in self.fields(alike[0]):
            yield f"{limit.name}: {limit.before or 'none'} -> {limit.after or 'none'}"

    def fields(self, change: changes.AlterQuota) -> Iterator[FieldValues]:
        for limit in change.limits:
            values = (limit.before, limit.after)
            before, after = ("" if value is None else limit_words(limit.key, value) for value in values)
            yield FieldValues(limit.key, before, after)


class UserWords(Words[changes.UserChange]):
    noun = "user"

    def subject(self, change: changes.UserChange) -> str:
        return f"SCRAM {user_words(change.user)}"

    def headline(self, change: changes.UserChange, why: str) -> str:
        if isinstance(change, changes.DeleteUser):
            return f"{'delete ' + ', '.join(change.mechanisms) if change.left else 'DELETE the user'}{why}"
        verb = "create with" if change.is_new and change.recorded is None else "set"
        if change.recorded == change.version:
            return f"{verb} the password of version {change.version} again{why}"
        before = "" if change.recorded is None else f", before {change.recorded}"
        return f"{verb} the password of version {change.version}{before}{why}"

    def signature(self, change: changes.UserChange) -> object:
        if isinstance(change, changes.DeleteUser):
            return "delete user", change.mechanisms, change.left, change.reason.code
        versions = change.recorded, change.version
        return "user", change.credentials, versions, bool(change.password), change.reason.code

    def lines(self, alike: Sequence[changes.UserChange]) -> Iterator[str]:
        first = alike[0]
        if isinstance(first, changes.DeleteUser):
            stays = f", {' and '.join(first.left)} stays" if first.left else ""
            yield f"{' and '.join(first.mechanisms)} goes{stays}"
            return
        for each in first.credentials:
            before = "" if each.before == each.after else f"{each.before or 'none'} -> "
            yield f"{each.mechanism}: {before}{each.after} iterations, newly salted"
        references = list(dict.fromkeys(change.password for change in alike if isinstance(change, changes.AlterUser)))
        yield f"password from {first_of(references)}"

    def fields(self, change: changes.UserChange) -> Iterator[FieldValues]:
        if isinstance(change, changes.DeleteUser):
            yield from (FieldValues(mechanism, "there", "") for mechanism in change.mechanisms)
            return
        yield FieldValues(
            "password", f"version {change.recorded}" if change.recorded else "", f"version {change.version}"
        )
        for each in change.credentials:
            before = "" if each.before is None else f"{each.before} iterations"
            yield FieldValues(str(each.mechanism), before, f"{each.after} iterations, newly salted")


def _job(change: changes.MirrorChange) -> tuple[str, FieldValues]:
    """The effect on the job, in a headline and as a field."""
    match change:
        case changes.StartMirror():
            return "start", FieldValues("job", "", "started")
        case changes.RestartMirror():
            return "restart once", FieldValues("job", "running", "restarted once")
        case changes.StopMirror():
            return "stop", FieldValues("job", "running", "")
        case _:
            assert_never(change)


class MirrorWords(Words[changes.MirrorChange]):
    noun = "mirror"

    def subject(self, change: changes.MirrorChange) -> str:
        return str(change.subject)

    def headline(self, change: changes.MirrorChange, why: str) -> str:
        return f"{_job(change)[0]}{why}"

    def signature(self, change: changes.MirrorChange) -> object:
        return change

    def lines(self, alike: Sequence[changes.MirrorChange]) -> Iterator[str]:
        change = alike[0]
        if not isinstance(change, changes.StopMirror):
            yield from change.because
            before = f"{change.before} -> " if isinstance(change, changes.RestartMirror) else ""
            yield f"fingerprint {before}{change.fingerprint}"

    def fields(self, change: changes.MirrorChange) -> Iterator[FieldValues]:
        yield _job(change)[1]
        if not isinstance(change, changes.StopMirror):
            yield from (FieldValues("because", None, line) for line in change.because)


WORDS: Mapping[changes.KindName, Words[Any]] = {
    changes.KindName.TOPICS: TopicWords(),
    changes.KindName.REPLICAS: ReplicaWords(),
    changes.KindName.ACLS: AclWords(),
    changes.KindName.QUOTAS: QuotaWords(),
    changes.KindName.USERS: UserWords(),
    changes.KindName.MIRRORS: MirrorWords(),
}


def words_of(change: changes.Change) -> Words[Any]:
    """Raises TypeError for a change that no kind knows."""
    return WORDS[kind_of(change).name]


def headline(change: changes.Change, alone: bool = True) -> str:
    """What happens; with ``alone`` also why."""
    return words_of(change).headline(change, f"; {change.reason.text}" if alone else "")
