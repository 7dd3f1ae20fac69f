"""What a flow carries, as far as ACLs need to know: topic names, remote names, and whole prefixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.model.environment.topology import Flow
from reconciler.model.live import LiveState
from reconciler.replication.expressions.unfit import unfit
from reconciler.replication.policy import EXCLUDED_TOPICS, TopicSelector
from reconciler.resources.flows.names.automata import Complement, Language, UndecidedError, Union, both
from reconciler.resources.flows.names.policy_rules import Ending, Hops, internal
from reconciler.resources.flows.names.regex import pattern
from reconciler.resources.flows.names.search import shortest
from reconciler.resources.flows.routes import Route, selector_of

_PLAIN_BEGINNING = re.compile(r"((?:[A-Za-z0-9_-]|\\\.)*)\.\*")


@dataclass(frozen=True, slots=True)
class FlowTopics:
    """``topics``: source name -> remote name of every topic of the flow that is known today."""

    flow: Flow
    selector: TopicSelector
    topics: Mapping[str, str]
    proved: dict[str, bool] = field(default_factory=dict)

    @property
    def custom(self) -> bool:
        return ":" in self.flow.naming.policy

    def remote_of(self, topic: str) -> str | None:
        """Also of a topic that is not there yet; None where it would not travel. A custom policy knows today's."""
        if self.custom:
            return self.topics.get(topic)
        return self.selector.remote_name(topic) if self.selector.why_not(topic) is None else None

    def remote_prefix(self, prefix: str) -> str | None:
        """The prefix on the target for all names that begin with ``prefix``, None where the flow does not carry them
        all, or where such a prefix would also cover names on the target that no flow makes."""
        match self.flow.naming.policy:
            case "default":
                begin = f"{self.flow.source}{self.flow.naming.separator}{prefix}"
            case "identity" if prefix and not _reaches_internal(prefix):
                begin = prefix
            case _:
                return None
        return begin if self.carries_all(prefix) else None

    def carries_all(self, prefix: str) -> bool:
        if prefix not in self.proved:
            self.proved[prefix] = _carries_all(self.flow, prefix)
        return self.proved[prefix]


def carriage_of(flow: Flow, routes: Iterable[Route], live: LiveState) -> FlowTopics:
    """Remote topics whose source topic is gone count, too, where their name alone tells what they are copies of."""
    selector = selector_of(flow)
    topics: dict[str, str] = {}
    target = live.known(flow.target)
    if flow.naming.policy == "default" and target is not None:
        for name in target.topics:
            upstream = selector.policy.upstream_topic(name)
            ours = upstream is not None and selector.policy.topic_source(name) == flow.source
            if upstream is not None and ours and selector.why_not(upstream) is None:
                topics[upstream] = name
    topics |= {route.source.name: route.remote.name for route in routes if route.flow == flow.name}
    return FlowTopics(flow, selector, dict(sorted(topics.items())))


def _carries_all(flow: Flow, prefix: str) -> bool:
    """Whether every name with this beginning travels, but for names that no flow ever carries: internal ones, those of
    MirrorMaker 2's own exclusions, and those that would come back."""
    if not flow.exclude_topics and any(_begins(text, prefix) for text in flow.topics):
        return True
    if any(unfit(text) for text in (*flow.topics, *flow.exclude_topics)):
        return False
    include = [pattern(text) for text in flow.topics]
    if not all(each_pattern.exact for each_pattern in include):
        return False
    exclude = [pattern(text).language for text in flow.exclude_topics]
    separator = flow.naming.separator
    never: list[Language] = [pattern(text).language for text in EXCLUDED_TOPICS]
    never += [internal(separator), Hops(flow.target, separator)]
    chosen = both(Union(tuple(each_pattern.language for each_pattern in include)), Complement(Union(tuple(exclude))))
    carried_names = both(Ending("", prefix=prefix), Complement(chosen), Complement(Union(tuple(never))))
    try:
        return shortest(carried_names) is None
    except UndecidedError:
        return False


def _begins(expression: str, prefix: str) -> bool:
    """The usual case without a proof: plain characters, then anything."""
    plain = _PLAIN_BEGINNING.fullmatch(expression)
    return plain is not None and prefix.startswith(plain[1].replace("\\.", "."))


def _reaches_internal(prefix: str) -> bool:
    """Under identity naming a prefix also covers what the target keeps for itself."""
    return any(prefix.startswith(own) or own.startswith(prefix) for own in ("__", ".", "mm2"))
