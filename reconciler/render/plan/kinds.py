"""Changes in words, by kind of resource, all of them in ``WORDS``."""

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
    CredentialChange,
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
from reconciler.model.replicas import Placement
from reconciler.model.users import user_words
from reconciler.text import counted, first_of, size_words, time_words

Changed = TypeVar("Changed")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class FieldValues:
    """One field of a change, for a table: how it is and how it will be. ``name`` empty: the thing as a whole.
    ``before`` empty: it is not there, None: there is nothing to say of it; ``after`` empty: it goes."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Words(Generic[Changed]):
    """``noun``: of several that change alike. ``subject``: within its cluster. ``headline``: what happens, given
    ``; why`` or nothing. ``signature``: equal for changes that may be told as one. ``lines``: under the headline, of
    changes with one signature; origins may differ and are then left out. ``fields``: of the first of such changes."""

    noun: str
    subject: Callable[[Changed], str]
    headline: Callable[[Changed, str], str]
    signature: Callable[[Changed], object]
    lines: Callable[[Sequence[Changed]], Iterable[str]]
    fields: Callable[[Changed], Iterable[FieldValues]]


FEW = 2
"""Configs that a headline names with their values."""
_TAKEN_OVER = "and {} configs at what the source's brokers have by default (use_defaults_from: source)"


@dataclass(frozen=True, slots=True)
class OutlinedValue:
    """One config in words. ``before`` is empty for a topic that is new; ``by`` is empty where origins differ. Without
    ``after``: several keys, of which ``by`` tells the same."""

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


def _topic_headline(change: TopicChange, why: str) -> str:
    match change:
        case CreateTopic():
            return f"create, {change.shape}{why}"
        case AddPartitions():
            return f"partitions {change.before} -> {change.after}{why}"
        case AlterConfigs():
            return f"{_config_words(change.configs)}{why}"
        case DeleteTopic():
            return f"DELETE, {counted(change.partitions, 'partition')}{why}"
        case _:
            assert_never(change)


def _config_words(configs: Sequence[ConfigChange]) -> str:
    """A few with their values: they are what the change is."""
    if len(configs) > FEW:
        return counted(len(configs), "config")
    return ", ".join(map(_short, configs))


def _short(config: ConfigChange) -> str:
    before = human(config.key, config.before) if config.before else "(not set)"
    return f"{config.key} {before} -> {'no override' if config.after is None else human(config.key, config.after)}"


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


def _topic_lines(changes: Sequence[TopicChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, DeleteTopic):
        until = f"; the tombstone counts until {first.expires}" if first.expires else ""
        yield f"topic id {first.topic_id}{until}"
    yield from map(str, outlined_values(changes))


def outlined_values(changes: Sequence[Change]) -> Iterator[OutlinedValue]:
    """The configs of changes with one signature; none of other changes."""
    first = changes[0]
    if not isinstance(first, CreateTopic | AlterConfigs):
        return
    usual = _defaults_taken_over(first)
    for index, config in enumerate(first.configs):
        origins = {other.configs[index].origin for other in changes if isinstance(other, type(first))}
        if config not in usual:
            yield _value(config, config.origin if len(origins) == 1 else "")
    if usual:
        yield OutlinedValue(", ".join(config.key for config in usual), "", "", "", _TAKEN_OVER.format(len(usual)))


def _defaults_taken_over(change: CreateTopic | AlterConfigs) -> tuple[ConfigChange, ...]:
    """What ``use_defaults_from: source`` writes on a new topic though nobody at the source chose it. Told in one line
    where they are many: twenty of them hide the few that somebody chose."""
    fresh = [config for config in change.configs if config.before is None and not config.before_source]
    configs = tuple(config for config in fresh if config.origin.endswith(f", {Source.BUILT_IN.value}"))
    return configs if len(configs) > SHOWN else ()


def _value(change: ConfigChange, by: str) -> OutlinedValue:
    fresh = change.before is None and not change.before_source
    before = "" if fresh else human(change.key, change.before)
    after = "remove the override" if change.after is None else human(change.key, change.after)
    by = ", ".join(part for part in (by, "in no file" if change.undeclared else "") if part)
    return OutlinedValue(change.key, before, change.before_source, after, by)


def _values(configs: Sequence[ConfigChange]) -> tuple[tuple[str, str | None, str, str | None, bool], ...]:
    return tuple(
        (config.key, config.before, config.before_source, config.after, config.undeclared) for config in configs
    )


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
    "topic", lambda change: change.ref.name, _topic_headline, _topic_signature, _topic_lines, _topic_fields
)


_FEW_REPLICAS = 3


def _replica_headline(change: ReplicaChange, why: str) -> str:
    if isinstance(change, FinishReassignment):
        return f"finish and clear its throttles{why}"
    return f"replication factor {change.before or 'mixed'} -> {change.after}{why}"


def _replica_signature(change: ReplicaChange) -> object:
    if isinstance(change, FinishReassignment):
        return change
    return "replicas", change.before, change.after, change.pace, change.in_flight > 0, change.reason.code


def _replica_lines(changes: Sequence[ReplicaChange]) -> Iterator[str]:
    if isinstance(changes[0], FinishReassignment):
        yield from _finished(changes[0])
    else:
        yield from _reassigned([change for change in changes if isinstance(change, ReassignReplicas)])


def _reassigned(changes: Sequence[ReassignReplicas]) -> Iterator[str]:
    """Lines for one topic, or for several that change alike."""
    moved = [placement for change in changes for placement in change.placements]
    if len(changes) == 1:
        yield from map(_placement, moved[:_FEW_REPLICAS])
        if len(moved) > _FEW_REPLICAS:
            yield f"and {counted(len(moved) - _FEW_REPLICAS, 'partition')} more"
        later = changes[0].partitions - len(moved)
        if changes[0].before is not None and later > 0:
            yield f"partitions that come in this plan follow: {changes[0].partitions} in all"
    else:
        yield counted(len(moved), "partition")
    if begun := sum(change.in_flight for change in changes):
        yield f"goes on with {counted(begun, 'partition')} that an earlier run began"
    if size := sum(change.bytes_to_copy for change in changes):
        pace, together = changes[0].pace, time_words(sum(change.seconds for change in changes))
        at_once = f"{size_words(pace.bytes_in_flight)} or {counted(pace.partitions_in_flight, 'partition')}"
        throttled = f"throttled to {size_words(pace.throttle)}/s a broker"
        yield f"{size_words(size)} to copy, {throttled}, about {together}; at most {at_once} at a time"


def _finished(change: FinishReassignment) -> Iterator[str]:
    if change.in_flight:
        yield f"waits for {counted(change.in_flight, 'partition')} on the way"
    if change.brokers:
        yield f"clears our throttle rates on broker {', '.join(map(str, change.brokers))}"
    if change.topics:
        more = len(change.topics) - _FEW_REPLICAS
        others = f" and {counted(more, 'topic')} more" if more > 0 else ""
        yield f"clears our throttled replicas of {', '.join(change.topics[:_FEW_REPLICAS])}{others}"


def _placement(placement: Placement) -> str:
    before, after = (", ".join(map(str, brokers)) for brokers in (placement.before, placement.after))
    return f"partition {placement.partition}: {before} -> {after}"


def _replica_subject(change: ReplicaChange) -> str:
    return change.ref.name if isinstance(change, ReassignReplicas) else "reassignment"


def _replica_fields(change: ReplicaChange) -> Iterator[FieldValues]:
    if isinstance(change, FinishReassignment):
        yield FieldValues("reassignment", "on the way", "finished")
    else:
        yield FieldValues("replication factor", str(change.before or "mixed"), str(change.after))
        if change.bytes_to_copy:
            yield FieldValues(
                "to copy", None, f"{size_words(change.bytes_to_copy)}, about {time_words(change.seconds)}"
            )


REPLICAS: Words[ReplicaChange] = Words(
    "topic", _replica_subject, _replica_headline, _replica_signature, _replica_lines, _replica_fields
)


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


def _limit(change: LimitChange) -> str:
    limit = _quota_field(change)
    return f"{limit.name}: {limit.before or 'none'} -> {limit.after or 'none'}"


def _quota_field(change: LimitChange) -> FieldValues:
    values = (change.before, change.after)
    before, after = ("" if value is None else limit_words(change.key, value) for value in values)
    return FieldValues(change.key, before, after)


QUOTAS: Words[AlterQuota] = Words(
    noun="quota",
    subject=lambda change: str(change.entity),
    headline=_quota_headline,
    signature=lambda change: ("quota", change.limits, change.reason.code),
    lines=lambda changes: map(_limit, changes[0].limits),
    fields=lambda change: map(_quota_field, change.limits),
)


def _user_headline(change: UserChange, why: str) -> str:
    if isinstance(change, DeleteUser):
        return f"{'delete ' + ', '.join(change.mechanisms) if change.left else 'DELETE the user'}{why}"
    return f"{'create with' if change.is_new and change.recorded is None else 'set'} {_password(change)}{why}"


def _password(change: AlterUser) -> str:
    if change.recorded == change.version:
        return f"the password of version {change.version} again"
    before = "" if change.recorded is None else f", before {change.recorded}"
    return f"the password of version {change.version}{before}"


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
    yield from map(_credential, first.credentials)
    references = list(dict.fromkeys(change.password for change in changes if isinstance(change, AlterUser)))
    yield f"password from {first_of(references, SHOWN)}"


def _credential(change: CredentialChange) -> str:
    if change.before == change.after:
        return f"{change.mechanism}: {change.after} iterations, salted anew"
    return f"{change.mechanism}: {change.before or 'none'} -> {change.after} iterations, salted anew"


def _user_fields(change: UserChange) -> Iterator[FieldValues]:
    if isinstance(change, DeleteUser):
        yield from (FieldValues(mechanism, "there", "") for mechanism in change.mechanisms)
        return
    yield FieldValues("password", f"version {change.recorded}" if change.recorded else "", f"version {change.version}")
    for each in change.credentials:
        before = "" if each.before is None else f"{each.before} iterations"
        yield FieldValues(str(each.mechanism), before, f"{each.after} iterations, salted anew")


USERS: Words[UserChange] = Words(
    "user",
    lambda change: f"SCRAM {user_words(change.user)}",
    _user_headline,
    _user_signature,
    _user_lines,
    _user_fields,
)


def _mirror_headline(change: MirrorChange, why: str) -> str:
    match change:
        case StartMirror():
            return f"start{why}"
        case RestartMirror():
            return f"restart once{why}"
        case StopMirror():
            return f"stop{why}"
        case _:
            assert_never(change)


def _mirror_lines(changes: Sequence[MirrorChange]) -> Iterator[str]:
    change = changes[0]
    if not isinstance(change, StopMirror):
        yield from change.because
        before = f"{change.before} -> " if isinstance(change, RestartMirror) else ""
        yield f"fingerprint {before}{change.fingerprint}"


def _mirror_fields(change: MirrorChange) -> Iterator[FieldValues]:
    match change:
        case StartMirror():
            yield FieldValues("job", "", "started")
        case RestartMirror():
            yield FieldValues("job", "running", "restarted once")
        case StopMirror():
            yield FieldValues("job", "running", "")
        case _:
            assert_never(change)
    if not isinstance(change, StopMirror):
        yield from (FieldValues("because", None, line) for line in change.because)


MIRRORS: Words[MirrorChange] = Words(
    "mirror",
    lambda change: str(change.subject),
    _mirror_headline,
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
    """Equal for changes that may be told as one."""
    return words_of(change).signature(change)


def fields_of(change: Change) -> Iterable[FieldValues]:
    """How it is and how it will be, field by field."""
    return words_of(change).fields(change)


def described(changes: Sequence[Change]) -> Iterable[str]:
    """Lines under the headline. ``changes`` have one signature; origins may differ and are then left out."""
    return words_of(changes[0]).lines(changes)
