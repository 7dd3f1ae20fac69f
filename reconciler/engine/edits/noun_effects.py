"""Finds edits of topics, flows, mirrors, clusters and defaults without effect on clusters, with the reason."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.engine.edits.edit_and_plan import OUTSIDE, EditAndPlan, Judge, edited, quiet
from reconciler.engine.edits.fields import NOT_SET, SAME_NAMES, SAME_SET
from reconciler.engine.edits.flows import not_read
from reconciler.errors import Unknown
from reconciler.model import changes
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Flow, TopicRef, Undeclared
from reconciler.model.reports.edit import FieldChange, ItemChange, NoEffect, Sign
from reconciler.replication.handover import AGAIN
from reconciler.replication.names import is_own_topic
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.topics.defaults import given, layers_of
from reconciler.text import BRIEF, counted, first_of

NOT_READ = "its mirror runs as before: the job does not read it"


def of_later_runs(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Settings that only later runs use: defaults of guards, protections, the rollout."""
    audit = sides.after.rules.audit
    made = {change.ref.name for change in sides.changes if isinstance(change, changes.CreateTopic)}
    if item.kind == "audit" and audit is not None and audit.topic in made:
        return
    if item.kind == "earlier name" and any(isinstance(change, changes.MirrorChange) for change in sides.changes):
        return  # a job learns the names with which its pauses and claims began at a restart
    if item.kind in ("limit", "rollout") and item.sign is Sign.CHANGED:
        yield from (quiet(item, field.means, field) for field in item.fields)
    elif item.kind != "section":
        yield quiet(item, item.means or "it counts for later runs; nothing on a cluster changes")
    elif item.sign is Sign.REMOVED:
        why = f"without the section {item.name} nothing is compared, and everything that exists stays"
        todo = f"To take away what it declared, first leave it there and empty ({item.name}: []) and apply"
        yield NoEffect(item.kind, item.name, "", why, todo, f"takes nothing away: all of {item.name} stays")
    else:
        access, quotas = item.name == "access", item.name == "quotas"
        looked_after = changes.AclChange if access else changes.AlterQuota if quotas else changes.UserChange
        if not any(isinstance(change, looked_after) for change in sides.changes):
            yield quiet(item, item.means)


def _only_words(item: ItemChange, field: FieldChange) -> NoEffect | None:
    if field.means in (SAME_SET, SAME_NAMES):
        return quiet(item, field.means, field)
    if field.path.partition(".")[0] == "labels":
        return quiet(item, "labels are for people and rules", field)
    return None


# topics


