"""Explains whether and by which rule a flow carries a topic, and finds topics that it unexpectedly leaves out.

Expected are the flow's own exclusions, names with prefix ``__``, MirrorMaker 2's topics, and copies on their way back.
Plan, status and verify name all others, because a reader could believe that the flow is complete.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.reports.explain import FlowAnswer
from reconciler.replication import policy
from reconciler.replication.expressions.match import expressions, has_part
from reconciler.text import first_of, grouped


def flow_answer(flow: Flow, selector: policy.TopicSelector, topic: TopicRef) -> FlowAnswer:
    """``topic``: on the flow's source."""
    if (why := selector.why_not(topic.name)) is not None:
        return FlowAnswer(flow.name, topic, rule_against(flow, topic.name, why))
    rule = f"{_first(flow.topics, topic.name)} matches the whole name"
    rule += "; offsets are the same there" if flow.keeps_offsets else ""
    return FlowAnswer(flow.name, topic, rule, TopicRef(flow.target, selector.remote_name(topic.name)))


def rule_against(flow: Flow, name: str, why: str) -> str:
    """``why``: the result of ``TopicSelector.why_not`` for ``name``."""
    if why == policy.NO_MATCH:
        part = next((pattern for pattern in flow.topics if has_part(pattern, name)), "")
        if part:
            return f"{part} matches a part of the name only, and whole names count"
        return f"none of its expressions matches: {', '.join(flow.topics)}"
    if why == policy.EXCLUDED:
        own = _first(flow.exclude_topics, name)
        by = f"exclude_topics {own}" if own else f"{_first(policy.EXCLUDED_TOPICS, name)}, which MirrorMaker 2 excludes"
        return f"excluded by {by}"
    if why == policy.INTERNAL:
        return "internal topics never travel"
    if why == policy.CYCLE:
        return f"{flow.target} before a separator in its name says that its records have been on {flow.target}"
    return why


def _first(patterns: Iterable[str], name: str) -> str:
    return expressions(patterns).first(name) or ""


NAMED = 5
_OF_MIRRORMAKER = re.compile(r"mm2-(?:configs|offsets|status|offset-syncs)\..+\.internal")


def left_out(topology: Topology, flow: Flow, selector: policy.TopicSelector, names: Iterable[str]) -> Mapping[str, str]:
    """Topics among ``names`` that the flow's expressions match but the flow does not carry, with the rule; without
    expected ones."""
    whys = ((name, selector.why_not(name)) for name in names)
    return {
        name: rule_against(flow, name, why)
        for name, why in sorted((name, why) for name, why in whys if why is not None and why != policy.NO_MATCH)
        if not _expected(topology, flow, selector, name, why)
    }


def left_out_words(flow: Flow, rules: Mapping[str, str]) -> str:
    """``rules``: from ``left_out``, at least one."""
    them = "1 topic" if len(rules) == 1 else f"{len(rules)} topics"
    by_rule = grouped((rule, name) for name, rule in rules.items())
    parts = (f"{first_of(names, NAMED)} ({rule})" for rule, names in by_rule.items())
    return f"flow {flow.name} does not carry {them} of {flow.source} that its expressions match: {'; '.join(parts)}"


def idle_names(
    topology: Topology,
    selectors: Mapping[str, policy.TopicSelector],
    carried: Mapping[TopicRef, Collection[str]],
    held: Mapping[str, Collection[str]],
) -> Iterator[str]:
    """``carried``: remote topic -> its flows. ``held``: flow -> names that it matches but does not carry."""
    carrying = {flow for flows in carried.values() for flow in flows}
    for name in sorted(selectors):
        flow = topology.flows[name]
        begun_there = [topic for topic in held.get(name, ()) if TopicRef(flow.source, topic) not in carried]
        if rules := left_out(topology, flow, selectors[name], begun_there):
            carry = ""
            if any(selectors[name].why_not(topic) == policy.CYCLE for topic in rules):
                carry = "Another alias of the target or another naming.separator carries what the cycle rule keeps. "
            todo = "To leave them there on purpose, add them to exclude_topics of the flow; then this note is gone"
            yield f"{left_out_words(flow, rules)}. {carry}{todo}"
        elif name not in carrying:
            cycles = [topic for topic in held.get(name, ()) if selectors[name].why_not(topic) == policy.CYCLE]
            yield _none_carried(flow, sorted(cycles))


def _expected(topology: Topology, flow: Flow, selector: policy.TopicSelector, name: str, why: str) -> bool:
    """Whether leaving this topic out is expected: it is internal, excluded by the flow, or a copy on its way back."""
    own = topology.clusters[flow.source].topic_prefix
    if name.removeprefix(own).startswith("__") or _OF_MIRRORMAKER.fullmatch(name):
        return True
    if why == policy.EXCLUDED:
        return expressions(flow.exclude_topics).match(name)
    if why != policy.CYCLE:
        return policy.is_checkpoints_topic(name, flow.naming.separator) or policy.is_checkpoints_topic(name)
    return _comes_back(topology, flow, selector, name)


def _comes_back(topology: Topology, flow: Flow, selector: policy.TopicSelector, name: str) -> bool:
    """Whether flows brought the topic from the flow's target, hop by hop of its name. An application may have named a
    topic so, and a copy of that topic then has the alias in its name, too."""
    edges = {(other.source, other.target) for other in topology.flows.values()}
    cluster, seen = flow.source, set[str]()
    while name not in seen:
        seen.add(name)
        declared, hop = topology.topics.get(name), selector.policy.topic_source(name)
        if hop is None or (hop, cluster) not in edges or (declared is not None and cluster in declared.clusters):
            return False
        if hop == flow.target:
            return True
        cluster, name = hop, selector.policy.upstream_topic(name) or name
    return False


def _none_carried(flow: Flow, held: Sequence[str]) -> str:
    if not held:
        return f"flow {flow.name} matches no topic on {flow.source} yet"
    return (
        f"flow {flow.name} carries no topic of {flow.source} yet: what its expressions match there has been on"
        f" {flow.target}, as its name says (the cycle rule): {first_of(held, NAMED)}"
    )
