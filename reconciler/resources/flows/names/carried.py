"""What a flow carries, as languages: which topic names leave the source, and under which names they arrive.

Border: the same rules as ``replication.policy.TopicSelector``, but for all possible names at once. Custom policies have
no language; they are simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.backtracking import unfit
from reconciler.languages import AnyOf, Language, Memoised, Not, Prefixed, both
from reconciler.name_rules import HEARTBEATS, Hops, internal
from reconciler.patterns import Pattern, pattern
from reconciler.topology import Flow, Topology
from replication.policy import EXCLUDED_TOPICS, ReplicationPolicy, TopicSelector, make_policy, make_selector


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names in ``when`` arrive as ``prefix`` + name."""

    prefix: str
    when: Language


@dataclass(frozen=True, slots=True)
class Travel:
    """One flow. ``matching`` is what its expressions choose; ``renamings`` together are what leaves, none for a custom
    policy. ``inexact`` lists the expressions whose language is a superset; with some, these languages are too."""

    flow: Flow
    selector: TopicSelector
    matching: Language
    renamings: tuple[Renaming, ...]
    inexact: tuple[str, ...]

    @property
    def custom(self) -> bool:
        return not self.renamings

    @property
    def leaving(self) -> Language:
        return AnyOf(tuple(renaming.when for renaming in self.renamings))

    @property
    def arriving(self) -> Language:
        return AnyOf(tuple(Prefixed(renaming.prefix, renaming.when) for renaming in self.renamings))


def travels_of(topology: Topology) -> Mapping[str, Travel]:
    """By flow; flows with a faulty expression, policy or cluster are left out, because other rules tell of them."""
    found = {}
    for flow in topology.flows.values():
        if {flow.source, flow.target} <= topology.clusters.keys() and flow.source != flow.target:
            travel = travel_of(flow)
            if travel is not None:
                found[flow.name] = travel
    return found


def travel_of(flow: Flow) -> Travel | None:
    if any(unfit(text) for text in (*flow.topics, *flow.exclude_topics)):
        return None
    try:
        selector = make_selector(
            flow.topics,
            flow.exclude_topics,
            flow.naming.policy,
            flow.naming.separator,
            flow.source,
            flow.target,
            heartbeats=flow.mirrormaker_topics.heartbeats is not None,
        )
    except (ValueError, RecursionError):
        return None
    include = [pattern(text) for text in flow.topics]
    exclude = [pattern(text) for text in (*EXCLUDED_TOPICS, *flow.exclude_topics)]
    inexact = tuple(each.text for each in (*include, *exclude) if not each.exact)
    chosen = both(AnyOf(tuple(each.language for each in include)), Not(AnyOf(held_back(exclude, flow))))
    prefix = flow.source + flow.naming.separator
    cycle = Hops(frozenset({flow.source, flow.target}), flow.naming.separator)
    match flow.naming.policy:
        case "default":
            renamings: tuple[Renaming, ...] = (Renaming(prefix, Memoised(both(chosen, Not(cycle)))),)
        case "identity":
            renamings = (
                Renaming("", Memoised(both(chosen, Not(HEARTBEATS)))),
                Renaming(prefix, Memoised(both(chosen, HEARTBEATS, Not(cycle)))),
            )
        case _:
            renamings = ()
    return Travel(flow, selector, chosen, renamings, inexact)


def held_back(exclude: list[Pattern], flow: Flow) -> tuple[Language, ...]:
    """Excluded and internal names. An inexact exclusion is left out: taking away too much would hide a loop."""
    return (*(each.language for each in exclude if each.exact), internal(flow.naming.separator))


def policy_fault(flow: Flow) -> str | None:
    """Why the flow's naming policy cannot be used, or None."""
    try:
        policy: ReplicationPolicy = make_policy(flow.naming.policy, flow.naming.separator, flow.source)
        name = policy.format_remote_topic(flow.source, "a")
    except ValueError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - user code: anything may come out of it
        return f"naming policy {flow.naming.policy!r} failed on the topic a: {type(error).__name__}: {error}"
    return None if isinstance(name, str) else f"naming policy {flow.naming.policy!r} names topics {type(name).__name__}"