def _topic(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """An edited topic, on clusters that it leaves, that it comes to, and on which it stays."""
    old, new = sides.before.topics.get(item.name), sides.after.topics.get(item.name)
    before, after = (frozenset(topic.clusters) if topic else frozenset() for topic in (old, new))

    # On clusters that no longer declare the topic, it stays, unless it has a tombstone.
    there = [ref for cluster in sorted(before - after) if sides.live.topic(ref := TopicRef(cluster, item.name))]
    if stays := [
        ref for ref in there if not sides.touched((ref,), lambda change: isinstance(change, changes.DeleteTopic))
    ]:
        where = first_of([ref.cluster for ref in stays], BRIEF)
        todo = "To delete it with its records, write a tombstone (deletions)"
        if item.renamed:
            why = f"Kafka renames nothing: {item.name} stays on {where} with its records and readers, unmanaged"
            short = f"renames nothing: {item.renamed} begins empty, {item.name} stays on {where} with its records"
        else:
            why = f"it stays on {where} with its records, unmanaged"
            short = f"deletes nothing: topic {item.name} stays on {where}"
        yield NoEffect(item.kind, item.name, "", why, todo, short)
    gone = [TopicRef(name, item.name) for name in sorted(before - after) if sides.live.known(name) is not None]
    if never := [ref for ref in gone if sides.live.topic(ref) is None and not sides.touched((ref,))]:
        yield quiet(item, f"it is not on {first_of([ref.cluster for ref in never], BRIEF)}")
    if sides.outside(before - after):
        yield quiet(item, OUTSIDE)

    # On clusters that newly declare it, it may already exist.
    for cluster in sorted(after - before):
        ref = TopicRef(cluster, item.name)
        if sides.live.topic(ref) is not None and not sides.touched((ref,)):
            yield quiet(item, f"{ref} already exists, as declared")

    # On other clusters, the plan is searched for each field.
    refs = [TopicRef(cluster, item.name) for cluster in before & after]
    if item.sign is not Sign.CHANGED or sides.unknown(before | after):
        return
    for field in item.fields:
        if (words := _only_words(item, field)) is not None:
            yield words
        elif field.path != "clusters" and (no_effect := _topic_field(item, field, sides, refs)) is not None:
            yield no_effect


def _topic_field(item: ItemChange, field: FieldChange, sides: EditAndPlan, refs: list[TopicRef]) -> NoEffect | None:
    """An edited field of a topic without an effect; None if the plan acts on it, on the topic itself or on a copy that
    follows it."""
    section, _, key = field.path.partition(".")
    family = sides.family(refs)
    if section != "configs":
        keys = {key}
        if section == "class":  # configs of the old and the new class
            rules = [(each.rules.classes, each.topics[item.name].class_name) for each in (sides.before, sides.after)]
            keys = {config for classes, name in rules if name in classes for config in classes[name].configs}
        reached = refs if section == "replication_factor" else family  # copies get their flow's factor
        touched = sides.touched(reached, lambda change: _follows(change, section, keys))
        # These meanings say what the edit does where it does something.
        would = section == "replication_factor" or (section == "partitions" and field.after != NOT_SET)
        means = "" if would or field.after == Undeclared.REMOVE else field.means
        return None if touched else quiet(item, means or "the cluster is as declared", field)
    gone = field.after == NOT_SET  # a new copy gets the value that its source still has
    if sides.touched(family, lambda change: _sets(change, key, made=not gone) or _begins(change, refs)):
        return None
    there = [(topic, ref) for ref in refs if (topic := sides.live.topic(ref)) is not None]
    if any(isinstance(topic.configs, Unknown) for topic, _ in there):
        return None  # what they have is not known
    values = {value: ref for topic, ref in there if (value := topic.overrides.get(key)) is not None}
    if not gone:
        why = sides.ignored(family, key) or "the cluster has this value already, or a stronger layer sets another one"
        return quiet(item, why, field)
    if not values:
        return quiet(item, "no topic has an override of it", field)
    value, ref = next(iter(values.items()))
    short = f"resets nothing: {key} of {item.name} stays {human(key, value)} on {ref.cluster}"
    why = f"a config that is declared no longer stays as it is: {human(key, value)} on {ref.cluster}"
    todo = "Write the value that you want, or undeclared: remove for what no file declares"
    return NoEffect(item.kind, item.name, edited(field), why, todo, short)


def _sets(change: changes.Change, key: str, *, made: bool = True) -> bool:
    """Whether a change sets the config. ``made``: also by creating a topic with it."""
    match change:
        case changes.DeleteTopic():
            return True
        case changes.CreateTopic() if not made:
            return False
        case changes.CreateTopic() | changes.AlterConfigs():
            return any(config.key == key for config in change.configs)
        case _:
            return False


def _begins(change: changes.Change, refs: Collection[TopicRef]) -> bool:
    """Whether the change creates one of the topics, with all its declared values."""
    return isinstance(change, changes.CreateTopic) and change.ref in refs


def _follows(change: changes.Change, setting: str, keys: Collection[str]) -> bool:
    """Whether a change of a topic may follow from a setting other than a config. ``keys``: the configs."""
    match change:
        case changes.DeleteTopic():
            return True
        case changes.CreateTopic():  # a new topic has no retention to lower, and no override that is not declared
            return setting not in ("lower_retention_by", "undeclared")
        case changes.AddPartitions():
            return setting == "partitions"
        case changes.ReassignReplicas():
            return setting == "replication_factor"
        case changes.AlterConfigs() if setting == "lower_retention_by":
            return any(config.key in keys and _lowers(config) for config in change.configs)
        case changes.AlterConfigs() if setting == "undeclared":
            return any(config.undeclared for config in change.configs)
        case changes.AlterConfigs() if setting == "class":
            return any(config.key in keys for config in change.configs)
        case changes.AlterConfigs():
            return setting == "sync_topic_configs"
        case _:
            return False


def _lowers(config: changes.ConfigChange) -> bool:
    """Whether lowering in steps may delay the change; a value that may fall counts."""
    try:
        before, goal = int(config.before or ""), int(config.goal or config.after or "")
    except ValueError:
        return True
    return goal >= 0 and (before < 0 or goal < before)


# layers of values


def _layer(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Defaults of the environment or of a class; those of a cluster are fields of the cluster."""
    if item.sign is Sign.REMOVED:
        yield quiet(item, item.means)
    layer = "default of the environment" if item.kind == "defaults" else f"class {item.name}"
    for field in item.fields:
        yield from _layer_field(item, field, sides, "", layer)


def _layer_field(
    item: ItemChange, field: FieldChange, sides: EditAndPlan, cluster: str, layer: str
) -> Iterator[NoEffect]:
    """``layer``: its name as ``resources.topics.defaults`` has it."""
    section, _, key = field.path.removeprefix("defaults.").partition(".")
    here = [change for change in sides.changes if not cluster or change.cluster == cluster]
    if sides.unknown((cluster,) if cluster else sides.after.clusters):
        return
    made = (change for change in here if isinstance(change, changes.CreateTopic))
    if any(_decides(change, sides, layer, key if section == "configs" else section) for change in made):
        return
    there = [change for change in here if not isinstance(change, changes.CreateTopic | changes.DeleteTopic)]
    if section == "configs":
        if any(_sets(change, key) for change in there):
            return
        why = "it changes no topic: each has this value already, or a stronger layer sets another one"
        yield quiet(item, field.means if field.after == NOT_SET and field.means else why, field)
    elif not any(_follows(change, section, (key,)) for change in there):
        none = "no topic has an override that no file declares" if field.after == Undeclared.REMOVE else ""
        yield quiet(item, none or field.means or "it counts for topics to be created", field)


def _decides(change: changes.CreateTopic, sides: EditAndPlan, layer: str, field: str) -> bool:
    """Whether a new topic gets ``field`` from the layer, on one side of the edit."""
    if field == "partitions" and change.role is not changes.Role.DECLARED:
        return False  # as many as the source has
    flows = {route.flow for route in sides.routes if route.remote == change.ref}
    for topology in (sides.before, sides.after):
        ref, topic = change.ref, topology.topics.get(change.ref.name)
        declared = topic is not None and ref.cluster in topic.clusters
        if ref.cluster not in topology.clusters or (change.role is changes.Role.DECLARED and not declared):
            continue
        of_flow = any(topology.flows[name].replication_factor for name in flows & topology.flows.keys())
        if field == "replication_factor" and change.role is not changes.Role.DECLARED and of_flow:
            continue
        layers = layers_of(topology, ref.cluster, topic if declared else None)
        first = next(given(layers, field), None)
        if first is not None and first.layer.name == layer:
            return True
    return False


# clusters, mirrors, flows


def _cluster(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Edits of a cluster's entry: most say how it is reached or judged, and change nothing on it."""
    if item.sign is Sign.REMOVED:
        yield quiet(item, item.means)
    known = sides.live.known(item.name) is not None
    if item.sign is Sign.ADDED and known and not any(change.cluster == item.name for change in sides.changes):
        yield quiet(item, "nothing on it changes")
    for field in item.fields if item.sign is Sign.CHANGED else ():
        if (words := _only_words(item, field)) is not None:
            yield words
        elif field.path.startswith("defaults."):
            yield from _layer_field(item, field, sides, item.name, f"default of cluster {item.name}")
        elif why := not_read(item.kind, field.path, field.means):
            heeds = _HEEDED.get(field.path.partition(".")[0])
            here = (change for change in sides.changes if change.cluster == item.name)
            if heeds is None or not any(map(heeds, here)):
                yield quiet(item, field.means or f"it changes nothing on the cluster; {why}", field)
        elif known and not sides.restarts(
            f.name for f in sides.after.flows.values() if item.name in (f.source, f.target)
        ):
            yield quiet(item, field.means or "it says how the cluster is reached; nothing on it changes", field)


def _of_own_topics(change: changes.Change) -> bool:
    return isinstance(change, changes.CreateTopic | changes.AlterConfigs) and is_own_topic(change.ref.name)


_HEEDED: Mapping[str, Callable[[changes.Change], bool]] = {
    "internal_topics": _of_own_topics,
    "prune": lambda change: isinstance(change, changes.DeleteTopic),
    "reassignment": lambda change: isinstance(change, changes.ReassignReplicas),
}
"""Changes that follow from settings of a cluster which no job reads."""


def _mirror(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Edited fields that no job reads, or a job already in the desired state."""
    moved = any(isinstance(change, changes.MirrorChange) and change.mirror == item.name for change in sides.changes)
    unknown = any(each.subject == f"mirror {item.name}" for each in sides.plan.unknown)
    for field in item.fields if item.sign is Sign.CHANGED else ():
        if field.path == "hosted" and any(map(_of_own_topics, sides.changes)):
            continue  # hosts read the topic that it creates
        if why := not_read(item.kind, field.path, field.means):
            yield quiet(item, why, field)
        elif not moved and not unknown:
            yield quiet(item, NOT_READ, field)
    if moved or unknown:
        return
    if item.sign is not Sign.CHANGED:
        why = "its job runs as declared" if item.sign is Sign.ADDED else "its job does not run"
        yield quiet(item, why)


def _flow(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """Edits of a flow without effect. Nothing is reported if a cluster is unknown or the plan refuses the flow, since
    the effect is then unknown."""
    flow = sides.after.flows.get(item.name) or sides.before.flows[item.name]
    if sides.unknown((flow.source, flow.target)) or sides.refused(changes.About.FLOW, item.name):
        return
    if item.sign is Sign.ADDED and not sides.restarts((item.name,)):
        yield quiet(item, "its mirror runs with it already")
    if item.sign is Sign.REMOVED and not sides.restarts((item.name,)):
        yield quiet(item, "its mirror does not run; what was copied stays")
    if item.sign is Sign.REMOVED and (stays := _stays_denied(item, sides)) is not None:
        yield stays
    for field in item.fields if item.sign is Sign.CHANGED else ():
        if (no_effect := _only_words(item, field) or _flow_field(item, field, sides, flow)) is not None:
            yield no_effect


def _flow_field(item: ItemChange, field: FieldChange, sides: EditAndPlan, flow: Flow) -> NoEffect | None:
    """An edited setting of a flow without an effect now; None if the plan acts on it. Settings of the hand-over act by
    a restart, others by changes of rules or topics."""
    section = field.path.partition(".")[0]
    remotes = [route.remote for route in sides.routes if route.flow == item.name]
    match section:
        case "start" if flow.start.unnamed == AGAIN:
            return None  # a partition without a position begins, perhaps a second time: a risk of the restart
        case "start" if any(sides.live.topic(ref) is not None for ref in remotes) and sides.ran(item.name):
            why = "what is copied continues at its position, whatever start says"
            todo = f"To copy a topic from elsewhere: reconciler mirror seek ENV {item.name} --topic T --to PLACE"
            short = f"moves no position: flow {item.name} continues where it is, whatever start says"
            return NoEffect(item.kind, item.name, edited(field), why, todo, short)
        case "copies" if (stays := _stays_denied(item, sides)) is not None:
            return replace(stays, setting=edited(field))
        case "access" | "copies":
            maker = f"flow {item.name}"
            rules = any(
                isinstance(change, changes.AclChange) and change.grant.maker == maker for change in sides.changes
            )
            return None if rules else quiet(item, "it changes no access rule", field)
        case "replication_factor" | "sync_topic_configs":
            touched = sides.touched(remotes, lambda change: _follows(change, section, ()))
            return None if touched else quiet(item, "it changes no remote topic", field)
        case "objectives":
            return quiet(item, field.means, field)
        case "topics" | "exclude_topics" if (carried := _carried_as_before(item.name, sides)) is not None:
            short = f"carries no other topic now: flow {item.name} matches the same {counted(carried, 'topic')}"
            why = f"no topic that {flow.source} has or git declares there begins or ceases to travel; later ones may"
            todo = "Compare the expressions with the names that you mean: reconciler explain ENV TOPIC"
            return NoEffect(item.kind, item.name, edited(field), why, todo, short)
        case "groups" if not flow.groups.sync_offsets and not field.path.endswith("sync_offsets"):
            return quiet(item, "the job reads groups only with sync_offsets", field)
        case _:
            return None if sides.restarts((item.name,)) else quiet(item, NOT_READ, field)


def _carried_as_before(name: str, sides: EditAndPlan) -> int | None:
    """How many topics of the source the flow selects on both sides of an edit; None where they are others."""
    before, after = sides.before.flows.get(name), sides.after.flows.get(name)
    if before is None or after is None or before.source != after.source:
        return None
    source = sides.live.known(after.source)
    declared = {topic.name for topic in sides.after.topics.values() if after.source in topic.clusters}
    names = declared.union(source.topics if source is not None else ())
    was, now = ({topic for topic in names if selector_of(flow).why_not(topic) is None} for flow in (before, after))
    return len(now) if was == now else None


def _stays_denied(item: ItemChange, sides: EditAndPlan) -> NoEffect | None:
    """Deny rules on copies that stay, because access rules are no longer declared and read."""
    before, after = sides.before.flows.get(item.name), sides.after.flows.get(item.name)
    if before is None or not before.read_only or access_clusters(sides.after):
        return None
    key = "access: []" if after is None else "copies: writable"
    why = f"access rules are not read any more, so the deny rules for its copies stay on {before.target}"
    todo = f"To take them back, first write {key} there and apply"
    short = f"lets no one write: deny rules for copies of flow {item.name} stay on {before.target}"
    return NoEffect(item.kind, item.name, "", why, todo, short)


def _tombstone(item: ItemChange, sides: EditAndPlan) -> Iterator[NoEffect]:
    """A tombstone for a missing topic does nothing; one that is taken back leaves the topic."""
    cluster, _, name = item.name.partition("/")
    ref = TopicRef(cluster, name)
    if sides.unknown((cluster,)) or sides.touched((ref,), lambda change: isinstance(change, changes.DeleteTopic)):
        return
    if sides.outside((cluster,)):
        why = OUTSIDE
    elif sides.live.topic(ref) is None:
        why = item.means if item.sign is Sign.REMOVED else "the topic does not exist"
    else:
        removed = item.sign is Sign.REMOVED
        why = "nothing deletes the topic any more" if removed else "the topic stays: see the notes of the plan"
    yield quiet(item, why)


JUDGES: Mapping[str, Judge] = {
    "topic": _topic,
    "defaults": _layer,
    "class": _layer,
    "cluster": _cluster,
    "mirror": _mirror,
    "flow": _flow,
    "deletion": _tombstone,
}
