"""Which changes are dangerous enough to measure their impact; adds the answers to the plan.

The number of questions is capped, so that a plan of ten thousand topics stays quick.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.errors import Moved
from reconciler.model.changes import AddPartitions, AlterConfigs, CopiedAgain, DeleteTopic, Risk, Role, Subject
from reconciler.model.config_values import number
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import ClusterFeatures, ImpactQuery, Plan, Planned, Stakes
from reconciler.resources.flows.broker_apis import without_apis
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.kind import Assessment
from reconciler.resources.topics.kind import on_nothing
from reconciler.text import counted

MOST = 1_000
"""Topics of one plan that are asked about."""

Dangerous = DeleteTopic | AddPartitions | AlterConfigs


def questions(plan: Plan, live: LiveState) -> dict[TopicRef, ImpactQuery]:
    """What to ask about existing topics. One question a topic, whatever happens to it."""
    queries: dict[TopicRef, ImpactQuery] = {}
    for change in _dangerous(plan)[:MOST]:
        if topic := live.topic(change.ref):
            lowered = lowered_retention(change)
            if change.ref not in queries or lowered is not None:
                queries[change.ref] = ImpactQuery.of(topic, lowered)
    return about(_copied_again(plan)[:MOST], live) | queries


def about(topics: Iterable[TopicRef], live: LiveState) -> dict[TopicRef, ImpactQuery]:
    """A question about each topic that exists."""
    return {ref: ImpactQuery.of(topic) for ref in topics if (topic := live.topic(ref))}


def weighed(plan: Plan, topology: Topology, impacts: Mapping[TopicRef, Stakes]) -> Plan:
    """``plan`` with the answers, and the flows that carry each topic."""
    dangerous = _dangerous(plan)
    asked = {change.ref for change in dangerous[:MOST]}
    changes = []
    for planned in plan.changes:
        change = planned.change
        if planned.risk != Risk.LOW and isinstance(change, Dangerous) and change.ref in asked:
            planned = _with_stakes(planned, change, topology, impacts)
        changes.append(planned)
    # Only so many topics are asked about: each costs requests to its leaders and groups. That others were not asked is
    # said, since without figures they would look harmless.
    notes, again = plan.notes, _copied_again(plan)
    if len(dangerous) > MOST:
        notes = (*notes, f"what is at stake was read for the first {MOST} of {len(dangerous)} dangerous changes")
    if len(again) > MOST:
        notes = (*notes, f"how much is copied again was read for the first {MOST} of {len(again)} topics")
    # A topic that was recreated outside is copied again from its beginning; the answers say how much that is now.
    sources, outside = set(again[:MOST]), list(plan.outside)
    for place, outer in enumerate(plan.outside):
        if (copied := outer.copied_again) is not None and (ref := _ref(copied.source)) in sources:
            now = impacts.get(ref, Stakes(unknown=("nothing answered",)))
            why = "; ".join(now.unknown) or "not all of its partitions answered"
            unknown = why if now.records is None or now.bytes is None else ""
            again_by_now = CopiedAgain(copied.source, now.records, now.bytes, unknown)
            outside[place] = replace(outer, copied_again=again_by_now)
    return replace(plan, changes=tuple(changes), notes=notes, outside=tuple(outside))


def _copied_again(plan: Plan) -> list[TopicRef]:
    """Sources of copies that were deleted or recreated outside, each once."""
    again = [change.copied_again for change in plan.outside]
    return list(dict.fromkeys(_ref(copied.source) for copied in again if copied is not None))


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


def _with_stakes(
    planned: Planned, change: Dangerous, topology: Topology, impacts: Mapping[TopicRef, Stakes]
) -> Planned:
    """The change with what is at stake. Without any record it is judged as a change of nothing."""
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


def filled(plan: Plan, impacts: Mapping[TopicRef, Stakes]) -> tuple[Moved, ...]:
    """Topics that a saved plan calls empty, and that hold records by now: the user agreed to lose none."""
    moved = []
    for ref in empty_then(plan):
        if ref in impacts and (now := impacts[ref]).records != 0:
            words = f"not known ({'; '.join(now.unknown)})" if now.records is None else f"at most {now.records:,}"
            moved.append(Moved(f"records of {ref}", "none", words))
    return tuple(moved)


def empty_then(plan: Plan) -> list[TopicRef]:
    """Topics of dangerous changes that held no record when the plan was made, each once."""
    empty = (it.change for it in plan.changes if it.stakes is not None and it.stakes.records == 0)
    return list(dict.fromkeys(change.ref for change in empty if isinstance(change, Dangerous)))
