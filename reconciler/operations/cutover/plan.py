"""Surveys both sides of a flow, and plans its cut-over. Changes nothing."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backends.clusters.clients import let_write, members_of, producers_of, transactional_ids
from reconciler.backends.clusters.groups import Side
from reconciler.backends.connections.credentials import speaker_of
from reconciler.backends.files import read_given_text
from reconciler.backends.hooks import unlisted
from reconciler.backends.state.environment_records import read_cutovers
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.rollout import Gates
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.principals import AclBinding, Unsupported
from reconciler.model.reports.cutover import CutoverPlan, CutoverSettings, ProducerSeen, TopicSeen
from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, Key, Level, PartitionState, Way, worst_first
from reconciler.model.state.lock import lock_cluster
from reconciler.operations.cutover import decide
from reconciler.operations.cutover.live import chooses, chosen_groups, gate_faults, partition_states, topic_idents
from reconciler.operations.failover.decide import FailoverRequest, move_of
from reconciler.operations.failover.fence import written_by_mirrors
from reconciler.operations.failover.rights import StepNeeds, denied
from reconciler.operations.failover.steps import Switch
from reconciler.operations.mirror.pause import mirror_of
from reconciler.operations.session.session import Session, now_ms
from reconciler.replication.allowed import VARIABLE
from reconciler.replication.expressions.match import expressions
from reconciler.replication.expressions.tree import ExpressionError
from reconciler.replication.groups import make_group_selector
from reconciler.resources.acls.derive_from_flows import mirror_principals, write_rules
from reconciler.resources.flows.routes import is_copy, selector_of
from reconciler.resources.mirrors.handover import mirror_handover
from reconciler.text import first_of, total

SAMPLE_S = 3.0
"""Least time over which rates are measured."""
Say = Callable[[str], None]
Rules = frozenset[AclBinding] | Unsupported | Unknown


@dataclass(frozen=True, slots=True)
class CutoverRequest:
    """What to plan. ``topics`` and ``groups``: expressions for whole names, empty for all."""

    flow: str
    settings: CutoverSettings
    topics: str = ""
    groups: str = ""
    label: str = ""
    """``owner=billing``: declared topics with this label, in place of ``topics``."""
    names: Path | None = None
    """A file with a topic a line, in place of ``topics``."""


def planned(session: Session, request: CutoverRequest, say: Say) -> CutoverPlan:
    """The plan with its checks and steps. Raises ReconcilerError, and ClusterError if one of the clusters cannot be
    read."""
    for option, text in (("--topics", request.topics), ("--groups", request.groups)):
        try:
            expressions((text,) if text else ())
        except ExpressionError as error:
            why = "It says which names are moved, so nothing can be planned."
            raise ReconcilerError(f"{option} {text} cannot be used: {error}", why, "Correct the expression.") from None
    topology = session.topology
    move = move_of(topology, Way.FAILOVER, request.flow)
    # The plan holds the names that a label or a file gave as one expression: apply must move the reviewed topics, even
    # if the label or the file has changed since.
    named = chosen_names(topology, move, request)
    request = replace(request, topics=request.topics or "|".join(map(re.escape, named)))
    switch = Switch(session, move, FailoverRequest(drain_s=request.settings.within_s), say, say)
    survey = switch.survey
    survey.try_origin()
    if survey.lost is not None:
        raise ReconcilerError(
            f"{move.origin} does not answer: {survey.lost.error}",
            "A cut-over drains it to the last record, so it needs both clusters.",
            f"If it is lost: reconciler failover ENV {move.flow} --unplanned --dry-run",
        )
    idents = topic_idents(survey, request.topics)

    # Rates of producers and of the copy, by which the stop of writes is estimated, come from two surveys of the same
    # partitions; everything else is asked in between, so that measuring costs no extra time.
    began, before = time.monotonic(), _mine(partition_states(survey), idents)
    report = switch.look()
    rules = switch.fence.rules()
    groups = chosen_groups(report.seen.groups, request.groups, () if not request.topics else idents.keys())
    members = members_of(survey.origin, [move.group for move in groups if move.origin.members])
    time.sleep(max(0.0, SAMPLE_S - (time.monotonic() - began)))
    after, seconds = _mine(partition_states(survey), idents), time.monotonic() - began
    topics = tuple(_topics(session, switch, (before, after), seconds, rules))

    # The fence is fixed in the plan, so that reviewers see each deny rule, and apply can compare it with the rules that
    # exist by then.
    writers = written_by_mirrors(topology, move.origin, idents.keys())
    fence = decide.fence_of(idents.keys(), rules, move.origin, writers, mirror_principals(topology, move.origin))
    declared = topology.clusters[move.origin]
    probed = Principal.PROBE in declared.principals and bool(fence.rules)
    there = {name for topic in topics for name in (topic.topic, topic.copy)}
    shared = _shared(topology, request.flow, there)
    chosen = chooses(request.groups)
    plan = CutoverPlan(
        topology.environment,
        request.flow,
        move.origin,
        move.destination,
        request.topics,
        request.groups,
        request.settings,
        now_ms(),
        {name: session.clusters[name].read(()).cluster_id for name in (move.origin, move.destination)},
        _digest(topology, request.flow),
        topics,
        tuple(decide.group_seen(each, members.get(each.group, ())) for each in groups),
        {name: why for name, why in report.seen.unsupported.items() if chosen(name)},
        fence,
        "" if request.topics else move.started,
        (),
        (),
        decide.estimated_stop_s(topics, request.settings),
        shared,
        {name: hook.words for name, hook in topology.hooks.items()},
        speaker_of(declared, Principal.PROBE).kafka_principal if probed else "",
        report.seen.copies.kept or bool(report.seen.copies.denied),
        gates_of(topology, request.settings),
    )
    checks = (
        *decide.of_failover(report.checks, request.flow, some=bool(request.topics)),
        *decide.checks_of_topics(topics, survey.destination.partitions().keys(), shared, move),
        *decide.checks_of_others(*others(topology, move, topics, writers), move),
        *decide.checks_of_fence(fence, move, rules, sorted(idents)),
        *_denied(switch, plan),
        *_probe(declared, plan, rules),
        *_part(plan, move.started),
        *(() if topology.flows[request.flow].keeps_offsets else decide.checks_of_offsets(move)),
        *decide.checks_of_names([name for name in named if name not in idents], move),
        *_unlisted(topology),
        *_gates(session, plan),
        *_under_way(session, plan),
        *decide.checks_of_left_out(_left_out(switch, idents.keys(), plan), move),
    )
    plan = replace(plan, checks=worst_first(checks))
    return replace(plan, steps=tuple(decide.steps_of(plan)))


def chosen_names(topology: Topology, move: ConsumerMove, request: CutoverRequest) -> list[str]:
    """Topics that the label or the file chooses; empty if the request has neither. Raises ReconcilerError."""
    if sum(map(bool, (request.topics, request.label, request.names))) > 1:
        why = "Each of them chooses the topics that are moved."
        raise ReconcilerError("--topics, --label and --topics-file exclude each other", why, "Give one of them.")
    if request.label:
        key, sign, value = request.label.partition("=")
        if not key or not sign:
            raise ReconcilerError(
                f"--label {request.label} is no KEY=VALUE", "", "Write it as in --label owner=billing"
            )
        # Only declared topics have labels.
        mine = [topic for topic in topology.topics.values() if move.origin in topic.clusters]
        if names := sorted(topic.name for topic in mine if topic.labels.get(key) == value):
            return names
        known = sorted({topic.labels[key] for topic in mine if key in topic.labels})
        todo = f"Values of {key} there: {first_of(known)}" if known else f"No topic of {move.origin} has {key} at all"
        raise ReconcilerError(f"no topic of {move.origin} is declared with {request.label}", "Nothing is chosen.", todo)
    if request.names is None:
        return []
    why, todo = "It says which topics are moved.", "Name a file with a topic a line."
    text = read_given_text(request.names, str(request.names), why, todo)
    names = sorted({line.strip() for line in text.splitlines()} - {""})
    if not names:
        raise ReconcilerError(f"{request.names} names no topic", "Nothing is chosen.", "Write a topic a line.")
    return names


def _mine(states: Sequence[PartitionState], idents: Mapping[str, str]) -> dict[Key, PartitionState]:
    return {state.source: state for state in states if state.source[0] in idents}


def _topics(
    session: Session,
    switch: Switch,
    looks: tuple[Mapping[Key, PartitionState], Mapping[Key, PartitionState]],
    seconds: float,
    rules: Rules,
) -> Iterator[TopicSeen]:
    """``looks``: positions and ends at two times, ``seconds`` apart, which give the rates of producers and of the copy.
    Producers are named by transactional id where they have one, since a user cannot recognise a producer id."""
    before, after = looks
    side = switch.survey.origin
    producers = producers_of(side, after.keys()) or {}
    ids = side.topic_ids()
    applying = type(side)(session.topology.clusters[side.name], Principal.APPLY)
    names = transactional_ids(applying, {each.producer_id for some in producers.values() for each in some})
    remote = selector_of(session.topology.flows[switch.move.flow]).remote_name
    for topic in sorted({key[0] for key in after}):
        keys = [key for key in after if key[0] == topic]
        left = total(after[key].left for key in keys)
        looked = [(before[key], after[key]) for key in keys if key in before]
        # An end that one look did not get says nothing of a rate; a missing position is 0.
        wrote = sum(b.written - a.written for a, b in looked if a.written is not None and b.written is not None)
        copied = sum((b.position or 0) - (a.position or 0) for a, b in looked)
        seen = (
            ProducerSeen(*key, it.producer_id, it.last_ms, it.open_from, names.get(it.producer_id, ""))
            for key in sorted(keys)
            for it in producers.get(key, ())
        )
        writers = {rule.principal for rule in write_rules(rules, topic)} if isinstance(rules, frozenset) else set()
        # A topic that was recreated between the two readings would show a negative rate.
        rates = [round(max(0, count) / seconds, 3) for count in (wrote, copied)]
        head = topic, remote(topic), ids.get(topic, ""), len(keys), left
        yield TopicSeen(*head, rates[0], rates[1], tuple(sorted(writers)), tuple(seen))


def _shared(topology: Topology, flow: str, there: set[str]) -> tuple[str, ...]:
    """Topics of the destination that other flows write, too."""
    target = topology.flows[flow].target
    others = [selector_of(other) for other in topology.flows.values() if other.target == target and other.name != flow]
    return tuple(sorted(name for name in there if any(is_copy(selector, name) for selector in others)))


def others(
    topology: Topology, move: ConsumerMove, topics: Collection[TopicSeen], writers: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, Sequence[str]]]:
    """Topics that a flow brings from a third cluster -> the flow; other flows from the origin -> their topics that miss
    records written at the destination, because no flow brings these."""
    flows = topology.flows
    filled = {topic: name for topic, name in writers.items() if flows[name].source != move.destination}
    onward = [(flow, selector_of(flow)) for flow in flows.values() if flow.source == move.destination]
    # Clients write at the destination after the switch. A flow that still reads these topics at the origin gets nothing
    # new, unless some flow brings the records there.
    starved: dict[str, list[str]] = {}
    for flow in flows.values():
        if flow.source != move.origin or flow.name == move.flow:
            continue
        its = selector_of(flow)
        for topic in (each for each in topics if its.why_not(each.topic) is None):
            carried = [
                (by.target, selector.remote_name(name))
                for by, selector in onward
                for name in {topic.topic, topic.copy}
                if selector.why_not(name) is None
            ]
            brought = (at == flow.target or (at == move.origin and its.why_not(name) is None) for at, name in carried)
            if not any(brought):
                starved.setdefault(flow.name, []).append(topic.topic)
    return filled, starved


def _digest(topology: Topology, flow: str) -> str:
    """Digest of the flow as it is in its mirror's hand-over."""
    handed_over = mirror_handover(topology, topology.mirrors[mirror_of(topology, flow)])["flows"]
    return next(str(each["fingerprint"]) for each in handed_over if each["name"] == flow)


