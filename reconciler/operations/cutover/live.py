"""``CutoverWorld`` on clusters: a survey and a switch of ``failover``, limited to the plan's topics and groups."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from reconciler.backends.clusters.clients import abort, let_write, producers_of, transactional_ids
from reconciler.backends.clusters.groups import Side, visited
from reconciler.backends.hooks import run_hook
from reconciler.engine.rollout.waves import faults, scope_of
from reconciler.errors import ClusterError, ReconcilerError, known
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.protocol.producers.describe_producers import Producers
from reconciler.model.environment.flow_settings import Delivery
from reconciler.model.environment.rollout import Gates
from reconciler.model.environment.topology import Principal
from reconciler.model.principals import AclBinding, Unsupported
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.model.reports.failover import FailoverFacts, GroupMove, Key, PartitionState, StepResult, Way
from reconciler.model.reports.health import Fault
from reconciler.model.state.cutover_journal import CutoverJournal, cutover_key, dumps
from reconciler.operations.apply.execution import Execution, sight_of
from reconciler.operations.cutover.decide import topic_words, within
from reconciler.operations.cutover.world import StepEnd, StepNotes
from reconciler.operations.failover.decide import FailoverRequest, move_of, ours
from reconciler.operations.failover.diverged import bounds_of_all
from reconciler.operations.failover.fence import ReadOnlyCopies
from reconciler.operations.failover.steps import LOOK_S, PAUSE_CONFIRM_S, Switch, set_positions
from reconciler.operations.failover.survey import MAP_WITHIN, Survey
from reconciler.operations.mirror import pause as steering
from reconciler.operations.session.session import Session
from reconciler.replication.expressions.match import expressions
from reconciler.replication.groups import make_group_selector
from reconciler.replication.offsets.close_gaps import Log, bounds_of
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.parting import WholeRecord, count_from, read_from
from reconciler.replication.records.pauses import Scope
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.mirrors.verify_request import traits_of
from reconciler.text import counted

CUT_OVER = "cut over to "
"""Prefix of the reason of a pause that a cut-over sets on single topics."""
TAIL, TAIL_OFFSETS = 20, 400
"""Records compared at the end of each partition, and the range of offsets in which they are searched."""
LONG_S = 600.0


class LiveWorld:
    """One run of one plan. ``command``: of the steps in its audit record. ``reason``: prefix of the reason of its
    pauses of single topics; it lifts no others."""

    command, reason = "cutover", CUT_OVER

    def __init__(self, session: Session, plan: CutoverPlan, execute: Execution, say: Callable[[str], None]) -> None:
        self.session, self.plan, self._execute, self.say = session, plan, execute, say
        move = move_of(session.topology, Way.FAILOVER, plan.flow)
        self.switch = Switch(session, move, FailoverRequest(), say, say)
        self._survey = self.switch.survey
        self._flow = session.topology.flows[plan.flow]
        topics = () if plan.whole else [topic.copy for topic in plan.topics]
        self._copies = ReadOnlyCopies(session.topology, plan.flow, topics)

    # the origin

    def rules(self) -> tuple[frozenset[AclBinding], frozenset[AclBinding]]:
        """All rules, and the rules of this tool's fence on the plan's topics. Raises ReconcilerError if they cannot be
        read: an empty answer would mean that there is no fence."""
        rules, why = self.switch.fence.rules(), "Which rules are in force is unknown."
        if isinstance(rules, Unsupported):
            return frozenset(), frozenset()
        standing, made = known(rules, why), known(self.switch.fence.made(), why)
        return standing, frozenset(rule for rule in made if rule.name in self.plan.names)

    def fence(self, rules: Collection[AclBinding]) -> None:
        self.switch.fence.put(rules, f"cutover of {self.plan.flow}")

    def unfence(self, rules: Collection[AclBinding]) -> None:
        self.switch.fence.strike(rules)

    def topics(self) -> Mapping[str, str]:
        return topic_idents(self._survey, self.plan.topics_expression)

    def partitions(self) -> Mapping[Key, PartitionState]:
        return {state.source: state for state in partition_states(self._survey) if state.source[0] in self.plan.names}

    def producers(self) -> Mapping[Key, Producers] | None:
        keys = [(topic.topic, number) for topic in self.plan.topics for number in range(topic.partitions)]
        return producers_of(self._survey.origin, keys)

    def names(self, producer_ids: Collection[int]) -> Mapping[int, str]:
        return transactional_ids(self._origin_as(Principal.APPLY), producer_ids)

    def abort(self, transactional_id: str) -> None:
        self._execute.require_lock()  # verifying the fence has taken a while
        abort(self._origin_as(Principal.APPLY), transactional_id)

    def let_through(self) -> Collection[Key]:
        if not self.plan.probe:
            return ()
        topics = {topic.topic: topic.partitions for topic in self.plan.topics}
        return let_write(self._origin_as(Principal.PROBE), topics)

    def _origin_as(self, principal: Principal) -> Side:
        return Side(self.session.topology.clusters[self.plan.origin], principal, visits=self.session.visits)

    def unread(self, spans: Mapping[Key, tuple[int, int]]) -> frozenset[Key]:
        async def look(opened: Sequence[ClusterClient]) -> frozenset[Key]:
            counts = {key: await count_from(Log(opened[0], key), *span, enough=1) for key, span in spans.items()}
            return frozenset(key for key, count in counts.items() if count)

        return visited((self._survey.origin,), look, LONG_S) if spans else frozenset()

    # the flow

    def is_paused(self) -> bool:
        pauses = steering.pauses_of(self.session, self.plan.flow)
        return Scope(self.plan.flow) in pauses or all(scope in pauses for scope in self._scopes)

    @property
    def _scopes(self) -> list[Scope]:
        return [Scope(self.plan.flow, topic) for topic in sorted(self.plan.names)]

    def pause(self) -> StepNotes:
        """Pauses the whole flow, or only the topics that move; a job that does not confirm it in time is a remark, as
        the origin is drained."""
        if self.plan.whole:
            result, text = self.switch.pause(self._facts())
            if result is StepResult.SKIPPED:
                raise ReconcilerError(text, f"Without a pause {self.plan.destination} cannot take writes.", "")
            return result is StepResult.DONE, ""
        pauses = steering.pauses_of(self.session, self.plan.flow)
        missing = [scope for scope in self._scopes if scope not in pauses]
        if not missing or Scope(self.plan.flow) in pauses:
            return False, ""
        try:
            reason = f"{self.reason}{self.plan.destination}"
            return True, "; ".join(steering.hold(self.session, missing, reason, PAUSE_CONFIRM_S))
        except ClusterError:
            raise
        except ReconcilerError as error:  # the pause is recorded, and the origin is drained
            return True, error.what

    def resume(self) -> StepNotes:
        """Lifts pauses of cut-overs and failovers, and keeps a user's pause."""
        pauses = steering.pauses_of(self.session, self.plan.flow)
        wanted = [Scope(self.plan.flow)] if self.plan.whole else self._scopes
        mine = [scope for scope in wanted if scope in pauses]
        mine = [scope for scope in mine if ours(pauses[scope].reason) or pauses[scope].reason.startswith(self.reason)]
        if not mine:
            return False, ""
        return True, "; ".join(steering.lift(self.session, mine, PAUSE_CONFIRM_S))

    def start_back(self) -> StepNotes:
        result, text = self.switch.start(self._facts())
        return result is StepResult.DONE, text if result is StepResult.SKIPPED else ""

    def hold_back(self) -> StepNotes:
        name = self.plan.started
        if steering.pause_of(self.session, name) is not None:
            return False, ""
        reason = f"the cutover of {self.plan.flow} was taken back"
        return True, "; ".join(steering.hold(self.session, [Scope(name)], reason, PAUSE_CONFIRM_S))

    def _facts(self) -> FailoverFacts:
        return FailoverFacts(self.switch.move, True, "", self._survey.flow(self.switch.levers()), ())

    # groups

    def groups(self, *, settled: bool) -> tuple[GroupMove, ...]:
        moves = self._survey.exact_groups() if settled else self._survey.groups()[0]
        return chosen_groups(moves, self.plan.groups_expression, () if self.plan.whole else self.plan.names)

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        return self._set_positions(self._survey.destination, groups)

    def groups_back(self) -> tuple[GroupMove, ...]:
        move = move_of(self.session.topology, Way.FAILBACK, self.plan.flow)
        survey = Survey(self.session.topology, move, self.session.visits)
        chosen = chosen_groups(survey.exact_groups(), self.plan.groups_expression, self._left_back)
        return self._set_positions(survey.destination, chosen)

    def _set_positions(self, side: Side, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        # A step commits repeatedly while it waits for members or clients, so another run may hold the lock by now.
        self._execute.require_lock()
        return set_positions(side, groups)

    @property
    def _left_back(self) -> Collection[str]:
        """Topics of the destination with positions to translate on the way back; empty for all."""
        return () if self.plan.whole else {topic.copy for topic in self.plan.topics}

    # the destination

    def lift(self) -> StepEnd:
        return self._copies.lift()

    def restore(self) -> StepEnd:
        return self._copies.restore()

    def ends(self, drained: Mapping[Key, int]) -> Mapping[Key, int]:
        """Ends of the plan's topics and copies at the destination, before clients may write there. A copy with the same
        offsets ends at its source's end, even if a client came early and wrote after it. Raises ReconcilerError if one
        leader does not answer: without its end the partition would count as empty."""
        names = {name for topic in self.plan.topics for name in (topic.topic, topic.copy)}
        counts = self._survey.destination.partitions()
        keys = [(name, number) for name in sorted(names & counts.keys()) for number in range(counts[name])]
        why = "Without it no one could say later what a client wrote there."
        bounds = bounds_of_all(self._survey.destination, keys, why)
        copies = {topic.topic: topic.copy for topic in self.plan.topics if self._flow.keeps_offsets}
        copied = {(copies[topic], number): end for (topic, number), end in drained.items() if topic in copies}
        return {key: min(bounds[key].end, copied.get(key, bounds[key].end)) for key in keys}

    def own_records(self, since: Mapping[Key, int], enough: int | None = None) -> Mapping[Key, int]:
        """Partition of the destination -> number of records after ``since``, which clients wrote since the switch.
        Records of open transactions count, because they may be committed any moment."""
        side = self._survey.destination
        bounds = bounds_of_all(side, since, f"Whether {side.name} has records of its own is not known.")
        grown = {key: at for key, at in since.items() if bounds[key].end > at}

        async def count(opened: Sequence[ClusterClient]) -> dict[Key, int]:
            counts: dict[Key, int] = {}
            for key, at in grown.items():
                stable, end = bounds[key].stable, bounds[key].end
                decided = await count_from(Log(opened[0], key), at, stable, enough) if stable > at else 0
                counts[key] = decided + max(0, end - max(stable, at))
            return {key: count for key, count in counts.items() if count}

        return visited((side,), count, LONG_S) if grown else {}

    def early_records(
        self, before: Mapping[Key, int], drained: Mapping[Key, int], there: Mapping[Key, int]
    ) -> Mapping[Key, int]:
        """The offset map distinguishes them from copies, if the flow writes each copy once: a repeated copy is in no
        map. With the same offsets ``ends`` leaves such records out already."""
        flow, until = self._flow, time.monotonic() + MAP_WITHIN
        sources = {topic.copy: topic.topic for topic in self.plan.topics}
        spans = {key: (before.get(key, end), end) for key, end in there.items()}
        spans = {key: span for key, span in spans.items() if span[0] < span[1]}
        if flow.keeps_offsets or flow.delivery is not Delivery.EXACTLY_ONCE:
            spans = {key: span for key, span in spans.items() if key[0] not in sources}
        ends = {key: drained.get((sources.get(key[0], ""), key[1]), 0) for key in spans}
        while True:
            read = self._survey.destination.maps(flow.state_name, self._survey.origin, selector_of(flow).remote_name)
            maps = {key: read.get((sources.get(key[0], ""), key[1]), PartitionMap(())) for key in spans}
            if time.monotonic() > until or all((its.source_end or 0) >= ends[key] for key, its in maps.items()):
                break
            time.sleep(LOOK_S)

        async def count(opened: Sequence[ClusterClient]) -> dict[Key, int]:
            gaps = {key: its.uncopied(*spans[key], ends[key]) for key, its in maps.items()}
            logs = {key: Log(opened[0], key) for key in gaps}
            counts = {key: sum([await count_from(logs[key], *gap) for gap in some]) for key, some in gaps.items()}
            return {key: count for key, count in counts.items() if count}

        return visited((self._survey.destination,), count, LONG_S) if spans else {}

    def members(self) -> Mapping[str, int]:
        names = {group.group for group in self.plan.groups}
        request = self._flow.groups
        seen = self._survey.destination.groups(make_group_selector(request.include, request.exclude))
        return {name: state.members for name, state in seen.states.items() if name in names}

    def tail(self, ends: Mapping[Key, int], there: Mapping[Key, int]) -> StepNotes:
        """Compares the last records of each partition byte by byte, as a cheap check before the way back is started.
        Skipped for a flow that changes records. Raises ReconcilerError for the first difference."""
        if self._flow.record_work:
            return False, f"not compared: {self.plan.flow} has {', '.join(self._flow.record_work)}, so copies differ"
        places = {topic.topic: topic.copy for topic in self.plan.topics if topic.copy not in self.plan.shared}
        ours, theirs = (
            traits_of(self.session.clusters[name].read(sorted(names)))
            for name, names in ((self.plan.origin, places.keys()), (self.plan.destination, places.values()))
        )
        # Compaction may have removed a record on one side only, and LogAppendTime gives copies other timestamps:
        # neither is a difference. Topics with unknown configs count as both.
        weak, timeless = ours.compacted | ours.unknown, theirs.append_time | theirs.unknown
        weak_there = theirs.compacted | theirs.unknown

        async def compare(opened: Sequence[ClusterClient]) -> int:
            count = 0
            for key, end in ends.items():
                twin = (places.get(key[0], ""), key[1])
                if twin not in there:
                    continue
                sides = await _last(Log(opened[0], key), end), await _last(Log(opened[1], twin), there[twin])
                compacted = key[0] in weak or twin[0] in weak_there
                some = alike(*sides, compacted=compacted, timed=twin[0] not in timeless)
                if some is None:
                    raise ReconcilerError(
                        f"the last records of {key[0]}-{key[1]} on {self.plan.origin} differ from those of "
                        f"{twin[0]}-{twin[1]} on {self.plan.destination}",
                        "What was copied is not what was written.",
                        f"Compare all of it: reconciler verify ENV {self.plan.flow}",
                    )
                count += some
            return count

        count = visited((self._survey.origin, self._survey.destination), compare, LONG_S)
        text = f"{counted(count, 'record')} at the ends of {counted(len(ends), 'partition')} are the same on both sides"
        return bool(count), text if count else "no record lies at the ends of the partitions"

    # everything else

    def gate_faults(self) -> tuple[Fault, ...]:
        return gate_faults(self.session, self.plan.gates or Gates(), (self.plan.origin, self.plan.destination))

    def hook(self, name: str) -> StepNotes | None:
        hook = self.session.topology.hooks.get(name)
        if hook is None:
            return None
        destination = self.session.topology.clusters[self.plan.destination]
        facts = {
            "ENVIRONMENT": self.plan.environment, "FLOW": self.plan.flow, "ORIGIN": self.plan.origin, "HOOK": name,
            "DESTINATION": self.plan.destination, "SERVERS": ",".join(destination.bootstrap_servers),
            "TOPICS": ",".join(sorted(self.plan.names)),
        }  # fmt: skip
        return True, run_hook(hook, {f"RECONCILER_{key}": value for key, value in facts.items()})

    def keep(self, journal: CutoverJournal) -> None:
        key = cutover_key(journal.environment, journal.flow, journal.plan)
        self._execute.keep(key, dumps(journal), "the journal of the cut-over")

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        return self._execute.perform(f"{self.command}:{self.plan.flow}:{name}", act)


def gate_faults(session: Session, gates: Gates, clusters: Collection[str]) -> tuple[Fault, ...]:
    scope = scope_of(session.topology, clusters, ())
    return faults(gates, scope, sight_of(session, scope))


def partition_states(survey: Survey) -> tuple[PartitionState, ...]:
    """Raises ReconcilerError."""
    return known(survey.partitions(), "How far the flow has copied is not known.")


def chooses(expression: str) -> Callable[[str], bool]:
    """Whether the expression matches a name; an empty one matches all."""
    return expressions((expression,)).match if expression else lambda _: True


def topic_idents(survey: Survey, expression: str) -> Mapping[str, str]:
    """Topics of the origin that the expression matches now -> words with their partitions and topic id."""
    chosen, ids = chooses(expression), survey.origin.topic_ids()
    return {
        name: topic_words(count, ids.get(name, ""))
        for name, count in survey.origin.partitions().items()
        if survey.moves(name) and chosen(name)
    }


def chosen_groups(moves: Iterable[GroupMove], expression: str, topics: Collection[str]) -> tuple[GroupMove, ...]:
    """Moves of groups that the expression matches. ``topics``: of the origin, empty for all."""
    chosen = chooses(expression)
    mine = (move for move in moves if chosen(move.group))
    narrowed = (within(move, topics) if topics else move for move in mine)
    return tuple(move for move in narrowed if move.offsets)


def alike(here: Sequence[WholeRecord], copied: Sequence[WholeRecord], *, compacted: bool, timed: bool) -> int | None:
    """How many of the last records are equal; None if two differ. Counted from the ends, since retention may have
    shortened one side. ``compacted``: log cleaners run at different times, so only the newest record of each key,
    unless it is a tombstone, must be on both sides. ``timed``: the copy keeps timestamps."""
    sides: list[list[tuple[object, ...]]] = []
    for records in (here, copied):
        newest = {record.key: record.offset for record in records if compacted}
        kept = [r for r in records if not compacted or (newest[r.key] == r.offset and r.value is not None)]
        sides.append([(each.timestamp if timed else 0, each.key, each.value, each.headers) for each in kept])
    some = min(TAIL, *map(len, sides))
    return some if sides[0][len(sides[0]) - some :] == sides[1][len(sides[1]) - some :] else None


async def _last(log: Log, end: int) -> list[WholeRecord]:
    begin = max((await bounds_of(log)).begin, end - TAIL_OFFSETS)
    return [record async for record in read_from(log, begin, end)]
