"""``mirror seek`` carried out: positions of a flow shown, or moved while nothing copies there.

Border: puts edges into doings, as ``wiring`` does; no arguments, no exit codes. As with a pause nothing is locked, and
the audit record tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.edges.moving import Committed, Side
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.live import LiveMirror
from reconciler.pausing import Wish, require_exists, scopes
from reconciler.plans import Outcome, Result
from reconciler.repositioning import Seen, Standing, costs, destinations, require_still, table, taken_over
from reconciler.routing import selector_of
from reconciler.steering import audited, job_of
from reconciler.topology import Flow, Isolation, Principal
from reconciler.wiring import Session, open_session
from replication.names import position_group
from replication.position_text import moved

Agreed = Callable[[Sequence[str]], bool]


@dataclass(frozen=True, slots=True)
class Destination:
    """``place``: earliest, latest or a source offset; or ``flow``: where that flow stands, perhaps one of earlier."""

    place: str = ""
    flow: str = ""


def look(folder: Path, wish: Wish) -> Seen:
    """Where the partitions stand. Raises ReconcilerError."""
    with open_session(folder, Principal.APPLY) as session:
        place = _Place(session, wish)
        return place.seen(place.standings())


def seek(folder: Path, wish: Wish, to: Destination, agreed: Agreed) -> Seen:
    """Where they stood, and go on. ``agreed`` is asked with what it costs. Raises ReconcilerError."""
    with open_session(folder, Principal.APPLY) as session:
        place = _Place(session, wish)
        before = place.standings()
        chosen, left = place.chosen(before, to)
        require_still(job_of(session, place.flow.name), place.scope, tuple(chosen))
        if not agreed([*table(before), *costs([one for one in before if one.partition in chosen], chosen)]):
            raise ReconcilerError("no position was moved, as you wished")
        require_still(job_of(session, place.flow.name), place.scope, tuple(chosen))
        place.commit(chosen)
        return replace(place.seen(before), moved=chosen, left=left, taken_from=to.flow)


class _Place:
    """The partitions that are meant, on both sides."""

    def __init__(self, session: Session, wish: Wish) -> None:
        (self.scope,) = scopes(session.topology, wish)
        self.session = session
        self.flow: Flow = session.topology.flows[self.scope.flow]
        self.source, self.target = (
            Side(session.topology.clusters[name]) for name in (self.flow.source, self.flow.target)
        )
        found = session.clusters[self.flow.source].read()
        require_exists(self.flow, self.scope, found)
        topic = found.topics[self.scope.topic]
        self.topic_id = topic.topic_id
        everything = range(len(topic.partitions))
        self.partitions = tuple(everything) if self.scope.partition < 0 else (self.scope.partition,)
        self.remote = selector_of(self.flow).remote_name(self.scope.topic)
        self.group = position_group(self.flow.name)

    def seen(self, standings: tuple[Standing, ...]) -> Seen:
        return Seen(self.session.topology.environment, self.flow, self.scope.topic, self.remote, standings)

    def standings(self) -> tuple[Standing, ...]:
        """Raises ClusterError, also when a partition of the source has no leader."""
        bounds = self.source.bounds((self.scope.topic, number) for number in self.partitions)
        if left := [number for number in self.partitions if (self.scope.topic, number) not in bounds]:
            what = f"{self.flow.source} does not tell the offsets of {self.scope.topic}-{left[0]}"
            raise ClusterError(self.source.name, "other", what, "Perhaps its leader is away.", "Try again later.")
        committed = self._committed()
        stable = self.flow.isolation is Isolation.READ_COMMITTED
        found = []
        for number in self.partitions:
            its, at = bounds[self.scope.topic, number], committed.get((self.remote, number))
            end = its.stable if stable else its.end
            found.append(Standing(number, at.offset if at is not None else None, its.begin, end))
        return tuple(found)

    def chosen(self, standings: Sequence[Standing], to: Destination) -> tuple[Mapping[int, int], tuple[int, ...]]:
        """Partition -> offset, and the partitions that stay where they are. Raises ReconcilerError."""
        if not to.flow:
            return destinations(standings, to.place), ()
        if to.flow == self.flow.name:
            what = f"--from-flow names {to.flow} itself"
            raise ReconcilerError(what, "A flow has no other positions than its own.", "Name the other flow.")
        declared = self.session.topology.flows.get(to.flow)
        if declared is None or selector_of(declared).why_not(self.scope.topic) is None:
            require_still(_job_of(self.session, to.flow), replace(self.scope, flow=to.flow), self.partitions)
        group = position_group(to.flow)
        found = self.target.offsets([group]).get(group, {})
        here = {
            number: found[self.remote, number].offset for number in self.partitions if (self.remote, number) in found
        }
        return taken_over(standings, here, to.flow)

    def commit(self, chosen: Mapping[int, int]) -> None:
        """Raises ReconcilerError when the target did not take all of them."""
        before = self._committed()
        wanted = {}
        for number, offset in chosen.items():
            at = before.get((self.remote, number))
            wanted[self.remote, number] = Committed(offset, moved(at.metadata if at is not None else "", self.topic_id))
        step = f"seek:{self.scope}"
        with audited(self.session, "mirror seek", [step]) as outcomes:
            refused = self.target.commit({self.group: wanted}).get(self.group, {})
            outcomes.append(Outcome(step, Result.FAILED if refused else Result.DONE))
        if refused:
            (topic, number), why = min(refused.items())
            first = f"first {topic}-{number}: {why}"
            raise ReconcilerError(
                f"{self.flow.target} did not take {len(refused)} of {len(wanted)} positions, {first}",
                "Those stay where they were.",
                f"Check that the mirror's principal may read group {self.group} and topic {topic} there.",
            )

    def _committed(self) -> Mapping[tuple[str, int], Committed]:
        return self.target.offsets([self.group]).get(self.group, {})


def _job_of(session: Session, flow: str) -> LiveMirror | Unknown | None:
    """Of a flow that is declared no more, any mirror may still run it."""
    if flow in session.topology.flows:
        return job_of(session, flow)
    for mirror in session.topology.mirrors:
        found = session.status(mirror)
        if found is not None and flow in found.flows:
            return found
    return None
