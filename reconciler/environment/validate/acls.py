"""Access rules against the rest of the topology: clusters and flows they name, and rules that contradict each other.

Border: as ``checking``: nouns in, problems out.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.access.roles import expand_stable
from reconciler.access_rules import AccessRole, AccessRule
from reconciler.acls import AclBinding
from reconciler.errors import Problem, Where
from reconciler.places import Places, Step, suggestion
from reconciler.topology import Topology


def check_access(topology: Topology, places: Places) -> Iterator[Problem]:
    for rule in topology.access:
        for index, name in enumerate(rule.clusters):
            yield from _known(topology, places, rule, "cluster", name, "clusters", index)
        for index, name in enumerate(rule.flows):
            yield from _known(topology, places, rule, "flow", name, "flows", index)
        if rule.role is AccessRole.MIRROR and rule.absent:
            what, why = (
                f"{_subject(rule)}: the role mirror is declared absent",
                "What it comes to depends on live topics",
            )
            yield Problem("access-field", _at(places, rule, "absent"), what, why, "Name the rules by resource")
    yield from _contradictions(topology, places)
    yield from _principals(topology, places)


def _known(
    topology: Topology, places: Places, rule: AccessRule, kind: str, name: str, *path: Step
) -> Iterator[Problem]:
    section = f"{kind}s"
    declared = topology.clusters.keys() if kind == "cluster" else topology.flows.keys()
    if name in declared or places.has(section, name) or not places.complete:
        return
    known = declared | {one for of, one in places.entries if of == section}
    todo = suggestion(name, known, f"Declare it under {section}")
    what = f"{_subject(rule)} names the unknown {kind} {name}"
    yield Problem(f"unknown-{kind}", _at(places, rule, *path), what, "No file of the environment declares it", todo)


def _contradictions(topology: Topology, places: Places) -> Iterator[Problem]:
    """The same 7-tuple wished and declared absent."""
    wished: dict[tuple[str, AclBinding], AccessRule] = {}
    for rule in topology.access:
        if not rule.absent:
            for cluster in rule.clusters:
                wished |= {(cluster, acl): rule for acl in expand_stable(rule)}
    for rule in topology.access:
        found = (
            (acl, other)
            for cluster in rule.clusters
            if rule.absent
            for acl in expand_stable(rule)
            if (other := wished.get((cluster, acl))) is not None
        )
        for acl, other in found:
            what = f"{_subject(rule)} wants this absent: {acl}. {other.where} declares it"
            why, todo = "One asks for the rule, the other for its end", "Remove one of the two"
            yield Problem("access-contradiction", _at(places, rule, "absent"), what, why, todo)
            break


def _principals(topology: Topology, places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        for name, other in flow.access.principals.items():
            if ":" not in name or ":" not in other:
                bad = name if ":" not in name else other
                where = places.find("flows", flow.name, "access", "principals", name, or_else=flow.where)
                what = f'flow {flow.name}: access.principals has "{bad}"'
                why = "Kafka compares principals letter by letter, so no rule would be about it"
                yield Problem("bad-principal", where, what, why, f"Write User:{bad}")


def _subject(rule: AccessRule) -> str:
    return f"access rule {rule.number}"


def _at(places: Places, rule: AccessRule, *path: Step) -> Where:
    return places.find("access", str(rule.number), *path, or_else=rule.where)
