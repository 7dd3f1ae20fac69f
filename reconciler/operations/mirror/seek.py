"""``mirror seek``: shows the positions of a flow, or moves them while no job copies these partitions.

It takes no lock, like a pause, and is audited.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backends.clusters.groups import Side
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.environment.flow_settings import Isolation
from reconciler.model.environment.topology import Flow, Principal
from reconciler.model.live import LiveMirror
from reconciler.model.plan import Outcome, Result
from reconciler.operations.mirror.pause import audited, job_of
from reconciler.operations.session.session import Session, open_session
from reconciler.replication.names import position_group
from reconciler.replication.offsets.position_metadata import PositionMark, is_ours, mark_of, moved, urlsafe
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.mirrors import pause_and_seek as seeking
from reconciler.resources.mirrors.pause_and_seek import PauseRequest, require_exists, scopes

Agreed = Callable[[Sequence[str]], bool]


@dataclass(frozen=True, slots=True)
class Destination:
    """``place``: earliest, latest or a source offset. Or ``flow``: take the positions of that flow, declared or
    former."""

    place: str = ""
    flow: str = ""


def look(folder: Path, request: PauseRequest) -> seeking.TopicPositions:
    """The present positions. Raises ReconcilerError."""
    with open_session(folder, Principal.APPLY) as session:
        place = _Place(session, request)
        return place.seen(place.standings())


def seek(folder: Path, request: PauseRequest, to: Destination, agreed: Agreed) -> seeking.TopicPositions:
    """Returns positions before and after. ``agreed``: asks the user, who sees the costs. Raises ReconcilerError."""
    if not to.flow:
        seeking.require_place(to.place)  # a typo needs no request to clusters
    with open_session(folder, Principal.APPLY) as session:
        place = _Place(session, request)
        before = place.standings()
        chosen, not_chosen = place.chosen(before, to)
        seeking.require_still(job_of(session, place.flow.name), place.scope, tuple(chosen))
        moving = [partition for partition in before if partition.partition in chosen]
        if not agreed([*seeking.table(before), *seeking.costs(moving, chosen)]):
            raise ReconcilerError("cancelled; no position was moved")

        # A job may have started while the user decided; its next commit would overwrite the new position.
        seeking.require_still(job_of(session, place.flow.name), place.scope, tuple(chosen))
        place.commit(chosen)
        return replace(place.seen(before), moved=chosen, left=not_chosen, taken_from=to.flow)


def begin_anew(session: Session, flow: str, topic: str) -> int:
    """Sets positions in a deleted topic of this name to the beginning of the new one, within a command that writes the
    audit record itself. Returns their number. Raises ReconcilerError."""
    place = _Place(session, PauseRequest(flow, topic))
    chosen = {each.partition: each.begin for each in place.standings() if each.former is not None}
    if chosen:
        seeking.require_still(job_of(session, flow), place.scope, tuple(chosen))
        place.place(chosen)
    return len(chosen)


class _Place:
    """The topic of a seek on both sides, with the requested partitions. Raises ReconcilerError if it does not exist, or
    if that is unknown."""

    def __init__(self, session: Session, request: PauseRequest) -> None:
        (self.scope,) = scopes(session.topology, request)
        self.session = session
        self.flow: Flow = session.topology.flows[self.scope.flow]
        clusters = session.topology.clusters
        self.source, self.target = Side(clusters[self.flow.source]), Side(clusters[self.flow.target])
        cluster = session.whole(self.flow.source, self.scope.topic)
        if unchecked := require_exists(self.flow, self.scope, cluster):
            raise ReconcilerError(unchecked, "No position was moved")
        topic = cluster.topics[self.scope.topic]
        self.topic_id = topic.topic_id
        self.partitions = (self.scope.partition,) if self.scope.partition >= 0 else tuple(range(len(topic.partitions)))
        self.remote = selector_of(self.flow).remote_name(self.scope.topic)
        self.group = position_group(self.flow.state_name)

    def seen(self, standings: tuple[seeking.SeekPartition, ...]) -> seeking.TopicPositions:
        return seeking.TopicPositions(
            self.session.topology.environment, self.flow, self.scope.topic, self.remote, standings
        )

    def standings(self) -> tuple[seeking.SeekPartition, ...]:
        """Positions and bounds. Raises ClusterError, also if a partition of the source has no leader."""
        bounds = self.source.bounds((self.scope.topic, number) for number in self.partitions)
        if unanswered := [number for number in self.partitions if (self.scope.topic, number) not in bounds]:
            raise unreported(self.source, self.scope.topic, unanswered[0])
        committed = self._committed()
        stable = self.flow.isolation is Isolation.READ_COMMITTED
        seek_partitions = []
        for number in self.partitions:
            its, at = bounds[self.scope.topic, number], committed.get((self.remote, number))
            end = its.stable if stable else its.end
            part = seeking.SeekPartition(number, None, its.begin, end)
            # Another client may commit under the flow's group. Nothing proves what was copied up to such an offset.
            if at is not None and not is_ours((self.remote, number), at.offset, at.metadata):
                part = replace(part, foreign=at.offset)
            elif at is not None:
                mark = mark_of((self.remote, number), at.offset, at.metadata)
                of_former = _of_other_topic(mark, self.topic_id)
                place = {"former": at.offset} if of_former else {"position": at.offset, "lost_from": mark.lost_from}
                part = replace(part, **place)
            seek_partitions.append(part)
        return tuple(seek_partitions)

    def chosen(
        self, standings: Sequence[seeking.SeekPartition], to: Destination
    ) -> tuple[Mapping[int, int], tuple[int, ...]]:
        """Partition -> new offset, and unchanged partitions. Raises ReconcilerError."""
        if not to.flow:
            return seeking.destinations(standings, to.place), ()
        if to.flow == self.flow.name:
            description = f"--from-flow names {to.flow} itself"
            raise ReconcilerError(description, "A flow has no other positions than its own.", "Name the other flow.")
        declared = self.session.topology.flows.get(to.flow)
        if declared is None or selector_of(declared).why_not(self.scope.topic) is None:
            seeking.require_still(_job_of(self.session, to.flow), replace(self.scope, flow=to.flow), self.partitions)
        state = declared.state_name if declared is not None else to.flow
        theirs, marks = self.target.positions(state), self.target.marks(state)
        for number in self.partitions:
            if (mark := marks.get((self.remote, number))) is not None and _of_other_topic(mark, self.topic_id):
                raise ReconcilerError(
                    f"flow {to.flow} is at {theirs.get((self.remote, number))} of partition {number} of a deleted topic"
                    f" {self.scope.topic} (id {mark.topic_id}, now {self.topic_id})",
                    "An offset of a deleted topic means nothing in the topic that has its name now.",
                    "Name a place with --to, for example earliest.",
                )
        here = {number: theirs[self.remote, number] for number in self.partitions if (self.remote, number) in theirs}
        return seeking.taken_over(standings, here, to.flow)

    def commit(self, chosen: Mapping[int, int]) -> None:
        """Commits and audits new positions. Raises ReconcilerError if the target refuses one."""
        step = f"seek:{self.scope}"
        with audited(self.session, "mirror seek", [step]) as outcomes:
            self.place(chosen)
            outcomes.append(Outcome(step, Result.DONE))

    def place(self, chosen: Mapping[int, int]) -> None:
        """Like ``commit``, without the audit record."""
        before = self._committed()
        wanted = {}
        for number, offset in chosen.items():
            at = before.get((self.remote, number))
            key, was = (self.remote, number), (-1, "") if at is None else (at.offset, at.metadata)
            metadata = moved(key, was, offset, self.topic_id, same=self.flow.keeps_offsets)
            wanted[key] = CommittedPosition(offset, metadata)
        if refused := self.target.commit({self.group: wanted}).get(self.group, {}):
            (topic, number), why = min(refused.items())
            first = f"first {topic}-{number}: {why}"
            raise ReconcilerError(
                f"{self.flow.target} did not take {len(refused)} of {len(wanted)} positions, {first}",
                "Those stay where they were.",
                f"Check that the mirror's principal may read group {self.group} and topic {topic} there.",
            )

    def _committed(self) -> Mapping[tuple[str, int], CommittedPosition]:
        return self.target.committed(self.group)


def _of_other_topic(mark: PositionMark, topic_id: str) -> bool:
    """Whether a position is in a deleted source topic of the same name: its topic id differs."""
    return bool(mark.topic_id and topic_id) and urlsafe(mark.topic_id) != urlsafe(topic_id)


def unreported(side: Side, topic: str, partition: int) -> ClusterError:
    """The error that ``side`` did not report the bounds of the partition."""
    description = f"{side.name} does not report the offsets of {topic}-{partition}"
    return ClusterError(side.name, "other", description, "Perhaps its leader is away.", "Try again later.")


def _job_of(session: Session, flow: str) -> LiveMirror | Unknown | None:
    """The job that reports the flow. All mirrors are asked: one may still run a flow that is no longer declared."""
    if flow in session.topology.flows:
        return job_of(session, flow)
    for mirror in session.topology.mirrors:
        live_mirror = session.status(mirror)
        if live_mirror is not None and flow in live_mirror.flows:
            return live_mirror
    return None