def _denied(switch: Switch, plan: CutoverPlan) -> tuple[FailoverCheck, ...]:
    """Checks now, not in the middle of the cut-over, whether the principal apply may alter rules where the plan needs
    it."""
    needs = []
    if plan.fence.rules:
        needs.append(StepNeeds(switch.fence.cluster, Principal.APPLY, alters="the fence could not be made"))
    if plan.lifts:
        why = "the deny rules of copies could not be taken back"
        needs.append(StepNeeds(switch.copies.cluster, Principal.APPLY, alters=why))
    return denied(needs, lost=False)


def _left_out(switch: Switch, topics: Collection[str], plan: CutoverPlan) -> Mapping[str, str]:
    """Groups that read the topics but do not move -> why: the flow's ``groups``, or --groups, leaves them out."""
    flow = switch.session.topology.flows[plan.flow].groups
    mine, everyone = make_group_selector(flow.include, flow.exclude), make_group_selector([".*"], [])
    offsets = switch.survey.origin.groups(everyone).offsets.items()
    readers = {name for name, at in offsets if any(topic in topics for topic, _ in at)}
    chosen = {group.group for group in plan.groups} | plan.unsupported.keys()
    return {name: mine.why_not(name) or "not chosen by --groups" for name in sorted(readers - chosen)}


