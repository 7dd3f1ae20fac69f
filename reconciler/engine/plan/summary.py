"""A plan or its outcomes in one line: how many of what, where, and how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler.changes import (
    Action,
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    ReassignReplicas,
    RestartMirror,
    Risk,
    StartMirror,
    StopMirror,
    cluster_of,
)
from reconciler.counts import counted
from reconciler.plans import Outcome, Plan, Result
from reconciler.topic_configs import human

WORDS = ("topic or mirror", "topics and mirrors")


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of one plan. ``clusters`` are those whose topics or access change; mirrors are names."""

    changes: int
    clusters: tuple[str, ...]
    created: int
    grown: int
    configured: int
    removed: int
    starts: tuple[str, ...]
    restarts: tuple[str, ...]
    stops: tuple[str, ...]
    high_risk: int
    blocked: int
    unknown: int
    unchanged: int
    granted: int
    revoked: int
    replicated: int
    limited: int
    enrolled: int
    renewed: int
    dismissed: int


def summarize(plan: Plan) -> Summary:
    changes = [planned.change for planned in plan.changes]
    return Summary(
        changes=len(changes),
        clusters=tuple(sorted({cluster_of(change) for change in changes} - {""})),
        created=sum(isinstance(change, CreateTopic) for change in changes),
        grown=sum(isinstance(change, AddPartitions) for change in changes),
        configured=sum(isinstance(change, AlterConfigs) for change in changes),
        removed=sum(isinstance(change, DeleteTopic) for change in changes),
        starts=tuple(change.mirror for change in changes if isinstance(change, StartMirror)),
        restarts=tuple(change.mirror for change in changes if isinstance(change, RestartMirror)),
        stops=tuple(change.mirror for change in changes if isinstance(change, StopMirror)),
        high_risk=sum(planned.risk == Risk.HIGH for planned in plan.changes),
        blocked=len(plan.refused),
        unknown=len(plan.unknown),
        unchanged=plan.unchanged,
        granted=sum(isinstance(change, CreateAcl) for change in changes),
        revoked=sum(isinstance(change, DeleteAcl) for change in changes),
        replicated=sum(isinstance(change, ReassignReplicas) for change in changes),
        limited=sum(isinstance(change, AlterQuota) for change in changes),
        enrolled=sum(isinstance(change, AlterUser) and _is_new(change) for change in changes),
        renewed=sum(isinstance(change, AlterUser) and not _is_new(change) for change in changes),
        dismissed=sum(isinstance(change, DeleteUser) and not change.left for change in changes),
    )


def verdict(plan: Plan) -> str:
    """``12 changes on 2 clusters: +5 topics, ~4 configs, !1 mirror restart (west); 2 blocked; 1 unknown``."""
    found = summarize(plan)
    if not (found.changes or found.blocked or found.unknown):
        rules = any(cluster.acls is not None for cluster in plan.basis.clusters)
        one, many = ("topic, mirror or access rule", "topics, mirrors and access rules") if rules else WORDS
        if any(cluster.quotas is not None for cluster in plan.basis.clusters):
            one, many = f"{one.replace(' or ', ', ')} or quota", f"{many.replace(' and ', ', ')} and quotas"
        if any(cluster.users is not None for cluster in plan.basis.clusters):
            one, many = f"{one.replace(' or ', ', ')} or user", f"{many.replace(' and ', ', ')} and users"
        checked = counted(found.unchanged, one, many)
        return f"No changes: everything is as declared ({checked} compared)"
    where = f" on {counted(len(found.clusters), 'cluster')}" if found.clusters else ""
    what = ", ".join(_kinds(found, [planned.change for planned in plan.changes]))
    parts = [f"{counted(found.changes, 'change')}{where}{': ' if what else ''}{what}"]
    if waves := _waves(plan):
        parts.append(waves)
    if found.high_risk:
        parts.append(f"{found.high_risk:,} HIGH risk")
    if found.blocked:
        parts.append(f"{found.blocked:,} blocked")
    if found.unknown:
        parts.append(f"{found.unknown:,} unknown")
    return "; ".join(parts)


