"""Changes in words, by kind of resource, all of them in ``WORDS``.

What is decided about a change is in ``resources.<kind>.kind``; here is what people read of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_never

from reconciler.engine.kinds import kind_of
from reconciler.model.changes import (
    AclChange,
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    ConfigChange,
    CreateAcl,
    CreateTopic,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    KindName,
    LimitChange,
    MirrorChange,
    ReassignReplicas,
    ReplicaChange,
    RestartMirror,
    StartMirror,
    StopMirror,
    TopicChange,
    UserChange,
)
from reconciler.model.config_values import human
from reconciler.model.live import Source
from reconciler.model.quotas import limit_words
from reconciler.model.users import user_words
from reconciler.text import counted, first_of, size_words, time_words

Changed = TypeVar("Changed")
SHOWN = 5
FEW = 2
"""Configs that a headline names with their values."""
_FEW_REPLICAS = 3
_TAKEN_OVER = "and {} configs at what the source's brokers have by default (use_defaults_from: source)"


@dataclass(frozen=True, slots=True)
class FieldValues:
    """One field of a change, for a table: how it is and how it will be. ``name`` empty: the resource as a whole.
    ``before`` empty: it does not exist yet, None: there is nothing to say of it; ``after`` empty: it is removed."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Words(Generic[Changed]):
    """``noun``: of several that change alike. ``subject``: within its cluster. ``headline``: what happens, given
    ``; why`` or nothing. ``signature``: equal for changes that can share an entry. ``lines``: under the headline, of
    changes with one signature; origins may differ and are then left out. ``fields``: of the first of such changes."""

    noun: str
    subject: Callable[[Changed], str]
    headline: Callable[[Changed, str], str]
    signature: Callable[[Changed], object]
    lines: Callable[[Sequence[Changed]], Iterable[str]]
    fields: Callable[[Changed], Iterable[FieldValues]]


# topics


@dataclass(frozen=True, slots=True)
class OutlinedValue:
    """One config in words. ``before`` is empty for a new topic; ``by`` is empty if origins differ. Without ``after``:
    several keys that share the origin ``by``."""

    key: str
    before: str
    before_source: str
    after: str
    by: str

    def __str__(self) -> str:
        if not self.after:
            return f"{self.by}: {self.key}"
        by = f" ({self.by})" if self.by else ""
        before = f": {self.before} ({self.before_source}) ->" if self.before else " ="
        return f"{self.key}{before} {self.after}{by}"


def outlined_values(changes: Sequence[Change]) -> Iterator[OutlinedValue]:
    """The configs of changes with one signature; none of other changes."""
    first = changes[0]
    if not isinstance(first, CreateTopic | AlterConfigs):
        return
    # ``use_defaults_from: source`` writes what is a mere default at the source on a new topic. If these are many they
    # share one line: twenty of them hide the few that an author chose.
    fresh = [config for config in first.configs if config.before is None and not config.before_source]
    usual = [config for config in fresh if config.origin.endswith(f", {Source.BUILT_IN.value}")]
    usual = usual if len(usual) > SHOWN else []
    for index, config in enumerate(first.configs):
        if config in usual:
            continue
        origins = {other.configs[index].origin for other in changes if isinstance(other, type(first))}
        by = (config.origin if len(origins) == 1 else "", "in no file" if config.undeclared else "")
        before = "" if config in fresh else human(config.key, config.before)
        after = "remove the override" if config.after is None else human(config.key, config.after)
        yield OutlinedValue(config.key, before, config.before_source, after, ", ".join(filter(None, by)))
    if usual:
        yield OutlinedValue(", ".join(config.key for config in usual), "", "", "", _TAKEN_OVER.format(len(usual)))


def _topic_headline(change: TopicChange, why: str) -> str:
    match change:
        case CreateTopic():
            return f"create, {change.shape}{why}"
        case AddPartitions():
            return f"partitions {change.before} -> {change.after}{why}"
        case AlterConfigs(configs=configs) if len(configs) > FEW:
            return f"{counted(len(configs), 'config')}{why}"
        case AlterConfigs():
            few = []  # with their values: they are what the change is
            for config in change.configs:
                before = human(config.key, config.before) if config.before else "(not set)"
                after = "no override" if config.after is None else human(config.key, config.after)
                few.append(f"{config.key} {before} -> {after}")
            return f"{', '.join(few)}{why}"
        case DeleteTopic():
            return f"DELETE, {counted(change.partitions, 'partition')}{why}"
        case _:
            assert_never(change)


def _topic_signature(change: TopicChange) -> object:
    match change:
        case CreateTopic():
            return "create", change.partitions, change.replication_factor, _values(change.configs), change.reason.code
        case AddPartitions():
            return "grow", change.before, change.after, change.reason.code
        case AlterConfigs():
            return "configs", _values(change.configs), change.reason.code
        case DeleteTopic():
            return change
        case _:
            assert_never(change)


def _values(configs: Sequence[ConfigChange]) -> tuple[tuple[str, str | None, str, str | None, bool], ...]:
    """Without their origins."""
    return tuple(
        (config.key, config.before, config.before_source, config.after, config.undeclared) for config in configs
    )


