"""A plan or its outcomes in one line: counts by action, clusters, result."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.engine.kinds import KINDS
from reconciler.model import changes
from reconciler.model.config_values import human
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.text import counted

WORDS = ("topic or mirror", "topics and mirrors")


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of one plan, by what its readers ask. Mirrors are named, because there are few of them."""

    changes: int
    """All of them, of every kind."""
    clusters: tuple[str, ...]
    """Those on which anything changes; changes of mirrors belong to none."""
    created: int
    grown: int
    """Topics with added partitions."""
    configured: int
    """Topics whose overrides change."""
    removed: int
    """Deleted topics, by tombstone or prune."""
    starts: tuple[str, ...]
    restarts: tuple[str, ...]
    stops: tuple[str, ...]
    high_risk: int
    """Changes of any kind with risk HIGH."""
    blocked: int
    """Refusals: one of them stops the whole plan."""
    unknown: int
    """Failed reads, which stop it, too."""
    unchanged: int
    """Compared subjects that are as declared."""
    granted: int
    """Access rules that are made; ``revoked``: that are deleted."""
    revoked: int
    replicated: int
    """Topics with another replication factor."""
    limited: int
    """Entities with changed quotas."""
    enrolled: int
    """New SCRAM users; ``renewed``: those with another password or mechanism."""
    renewed: int
    dismissed: int
    """Users that lose their last credential, and so exist no more."""


def summarize(plan: Plan) -> Summary:
    """Counts by what a reader asks about a plan. A user whose credentials all go is dismissed; one that keeps some is
    renewed or changed."""
    steps = [planned.change for planned in plan.changes]
    counts = Counter(type(change) for change in steps)

    def mirrors(of: type[changes.MirrorChange]) -> tuple[str, ...]:
        return tuple(change.mirror for change in steps if isinstance(change, of))

    users = [change for change in steps if isinstance(change, changes.AlterUser)]
    enrolled = sum(change.is_new for change in users)
    return Summary(
        changes=len(steps),
        clusters=tuple(sorted({change.cluster for change in steps} - {""})),
        created=counts[changes.CreateTopic],
        grown=counts[changes.AddPartitions],
        configured=counts[changes.AlterConfigs],
        removed=counts[changes.DeleteTopic],
        starts=mirrors(changes.StartMirror),
        restarts=mirrors(changes.RestartMirror),
        stops=mirrors(changes.StopMirror),
        high_risk=sum(planned.risk == changes.Risk.HIGH for planned in plan.changes),
        blocked=len(plan.refused),
        unknown=len(plan.unknown),
        unchanged=plan.unchanged,
        granted=counts[changes.CreateAcl],
        revoked=counts[changes.DeleteAcl],
        replicated=counts[changes.ReassignReplicas],
        limited=counts[changes.AlterQuota],
        enrolled=enrolled,
        renewed=len(users) - enrolled,
        dismissed=sum(isinstance(change, changes.DeleteUser) and not change.left for change in steps),
    )


def verdict(plan: Plan) -> str:
    """``12 changes on 2 clusters: creates 5 topics; changes 4 configs; restarts mirror west; 2 blocked; 1 unknown``.
    What each kind makes or changes comes first, then what each takes away."""
    summary = summarize(plan)
    if not (summary.changes or summary.blocked or summary.unknown):
        rules = any(cluster.acls is not None for cluster in plan.basis.clusters)
        name, many = ("topic, mirror or access rule", "topics, mirrors and access rules") if rules else WORDS
        if any(cluster.quotas is not None for cluster in plan.basis.clusters):
            name, many = f"{name.replace(' or ', ', ')} or quota", f"{many.replace(' and ', ', ')} and quotas"
        if any(cluster.users is not None for cluster in plan.basis.clusters):
            name, many = f"{name.replace(' or ', ', ')} or user", f"{many.replace(' and ', ', ')} and users"
        checked = counted(summary.unchanged, name, many)
        return f"No changes: everything is as declared ({checked} compared)"
    # Each kind counts its additions and removals; equal verbs of several kinds are joined, as in ``deletes 2 topics, 1
    # rule``.
    where = f" on {counted(len(summary.clusters), 'cluster')}" if summary.clusters else ""
    counts = [kind.counts([it.change for it in plan.changes if it.change.kind is kind.name]) for kind in KINDS]
    by_verb: dict[str, list[str]] = {}
    for verb, words in (
        *(made for it in counts for made in it.changed),
        *(gone for it in counts for gone in it.removed),
    ):
        by_verb.setdefault(verb, []).append(words)
    description = "; ".join(f"{verb} {', '.join(words)}" for verb, words in by_verb.items())
    parts = [f"{counted(summary.changes, 'change')}{where}{': ' if description else ''}{description}"]
    names = dict.fromkeys(planned.wave for planned in plan.changes)
    if plan.rollout is not None and names:
        soak = sum(wave.soak_ms for wave in plan.rollout.waves if wave.name in names)
        words = f" and {human('soak.ms', str(soak))} of soak" if soak else ""
        parts.append(f"in {counted(len(names), 'wave')} ({', '.join(names)}) with gates before and after each{words}")
    if summary.high_risk:
        parts.append(f"{summary.high_risk:,} HIGH risk")
    if summary.blocked:
        parts.append(f"{summary.blocked:,} blocked")
    if summary.unknown:
        parts.append(f"{summary.unknown:,} unknown")
    return "; ".join(parts)


def applied_verdict(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """``5 of 6 changes applied; 1 failed, 0 not begun``, or one positive sentence."""
    count = {result: sum(outcome.result is result for outcome in outcomes) for result in Result}
    if not outcomes:
        held = {"blocked": len(plan.refused), "unknown": len(plan.unknown)}
        join = ", ".join(f"{number:,} {word}" for word, number in held.items() if number)
        return f"Nothing could be applied: {join}" if join else "Nothing to apply: everything is as declared"
    if count[Result.DONE] == len(outcomes):
        return f"Applied: {verdict(plan)}"
    applied = f"{count[Result.DONE]} of {counted(len(outcomes), 'change')} applied"
    words = {Result.UNDONE: "undone", Result.LEFT: "NOT undone", Result.UNPROVEN: "not confirmed"}
    more = "".join(f", {count[result]} {word}" for result, word in words.items() if count[result])
    return f"{applied}; {count[Result.FAILED]} failed, {count[Result.SKIPPED]} not begun{more}"
