"""Validates classes and the expressions of prune lists and protections."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.validate.expressions import barren
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem, Where
from reconciler.model.environment.topology import Topology
from reconciler.replication.expressions.unfit import unfit
from reconciler.text import suggestion


def check_rules(topology: Topology, places: Places) -> Iterator[Problem]:
    yield from _classes(topology, places)
    for cluster in topology.clusters.values():
        for index, text in enumerate(cluster.prune_topics):
            where = places.of(cluster, "prune", "topics", index)
            yield from _expression(text, where, f"cluster {cluster.name}: prune.topics[{index}]")
    yield from _audit(topology, places)
    for protection in topology.rules.protected:
        yield from _expression(protection.pattern, protection.where, "protected")


def _classes(topology: Topology, places: Places) -> Iterator[Problem]:
    for topic in topology.topics.values():
        name = topic.class_name
        if not name or name in topology.rules.classes or places.has("classes", name) or not places.complete:
            continue
        where = places.of(topic, "class")
        todo = suggestion(name, topology.rules.classes, "Declare it under classes")
        why = "No file of the environment declares it, so nobody knows its values"
        yield Problem("unknown-class", where, f"topic {topic.name} names the unknown class {name}", why, todo)


def _audit(topology: Topology, places: Places) -> Iterator[Problem]:
    audit = topology.rules.audit
    if audit is None or not audit.cluster or audit.cluster in topology.clusters or not places.complete:
        return
    if not places.has("clusters", audit.cluster):
        where = places.find("audit", "audit", "cluster", or_else=audit.where)
        todo = suggestion(audit.cluster, topology.clusters, "Name one of the clusters")
        problem = f"audit names the unknown cluster {audit.cluster}"
        yield Problem("unknown-cluster", where, problem, "There is no place for the audit record", todo)


def _expression(text: str, where: Where, subject: str) -> Iterator[Problem]:
    if wrong := unfit(text):
        yield Problem(wrong.code, where, f'{subject} is "{text}", {wrong.what}', wrong.why, wrong.todo)
    elif problem := barren(text, where, subject):
        yield problem
