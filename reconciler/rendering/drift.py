"""Drift: the plan for a topology that was already applied, told as what differs instead of what would be done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import assert_never

from reconciler.causes import Cause, History, Told, cause_of, grown_outside
from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    ConfigChange,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    Risk,
    Role,
    StartMirror,
    StopMirror,
    touched,
)
from reconciler.counts import counted
from reconciler.layers import DECLARED
from reconciler.plans import Plan, Planned
from reconciler.quotas import limit_words
from reconciler.rendering.changes import shape
from reconciler.rendering.lists import left_lists
from reconciler.rendering.style import Style
from reconciler.topic_configs import human
from reconciler.users import credentials_text

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Difference:
    """``kind`` is stable; ``mended_by`` is the id of the planned change that would bring it back.

    ``cause`` and ``why``: how it came to be, as far as facts tell. ``origin``: who wishes it, of a topic that git does
    not declare and of a config that the topic itself does not.
    """

    subject: str
    kind: str
    wished: str
    found: str
    risk: str
    mended_by: str
    cause: Cause
    why: str
    origin: str = ""

    @property
    def aim(self) -> str:
        return f"wished {self.wished} ({self.origin})" if self.origin else f"declared {self.wished}"


NOTHING = History()


def differences(plan: Plan, seen: History = NOTHING) -> tuple[Difference, ...]:
    """``seen``: what earlier runs did, where it is known."""
    return (*(found for planned in plan.changes for found in _of(planned, seen)), *_not_mended(plan, seen))


def drift_verdict(plan: Plan) -> str:
    found = differences(plan)
    if plan.unknown and not found:
        parts = [f"Not fully known: {len(plan.unknown)} unknown", "no difference in what was read"]
    else:
        parts = [f"Drift: {counted(len(found), 'difference')}" if found else "No drift: everything read is as declared"]
    if plan.refused:
        parts.append(f"{len(plan.refused)} that cannot be mended by apply")
    if plan.unknown and found:
        parts.append(f"{len(plan.unknown)} unknown")
    return "; ".join(parts)


def drift_text(plan: Plan, style: Style | None = None, seen: History = NOTHING) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", drift_verdict(plan)), f"environment {plan.basis.environment}"]
    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for one in differences(plan, seen):
        alike.setdefault((one.kind, one.found, one.aim, one.cause, one.why), []).append(one.subject)
    for (kind, found, aim, cause, why), subjects in alike.items():
        lines.append(f"  {chosen.paint('~', kind)}: {chosen.listed(subjects)}: found {found}, {aim}")
        lines.append(f"    {cause}: {why}")
    return "\n".join([*lines, *left_lists(plan, chosen)]) + "\n"


def drift_json(plan: Plan, seen: History = NOTHING) -> str:
    """As schemas/drift.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "drift",
        "environment": plan.basis.environment,
        "revision": plan.basis.revision,
        "verdict": drift_verdict(plan),
        "exit_code": int(plan.exit_code),
        "complete": not plan.unknown,
        "clusters": [asdict(one) for one in plan.basis.clusters],
        "differences": [asdict(one) for one in differences(plan, seen)],
        "refused": [asdict(one) for one in plan.refused],
        "unknown": [asdict(one) for one in plan.unknown],
        "unmanaged": [asdict(one) for one in plan.unmanaged],
        "unmanaged_acls": [{"cluster": one.cluster, "acl": str(one.acl)} for one in plan.unmanaged_acls],
        "ignored": [asdict(one) for one in plan.ignored],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _not_mended(plan: Plan, seen: History) -> Iterator[Difference]:
    """What differs and cannot be brought back, such as partitions that somebody added."""
    for one in plan.refused:
        if one.found:
            ref = one.subject.split()[0]
            told = grown_outside(ref, seen)
            yield Difference(ref, "partitions", one.wished, one.found, Risk.LOW, "", told.cause, told.why)


def _origin(text: str) -> str:
    """Remote topics are told alike, whatever their sources are called."""
    who, _, more = text.partition(", ")
    if who == DECLARED:
        return ""
    who = "its source" if who.startswith("source ") else who
    return f"{who}, {more}" if more else who