def _unlisted(topology: Topology) -> Iterator[FailoverCheck]:
    for name, hook in topology.hooks.items():
        if word := unlisted(hook):
            text = f"the hook {name} may not run here: {VARIABLE} does not list {hook.target}"
            yield FailoverCheck("hook", Level.STOPS, text, f"Review it, and add {word} to {VARIABLE} where this runs")


def _probe(origin: Cluster, plan: CutoverPlan, rules: Rules) -> Iterator[FailoverCheck]:
    topics = {topic.topic: topic.partitions for topic in plan.topics}
    # With the fence of an earlier run in force, a refusal does not show whether the probe may write without it.
    if plan.probe and isinstance(rules, frozenset) and not plan.fence.rules <= rules:
        allowed = let_write(Side(origin, Principal.PROBE), topics)
        yield from decide.checks_of_probe(topics, allowed, plan.probe, origin.name)


def gates_of(topology: Topology, settings: CutoverSettings) -> Gates | None:
    if not settings.soak_s:
        return None
    return Gates() if topology.rollout is None else topology.rollout.gates


def _gates(session: Session, plan: CutoverPlan) -> Iterator[FailoverCheck]:
    if plan.gates is not None and (unmet := gate_faults(session, plan.gates, (plan.origin, plan.destination))):
        text = f"gates do not hold: {first_of(list(map(str, unmet)))}"
        yield FailoverCheck("gates", Level.STOPS, text, "Repair it, and plan again; a plan without --soak asks no gate")


def flows_back(topology: Topology, plan: CutoverPlan) -> list[str]:
    ways = ((flow.name, (flow.source, flow.target)) for flow in topology.flows.values())
    return [name for name, way in ways if way == (plan.destination, plan.origin)]


def _under_way(session: Session, plan: CutoverPlan) -> Iterator[FailoverCheck]:
    topology = session.topology
    home = lock_cluster(topology) if topology.lock_home else session.find_home()
    for journal in read_cutovers(home, topology.environment, Principal.APPLY):
        if words := decide.in_the_way(plan, journal, flows_back(topology, plan)):
            yield FailoverCheck("under-way", Level.WARNS, words, decide.ended(journal))


def _part(plan: CutoverPlan, back: str) -> Iterator[FailoverCheck]:
    if plan.topics_expression and back:
        text = f"only some topics move, so {back} is not started; a failback moves the whole flow"
        yield FailoverCheck("part", Level.WARNS, text)
