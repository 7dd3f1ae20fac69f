"""Which mirror jobs an edit restarts, by their fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.engine.edits.fields import SAME_NAMES, SAME_SET
from reconciler.engine.edits.flows import RoutesOfBothSides
from reconciler.model.environment.topology import Mirror, Topology
from reconciler.model.reports.edit import Fate, ItemChange, MirrorImpact, Sign
from reconciler.resources.mirrors.handover import explain_difference, mirror_handover

_NOT_READ = {
    ("flow", "labels"): "labels are for people",
    ("flow", "replication_factor"): "it counts when apply makes a topic; the job makes none",
    ("flow", "sync_topic_configs"): "configs are synced by the reconciler; the job does not read them",
    ("flow", "groups"): "the job reads groups only with sync_offsets",
    ("cluster", "region"): "the job does not read it",
    ("cluster", "cluster_id"): "the job does not read it",
    ("cluster", "reassignment"): "how fast replicas move; the job moves none",
    ("cluster", "defaults"): "defaults are for topics; the job does not read them",
    ("cluster", "prune"): "what may be deleted; the job deletes nothing",
    ("cluster", "principals.plan"): "the job logs in as the principal mirror",
    ("cluster", "principals.apply"): "the job logs in as the principal mirror",
    ("mirror", "verify_conf"): "only verify reads it",
}


@dataclass(frozen=True, slots=True)
class TopologySides:
    """Both topologies with their routes, and how their entries differ."""

    before: Topology
    after: Topology
    routes: RoutesOfBothSides
    items: Sequence[ItemChange]


def mirror_impacts(sides: TopologySides) -> Iterator[MirrorImpact]:
    before, after = sides.before, sides.after
    for name in sorted(before.mirrors.keys() | after.mirrors.keys()):
        old, new = before.mirrors.get(name), after.mirrors.get(name)
        if new is None or not new.flows:
            if old is not None and old.flows:
                yield MirrorImpact(name, Fate.STOPS, because=("it is no longer declared, or has no flow left",))
        elif old is None or not old.flows:
            fields = mirror_handover(after, new)
            yield MirrorImpact(name, Fate.STARTS, "", str(fields["fingerprint"]), tuple(f"flow {f}" for f in new.flows))
        elif impact := _both(old, new, sides):
            yield impact


def _both(old: Mirror, new: Mirror, sides: TopologySides) -> MirrorImpact | None:
    was, now = mirror_handover(sides.before, old), mirror_handover(sides.after, new)
    prints = str(was["fingerprint"]), str(now["fingerprint"])
    harmless = tuple(_harmless(new, sides))
    if prints[0] != prints[1]:
        because = (*explain_difference(was, now), *_started_with(old, new))
        return MirrorImpact(new.name, Fate.RESTARTS, *prints, because, harmless)
    return MirrorImpact(new.name, Fate.KEEPS_RUNNING, *prints, harmless=harmless) if harmless else None


def _started_with(old: Mirror, new: Mirror) -> Iterator[str]:
    """What spark-submit reads and the hand-over file does not hold."""
    if old.master != new.master:
        yield f"mirror {new.name}: master {old.master} -> {new.master}"
    if old.spark_conf != new.spark_conf:
        keys = sorted(
            k for k in old.spark_conf.keys() | new.spark_conf.keys() if old.spark_conf.get(k) != new.spark_conf.get(k)
        )
        yield f"mirror {new.name}: spark_conf {', '.join(keys)}"


def _harmless(mirror: Mirror, sides: TopologySides) -> Iterator[str]:
    before, after = sides.before, sides.after
    flows = set(mirror.flows)
    clusters = {side for flow in after.flows_of(mirror) for side in (flow.source, flow.target)}
    near = {"flow": flows, "cluster": clusters}
    for item in sides.items:
        if item.sign is not Sign.CHANGED or item.name not in near.get(item.kind, ()):
            continue
        for field in item.fields:
            if field.path.startswith("groups") and after.flows[item.name].groups.sync_offsets:
                continue
            if why := not_read(item.kind, field.path, field.means):
                yield f"{item.kind} {item.name}: {field.path} {field.before} -> {field.after}: {why}"
    was = {(route.flow, route.source) for route in sides.routes.before if route.flow in flows}
    fresh = [r for r in sides.routes.after if r.flow in flows and (r.flow, r.source) not in was]
    same = {name for name in flows if name in before.flows and before.flows[name] == after.flows[name]}
    if names := sorted(str(route.source) for route in fresh if route.flow in same):
        wait = f"{mirror.refresh_interval_ms / 1000:g} s"
        yield f"new topics {', '.join(names)}: a running job picks up topics that match within {wait}"


def not_read(kind: str, path: str, means: str) -> str:
    """Why no job reads a setting, or empty."""
    if means in (SAME_NAMES, SAME_SET):
        return means
    return next(
        (why for (of, start), why in _NOT_READ.items() if of == kind and f"{path}.".startswith(f"{start}.")), ""
    )