_USER_KINDS = {"declared": "user-missing", "removed-outside": "user-missing", "version-raised": "user-version"}


def _credentials(change: AlterUser) -> tuple[str, str]:
    """Wished and found. Of passwords only their versions are known."""
    wished = credentials_text({one.mechanism: one.after for one in change.credentials})
    there = {one.mechanism: one.before for one in change.credentials if one.before is not None}
    recorded = "no version of ours" if change.recorded is None else f"version {change.recorded}"
    found = f"{recorded}, {credentials_text(there) or 'no such credential'}"
    return f"version {change.version}, {wished}", found


def _of(planned: Planned, seen: History) -> Iterator[Difference]:
    change = planned.change

    def difference(subject: str, kind: str, wished: str, found: str, key: ConfigChange | None = None) -> Difference:
        told: Told = cause_of(planned, seen, key)
        origin = "" if key is None or key.after is None else _origin(key.origin)
        if isinstance(change, CreateTopic | AddPartitions) and change.role is not Role.DECLARED:
            origin = "remote topic of a flow" if change.role is Role.REMOTE else change.reason.text
        return Difference(subject, kind, wished, found, planned.risk, planned.id, told.cause, told.why, origin)

    match change:
        case CreateTopic():
            kind = {
                Role.DECLARED: "topic-missing",
                Role.REMOTE: "remote-topic-missing",
                Role.INTERNAL: "internal-missing",
            }
            yield difference(str(change.ref), kind[change.role], shape(change), "no topic")
        case AddPartitions():
            wished, found = counted(change.after, "partition"), counted(change.before, "partition")
            yield difference(str(change.ref), "partitions", wished, found)
        case AlterConfigs():
            for one in change.configs:
                aim = one.after if one.goal is None else one.goal
                wished = f"no override ({one.origin})" if aim is None else human(one.key, aim)
                found = f"{human(one.key, one.before)} ({one.before_source})"
                yield difference(f"{change.ref} {one.key}", "config", wished, found, one)
        case StartMirror():
            yield difference(f"mirror {change.mirror}", "mirror-not-running", "running", change.reason.text)
        case RestartMirror():
            wished, found = f"fingerprint {change.fingerprint}", f"fingerprint {change.before}"
            yield difference(f"mirror {change.mirror}", "mirror-definition", wished, found)
        case StopMirror():
            yield difference(f"mirror {change.mirror}", "mirror-not-declared", "no such mirror", "running")
        case ReassignReplicas():
            name = "reassignment-unfinished" if change.in_flight else "replication-factor"
            wished, found = f"replication factor {change.after}", f"replication factor {change.before or 'mixed'}"
            begun = f", {counted(change.in_flight, 'partition')} on the way" if change.in_flight else ""
            yield difference(str(change.ref), name, wished, f"{found}{begun}")
        case FinishReassignment():
            throttled = counted(len(change.brokers), "broker")
            left = f"{counted(change.in_flight, 'partition')} on the way, throttles on {throttled}"
            yield difference(f"cluster {change.cluster}", "reassignment-unfinished", "none under way", left)
        case DeleteTopic():
            found = f"{counted(change.partitions, 'partition')}, topic id {change.topic_id}"
            yield difference(str(change.ref), "tombstone-not-carried-out", "no topic", found)
        case AlterQuota():
            for limit in change.limits:
                wished, found = (
                    "no limit" if value is None else limit_words(limit.key, value)
                    for value in (limit.after, limit.before)
                )
                yield difference(f"{change.cluster}: {change.entity} {limit.key}", "quota", wished, found)
        case AlterUser():
            yield difference(touched(change), _USER_KINDS.get(change.reason.code, "user"), *_credentials(change))
        case DeleteUser():
            found = f"{', '.join(change.mechanisms)} ({change.reason.text})"
            yield difference(touched(change), "user-left-over", "no such credential", found)
        case CreateAcl():
            wished = f"a rule ({change.reason.text})"
            yield difference(f"{change.cluster}: {change.acl}", "access-missing", wished, "no such rule")
        case DeleteAcl():
            found = f"the rule ({change.reason.text})"
            yield difference(f"{change.cluster}: {change.acl}", "access-left-over", "no such rule", found)
        case _:
            assert_never(change)
