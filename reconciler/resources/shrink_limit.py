"""The shrink limit: blocks a plan when the YAML is empty or declares far less than at the last apply."""

from collections.abc import Collection, Iterable, Iterator

from reconciler.model.changes import About, Change, CreateAcl, DeleteAcl, Reason, Refused, Subject, Why
from reconciler.model.environment.topology import ShrinkLimit, TopicRef, Topology
from reconciler.model.state.last_apply import Applied
from reconciler.resources.flows.renames import called_now
from reconciler.text import counted, first_of

LEFT = (Why.DECLARED_NO_LONGER, Why.SOURCE_RULE_GONE)
"""Why a rule of an earlier run goes: git has it no longer, or the source of the flow that derived it."""
AGREE = "accept with apply --allow-shrink, or with a shrink_limit in the files"


def shrunken(topology: Topology, applied: Applied | None) -> Iterator[Refused]:
    """For topics and flows separately. Without a record of an apply there is nothing to compare with."""
    if applied is None:
        return
    of_commit = f" of commit {applied.commit[:12]}" if applied.commit else ""
    since = f"the apply{of_commit} by {applied.who}"
    for word, before, now in (
        ("topics", applied.topics, declared_topics(topology)),
        ("flows", applied.flows, (*topology.flows, *called_now(topology))),
    ):
        lost = sorted(set(before) - set(now))
        if not too_many(lost, len(before), topology.rules.shrink_limit, left=len(now)):
            continue
        problem = f"{len(lost)} of {len(before)} declared {word} are gone since {since}: {first_of(lost)}"
        if not now:
            problem = f"no {word} are declared any more; {problem}"
        todo = f"Check whether a file is missing or empty. If it is intended, {AGREE}"
        yield Refused(Subject(About.DECLARED, name=word), Reason(Why.SHRUNKEN_WISH, problem), todo)


def too_many_rules(cluster: str, changes: Iterable[Change], owned: int, limit: ShrinkLimit) -> Iterator[Refused]:
    """Access rules of earlier runs that nothing needs any more, less those that are replaced. ``owned``: how many
    exist. The last few rules may all go: so an environment ceases to manage access."""
    gone, created = [], 0
    for change in changes:
        if isinstance(change, DeleteAcl) and change.reason.code in LEFT:
            gone.append(str(change.acl))
        created += isinstance(change, CreateAcl)
    lost = gone[: max(0, len(gone) - created)]
    if too_many(lost, owned, limit, left=1):
        problem = f"{len(lost)} of {owned} access rules that earlier runs made on {cluster} are no longer needed"
        todo = f"Check whether a file or a flow is missing. If it is intended, {AGREE}"
        subject = Subject(About.DECLARED, name=f"access rules of {cluster}")
        yield Refused.of(subject, Why.ACCESS_ABOVE_LIMIT, f"{problem}: {first_of(lost)}", todo)


def left_behind(topology: Topology, applied: Applied | None) -> Iterator[str]:
    """A note for each cluster that is no longer declared: the plan lists nothing that is on it."""
    if applied is None:
        return
    for name in sorted(applied.clusters.keys() - topology.clusters.keys()):
        applied_topics = [topic for topic in applied.topics if topic.startswith(f"{name}/")]
        stays = (
            f"{counted(len(applied_topics), 'topic')} declared until now ({first_of(applied_topics)})"
            if applied_topics
            else "everything on it"
        )
        yield f"cluster {name} is no longer declared, so it is no longer compared: what stays there is {stays}"


def too_many(lost: Collection[str], before: int, limit: ShrinkLimit, left: int) -> bool:
    """All of several are too many, however few."""
    if len(lost) > 1 and not left:
        return True
    return len(lost) >= limit.least and len(lost) * 100 > before * limit.percent


def declared_topics(topology: Topology) -> tuple[str, ...]:
    return tuple(
        sorted(str(TopicRef(name, topic.name)) for topic in topology.topics.values() for name in topic.clusters)
    )
