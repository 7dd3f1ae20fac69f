"""``DrillWorld`` on clusters. It changes only the canary's topics and group."""

import json
import math
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from reconciler.backends.clusters.groups import Side, visited
from reconciler.errors import ReconcilerError
from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import ClusterClient, CommittedPosition
from reconciler.model.environment.topology import Flow, Principal
from reconciler.model.reports.cutover import CutoverPlan, CutoverStep
from reconciler.model.reports.drill import DrillPlaces
from reconciler.model.reports.failover import Key, PartitionState
from reconciler.model.state.cutover_journal import CutoverJournal
from reconciler.operations.apply.execution import Execution
from reconciler.operations.cutover.live import LONG_S, LiveWorld
from reconciler.operations.cutover.world import StepNotes
from reconciler.operations.failover.diverged import bounds_of_all
from reconciler.operations.session.session import Session
from reconciler.replication.json_codec import parsed
from reconciler.replication.offsets.close_gaps import Log, bounds_of
from reconciler.replication.offsets.parting import WholeRecord, read_from

DRILL = "drill: moved to "
"""Prefix of the reason of a drill's pauses."""


class LiveDrill(LiveWorld):
    """One drill with one plan. Its client logs in as the principal ``apply``."""

    command, reason = "drill", DRILL

    def __init__(
        self,
        session: Session,
        plan: CutoverPlan,
        execute: Execution,
        say: Callable[[str], None],
        places: DrillPlaces,
        group: str,
    ) -> None:
        super().__init__(session, plan, execute, say)
        self.places, self.group = places, group
        self.drill = uuid.uuid4().hex
        self.strange = 0
        self.at_switch: Callable[[], str] = str
        clusters = session.topology.clusters
        self._here = Side(clusters[plan.origin], Principal.APPLY)
        self._there = Side(clusters[plan.destination], Principal.APPLY)
        self._counts: dict[bool, Mapping[str, int]] = {False: {}, True: {}}
        self._starts: dict[tuple[bool, Key], int] = {}

    # the cut-over

    def hook(self, name: str) -> StepNotes | None:
        return (True, self.at_switch()) if name == CutoverStep.SWITCH else None

    def keep(self, journal: CutoverJournal) -> None:
        """Keeps nothing: no run continues another run's drill."""

    @property
    def _left_back(self) -> Collection[str]:
        return self.places.there

    # how far the canary is copied

    def copied(self) -> Mapping[Key, PartitionState]:
        sides = self._survey.origin, self._survey.destination
        return _states(self._flow, sides, self._of(False, self.places.topic), self.places.copy)

    def copied_back(self) -> Mapping[Key, PartitionState]:
        if not self.places.back:
            return {}
        sides = self._survey.destination, self._survey.origin
        back = self.session.topology.flows[self.places.back]
        return _states(back, sides, self._of(True, self.places.written), self.places.returned)

    # the canary's client

    def to_ends(self) -> None:
        """Commits the ends of both sides for the drill's group, and remembers them: records before them are from
        earlier drills. Raises ReconcilerError, before anything is written, if an end is unknown."""
        for there in (False, True):
            keys = self._keys(there)
            bounds = bounds_of_all(self._side(there), keys, "Nothing of the canary was written.")
            self._starts |= {(there, key): bounds[key].end for key in keys}
            self._commit(there, {key: bounds[key].end for key in keys})

    def write(self, numbers: Sequence[int], *, there: bool) -> None:
        """Writes one record for each number, spread over all partitions. Its value contains the drill's id, which tells
        it from records of other clients and earlier drills."""
        topic = self.places.written if there else self.places.topic
        side, count = self._side(there), len(self._of(there, topic))
        records: dict[int, list[small_topics.KeyValue]] = {}
        for number in numbers:
            value = json.dumps({"drill": self.drill, "number": number, "cluster": side.name}).encode()
            records.setdefault(number % count, []).append((str(number).encode(), value))

        async def append(opened: Sequence[ClusterClient]) -> None:
            await small_topics.append(opened[0], topic, records)

        visited((side,), append)

    def read(self, share: float, *, there: bool) -> Sequence[int]:
        """Reads from the group's position as a client would, and commits the next offset. ``share``: the part of the
        existing records to read; the rest is left for the other side after the switch."""
        side, keys = self._side(there), self._keys(there)
        committed = side.committed(self.group)
        numbers: list[int] = []
        positions: dict[Key, int] = {}

        async def read(opened: Sequence[ClusterClient]) -> None:
            for key in keys:
                log = Log(opened[0], key)
                bounds = await bounds_of(log)
                at = committed[key].offset if key in committed else bounds.begin
                records = [record async for record in read_from(log, at, bounds.end)]
                some = records[: math.ceil(len(records) * share)]
                known = [self._number(record) for record in some]
                self.strange += known.count(None)
                numbers.extend(number for number in known if number is not None)
                positions[key] = bounds.end if len(some) == len(records) else some[-1].offset + 1

        visited((side,), read, LONG_S)
        self._commit(there, positions)
        return numbers

    def compare(self) -> tuple[int, int]:
        """(number of compared records, number of differences), matched by the drill's numbers. A duplicate, or a record
        on one side alone, counts as a difference."""
        at, pairs = self.places, []
        pairs.append((self._flow, (False, at.topic), (True, at.copy)))
        if at.back and at.written != at.copy:
            pairs.append((self.session.topology.flows[at.back], (True, at.written), (False, at.returned)))
        count, different = 0, 0
        for flow, (here, topic), (there, copy) in pairs:
            originals, copies = self._logs(here, topic), self._logs(there, copy)
            for number, records in originals.items():
                written, copied = (_content(each, flow) for each in (records, copies.get(number, [])))
                count += max(len(written), len(copied))
                different += sum(a != b for a, b in zip(written, copied, strict=False))
                different += abs(len(written) - len(copied))
        return count, different

    def _logs(self, there: bool, topic: str) -> dict[int, list[WholeRecord]]:
        """Partition -> records of this drill."""
        keys = self._of(there, topic)

        async def read(opened: Sequence[ClusterClient]) -> dict[int, list[WholeRecord]]:
            logs: dict[int, list[WholeRecord]] = {}
            for key in keys:
                log = Log(opened[0], key)
                begin, end = self._starts[there, key], (await bounds_of(log)).end
                logs[key[1]] = [each async for each in read_from(log, begin, end) if self._number(each) is not None]
            return logs

        return visited((self._side(there),), read, LONG_S)

    def _side(self, there: bool) -> Side:
        return self._there if there else self._here

    def _keys(self, there: bool) -> list[Key]:
        return [key for name in (self.places.there if there else self.places.here) for key in self._of(there, name)]

    def _of(self, there: bool, topic: str) -> list[Key]:
        """Partitions of a topic, asked for only once and by name: a drill must not list all topics of a cluster."""
        if not self._counts[there]:
            self._counts[there] = self._side(there).partitions()
        if not (count := self._counts[there].get(topic, 0)):
            raise ReconcilerError(
                f"{self._side(there).name} has no topic {topic}, or hides it from the principal apply",
                f"The canary of {self.plan.flow} lies there.",
                "Check with reconciler explain ENV TOPIC, apply or allow it, and run the drill again.",
            )
        return [(topic, number) for number in range(count)]

    def _commit(self, there: bool, positions: Mapping[Key, int]) -> None:
        """Raises ReconcilerError if the broker refuses the offset; for a group without members that means missing
        rights."""
        side = self._side(there)
        asked = {self.group: {key: CommittedPosition(at, "") for key, at in positions.items()}}
        if refused := side.commit(asked).get(self.group):
            key, why = min(refused.items())
            raise ReconcilerError(
                f"{side.name} does not take the position of group {self.group} on {key[0]}-{key[1]}: {why}",
                "The group is the drill's own, and may have no members.",
                "Stop what uses it, allow the principal apply Read on group and topic, and run the drill again.",
            )

    def _number(self, record: WholeRecord) -> int | None:
        """The record's number; None if it is not from this drill."""
        try:
            value = parsed(record.value or b"")
            return int(value["number"]) if value["drill"] == self.drill else None
        except (ValueError, TypeError, KeyError):
            return None


def _states(flow: Flow, sides: tuple[Side, Side], keys: Sequence[Key], copy: str) -> dict[Key, PartitionState]:
    """``sides``: the flow's source and target. ``keys``: of the source."""
    source, target = sides
    twins = {key: (copy, key[1]) for key in keys}
    if flow.keeps_offsets:
        positions = {key: bounds.end for key, bounds in target.bounds(twins.values()).items()}
    else:
        positions = dict(target.positions(flow.state_name))
    bounds = source.bounds(keys)
    states = {}
    for key in keys:
        its = bounds.get(key)
        position = positions.get(twins[key], its.begin if its is not None else None)
        states[key] = PartitionState(key, twins[key], position, *((its.stable, its.end) if its else (None, None)))
    return states


def _content(records: Sequence[WholeRecord], flow: Flow) -> list[tuple[object, ...]]:
    """What two copies must share: headers only if the flow adds none. Sorted, because a topic that both sides write has
    its records in different orders."""
    if flow.record_work:
        pairs: list[tuple[object, ...]] = [(each.key, each.value) for each in records]
        return sorted(pairs, key=repr)
    return [(each.timestamp, each.key, each.value, each.headers) for each in records]
