"""After an interrupted apply: asks each cluster once what became of the changes that were in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.engine.kinds import kind_of
from reconciler.errors import ClusterError
from reconciler.model.changes import KindName
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.ports import ClusterAdmin
from reconciler.resources.acls.probe.run import AclBatches

CUT_SHORT = "interrupted before it was done"
LEFT_MOVING = (
    "interrupted: what is in flight continues, throttled\n"
    "Run apply again to continue, or cancel it with: reconciler reassignments cancel ENV."
)
UNSURE = "interrupted while it was under way; whether it was done is not known\nRun plan to see what is left."

Judge = Callable[[Planned], Outcome]


def looked_up(begun: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AclBatches) -> Iterator[Outcome]:
    """One outcome each. ``begun``: of one batch, so of one kind and, but for mirrors, one cluster."""
    if not begun:
        return
    try:
        judge = _judge(begun, admins, waves)
    except ClusterError:
        judge = unsure
    yield from map(judge, begun)


def unsure(planned: Planned) -> Outcome:
    """What can be said without asking anybody."""
    moving = planned.change.kind is KindName.REPLICAS
    return Outcome(planned.id, Result.FAILED, LEFT_MOVING if moving else UNSURE)


def _judge(begun: Sequence[Planned], admins: Mapping[str, ClusterAdmin], waves: AclBatches) -> Judge:
    """Raises ClusterError."""
    changes = [planned.change for planned in begun]
    kind, cluster = kind_of(changes[0]), changes[0].cluster
    if kind.name is KindName.ACLS:
        shown = admins[cluster].read_access().acls
        if isinstance(shown, frozenset):
            return lambda planned: waves.cut_off(planned, shown) or _outcome(planned, made=False)
    if kind.confirm is None:
        return unsure
    landed = kind.confirm(admins[cluster], changes)
    return lambda planned: _outcome(planned, landed(planned.change))


def _outcome(planned: Planned, made: bool) -> Outcome:
    return Outcome(planned.id, *((Result.DONE, "") if made else (Result.FAILED, CUT_SHORT)))
