"""Effects of an edit on flows: topics that begin or cease to be mirrored, remote topics that follow, and restarted
mirror jobs, by their fingerprints."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.engine.edits.fields import SAME_NAMES, SAME_SET, words
from reconciler.model.config_values import same
from reconciler.model.environment.topology import Mirror, Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.reports import edit
from reconciler.resources.flows.routes import Route, find_routes
from reconciler.resources.mirrors.handover import explain_difference, mirror_handover
from reconciler.resources.topics.expected import SyncedConfigs
from reconciler.text import counted, grouped

_NOT_READ = {
    ("flow", "labels"): "labels are for people",
    ("flow", "objectives"): "drills are measured against them; the job does not read them",
    ("flow", "replication_factor"): "it counts when apply makes a topic; the job makes none",
    ("flow", "copies"): "the reconciler keeps access rules; the job does not read it",
    ("flow", "sync_topic_configs"): "configs are synced by the reconciler; the job does not read them",
    ("flow", "groups"): "the job reads groups only with sync_offsets",
    ("cluster", "region"): "the job does not read it",
    ("cluster", "service"): "what a service offers is for plans; the job does not read it",
    ("cluster", "internal_topics.configs"): "configs of topics; the job does not read them",
    ("cluster", "cluster_id"): "a running job learns it at its next start",
    ("cluster", "reassignment"): "how fast replicas move; the job moves none",
    ("cluster", "defaults"): "defaults are for topics; the job does not read them",
    ("cluster", "prune"): "what may be deleted; the job deletes nothing",
    ("cluster", "principals.plan"): "the job logs in as the principal mirror",
    ("cluster", "principals.apply"): "the job logs in as the principal mirror",
    ("cluster", "principals.probe"): "the job logs in as the principal mirror",
    ("mirror", "hosted"): "a running job stays where it runs; a mirror host takes its next start",
    ("mirror", "verify_conf"): "only verify reads it",
}


def blank(topology: Topology) -> LiveState:
    """A live state with empty clusters, so that only declared topics and their copies travel."""
    return LiveState({name: LiveCluster(name, "", (), {}) for name in topology.clusters}, {})


def declared_routes(topology: Topology) -> tuple[Route, ...]:
    return find_routes(topology, blank(topology)).routes


def flow_impacts(before: Iterable[Route], after: Iterable[Route]) -> Iterator[edit.FlowImpact]:
    was, now = (
        grouped((route.flow, edit.TopicTravel(route.source, route.remote)) for route in side)
        for side in (before, after)
    )
    for flow in sorted(was.keys() | now.keys()):
        old, new = set(was.get(flow, ())), set(now.get(flow, ()))
        if old != new:
            yield edit.FlowImpact(flow, tuple(sorted(new - old)), tuple(sorted(old - new)))


def takeovers(impacts: Iterable[edit.FlowImpact]) -> Mapping[str, str]:
    """Flow -> meaning of its takeover of another flow's topics: usually, it was renamed."""
    losers: dict[edit.TopicTravel, str] = {travel: impact.flow for impact in impacts for travel in impact.lost}
    counts = Counter(
        (impact.flow, losers[travel]) for impact in impacts for travel in impact.gained if travel in losers
    )
    taken: dict[str, list[str]] = defaultdict(list)
    for (flow, loser), count in counts.items():
        taken[flow].append(
            f"it takes over {counted(count, 'topic')} of flow {loser}, whose positions stay behind:"
            f" partitions that {loser} had copied stop with position_missing until mirror seek --from-flow {loser}"
        )
    return {flow: "; ".join(means) for flow, means in taken.items()}


def following(before: Iterable[Route], after: Iterable[Route]) -> Iterator[edit.ItemChange]:
    """Existing remote topics that follow an edit of their source or flow in partitions, replication factor or synced
    configs."""
    was = {route.remote: route for route in before}
    for route in after:
        if (old := was.get(route.remote)) is None:
            continue
        fields: list[edit.FieldChange] = []
        for name in ("partitions", "replication_factor"):
            count, other = getattr(old, name), getattr(route, name)
            if count != other:
                fields.append(edit.FieldChange(name, words((name,), count), words((name,), other)))
        # Only what the flow itself sets is compared: a config that a file gives the remote topic is an edit of its own.
        old_set, new_set = (
            each.configs.set if isinstance(each.configs, SyncedConfigs) else {} for each in (old, route)
        )
        for key in sorted(old_set.keys() | new_set.keys()):
            path, wanted = ("configs", key), new_set.get(key)
            values = old_set[key].value if key in old_set else None, wanted.value if wanted else None
            if not same(key, *values):
                shown = words(path, values[0]), words(path, values[1])
                fields.append(edit.FieldChange(".".join(path), *shown, wanted.origin if wanted else ""))
        if fields:
            ref, means = str(route.remote), f"flow {route.flow}"
            yield edit.ItemChange(edit.Sign.CHANGED, "remote topic", ref, means=means, fields=tuple(fields))


