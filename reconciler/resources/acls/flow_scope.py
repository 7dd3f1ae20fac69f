"""What one flow carries, as far as access needs to know it: names with their remote names, and whether everything that
begins with a prefix travels. Proofs are over all legal names, by the automata of ``travels``; what cannot be proved
counts as not so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.backtracking import unfit
from reconciler.languages import AnyOf, Language, Not, both
from reconciler.live import LiveState
from reconciler.name_rules import Ending, Hops, internal
from reconciler.name_search import UndecidedError, shortest
from reconciler.patterns import pattern
from reconciler.routing import Route, selector_of
from reconciler.topology import Flow
from replication.policy import EXCLUDED_TOPICS, TopicSelector

_PLAIN_BEGINNING = re.compile(r"((?:[A-Za-z0-9_-]|\\\.)*)\.\*")


@dataclass(frozen=True, slots=True)
class Carriage:
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


def carriage_of(flow: Flow, routes: Iterable[Route], live: LiveState) -> Carriage:
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
    return Carriage(flow, selector, dict(sorted(topics.items())))


def _carries_all(flow: Flow, prefix: str) -> bool:
    """Whether every name with this beginning travels, but for names that no flow ever carries: internal ones, those of
    MirrorMaker 2's own exclusions, and those that would come back."""
    if not flow.exclude_topics and any(_begins(text, prefix) for text in flow.topics):
        return True
    if any(unfit(text) for text in (*flow.topics, *flow.exclude_topics)):
        return False
    include = [pattern(text) for text in flow.topics]
    if not all(one.exact for one in include):
        return False
    exclude = [pattern(text).language for text in flow.exclude_topics]
    separator = flow.naming.separator
    never: list[Language] = [pattern(text).language for text in EXCLUDED_TOPICS]
    never += [internal(separator), Hops(frozenset({flow.source, flow.target}), separator)]
    chosen = both(AnyOf(tuple(one.language for one in include)), Not(AnyOf(tuple(exclude))))
    left = both(Ending("", prefix=prefix), Not(chosen), Not(AnyOf(tuple(never))))
    try:
        return shortest(left) is None
    except UndecidedError:
        return False


def _begins(expression: str, prefix: str) -> bool:
    """The usual case without a proof: plain characters, then anything."""
    plain = _PLAIN_BEGINNING.fullmatch(expression)
    return plain is not None and prefix.startswith(plain[1].replace("\\.", "."))


def _reaches_internal(prefix: str) -> bool:
    """Under identity naming a prefix also covers what the target keeps for itself."""
    return any(prefix.startswith(own) or own.startswith(prefix) for own in ("__", ".", "mm2"))
