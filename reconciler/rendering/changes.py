"""One change in words: its subject, its headline, its values before and after with where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from reconciler.changes import (
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
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    LimitChange,
    ReassignReplicas,
    RestartMirror,
    StartMirror,
    StopMirror,
)
from reconciler.counts import counted
from reconciler.live import Source
from reconciler.quotas import limit_words
from reconciler.rendering.replicas import finished, reassigned
from reconciler.topic_configs import human
from reconciler.users import user_words

SHOWN = 5
TAKEN_OVER = "and {} configs at what is built in at the source (use_defaults_from: source)"


def subject(change: Change) -> str:
    """Within its cluster: a topic's name; a mirror by word and name."""
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs() | DeleteTopic() | ReassignReplicas():
            return change.ref.name
        case FinishReassignment():
            return "reassignment"
        case StartMirror() | RestartMirror() | StopMirror():
            return f"mirror {change.mirror}"
        case CreateAcl() | DeleteAcl():
            return change.grant.title
        case AlterQuota():
            return str(change.entity)
        case AlterUser() | DeleteUser():
            return f"SCRAM {user_words(change.user)}"
        case _:
            assert_never(change)


def headline(change: Change, alone: bool = True) -> str:
    """What happens; with ``alone`` also why."""
    why = f"; {change.reason.text}" if alone else ""
    match change:
        case CreateTopic():
            return f"create, {shape(change)}{why}"
        case AddPartitions():
            return f"partitions {change.before} -> {change.after}{why}"
        case AlterConfigs():
            return f"{counted(len(change.configs), 'config')}{why}"
        case ReassignReplicas():
            return f"replication factor {change.before or 'mixed'} -> {change.after}{why}"
        case FinishReassignment():
            return f"finish and clear its throttles{why}"
        case StartMirror():
            return f"start{why}"
        case RestartMirror():
            return f"restart once{why}"
        case StopMirror():
            return f"stop{why}"
        case DeleteTopic():
            return f"DELETE, {counted(change.partitions, 'partition')}{why}"
        case CreateAcl() | DeleteAcl():
            return change.reason.text
        case AlterQuota():
            gone = all(one.after is None for one in change.limits)
            return f"{'remove ' if gone else ''}{counted(len(change.limits), 'limit')}{why}"
        case AlterUser():
            new = all(one.before is None for one in change.credentials) and change.recorded is None
            return f"{'create with' if new else 'set'} {_password(change)}{why}"
        case DeleteUser():
            return f"{'delete ' + ', '.join(change.mechanisms) if change.left else 'DELETE the user'}{why}"
        case _:
            assert_never(change)


def shape(change: CreateTopic) -> str:
    partitions = counted(change.partitions, "partition") if change.partitions > 0 else "the brokers' partition count"
    if change.replication_factor is None:
        return f"{partitions}, the brokers' replication factor"
    return f"{partitions}, replication factor {change.replication_factor}"


def signature(change: Change) -> object:
    """Equal for changes that may be told as one."""
    match change:
        case CreateTopic():
            return "create", change.partitions, change.replication_factor, _values(change.configs), change.reason.code
        case AddPartitions():
            return "grow", change.before, change.after, change.reason.code
        case AlterConfigs():
            return "configs", _values(change.configs), change.reason.code
        case CreateAcl() | DeleteAcl():
            return type(change).__name__, change.grant.title, change.reason
        case ReassignReplicas():
            return "replicas", change.before, change.after, change.pace, change.in_flight > 0, change.reason.code
        case AlterQuota():
            return "quota", change.limits, change.reason.code
        case AlterUser():
            versions = change.recorded, change.version
            return "user", change.credentials, versions, bool(change.password), change.reason.code
        case DeleteUser():
            return "delete user", change.mechanisms, change.left, change.reason.code
        case StartMirror() | RestartMirror() | StopMirror() | DeleteTopic() | FinishReassignment():
            return change
        case _:
            assert_never(change)


def described(changes: Sequence[Change]) -> Iterator[str]:
    """Lines under the headline. ``changes`` have one signature; origins may differ and are then left out."""
    first = changes[0]
    match first:
        case CreateTopic() | AlterConfigs():
            usual = defaults_taken_over(first)
            for index, one in enumerate(first.configs):
                origins = {other.configs[index].origin for other in changes if isinstance(other, type(first))}
                if one not in usual:
                    yield _config(one, one.origin if len(origins) == 1 else "")
            if usual:
                yield f"{TAKEN_OVER.format(len(usual))}: {', '.join(one.key for one in usual)}"
        case StartMirror() | RestartMirror():
            yield from first.because
            before = f"{first.before} -> " if isinstance(first, RestartMirror) else ""
            yield f"fingerprint {before}{first.fingerprint}"
        case DeleteTopic():
            yield f"topic id {first.topic_id}" + (
                f"; the tombstone counts until {first.expires}" if first.expires else ""
            )
        case ReassignReplicas():
            yield from reassigned([one for one in changes if isinstance(one, ReassignReplicas)])
        case FinishReassignment():
            yield from finished(first)
        case AlterQuota():
            yield from map(limit_line, first.limits)
        case AlterUser():
            yield from map(credential_line, first.credentials)
            references = list(dict.fromkeys(one.password for one in changes if isinstance(one, AlterUser)))
            more = f" and {len(references) - SHOWN} more" if len(references) > SHOWN else ""
            yield f"password from {', '.join(references[:SHOWN])}{more}"
        case DeleteUser():
            stays = f", {' and '.join(first.left)} stays" if first.left else ""
            yield f"{' and '.join(first.mechanisms)} goes{stays}"
        case AddPartitions() | StopMirror():
            return
        case CreateAcl() | DeleteAcl():
            yield from (str(other.acl) for other in changes if isinstance(other, AclChange))
        case _:
            assert_never(first)


def defaults_taken_over(change: CreateTopic | AlterConfigs) -> tuple[ConfigChange, ...]:
    """What ``use_defaults_from: source`` writes on a new topic though nobody at the source chose it. Told in one line
    where they are many: twenty of them hide the few that somebody chose."""
    fresh = [one for one in change.configs if one.before is None and not one.before_source]
    found = tuple(one for one in fresh if one.origin.endswith(f", {Source.BUILT_IN.value}"))
    return found if len(found) > SHOWN else ()


def limit_line(change: LimitChange) -> str:
    before, after = (
        "none" if value is None else limit_words(change.key, value) for value in (change.before, change.after)
    )
    return f"{change.key}: {before} -> {after}"


def _password(change: AlterUser) -> str:
    if change.recorded == change.version:
        return f"the password of version {change.version} again"
    before = "" if change.recorded is None else f", before {change.recorded}"
    return f"the password of version {change.version}{before}"


def credential_line(change: CredentialChange) -> str:
    if change.before == change.after:
        return f"{change.mechanism}: {change.after} iterations, salted anew"
    return f"{change.mechanism}: {change.before or 'none'} -> {change.after} iterations, salted anew"


def _config(change: ConfigChange, origin: str) -> str:
    after = "remove the override" if change.after is None else human(change.key, change.after)
    by = f" ({origin})" if origin else ""
    if change.before is None and not change.before_source:
        return f"{change.key} = {after}{by}"
    return f"{change.key}: {human(change.key, change.before)} ({change.before_source}) -> {after}{by}"


def _values(configs: Sequence[ConfigChange]) -> tuple[tuple[str, str | None, str, str | None], ...]:
    return tuple((one.key, one.before, one.before_source, one.after) for one in configs)
