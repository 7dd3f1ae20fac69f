"""Which changes are dangerous enough to measure their impact; adds the answers to the plan.

The number of questions is capped, so that a plan of ten thousand topics stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.errors import Moved
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    CopiedAgain,
    DeleteTopic,
    OutsideChange,
    Risk,
    Role,
    Subject,
)
from reconciler.model.config_values import number
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan, Planned
from reconciler.model.reports.impact import ClusterFeatures, ImpactQuery, Stakes
from reconciler.resources.flows.broker_apis import without_apis
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.kind import Assessment
from reconciler.resources.topics.risk import on_nothing
from reconciler.text import counted

MOST = 1_000
"""Topics of one plan that are asked about."""

Dangerous = DeleteTopic | AddPartitions | AlterConfigs


def questions(plan: Plan, live: LiveState) -> dict[str, tuple[ImpactQuery, ...]]:
    """Cluster -> what to ask there, of topics that are there. One question a topic, whatever happens to it."""
    queries: dict[str, dict[str, ImpactQuery]] = {}
    for change in _dangerous(plan)[:MOST]:
        if topic := live.topic(change.ref):
            some = queries.setdefault(change.ref.cluster, {})
            if topic.name not in some or lowered_retention(change) is not None:
                some[topic.name] = ImpactQuery(topic.name, len(topic.partitions), lowered_retention(change))
    for ref in _copied_again(plan)[:MOST]:
        if topic := live.topic(ref):
            queries.setdefault(ref.cluster, {}).setdefault(ref.name, ImpactQuery(ref.name, len(topic.partitions)))
    return {cluster: tuple(some.values()) for cluster, some in queries.items()}


def together(*several: Mapping[str, tuple[ImpactQuery, ...]]) -> dict[str, tuple[ImpactQuery, ...]]:
    """One question a topic; the first one counts."""
    queries: dict[str, dict[str, ImpactQuery]] = {}
    for asked in several:
        for cluster, some in asked.items():
            queries[cluster] = {query.topic: query for query in some} | queries.get(cluster, {})
    return {cluster: tuple(some.values()) for cluster, some in queries.items()}


def weighed(plan: Plan, topology: Topology, impacts: Mapping[TopicRef, Stakes]) -> Plan:
    """``plan`` with the answers, and the flows that carry each topic."""
    dangerous = _dangerous(plan)
    asked = {change.ref for change in dangerous[:MOST]}
    changes = tuple(
        _with_stakes(planned, topology, impacts) if _is(planned, asked) else planned for planned in plan.changes
    )
    notes, again = plan.notes, _copied_again(plan)
    if len(dangerous) > MOST:
        notes = (*notes, f"what is at stake was read for the first {MOST} of {len(dangerous)} dangerous changes")
    if len(again) > MOST:
        notes = (*notes, f"how much is copied again was read for the first {MOST} of {len(again)} topics")
    sources = set(again[:MOST])
    outside = tuple(_with_amount(change, sources, impacts) for change in plan.outside)
    return replace(plan, changes=changes, notes=notes, outside=outside)


def _copied_again(plan: Plan) -> list[TopicRef]:
    """Sources of copies that somebody deleted or made anew, each once."""
    again = [change.copied_again for change in plan.outside]
    return list(dict.fromkeys(_ref(copied.source) for copied in again if copied is not None))


def _with_amount(change: OutsideChange, asked: set[TopicRef], impacts: Mapping[TopicRef, Stakes]) -> OutsideChange:
    copied = change.copied_again
    if copied is None or (ref := _ref(copied.source)) not in asked:
        return change
    now = impacts.get(ref, Stakes(unknown=("nothing answered",)))
    why = "; ".join(now.unknown) or "not all of its partitions answered"
    unknown = why if now.records is None or now.bytes is None else ""
    return replace(change, copied_again=CopiedAgain(copied.source, now.records, now.bytes, unknown))


def _ref(subject: Subject) -> TopicRef:
    return TopicRef(subject.cluster, subject.name)


def described(plan: Plan, topology: Topology, natures: Mapping[str, ClusterFeatures]) -> Plan:
    """``plan`` with what kind of clusters it was made for, and with what flows lack there."""
    clusters = tuple(
        replace(
            cluster,
            metadata_version=natures[cluster.name].metadata_version,
            authorizer=natures[cluster.name].authorizer,
        )
        if cluster.name in natures
        else cluster
        for cluster in plan.basis.clusters
    )
    refused = (*plan.refused, *without_apis(topology, natures))
    return replace(plan, basis=replace(plan.basis, clusters=clusters), refused=refused)


def _is(planned: Planned, asked: set[TopicRef]) -> bool:
    change = planned.change
    return planned.risk != Risk.LOW and isinstance(change, Dangerous) and change.ref in asked


def _dangerous(plan: Plan) -> list[Dangerous]:
    """High risks first: an answer may lower them."""
    changes: list[Dangerous] = []
    for planned in sorted(plan.changes, key=lambda planned: planned.risk != Risk.HIGH):
        change = planned.change
        if planned.risk == Risk.LOW or not isinstance(change, Dangerous):
            continue
        if isinstance(change, AddPartitions) and change.role is not Role.DECLARED:
            continue
        changes.append(change)
    return changes


def lowered_retention(change: Dangerous) -> int | None:
    """The retention by time that is planned below the one there is."""
    for config in change.configs if isinstance(change, AlterConfigs) else ():
        before, after = number(config.before), number(config.after)
        if config.key == "retention.ms" and before is not None and after is not None and after < before:
            return int(after)
    return None


def _with_stakes(planned: Planned, topology: Topology, impacts: Mapping[TopicRef, Stakes]) -> Planned:
    change = planned.change
    assert isinstance(change, Dangerous)
    flows = tuple(
        flow.name
        for flow in topology.flows.values()
        if flow.source == change.ref.cluster and selector_of(flow).why_not(change.ref.name) is None
    )
    found = replace(impacts.get(change.ref, Stakes()), flows=flows)
    if lowered_retention(change) is None:  # it was asked for another change of the same topic
        found = replace(found, expiring=None)
    active = [reader for reader in found.readers or () if reader.members]
    why = planned.risk_why
    if isinstance(change, DeleteTopic):
        if active:
            why = f"{counted(len(active), 'group')} with members read it now; {why}"
        return replace(planned, stakes=found, risk_why=why)
    judged = Assessment(Risk(planned.risk), why, planned.reversibility)
    if found.records == 0:
        judged = on_nothing(change, judged)
    return replace(planned, stakes=found, risk=judged.risk, risk_why=judged.why, reversibility=judged.reversibility)


def on_empty(plan: Plan, live: LiveState) -> dict[str, tuple[ImpactQuery, ...]]:
    """Cluster -> what to ask there before a saved plan is applied: topics that held no record when it was made."""
    queries: dict[str, dict[str, ImpactQuery]] = {}
    for planned in plan.changes:
        if not _was_empty(planned):
            continue
        assert isinstance(planned.change, Dangerous)
        ref = planned.change.ref
        if topic := live.topic(ref):
            queries.setdefault(ref.cluster, {})[ref.name] = ImpactQuery(ref.name, len(topic.partitions))
    return {cluster: tuple(some.values()) for cluster, some in queries.items()}


def filled(plan: Plan, impacts: Mapping[TopicRef, Stakes]) -> tuple[Moved, ...]:
    """Topics that a saved plan calls empty, and that hold records by now: what was agreed to was less."""
    by_name: dict[str, Moved] = {}
    for planned in plan.changes:
        if _was_empty(planned) and isinstance(planned.change, Dangerous) and planned.change.ref in impacts:
            now = impacts[planned.change.ref]
            if now.records != 0:
                words = f"not known ({'; '.join(now.unknown)})" if now.records is None else f"at most {now.records:,}"
                subject = f"records of {planned.change.ref}"
                by_name[subject] = Moved(subject, "none", words)
    return tuple(by_name.values())


def _was_empty(planned: Planned) -> bool:
    return planned.stakes is not None and planned.stakes.records == 0