@dataclass(frozen=True, slots=True)
class TopologySides:
    """Both topologies, and how their entries differ."""

    named: Topology
    """The one before, under its own names."""
    before: Topology
    """The same under the names of ``after``."""
    after: Topology
    routes: tuple[Iterable[Route], Iterable[Route]]
    """The declared ones of ``before`` and ``after``."""
    items: Sequence[edit.ItemChange]


def mirror_impacts(sides: TopologySides) -> Iterator[edit.MirrorImpact]:
    """What the edit does to each mirror: one restarts if its hand-over or its settings of spark-submit differ."""
    before, after = sides.before, sides.after
    for name in sorted(before.mirrors.keys() | after.mirrors.keys()):
        old, new = before.mirrors.get(name), after.mirrors.get(name)
        if new is None:
            yield edit.MirrorImpact(name, edit.Fate.STOPS, because=("it is no longer declared, or has no flow left",))
        elif old is None:
            fields = mirror_handover(after, new)
            yield edit.MirrorImpact(
                name, edit.Fate.STARTS, "", str(fields["fingerprint"]), tuple(f"flow {f}" for f in new.flows)
            )
        else:
            was, now = mirror_handover(before, old), mirror_handover(after, new)
            running = mirror_handover(sides.named, sides.named.mirrors[name])
            prints, harmless = (str(running["fingerprint"]), str(now["fingerprint"])), tuple(_harmless(new, sides))
            if was["fingerprint"] == now["fingerprint"]:
                if harmless:
                    yield edit.MirrorImpact(name, edit.Fate.KEEPS_RUNNING, *prints, harmless=harmless)
                continue
            # Equal fingerprints mean an equal definition: nothing of it reaches the job, whatever was edited.
            because = [*explain_difference(was, now)]

            # Settings for spark-submit, which are not in the hand-over.
            if old.master != new.master:
                because.append(f"mirror {name}: master {old.master} -> {new.master}")
            confs = old.spark_conf, new.spark_conf
            if keys := [key for key in sorted({*confs[0], *confs[1]}) if confs[0].get(key) != confs[1].get(key)]:
                because.append(f"mirror {name}: spark_conf {', '.join(keys)}")
            yield edit.MirrorImpact(name, edit.Fate.RESTARTS, *prints, tuple(because), harmless)


def _harmless(mirror: Mirror, sides: TopologySides) -> Iterator[str]:
    """Edits near a mirror that need no restart, with the reason: readers would otherwise look for one."""
    before, after = sides.before, sides.after
    flows = set(mirror.flows)
    clusters = {side for flow in after.flows_of(mirror) for side in (flow.source, flow.target)}
    near = {"flow": flows, "cluster": clusters}
    for item in sides.items:
        if item.sign is not edit.Sign.CHANGED or item.name not in near.get(item.kind, ()):
            continue
        for field in item.fields:
            if field.path == "groups.sync_offsets":
                continue  # the restart itself
            if field.path.startswith("groups") and after.flows[item.name].groups.sync_offsets:
                continue
            if why := not_read(item.kind, field.path, field.means):
                yield f"{item.kind} {item.name}: {field.path} {field.before} -> {field.after}: {why}"
    old, new = sides.routes
    was = {(route.flow, route.source) for route in old if route.flow in flows}
    fresh = [route for route in new if route.flow in flows and (route.flow, route.source) not in was]
    same = {name for name in flows if name in before.flows and before.flows[name] == after.flows[name]}
    if names := sorted(str(route.source) for route in fresh if route.flow in same):
        wait = f"{mirror.refresh_interval_ms / 1000:g} s"
        yield f"new topics {', '.join(names)}: a running job picks up topics that match within {wait}"


def not_read(kind: str, path: str, means: str) -> str:
    """Why no job reads a setting, or empty."""
    if means in (SAME_NAMES, SAME_SET):
        return means
    reasons = (why for (of, start), why in _NOT_READ.items() if of == kind and f"{path}.".startswith(f"{start}."))
    return next(reasons, "")
