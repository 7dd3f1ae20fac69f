"""Explains whether a flow carries a topic, with the expression or rule that decided it."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.model.environment.topology import Flow, TopicRef
from reconciler.model.reports.explain import FlowAnswer
from reconciler.replication.expressions.match import expressions, has_part
from reconciler.replication.policy import CYCLE, EXCLUDED, EXCLUDED_TOPICS, INTERNAL, NO_MATCH, TopicSelector


def flow_answer(flow: Flow, selector: TopicSelector, topic: TopicRef) -> FlowAnswer:
    """``topic`` is on the flow's source."""
    if (why := selector.why_not(topic.name)) is not None:
        return FlowAnswer(flow.name, topic, rule_against(flow, topic.name, why))
    rule = f"{_first(flow.topics, topic.name)} matches the whole name"
    rule += "; offsets are the same there" if flow.keeps_offsets else ""
    return FlowAnswer(flow.name, topic, rule, TopicRef(flow.target, selector.remote_name(topic.name)))


def rule_against(flow: Flow, name: str, why: str) -> str:
    """``why``: what ``TopicSelector.why_not`` says of ``name``."""
    if why == NO_MATCH:
        part = next((pattern for pattern in flow.topics if has_part(pattern, name)), "")
        if part:
            return f"{part} matches a part of the name only, and whole names count"
        return f"none of its expressions matches: {', '.join(flow.topics)}"
    if why == EXCLUDED:
        own = _first(flow.exclude_topics, name)
        by = f"exclude_topics {own}" if own else f"{_first(EXCLUDED_TOPICS, name)}, which MirrorMaker 2 excludes"
        return f"excluded by {by}"
    if why == INTERNAL:
        return "internal topics never travel"
    if why == CYCLE:
        return f"{flow.target} before a separator in its name says that its records have been on {flow.target}"
    return why


def _first(patterns: Iterable[str], name: str) -> str:
    return expressions(patterns).first(name) or ""
