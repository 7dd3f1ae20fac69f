"""Compares two versions of an environment: what the edit means, without asking a cluster.

Knows only declared topics and what flows make of them; live topics that a flow also matches are the plan's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from reconciler.engine.edits.entries import SECTIONS
from reconciler.engine.edits.fields import changed_fields, whole
from reconciler.engine.edits.flows import flow_impacts, following, routes_of, takeovers
from reconciler.engine.edits.meaning import meaning
from reconciler.engine.edits.mirrors import TopologySides, mirror_impacts
from reconciler.engine.edits.policies import rule_items
from reconciler.engine.edits.rollout import rollout_items
from reconciler.engine.rollout.waves import course_of
from reconciler.errors import NOWHERE
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.edit import EditComparison, ItemChange, Sign
from reconciler.resources.flows.renames import as_called_now, entry
from reconciler.resources.topics.diff_deletions import STAYS, WAY

_REMOVED = {
    "topic": "it stays on its clusters, unmanaged: only a tombstone deletes a topic",
    "flow": "it is no longer copied; what was copied stays",
    "mirror": "its job is stopped",
    "cluster": "nothing there is compared any more",
}


def compare(before: Topology | None, after: Topology) -> EditComparison:
    """``before`` None: the environment was not there, so all of it is new."""
    base = as_called_now(before or Topology(after.environment, {}, {}, {}, {}), after)
    items = (
        *_items("cluster", base.clusters, after.clusters, base, after),
        *_items("topic", base.topics, after.topics, base, after),
        *_items("flow", base.flows, after.flows, base, after),
        *_items("mirror", base.mirrors, after.mirrors, base, after),
        *_tombstones(base, after),
        *(item for section in SECTIONS for item in section.items(base, after)),
        *rule_items(base, after),
        *_rollout(base, after),
        *_earlier_names(base, after),
    )
    routes = routes_of(base, after)
    impacts = tuple(flow_impacts(routes))
    taken = takeovers(impacts)
    items = tuple(
        replace(item, means=taken[item.name]) if item.kind == "flow" and item.name in taken else item for item in items
    )
    items = tuple(_with_rename(item, base, after) for item in items)
    return EditComparison(
        environment=after.environment,
        items=items,
        follows=tuple(following(routes)),
        flows=impacts,
        mirrors=tuple(mirror_impacts(TopologySides(base, after, routes, items))),
        new=before is None,
    )


def _items(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], base: Topology, now: Topology
) -> Iterator[ItemChange]:
    for name in sorted(before.keys() | after.keys()):
        stands = after[name] if name in after else before[name]
        place = stands.where.line_words
        if name not in before:
            yield ItemChange(Sign.ADDED, kind, name, place, fields=tuple(whole(stands)))
        elif name not in after:
            yield ItemChange(Sign.REMOVED, kind, name, place, _REMOVED[kind])
        elif before[name] != stands:
            fields = tuple(meaning(field, stands, base, now) for field in changed_fields(before[name], stands))
            if fields:
                yield ItemChange(Sign.CHANGED, kind, name, place, fields=fields)


def _with_rename(item: ItemChange, base: Topology, now: Topology) -> ItemChange:
    """Of a topic or flow that is gone, or new, with one like it under another name on the other side."""
    sides: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        "topic": (base.topics, now.topics),
        "flow": (base.flows, now.flows),
    }
    if item.kind not in sides or item.sign is Sign.CHANGED:
        return item
    before, after = sides[item.kind]
    mine, other = (before, after) if item.sign is Sign.REMOVED else (after, before)
    noun = replace(mine[item.name], name="")
    twins = [name for name in mine.keys() - other.keys() if replace(mine[name], name="") == noun]
    alike = [name for name in other.keys() - mine.keys() if replace(other[name], name="") == noun]
    if len(alike) != 1 or len(twins) != 1:
        return item  # which of them it was nobody knows
    old, new = (item.name, alike[0]) if item.sign is Sign.REMOVED else (alike[0], item.name)
    if item.kind == "topic":
        item = replace(item, renamed=alike[0])
    if item.sign is Sign.REMOVED:
        like = f"; {new} is like it under another name" if item.kind == "topic" else ""
        return replace(item, means=f"{item.means}{like}")
    if item.kind == "topic":
        means = f"like {old} under another name: {STAYS.format(old=old, new=new)}. {WAY}"
    else:
        means = item.means or (
            f"like {old} under another name: positions belong to a flow's name and do not come along, so partitions"
            f" that {old} had copied stop with position_missing until mirror seek {new} --from-flow {old}"
        )
        means += f"; if it is {old} renamed, write {entry(old, new)}: then they do"
    return replace(item, means=means)


def _earlier_names(base: Topology, now: Topology) -> Iterator[ItemChange]:
    """Of the environment, by ``moved``."""
    place = NOWHERE.line_words
    for name in sorted({*base.moved_from} ^ {*now.moved_from}):
        if name in now.moved_from:
            means = f"flows that environment {name} began are this environment's from now on"
            yield ItemChange(Sign.ADDED, "earlier name", name, place, means)
        else:
            means = f"flows that environment {name} began and that kept no position since are refused (flow-not-ours)"
            yield ItemChange(Sign.REMOVED, "earlier name", name, place, means)


def _rollout(base: Topology, now: Topology) -> Iterator[ItemChange]:
    rollout = now.rollout or base.rollout
    return rollout_items(course_of(base), course_of(now), rollout.where if rollout else NOWHERE)


def _tombstones(base: Topology, now: Topology) -> Iterable[ItemChange]:
    old = {(tombstone.ref, tombstone.topic_id): tombstone for tombstone in base.deletions}
    new = {(tombstone.ref, tombstone.topic_id): tombstone for tombstone in now.deletions}
    for key in sorted(old.keys() | new.keys()):
        tombstone = new.get(key) or old[key]
        where = tombstone.where.line_words
        if key not in old:
            means = f"the topic with id {tombstone.topic_id} is deleted with all its records: {tombstone.reason}"
            yield ItemChange(Sign.ADDED, "deletion", str(tombstone.ref), where, means)
        elif key not in new:
            yield ItemChange(
                Sign.REMOVED, "deletion", str(tombstone.ref), where, "a topic it deleted does not come back"
            )
        elif fields := tuple(changed_fields(old[key], tombstone)):
            yield ItemChange(Sign.CHANGED, "deletion", str(tombstone.ref), where, fields=fields)
