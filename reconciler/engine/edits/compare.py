"""Two topologies -> what the edit from one to the other means, without asking a cluster.

Border: only declared topics and what flows make of them are known here; live topics that a flow also matches are the
live plan's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reconciler.comparing.fields import changed_fields, whole
from reconciler.comparing.meanings import meaning
from reconciler.comparing.mirrors import Sides, mirror_impacts
from reconciler.comparing.principals import principal_items
from reconciler.comparing.rollouts import rollout_items
from reconciler.comparing.rules import rule_items
from reconciler.comparing.travelling import flow_impacts, following, routes_of, takeovers
from reconciler.comparison import Comparison, ItemChange, Sign
from reconciler.errors import NOWHERE
from reconciler.rollout import course_of
from reconciler.topology import Cluster, Flow, Mirror, Topic, Topology

_REMOVED = {
    "topic": "it stays on its clusters, unmanaged: only a tombstone deletes a topic",
    "flow": "it is no longer copied; what was copied stays",
    "mirror": "its job is stopped",
    "cluster": "nothing there is looked at any more",
}


def compare(before: Topology | None, after: Topology) -> Comparison:
    """``before`` None: the environment was not there, so all of it is new."""
    base = before or Topology(after.environment, {}, {}, {}, {})
    items = (
        *_items("cluster", base.clusters, after.clusters, base, after),
        *_items("topic", base.topics, after.topics, base, after),
        *_items("flow", base.flows, after.flows, base, after),
        *_items("mirror", base.mirrors, after.mirrors, base, after),
        *_tombstones(base, after),
        *principal_items(base, after),
        *rule_items(base, after),
        *_rollout(base, after),
    )
    routes = routes_of(base, after)
    impacts = tuple(flow_impacts(routes))
    taken = takeovers(impacts)
    items = tuple(
        replace(one, means=taken[one.name]) if one.kind == "flow" and one.name in taken else one for one in items
    )
    return Comparison(
        environment=after.environment,
        items=items,
        follows=tuple(following(routes)),
        flows=impacts,
        mirrors=tuple(mirror_impacts(Sides(base, after, routes, items))),
        new=before is None,
    )


def _items(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], base: Topology, now: Topology
) -> Iterator[ItemChange]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None:
            yield ItemChange(Sign.ADDED, kind, name, _where(new), fields=tuple(whole(new)))
        elif new is None:
            yield ItemChange(Sign.REMOVED, kind, name, _where(old), _REMOVED[kind])
        elif old != new:
            fields = tuple(meaning(one, new, base, now) for one in changed_fields(old, new))
            if fields:
                yield ItemChange(Sign.CHANGED, kind, name, _where(new), fields=fields)


def _rollout(base: Topology, now: Topology) -> Iterator[ItemChange]:
    told = now.rollout or base.rollout
    return rollout_items(course_of(base), course_of(now), told.where if told else NOWHERE)


def _where(noun: Cluster | Topic | Flow | Mirror | None) -> str:
    return f"{noun.where.file}:{noun.where.line}" if noun is not None and noun.where.line else ""


def _tombstones(base: Topology, now: Topology) -> Iterable[ItemChange]:
    old = {(one.ref, one.topic_id): one for one in base.deletions}
    new = {(one.ref, one.topic_id): one for one in now.deletions}
    for key in sorted(old.keys() | new.keys()):
        one = new.get(key) or old[key]
        where = f"{one.where.file}:{one.where.line}" if one.where.line else ""
        if key not in old:
            means = f"the topic with id {one.topic_id} is deleted with all its records: {one.reason}"
            yield ItemChange(Sign.ADDED, "deletion", str(one.ref), where, means)
        elif key not in new:
            yield ItemChange(Sign.REMOVED, "deletion", str(one.ref), where, "a topic it deleted does not come back")
        elif fields := tuple(changed_fields(old[key], one)):
            yield ItemChange(Sign.CHANGED, "deletion", str(one.ref), where, fields=fields)
