"""Validates access entries: known clusters and flows, no contradictions."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_clusters, unknown_name
from reconciler.errors import Problem
from reconciler.model.acls import AccessRole, AccessRule, AclBinding
from reconciler.model.environment.topology import Topology
from reconciler.resources.acls.roles import expand_stable


def check_access(topology: Topology, places: Places) -> Iterator[Problem]:
    for rule in topology.access:
        yield from unknown_clusters(places, topology.clusters, rule, _subject(rule))
        for index, name in enumerate(rule.flows):
            where = places.of(rule, "flows", index)
            yield from unknown_name(places, topology.flows, name, _subject(rule), where, "flows")
        if rule.role is AccessRole.MIRROR and rule.absent:
            problem = f"{_subject(rule)}: the role mirror is declared absent"
            why = "What it comes to depends on live topics"
            yield Problem("access-field", places.of(rule, "absent"), problem, why, "Name the rules by resource")
    yield from _contradictions(topology, places)
    yield from _principals(topology, places)


def _contradictions(topology: Topology, places: Places) -> Iterator[Problem]:
    """The same 7-tuple declared and declared absent."""
    granted_by: dict[tuple[str, AclBinding], AccessRule] = {}
    for rule in topology.access:
        if not rule.absent:
            for cluster in rule.clusters:
                granted_by |= {(cluster, acl): rule for acl in expand_stable(rule)}
    for rule in topology.access:
        contradictions = (
            (acl, other)
            for cluster in rule.clusters
            if rule.absent
            for acl in expand_stable(rule)
            if (other := granted_by.get((cluster, acl))) is not None
        )
        for acl, other in contradictions:
            problem = f"{_subject(rule)} wants this absent: {acl}. {other.where} declares it"
            why, todo = "One asks for the rule, the other for its end", "Remove one of the two"
            yield Problem("access-contradiction", places.of(rule, "absent"), problem, why, todo)
            break


def _principals(topology: Topology, places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        for name, other in flow.access.principals.items():
            if ":" not in name or ":" not in other:
                bad = name if ":" not in name else other
                where = places.of(flow, "access", "principals", name)
                problem = f'flow {flow.name}: access.principals has "{bad}"'
                why = "Kafka compares principals letter by letter, so no rule would be about it"
                yield Problem("bad-principal", where, problem, why, f"Write User:{bad}")


def _subject(rule: AccessRule) -> str:
    return f"access rule {rule.number}"