def _topic_lines(changes: Sequence[TopicChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, DeleteTopic):
        until = f"; the tombstone counts until {first.expires}" if first.expires else ""
        yield f"topic id {first.topic_id}{until}"
    yield from map(str, outlined_values(changes))


def _topic_fields(change: TopicChange) -> Iterator[FieldValues]:
    match change:
        case CreateTopic():
            yield FieldValues("", "", change.shape)
        case AddPartitions():
            yield FieldValues("partitions", f"{change.before:,}", f"{change.after:,}")
        case DeleteTopic():
            yield FieldValues("", counted(change.partitions, "partition"), "")
        case AlterConfigs():
            pass
        case _:
            assert_never(change)
    for value in outlined_values([change]):
        before = f"{value.before} ({value.before_source})" if value.before_source else value.before
        yield FieldValues(value.key, before, value.after or value.by)


TOPICS: Words[TopicChange] = Words(
    noun="topic",
    subject=lambda change: change.ref.name,
    headline=_topic_headline,
    signature=_topic_signature,
    lines=_topic_lines,
    fields=_topic_fields,
)


# replicas


def _replica_headline(change: ReplicaChange, why: str) -> str:
    if isinstance(change, FinishReassignment):
        return f"finish and clear its throttles{why}"
    return f"replication factor {change.before or 'mixed'} -> {change.after}{why}"


def _replica_signature(change: ReplicaChange) -> object:
    if isinstance(change, FinishReassignment):
        return change
    return "replicas", change.before, change.after, change.pace, change.in_flight > 0, change.reason.code


def _replica_lines(changes: Sequence[ReplicaChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, FinishReassignment):
        if first.in_flight:
            yield f"waits for {counted(first.in_flight, 'partition')} on the way"
        if first.brokers:
            yield f"clears our throttle rates on broker {', '.join(map(str, first.brokers))}"
        if first.topics:
            more = len(first.topics) - _FEW_REPLICAS
            others = f" and {counted(more, 'topic')} more" if more > 0 else ""
            yield f"clears our throttled replicas of {', '.join(first.topics[:_FEW_REPLICAS])}{others}"
        return
    alike = [change for change in changes if isinstance(change, ReassignReplicas)]
    moved = [placement for change in alike for placement in change.placements]
    if len(alike) == 1:  # one topic has room for where its partitions go
        for placement in moved[:_FEW_REPLICAS]:
            before, after = (", ".join(map(str, brokers)) for brokers in (placement.before, placement.after))
            yield f"partition {placement.partition}: {before} -> {after}"
        if len(moved) > _FEW_REPLICAS:
            yield f"and {counted(len(moved) - _FEW_REPLICAS, 'partition')} more"
        if first.before is not None and first.partitions > len(moved):
            yield f"partitions that come in this plan follow: {first.partitions} in all"
    else:
        yield counted(len(moved), "partition")
    if begun := sum(change.in_flight for change in alike):
        yield f"goes on with {counted(begun, 'partition')} that an earlier run began"
    if size := sum(change.bytes_to_copy for change in alike):
        pace, together = first.pace, time_words(sum(change.seconds for change in alike))
        at_once = f"{size_words(pace.bytes_in_flight)} or {counted(pace.partitions_in_flight, 'partition')}"
        throttled = f"throttled to {size_words(pace.throttle)}/s a broker"
        yield f"{size_words(size)} to copy, {throttled}, about {together}; at most {at_once} at a time"


def _replica_fields(change: ReplicaChange) -> Iterator[FieldValues]:
    if isinstance(change, FinishReassignment):
        yield FieldValues("reassignment", "on the way", "finished")
        return
    yield FieldValues("replication factor", str(change.before or "mixed"), str(change.after))
    if change.bytes_to_copy:
        yield FieldValues("to copy", None, f"{size_words(change.bytes_to_copy)}, about {time_words(change.seconds)}")


REPLICAS: Words[ReplicaChange] = Words(
    noun="topic",
    subject=lambda change: change.ref.name if isinstance(change, ReassignReplicas) else "reassignment",
    headline=_replica_headline,
    signature=_replica_signature,
    lines=_replica_lines,
    fields=_replica_fields,
)


# access rules and quotas


def _acl_fields(change: AclChange) -> Iterator[FieldValues]:
    rule = str(change.acl)
    yield FieldValues("", "", rule) if isinstance(change, CreateAcl) else FieldValues("", rule, "")


ACLS: Words[AclChange] = Words(
    noun="access rule",
    subject=lambda change: change.grant.title,
    headline=lambda change, _: change.reason.text,
    signature=lambda change: (type(change).__name__, change.grant.title, change.reason),
    lines=lambda changes: (str(change.acl) for change in changes),
    fields=_acl_fields,
)


def _quota_headline(change: AlterQuota, why: str) -> str:
    gone = all(limit.after is None for limit in change.limits)
    return f"{'remove ' if gone else ''}{counted(len(change.limits), 'limit')}{why}"


def _quota_lines(changes: Sequence[AlterQuota]) -> Iterator[str]:
    for limit in map(_limit, changes[0].limits):
        yield f"{limit.name}: {limit.before or 'none'} -> {limit.after or 'none'}"


def _limit(change: LimitChange) -> FieldValues:
    values = (change.before, change.after)
    before, after = ("" if value is None else limit_words(change.key, value) for value in values)
    return FieldValues(change.key, before, after)


QUOTAS: Words[AlterQuota] = Words(
    noun="quota",
    subject=lambda change: str(change.entity),
    headline=_quota_headline,
    signature=lambda change: ("quota", change.limits, change.reason.code),
    lines=_quota_lines,
    fields=lambda change: map(_limit, change.limits),
)


# users


def _user_headline(change: UserChange, why: str) -> str:
    if isinstance(change, DeleteUser):
        return f"{'delete ' + ', '.join(change.mechanisms) if change.left else 'DELETE the user'}{why}"
    verb = "create with" if change.is_new and change.recorded is None else "set"
    if change.recorded == change.version:
        return f"{verb} the password of version {change.version} again{why}"
    before = "" if change.recorded is None else f", before {change.recorded}"
    return f"{verb} the password of version {change.version}{before}{why}"


def _user_signature(change: UserChange) -> object:
    if isinstance(change, DeleteUser):
        return "delete user", change.mechanisms, change.left, change.reason.code
    versions = change.recorded, change.version
    return "user", change.credentials, versions, bool(change.password), change.reason.code


def _user_lines(changes: Sequence[UserChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, DeleteUser):
        stays = f", {' and '.join(first.left)} stays" if first.left else ""
        yield f"{' and '.join(first.mechanisms)} goes{stays}"
        return
    for each in first.credentials:
        before = "" if each.before == each.after else f"{each.before or 'none'} -> "
        yield f"{each.mechanism}: {before}{each.after} iterations, salted anew"
    references = list(dict.fromkeys(change.password for change in changes if isinstance(change, AlterUser)))
    yield f"password from {first_of(references, SHOWN)}"


def _user_fields(change: UserChange) -> Iterator[FieldValues]:
    if isinstance(change, DeleteUser):
        yield from (FieldValues(mechanism, "there", "") for mechanism in change.mechanisms)
        return
    yield FieldValues("password", f"version {change.recorded}" if change.recorded else "", f"version {change.version}")
    for each in change.credentials:
        before = "" if each.before is None else f"{each.before} iterations"
        yield FieldValues(str(each.mechanism), before, f"{each.after} iterations, salted anew")


USERS: Words[UserChange] = Words(
    noun="user",
    subject=lambda change: f"SCRAM {user_words(change.user)}",
    headline=_user_headline,
    signature=_user_signature,
    lines=_user_lines,
    fields=_user_fields,
)


# mirror jobs


def _job(change: MirrorChange) -> tuple[str, FieldValues]:
    """What happens to the job, in a headline and as a field."""
    match change:
        case StartMirror():
            return "start", FieldValues("job", "", "started")
        case RestartMirror():
            return "restart once", FieldValues("job", "running", "restarted once")
        case StopMirror():
            return "stop", FieldValues("job", "running", "")
        case _:
            assert_never(change)


def _mirror_lines(changes: Sequence[MirrorChange]) -> Iterator[str]:
    change = changes[0]
    if not isinstance(change, StopMirror):
        yield from change.because
        before = f"{change.before} -> " if isinstance(change, RestartMirror) else ""
        yield f"fingerprint {before}{change.fingerprint}"


def _mirror_fields(change: MirrorChange) -> Iterator[FieldValues]:
    yield _job(change)[1]
    if not isinstance(change, StopMirror):
        yield from (FieldValues("because", None, line) for line in change.because)


MIRRORS: Words[MirrorChange] = Words(
    noun="mirror",
    subject=lambda change: str(change.subject),
    headline=lambda change, why: f"{_job(change)[0]}{why}",
    signature=lambda change: change,
    lines=_mirror_lines,
    fields=_mirror_fields,
)


WORDS: Mapping[KindName, Words[Any]] = {
    KindName.TOPICS: TOPICS,
    KindName.REPLICAS: REPLICAS,
    KindName.ACLS: ACLS,
    KindName.QUOTAS: QUOTAS,
    KindName.USERS: USERS,
    KindName.MIRRORS: MIRRORS,
}


def words_of(change: Change) -> Words[Any]:
    """Raises TypeError for a change that no kind knows."""
    return WORDS[kind_of(change).name]


def headline(change: Change, alone: bool = True) -> str:
    """What happens; with ``alone`` also why."""
    return words_of(change).headline(change, f"; {change.reason.text}" if alone else "")


def signature(change: Change) -> object:
    """Equal for changes that can share an entry."""
    return words_of(change).signature(change)


def fields_of(change: Change) -> Iterable[FieldValues]:
    """How it is and how it will be, field by field."""
    return words_of(change).fields(change)


def described(changes: Sequence[Change]) -> Iterable[str]:
    """Lines under the headline. ``changes`` have one signature; origins may differ and are then left out."""
    return words_of(changes[0]).lines(changes)
