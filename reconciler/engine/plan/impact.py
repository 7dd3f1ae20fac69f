"""Which changes are dangerous enough to ask their cluster what they put at stake; and the answers put into the plan.

Border: nothing is asked here. What is asked is capped, so that a plan of ten thousand topics stays as quick as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.changes import AddPartitions, AlterConfigs, DeleteTopic, Risk, Role
from reconciler.counts import counted
from reconciler.errors import Moved
from reconciler.live import LiveState
from reconciler.plans import Plan, Planned
from reconciler.risks import Assessment, on_nothing
from reconciler.routing import selector_of
from reconciler.stakes import Nature, Question, Stakes
from reconciler.topic_configs import number
from reconciler.topology import TopicRef, Topology

MOST = 1_000
"""Topics of one plan that are asked about."""

Dangerous = DeleteTopic | AddPartitions | AlterConfigs


def questions(plan: Plan, live: LiveState) -> dict[str, tuple[Question, ...]]:
    """Cluster -> what to ask there, of topics that are there. One question a topic, whatever happens to it."""
    found: dict[str, dict[str, Question]] = {}
    for change in _dangerous(plan)[:MOST]:
        cluster = live.known(change.ref.cluster)
        if cluster is not None and (topic := cluster.topics.get(change.ref.name)):
            some = found.setdefault(cluster.name, {})
            if topic.name not in some or _kept(change) is not None:
                some[topic.name] = Question(topic.name, len(topic.partitions), _kept(change))
    return {cluster: tuple(some.values()) for cluster, some in found.items()}


def together(*several: Mapping[str, tuple[Question, ...]]) -> dict[str, tuple[Question, ...]]:
    """One question a topic; the first one counts."""
    found: dict[str, dict[str, Question]] = {}
    for asked in several:
        for cluster, some in asked.items():
            found[cluster] = {one.topic: one for one in some} | found.get(cluster, {})
    return {cluster: tuple(some.values()) for cluster, some in found.items()}


def weighed(plan: Plan, topology: Topology, told: Mapping[TopicRef, Stakes]) -> Plan:
    """``plan`` with the answers, and the flows that carry each topic."""
    dangerous = _dangerous(plan)
    asked = {change.ref for change in dangerous[:MOST]}
    changes = tuple(
        _with_stakes(planned, topology, told) if _is(planned, asked) else planned for planned in plan.changes
    )
    notes = plan.notes
    if len(dangerous) > MOST:
        notes = (*notes, f"what is at stake was read for the first {MOST} of {len(dangerous)} dangerous changes")
    return replace(plan, changes=changes, notes=notes)


def described(plan: Plan, natures: Mapping[str, Nature]) -> Plan:
    """``plan`` with what kind of clusters it was made for."""
    clusters = tuple(
        replace(one, metadata_version=natures[one.name].metadata_version, authorizer=natures[one.name].authorizer)
        if one.name in natures
        else one
        for one in plan.basis.clusters
    )
    return replace(plan, basis=replace(plan.basis, clusters=clusters))


def _is(planned: Planned, asked: set[TopicRef]) -> bool:
    change = planned.change
    return planned.risk != Risk.LOW and isinstance(change, Dangerous) and change.ref in asked


def _dangerous(plan: Plan) -> list[Dangerous]:
    """High risks first: an answer may lower them."""
    found: list[Dangerous] = []
    for planned in sorted(plan.changes, key=lambda one: one.risk != Risk.HIGH):
        change = planned.change
        if planned.risk == Risk.LOW or not isinstance(change, Dangerous):
            continue
        if isinstance(change, AddPartitions) and change.role is not Role.DECLARED:
            continue
        found.append(change)
    return found


def _kept(change: Dangerous) -> int | None:
    """The retention by time that is planned below the one there is."""
    for one in change.configs if isinstance(change, AlterConfigs) else ():
        before, after = number(one.before), number(one.after)
        if one.key == "retention.ms" and before is not None and after is not None and after < before:
            return int(after)
    return None


def _with_stakes(planned: Planned, topology: Topology, told: Mapping[TopicRef, Stakes]) -> Planned:
    change = planned.change
    assert isinstance(change, Dangerous)
    flows = tuple(
        flow.name
        for flow in topology.flows.values()
        if flow.source == change.ref.cluster and selector_of(flow).why_not(change.ref.name) is None
    )
    found = replace(told.get(change.ref, Stakes()), flows=flows)
    if _kept(change) is None:  # it was asked for another change of the same topic
        found = replace(found, expiring=None)
    active = [one for one in found.readers or () if one.members]
    why = planned.risk_why
    if isinstance(change, DeleteTopic):
        if active:
            why = f"{counted(len(active), 'group')} with members read it now; {why}"
        return replace(planned, stakes=found, risk_why=why)
    judged = Assessment(Risk(planned.risk), why, planned.reversibility)
    if found.records == 0:
        judged = on_nothing(change, judged)
    return replace(planned, stakes=found, risk=judged.risk, risk_why=judged.why, reversibility=judged.reversibility)


def on_empty(plan: Plan, live: LiveState) -> dict[str, tuple[Question, ...]]:
    """Cluster -> what to ask there before a saved plan is applied: topics that held no record when it was made."""
    found: dict[str, dict[str, Question]] = {}
    for planned in plan.changes:
        if not _was_empty(planned):
            continue
        assert isinstance(planned.change, Dangerous)
        ref = planned.change.ref
        cluster = live.known(ref.cluster)
        if cluster is not None and (topic := cluster.topics.get(ref.name)):
            found.setdefault(cluster.name, {})[ref.name] = Question(ref.name, len(topic.partitions))
    return {cluster: tuple(some.values()) for cluster, some in found.items()}


def filled(plan: Plan, told: Mapping[TopicRef, Stakes]) -> tuple[Moved, ...]:
    """Topics that a saved plan calls empty, and that hold records by now: what was agreed to was less."""
    found: dict[str, Moved] = {}
    for planned in plan.changes:
        if _was_empty(planned) and isinstance(planned.change, Dangerous) and planned.change.ref in told:
            now = told[planned.change.ref]
            if now.records != 0:
                words = f"not known ({'; '.join(now.unknown)})" if now.records is None else f"at most {now.records:,}"
                subject = f"records of {planned.change.ref}"
                found[subject] = Moved(subject, "none", words)
    return tuple(found.values())


def _was_empty(planned: Planned) -> bool:
    return planned.stakes is not None and planned.stakes.records == 0
