"""Checks rights of a failover or failback on the brokers before its first step, so that no step fails halfway. Asks for
topics and groups of the origin by name, since brokers omit names that a principal may not describe. Changes nothing."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.backends.clusters.groups import Side
from reconciler.backends.clusters.permissions import rights
from reconciler.backends.connections.credentials import speaker_of
from reconciler.engine.doctor.rights import moved_groups
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster, Flow, Principal
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, Level
from reconciler.replication.policy import TopicSelector
from reconciler.text import BRIEF, counted, first_of

GROUPS_ASKED = 100
"""Groups to ask for, one request each. Rights mostly cover prefixes of names; a refusal for a group beyond this number
comes when its offset is set."""
AskRights = Callable[[Cluster, Principal, Ask], Rights]


@dataclass(frozen=True, slots=True)
class StepNeeds:
    """Rights that planned steps need as one principal on one cluster."""

    cluster: Cluster
    principal: Principal
    topics: tuple[str, ...] = ()
    """Read on them, for setting offsets; ``groups``: likewise."""
    groups: tuple[str, ...] = ()
    alters: str = ""
    """Why access rules have to be altered; empty if they have not."""
    writes: str = ""
    """Why the status topic has to be written; empty if it has not."""

    @property
    def ask(self) -> Ask:
        return Ask(
            self.topics,
            groups=self.groups[:GROUPS_ASKED],
            writes=(self.cluster.own_topics.status,) if self.writes else (),
        )


def denied(needs: Collection[StepNeeds], *, lost: bool, ask: AskRights = rights) -> tuple[FailoverCheck, ...]:
    """``lost``: the origin does not answer, so groups are moved as far as possible. A right that cannot be checked is a
    warning."""
    checks: list[FailoverCheck] = []
    for need in needs:
        given = ask(need.cluster, need.principal, need.ask)
        if given.failed is not None:
            checks.append(_unasked(need, given.failed))
            continue

        # OffsetCommit needs Read on the topic and on the group.
        may = {name: "READ" in operations for name, operations in given.operations.items()}
        topics = [name for name in need.topics if name in given.denied or not may.get(name, True)]
        checks += _unset(need, "topic", topics, all_of=len(topics) == len(need.topics), lost=lost)
        if isinstance(given.groups, Unknown):
            checks.append(_unasked(need, given.groups))
        else:
            groups = [name for name, allowed in given.groups.items() if not allowed]
            checks += _unset(need, "group", groups, all_of=len(groups) == len(given.groups), lost=lost)

        # CreateAcls needs Alter on the cluster, a pause Write on the status topic.
        if need.alters and given.cluster is not None and "ALTER" not in given.cluster:
            refusal = "may not alter access rules (Alter on the cluster)"
            checks.append(_stop(need, refusal, need.alters, "Alter", "--cluster"))
        if not need.writes:
            continue
        if isinstance(given.writes, Unknown):
            checks.append(_unasked(need, given.writes))
        elif not given.writes.get(status := need.cluster.own_topics.status, True):
            refusal = f"may not write topic {status}"
            checks.append(_stop(need, refusal, need.writes, "Write", f"--topic {status}"))
    return tuple(checks)


def _unset(need: StepNeeds, kind: str, names: list[str], *, all_of: bool, lost: bool) -> Iterator[FailoverCheck]:
    """Checks for groups or topics without Read, so that their offsets cannot be set. With the other cluster lost, a few
    of them are only a warning: waiting for rights would cost more than it saves."""
    if not names:
        return
    refusal = f"may not read {counted(len(names), kind)} ({first_of(names, BRIEF)})"
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
    return FailoverCheck("rights", Level.STOPS, text, speaker.allow(operation, resource))


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
    """Topics and groups that brokers hide from the principal. ``sides``: origin and destination, both reachable.
    ``seen``: groups of the origin. Raises ClusterError."""
    origin, destination = sides
    wanted: set[str] = set()
    for leg in move.legs:
        # Positions of a flow, on its target, name the topics that it has copied.
        target, selector = destination if leg.forward else origin, selectors[leg.flow]
        copies = {topic for topic, _ in target.positions(flows[leg.flow].state_name)}
        sources = {selector.policy.upstream_topic(topic) for topic in copies}
        carried = {name for name in sources if name is not None and selector.why_not(name) is None}
        wanted |= carried if leg.forward else copies
    if denied := origin.denied_topics(sorted(wanted)):
        names = first_of(denied, BRIEF)
        text = f"{origin.name} hides topics that were copied from the principal {origin.principal}: {names}"
        todo = "The principal mirror lacks Read on each topic there. reconciler doctor ENV has the commands"
        yield FailoverCheck("hidden-topics", Level.STOPS, f"{text}; groups that read them would be left behind", todo)
    for need in moved_groups(flows[move.flow]):
        if origin.is_denied_group(need.asked):
            text = f"principal {origin.principal} may not describe {need.words} on {origin.name}, which hides them "
            others = (
                f"visible: {counted(len(seen), 'group')}; others would be left behind" if seen else "none is visible"
            )
            text += f"silently; {others}"
            todo = f"It lacks Describe on {need.resource.removeprefix('--')}. "
            todo += origin.speaker.allow("Describe", need.resource)
            yield FailoverCheck("hidden-groups", Level.WARNS if seen else Level.STOPS, text, todo)


def rights_missing(
    wanted: Iterable[tuple[Cluster, Principal, Ask, str]], ask: AskRights = rights
) -> Iterator[FailoverCheck]:
    """``wanted``: the principal, the cluster to ask, and the operation that it needs on each of the ``topics``."""
    for cluster, principal, question, operation in wanted:
        given, need = ask(cluster, principal, question), StepNeeds(cluster, principal)
        if given.failed is not None:
            yield _unasked(need, given.failed)
            continue
        on_topics = {name: operation in given.operations.get(name, (operation,)) for name in question.topics}
        asked: tuple[tuple[str, str, Mapping[str, bool] | Unknown], ...] = (
            (operation.title(), "topic", on_topics | dict.fromkeys(given.denied, False)),
            ("Create", "topic", given.creates),
            ("Read", "group", given.groups),
            ("Write", "transactional-id", given.transactional_ids),
        )
        for word, kind, allowed in asked:
            if isinstance(allowed, Unknown):
                yield _unasked(need, allowed)
                continue
            for name in sorted(name for name, allows in allowed.items() if not allows):
                yield _stop(need, f"lacks {word} on {kind} {name}", "a later step would fail", word, f"--{kind} {name}")
