"""Explains whether a flow carries a topic, with the expression or rule that decided it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reconciler.model.environment.topology import Flow, TopicRef
from reconciler.model.reports.explain import FlowAnswer
from reconciler.replication.policy import EXCLUDED_TOPICS
from reconciler.resources.flows.routes import selector_of


def flow_answer(flow: Flow, topic: TopicRef) -> FlowAnswer:
    """``topic`` is on the flow's source."""
    selector = selector_of(flow)
    match selector.why_not(topic.name):
        case None:
            rule = f"{_first(flow.topics, topic.name)} matches the whole name"
            rule += "; offsets are the same there" if flow.keeps_offsets else ""
            return FlowAnswer(flow.name, topic, rule, TopicRef(flow.target, selector.remote_name(topic.name)))
        case "no pattern matches":
            rule = _no_match(flow, topic.name)
        case "excluded":
            own = _first(flow.exclude_topics, topic.name)
            by = (
                f"exclude_topics {own}"
                if own
                else f"{_first(EXCLUDED_TOPICS, topic.name)}, which MirrorMaker 2 excludes"
            )
            rule = f"excluded by {by}"
        case "internal":
            rule = "internal topics never travel"
        case "cycle":
            rule = f"its name says that its records have been on {flow.source} or {flow.target}: they would come round"
        case other:
            rule = str(other)
    return FlowAnswer(flow.name, topic, rule)


def _first(patterns: Iterable[str], name: str) -> str:
    return next((pattern for pattern in patterns if re.fullmatch(pattern, name)), "")


def _no_match(flow: Flow, name: str) -> str:
    part = next((pattern for pattern in flow.topics if re.search(pattern, name)), "")
    if part:
        return f"{part} matches a part of the name only, and whole names count"
    return f"none of its expressions matches: {', '.join(flow.topics)}"