def _waves(plan: Plan) -> str:
    """``in 2 waves (canary, rest) with gates between and 70m of soak``; empty without a rollout."""
    names = dict.fromkeys(planned.wave for planned in plan.changes)
    if plan.rollout is None or not names:
        return ""
    soak = sum(wave.soak_ms for wave in plan.rollout.waves if wave.name in names)
    words = f" and {human('soak.ms', str(soak))} of soak" if soak else ""
    return f"in {counted(len(names), 'wave')} ({', '.join(names)}) with gates before and after each{words}"


def applied_verdict(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """``5 of 6 changes applied; 1 failed, 0 not begun``, or one positive sentence."""
    count = {result: sum(one.result is result for one in outcomes) for result in Result}
    if not outcomes:
        held = {"blocked": len(plan.refused), "unknown": len(plan.unknown)}
        told = ", ".join(f"{number:,} {word}" for word, number in held.items() if number)
        return f"Nothing could be applied: {told}" if told else "Nothing to apply: everything is as declared"
    if count[Result.DONE] == len(outcomes):
        return f"Applied: {verdict(plan)}"
    applied = f"{count[Result.DONE]} of {counted(len(outcomes), 'change')} applied"
    words = {Result.UNDONE: "undone", Result.LEFT: "NOT undone", Result.UNPROVEN: "not confirmed"}
    more = "".join(f", {count[result]} {word}" for result, word in words.items() if count[result])
    return f"{applied}; {count[Result.FAILED]} failed, {count[Result.SKIPPED]} not begun{more}"


def action(change: Change) -> Action:
    """Its value is the sign shown in plans."""
    match change:
        case AlterQuota():
            if all(one.before is None for one in change.limits):
                return Action.CREATE
            return Action.DELETE if all(one.after is None for one in change.limits) else Action.UPDATE
        case AlterUser():
            return Action.CREATE if _is_new(change) else Action.UPDATE
        case CreateTopic() | StartMirror() | CreateAcl():
            return Action.CREATE
        case AddPartitions() | AlterConfigs() | ReassignReplicas():
            return Action.UPDATE
        case RestartMirror():
            return Action.RESTART
        case StopMirror() | FinishReassignment():
            return Action.STOP
        case DeleteTopic() | DeleteAcl() | DeleteUser():
            return Action.DELETE
        case _:
            assert_never(change)


def _is_new(change: AlterUser) -> bool:
    """No password of it is replaced."""
    return all(one.before is None for one in change.credentials)


def _kinds(found: Summary, changes: Sequence[Change]) -> list[str]:
    kinds: list[str] = []
    unfinished = sum(isinstance(change, FinishReassignment) for change in changes)
    quotas = Counter(action(change) for change in changes if isinstance(change, AlterQuota))
    if found.created:
        kinds.append(f"+{counted(found.created, 'topic')}")
    if found.grown:
        kinds.append(f"~{counted(found.grown, 'partition count')}")
    if found.configured:
        kinds.append(f"~{counted(found.configured, 'config')}")
    if found.granted:
        kinds.append(f"+{counted(found.granted, 'access rule')}")
    if found.enrolled:
        kinds.append(f"+{counted(found.enrolled, 'user')}")
    if found.renewed:
        kinds.append(f"~{counted(found.renewed, 'user')}")
    kinds += [f"{one.value}{counted(quotas[one], 'quota')}" for one in (Action.CREATE, Action.UPDATE) if quotas[one]]
    if found.replicated:
        kinds.append(f"~{counted(found.replicated, 'replication factor')}")
    if unfinished:
        kinds.append(f"{Action.STOP.value}{counted(unfinished, 'reassignment')} to finish")
    for mark, word, names in (
        ("+", "start", found.starts),
        ("!", "restart", found.restarts),
        ("-", "stop", found.stops),
    ):
        if names:
            kinds.append(f"{mark}{counted(len(names), f'mirror {word}')} ({', '.join(names)})")
    if found.removed:
        kinds.append(f"-{counted(found.removed, 'topic')}")
    if found.revoked:
        kinds.append(f"-{counted(found.revoked, 'access rule')}")
    if found.dismissed:
        kinds.append(f"-{counted(found.dismissed, 'user')}")
    if quotas[Action.DELETE]:
        kinds.append(f"-{counted(quotas[Action.DELETE], 'quota')}")
    return kinds
