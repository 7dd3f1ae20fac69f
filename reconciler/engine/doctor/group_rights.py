"""Which rights on consumer groups doctor checks for each principal, and a name to ask each of them with.

A broker lists only groups that the asking principal may describe and hides the others silently, so a group that
nobody has is asked for by name: what is refused for it would be hidden, too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from reconciler.model.acls import Operation
from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.replication.names import position_group

NOBODY = "reconciler-doctor"
"""Ends the name of a group that nobody has."""
_PREFIX = re.compile(r"(?P<head>[^\\.^$*+?{}\[\]|()]*)\.\*")
_LITERAL = re.compile(r"[^\\.^$*+?{}\[\]|()]+")


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """``asked``: the group that is asked for; ``resource``: what kafka-acls is to be given; ``words`` name it."""

    operation: Operation
    asked: str
    resource: str
    words: str
    why: str


def group_needs(topology: Topology, cluster: str, principal: Principal) -> tuple[GroupNeed, ...]:
    match principal:
        case Principal.PLAN:
            why = "who reads a topic at stake would be hidden from plan silently"
            return (_every(Operation.DESCRIBE, "", why),)
        case Principal.APPLY:
            return ()
        case Principal.MIRROR:
            entries = (need for flow in topology.flows.values() for need in _of_flow(topology, flow, cluster))
            return tuple(dict.fromkeys(entries))
        case _:
            assert_never(principal)


def moved_groups(flow: Flow) -> tuple[GroupNeed, ...]:
    """What a failover of the flow has to see of groups on the cluster that it leaves."""
    return tuple(_chosen(Operation.DESCRIBE, flow, "a failover would leave them behind"))


def _of_flow(topology: Topology, flow: Flow, cluster: str) -> Iterator[GroupNeed]:
    if flow.target == cluster:
        yield _literal(
            Operation.READ, position_group(flow.state_name), "the job could not commit positions with the data"
        )
    if flow.source == cluster:
        for other in topology.arriving(flow):
            why = f"flow {flow.name} waits: it could not know where marked copies begin"
            yield _literal(Operation.DESCRIBE, position_group(other.state_name), why)
    if not flow.groups.sync_offsets:
        return
    if flow.source == cluster:
        why = f"their offsets would silently not be synced by flow {flow.name}"
        yield from _chosen(Operation.READ if flow.groups.both_ways else Operation.DESCRIBE, flow, why)
    if flow.target == cluster:
        yield from _chosen(Operation.READ, flow, f"flow {flow.name} could not set their offsets")


def _chosen(operation: Operation, flow: Flow, why: str) -> Iterator[GroupNeed]:
    """For a name and for a beginning with ``.*``. Rights for other patterns may be given name by name: not asked."""
    for pattern in flow.groups.include:
        if (match := _PREFIX.fullmatch(pattern)) is not None:
            yield _every(operation, match["head"], why)
        elif _LITERAL.fullmatch(pattern):
            yield _literal(operation, pattern, why)


def _every(operation: Operation, head: str, why: str) -> GroupNeed:
    resource = f"--group {shlex.quote(head)} --resource-pattern-type prefixed" if head else "--group '*'"
    words = f"groups {head}*" if head else "groups"
    return GroupNeed(operation, f"{head}{NOBODY}", resource, words, why)


def _literal(operation: Operation, group: str, why: str) -> GroupNeed:
    return GroupNeed(operation, group, f"--group {shlex.quote(group)}", f"group {group}", why)
