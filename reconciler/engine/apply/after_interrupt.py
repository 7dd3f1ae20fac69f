"""After an interruption: what became of the changes that were under way, as their cluster tells.

Border: asks through the port, once for all of them, so that a silent cluster costs its patience once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.changes import AclChange, AlterQuota, ReplicaChange, TopicChange, UserChange, cluster_of
from reconciler.errors import ClusterError
from reconciler.landing import landed, user_landed
from reconciler.plans import Outcome, Planned, Result
from reconciler.ports import ClusterAdmin
from reconciler.probing import AccessWaves

CUT_SHORT = "interrupted before it was done"
LEFT_MOVING = (
    "interrupted: what is on the way goes on, throttled\n"
    "Run apply again to go on, or take it back with: reconciler reassignments cancel ENV."
)
UNSURE = "interrupted while it was under way; whether it was done is not known\nRun plan to see what is left."

Judge = Callable[[Planned], Outcome]


def looked_up(left: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AccessWaves) -> Iterator[Outcome]:
    """One outcome each. ``left``: of one batch, so of one kind and, but for mirrors, one cluster."""
    if not left:
        return
    try:
        judge = _judge(left, admins, waves)
    except ClusterError:
        judge = unsure
    yield from map(judge, left)


def unsure(planned: Planned) -> Outcome:
    """What can be said without asking anybody."""
    moving = isinstance(planned.change, ReplicaChange)
    return Outcome(planned.id, Result.FAILED, LEFT_MOVING if moving else UNSURE)


def _judge(left: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AccessWaves) -> Judge:
    """Raises ClusterError."""
    first = left[0].change
    if isinstance(first, TopicChange):
        names = tuple(one.change.ref.name for one in left if isinstance(one.change, TopicChange))
        topics = admins[first.ref.cluster].read(names)
        return lambda one: _made(one, isinstance(one.change, TopicChange) and landed(one.change, topics))
    if isinstance(first, AlterQuota):
        quotas = admins[first.cluster].read_quotas()
        return lambda one: _made(
            one,
            isinstance(one.change, AlterQuota)
            and all(quotas.get(one.change.entity, {}).get(limit.key) == limit.after for limit in one.change.limits),
        )
    if isinstance(first, UserChange):
        users = admins[first.cluster].read_users()
        return lambda one: _made(one, isinstance(one.change, UserChange) and user_landed(one.change, users))
    if isinstance(first, AclChange):
        shown = admins[cluster_of(first)].read_access().acls
        if isinstance(shown, frozenset):
            return lambda one: waves.cut_off(one, shown) or _made(one, made=False)
    return unsure


def _made(planned: Planned, made: bool) -> Outcome:
    return Outcome(planned.id, *((Result.DONE, "") if made else (Result.FAILED, CUT_SHORT)))
