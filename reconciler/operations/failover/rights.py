"""Asks brokers, before any step, for the rights that a failover or failback needs, so that no step fails with others
done; and for topics and groups of the origin by name, since a broker omits what a principal may not describe. Asking
changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.backends.clusters.groups import Side
from reconciler.backends.clusters.permissions import rights
from reconciler.backends.connections.credentials import speaker_of
from reconciler.engine.doctor.rights import GroupNeed, moved_groups
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster, Flow, Principal
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, Key, Leg, Level
from reconciler.replication.names import STATUS_TOPIC
from reconciler.replication.policy import TopicSelector
from reconciler.text import counted, first_of

SHOWN = 3
GROUPS_ASKED = 100
"""Each group costs a request. Rights mostly cover prefixes of names; a refusal beyond this number is reported when the
offset is set."""
AskRights = Callable[[Cluster, Principal, Ask], Rights]


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """What the planned steps need of one principal on one cluster. ``topics``, ``groups``: whose offsets are set there.
    ``alters``, ``writes``: why access rules are altered, and ``__mirror_status`` is written; empty where they are not.
    """

    cluster: Cluster
    principal: Principal
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    alters: str = ""
    writes: str = ""

    @property
    def ask(self) -> Ask:
        return Ask(self.topics, groups=self.groups[:GROUPS_ASKED], writes=(STATUS_TOPIC,) if self.writes else ())


def denied(needs: Collection[StepNeeds], *, lost: bool, ask: AskRights = rights) -> tuple[FailoverCheck, ...]:
    """``lost``: the origin does not answer, so what can be moved is moved. What cannot be asked is a warning."""
    return tuple(check for need in needs for check in _judged(need, ask(need.cluster, need.principal, need.ask), lost))


def _judged(need: StepNeeds, rights: Rights, lost: bool) -> Iterator[FailoverCheck]:
    if rights.failed is not None:
        yield _unasked(need, rights.failed)
        return
    yield from _offsets(need, rights, lost)
    if need.alters and rights.cluster is not None and "ALTER" not in rights.cluster:
        refusal = "may not alter access rules (Alter on the cluster)"
        yield _stop(need, refusal, need.alters, "Alter", "--cluster")
    if not need.writes:
        return
    if isinstance(rights.writes, Unknown):
        yield _unasked(need, rights.writes)
    elif not rights.writes.get(STATUS_TOPIC, True):
        refusal = f"may not write topic {STATUS_TOPIC}"
        yield _stop(need, refusal, need.writes, "Write", f"--topic {STATUS_TOPIC}")


def _offsets(need: StepNeeds, rights: Rights, lost: bool) -> Iterator[FailoverCheck]:
    """Setting an offset needs Read on its topic and on its group."""
    may = {name: "READ" in operations for name, operations in rights.operations.items()}
    topics = [name for name in need.topics if name in rights.denied or not may.get(name, True)]
    yield from _unset(need, "topic", topics, all_of=len(topics) == len(need.topics), lost=lost)
    if isinstance(rights.groups, Unknown):
        yield _unasked(need, rights.groups)
        return
    asked: Mapping[str, bool] = rights.groups
    groups = [name for name, allowed in asked.items() if not allowed]
    yield from _unset(need, "group", groups, all_of=len(groups) == len(asked), lost=lost)


def _unset(need: StepNeeds, kind: str, names: list[str], *, all_of: bool, lost: bool) -> Iterator[FailoverCheck]:
    if not names:
        return
    refusal = f"may not read {counted(len(names), kind)} ({first_of(names, SHOWN)})"
    why = "offsets could not be set there, and consumers would be left behind"
    option = f"--{kind} {names[0]}"
    check = _stop(need, refusal, why, "Read", option)
    if lost and not all_of:
        todo = f"Others are set. {check.todo}, and run this again"
        check = FailoverCheck(check.code, Level.WARNS, check.text, todo)
    yield check


def _stop(need: StepNeeds, refusal: str, why: str, operation: str, resource: str) -> FailoverCheck:
    speaker = speaker_of(need.cluster, need.principal)
    text = f"principal {speaker.kafka_principal} ({need.principal}) {refusal} on {need.cluster.name}: {why}"
    return FailoverCheck("rights", Level.STOPS, text, f"Allow it: {speaker.acl_command(operation, resource)}")


def _unasked(need: StepNeeds, unknown: Unknown) -> FailoverCheck:
    text = f"what principal {need.principal} may do on {need.cluster.name} could not be asked: {unknown.error}"
    return FailoverCheck("rights", Level.WARNS, text, unknown.todo)


def hidden(
    move: ConsumerMove,
    sides: tuple[Side, Side],
    flows: Mapping[str, Flow],
    selectors: Mapping[str, TopicSelector],
    seen: Collection[str],
) -> Iterator[FailoverCheck]:
    """``sides``: origin and destination, both reachable. ``seen``: groups of the origin. Raises ClusterError."""
    origin, destination = sides
    wanted: set[str] = set()
    for leg in move.legs:
        state = flows[leg.flow].state_name
        copied = (destination if leg.forward else origin).positions(state)
        wanted.update(_topics(leg, copied, selectors[leg.flow]))
    if denied := origin.denied_topics(sorted(wanted)):
        names = first_of(denied, SHOWN)
        text = f"{origin.name} hides topics that were copied from the principal {origin.principal}: {names}"
        yield FailoverCheck("hidden-topics", Level.STOPS, f"{text}; groups that read them would be left behind", _TODO)
    for need in moved_groups(flows[move.flow]):
        if origin.is_denied_group(need.asked):
            yield _group(origin, need, seen)


_TODO = "The principal mirror lacks Read on each topic there. reconciler doctor ENV has the commands"


def _group(origin: Side, need: GroupNeed, seen: Collection[str]) -> FailoverCheck:
    speaker = origin.speaker
    text = f"principal {origin.principal} may not describe {need.words} on {origin.name}, which hides them silently"
    text += f"; {len(seen)} groups are seen there, and others would be left behind" if seen else "; no group is seen"
    todo = f"It lacks Describe on {need.resource.removeprefix('--')}. Allow it: "
    todo += speaker.acl_command("Describe", need.resource)
    return FailoverCheck("hidden-groups", Level.WARNS if seen else Level.STOPS, text, todo)


def _topics(leg: Leg, positions: Iterable[Key], selector: TopicSelector) -> Iterable[str]:
    """Topics of the origin by the positions of a flow at its target, which name what it has copied."""
    copies = {topic for topic, _ in positions}
    if not leg.forward:
        return copies
    names = {selector.policy.upstream_topic(topic) for topic in copies}
    return {name for name in names if name is not None and selector.why_not(name) is None}
