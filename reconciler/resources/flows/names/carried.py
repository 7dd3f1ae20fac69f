"""The topic names a flow carries, and their remote names, as automata.

Custom policies have no automaton; they are simulated.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.expressions.unfit import unfit
from reconciler.replication.policy import EXCLUDED_TOPICS, ReplicationPolicy, TopicSelector, make_policy, make_selector
from reconciler.resources.flows.names.automata import (
    Complement,
    Language,
    Memoised,
    Prefixed,
    UndecidedError,
    Union,
    both,
    shortest,
)
from reconciler.resources.flows.names.policy_rules import HEARTBEATS, Hops, internal
from reconciler.resources.flows.names.regex import Pattern, pattern

_PLAIN = re.compile(r"(?:[\w-]|\\?\.)+", re.ASCII)
MOST_COMPARED = 2_000
"""Limit of edited times all expressions for comparing two lists name by name, which takes a second."""


@dataclass(frozen=True, slots=True)
class FlowExpressions:
    """Topics that a flow's expressions match, before its policy and internal topics apply."""

    topics: frozenset[str]
    exclude_topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names in ``when`` arrive as ``prefix`` + name."""

    prefix: str
    when: Language


@dataclass(frozen=True, slots=True)
class FlowNaming:
    """Languages of one flow."""

    flow: Flow
    selector: TopicSelector
    matching: Language
    """Names that its expressions match."""
    renamings: tuple[Renaming, ...]
    """Together the carried names, empty for a custom policy."""
    inexact: tuple[str, ...]
    """Expressions with a superset as their language; if there are any, all these languages are supersets."""

    @property
    def custom(self) -> bool:
        return not self.renamings

    @property
    def leaving(self) -> Language:
        return Union(tuple(renaming.when for renaming in self.renamings))

    @property
    def arriving(self) -> Language:
        return Union(tuple(Prefixed(renaming.prefix, renaming.when) for renaming in self.renamings))


def travels_of(topology: Topology) -> Mapping[str, FlowNaming]:
    """Flow -> languages; without flows with a faulty expression, policy or cluster, which other rules report."""
    return {
        flow.name: travel
        for flow in topology.flows.values()
        if {flow.source, flow.target} <= topology.clusters.keys() and flow.source != flow.target
        if (travel := travel_of(flow)) is not None
    }


def travel_of(flow: Flow) -> FlowNaming | None:
    """Languages of a flow; None for unusable expressions or policy, which ``validate`` reports. A custom policy has no
    renamings here, so no proof is possible."""
    if any(unfit(text) for text in (*flow.topics, *flow.exclude_topics)):
        return None
    try:
        selector = selector_for(flow)
    except (ValueError, RecursionError):
        return None
    include = [pattern(text) for text in flow.topics]
    exclude = [pattern(text) for text in (*EXCLUDED_TOPICS, *flow.exclude_topics)]
    inexact = tuple(each.text for each in (*include, *exclude) if not each.exact)
    chosen = both(Union(tuple(each.language for each in include)), Complement(Union(held_back(exclude, flow))))
    prefix = flow.source + flow.naming.separator
    cycle = Hops(flow.target, flow.naming.separator)
    match flow.naming.policy:
        case "default":
            renamings: tuple[Renaming, ...] = (Renaming(prefix, Memoised(both(chosen, Complement(cycle)))),)
        case "identity":
            renamings = (
                Renaming("", Memoised(both(chosen, Complement(HEARTBEATS)))),
                Renaming(prefix, Memoised(both(chosen, HEARTBEATS, Complement(cycle)))),
            )
        case _:
            renamings = ()
    return FlowNaming(flow, selector, chosen, renamings, inexact)


def selector_for(flow: Flow) -> TopicSelector:
    """Raises ValueError for an unusable expression or policy."""
    return make_selector(
        flow.topics,
        flow.exclude_topics,
        flow.naming.policy,
        flow.naming.separator,
        flow.source,
        flow.target,
        heartbeats=flow.mirrormaker_topics.heartbeats is not None,
        internal_separator=flow.internal_separator,
    )


def plain_names(flow: Flow) -> frozenset[str]:
    """Topics that the flow names literally. Raises as ``selector_for``."""
    parts = (part for text in flow.topics for part in text.split("|") if _PLAIN.fullmatch(part))
    names = frozenset(part.replace("\\", "") for part in parts)
    selector = selector_for(flow)
    return frozenset(name for name in names if selector.why_not(name) is None)


def held_back(exclude: list[Pattern], flow: Flow) -> tuple[Language, ...]:
    """Excluded and internal names. An inexact exclusion is left out, because excluding too much would hide a loop."""
    return (*(each.language for each in exclude if each.exact), internal(flow.internal_separator))


def may_leave_out(before: FlowExpressions, after: FlowExpressions) -> bool:
    """Whether ``after`` lacks a name that ``before`` matches; True if undecided."""
    gone, held = before.topics - after.topics, after.exclude_topics - before.exclude_topics
    texts = before.topics | before.exclude_topics | after.topics | after.exclude_topics
    if not gone and not held:
        return False
    if (len(gone) + len(held)) * len(texts) > MOST_COMPARED:
        return True
    if any(unfit(text) or not pattern(text).exact for text in texts):
        return True
    chosen = both(_any_of(before.topics), Complement(_any_of(before.exclude_topics)))
    lost = Union((both(_any_of(gone), Complement(_any_of(after.topics))), _any_of(held)))
    try:
        return shortest(both(lost, chosen)) is not None
    except UndecidedError:
        return True


def _any_of(texts: Iterable[str]) -> Language:
    return Union(tuple(pattern(text).language for text in texts))


def policy_fault(flow: Flow) -> str | None:
    """Why the flow's naming policy cannot be used, or None."""
    try:
        policy: ReplicationPolicy = make_policy(flow.naming.policy, flow.naming.separator, flow.source)
        name = policy.format_remote_topic(flow.source, "a")
    except ValueError as error:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too
        return f"naming policy {flow.naming.policy!r} failed on the topic a: {type(error).__name__}: {error}"
    return None if isinstance(name, str) else f"naming policy {flow.naming.policy!r} names topics {type(name).__name__}"
