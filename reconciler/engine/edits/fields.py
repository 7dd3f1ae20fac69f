"""Declared values as named fields with readable values, and the meaning of an edit: cost, risk, and whether it can be
reverted. Never shows literal secrets."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from reconciler.model.changes import ConfigChange, Risk
from reconciler.model.config_values import human, same
from reconciler.model.environment import flow_settings, topology
from reconciler.model.replicas import ReassignmentPace
from reconciler.model.reports.edit import FieldChange
from reconciler.replication.expressions.record_filter import AddedHeader, filter_document
from reconciler.replication.handover import Start
from reconciler.resources.flows.names.normalise import in_one_order
from reconciler.resources.flows.renames import KEEPS
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.kind import REVERSIBLE
from reconciler.resources.mirrors.flow_edits import PROTECTS, UNVERIFIED, flow_edits, is_verified, mirror_edits
from reconciler.resources.mirrors.handover import flow_handover, mirror_handover, shown
from reconciler.resources.topics.kind import assess_config
from reconciler.text import counted

Path = tuple[str, ...]
NOT_SET = "(not set)"
LOWERED = ("retention.ms", "retention.bytes")
SAME_SET = "the order of a list does not count"
SAME_NAMES = "neither order nor repetition of alternatives counts"
_EXPRESSIONS = {"topics", "exclude_topics", "exclude", "include"}
_MILLISECONDS = {
    "drill_every", "heartbeats_interval", "interval", "refresh_interval", "rpo", "rto", "status_interval",
}  # fmt: skip
_BYTES = {"throttle_bytes_per_second", "bytes_in_flight", "rate_limit"}
_YAML_NAMES: dict[tuple[type, str], str] = {
    (flow_settings.AccessSync, "enabled"): "sync",
    (topology.Cluster, "own_configs"): "internal_topics.configs",
    (topology.Cluster, "prune_topics"): "prune.topics",
    (topology.Cluster, "topic_prefix"): "internal_topics.prefix",
    (topology.Flow, "configs"): "sync_topic_configs",
    (topology.Flow, "headers"): "headers.add",
    (topology.Flow, "moved_from"): "moved",
    (flow_settings.Groups, "interval_ms"): "interval",
    **{(flow_settings.Objectives, f"{name}_ms"): name for name in ("rto", "rpo", "drill_every")},
    (topology.Mirror, "refresh_interval_ms"): "refresh_interval",
    (topology.Mirror, "status_interval_ms"): "status_interval",
    (flow_settings.MirrorMakerTopics, "heartbeats"): "heartbeats_interval",
    (flow_settings.MirrorMakerTopics, "internal_separator"): "internal_topic_separator",
    (flow_settings.MirrorMakerTopics, "offset_syncs"): "offset_syncs_location",
    (ReassignmentPace, "throttle"): "throttle_bytes_per_second",
    (Start, "timestamp_ms"): "timestamp",
    (topology.Topic, "class_name"): "class",
}
_OF_FLOWS = {
    "access": "which rules travel with the topics; the live plan shows who gains and who loses access",
    "labels": "for people and rules; nothing changes on a cluster",
    "objectives": "what the next drill is measured against; nothing changes on a cluster",
    "replication_factor": "of remote topics: where they exist, their replicas have to move",
    "sync_topic_configs": "which configs remote topics get from their sources; the live plan shows which change",
}
"""Settings of a flow that no job reads."""


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All fields except the name and the place in a file. Fields without a value are left out."""
    if isinstance(value, topology.Flow) and value.selection is not None:
        yield from leaves(filter_document(value.selection), (*path, "where"))  # its tests differ by class
        value = replace(value, selection=None)
    if is_dataclass(value):
        for field in fields(value):
            if field.name != "where" and (path or field.name != "name"):
                named = _YAML_NAMES.get((type(value), field.name), field.name)
                yield from leaves(getattr(value, field.name), (*path, named))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        yield path, json.dumps(value, ensure_ascii=False).replace('"', "")
    elif value is not None:
        yield path, value.value if isinstance(value, Enum) else value


def changed_fields(before: Any, after: Any) -> Iterator[FieldChange]:
    """Changed fields. Equal meanings are no change; a list in another order is a change without meaning."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        texts = (None if value is None else str(value) for value in (was, now))
        if was == now or (_config(path) and same(path[-1], *texts)):
            continue
        means = ""
        if isinstance(was, tuple) and isinstance(now, tuple):
            expressions = path[-1] in _EXPRESSIONS and all(isinstance(item, str) for item in (*was, *now))
            if set(was) == set(now):
                means = SAME_SET
            elif expressions and in_one_order(was) == in_one_order(now):
                means = SAME_NAMES
        yield FieldChange(".".join(path), words(path, was), words(path, now), means)


def whole(noun: Any) -> Iterator[FieldChange]:
    """The fields that a new entry sets itself, without defaults."""
    own: set[str] = set()
    defaults: dict[str, Any] = {}
    for field in fields(noun):
        if field.default_factory is not MISSING:
            defaults[field.name] = field.default_factory()
        elif field.default is not MISSING:
            defaults[field.name] = field.default
        else:
            own.add(field.name)
    plain = dict(leaves(replace(noun, **defaults)))
    for path, value in leaves(noun):
        if value not in ((), "") and (path[0] in own or plain.get(path) != value):
            yield FieldChange(".".join(path), "", words(path, value))


def words(path: Path, value: Any) -> str:
    """A value as in YAML: durations and sizes with units, lists with commas, texts with quotes only if needed."""
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        texts = (f"{item.name}: {item.value}" if isinstance(item, AddedHeader) else str(item) for item in value)
        return ", ".join(texts) or "none"
    if _config(path):
        return human(path[-1], str(value))
    if value == "" and path[0] != "where":  # a filter may look for an empty value
        return NOT_SET
    if path[-1] in _MILLISECONDS:
        return human(".ms", str(value))
    if path[-1] in _BYTES:
        return human(".bytes", str(value))
    text = shown(path, str(value))
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _config(path: Path) -> bool:
    """Whether the path is one of Kafka's topic configs, which have units and spellings."""
    return len(path) > 0 and (path[-1] in LOWERED or path[-2:-1] in (("configs",), ("internal_topics.configs",)))


def meaning(
    field: FieldChange,
    noun: topology.Cluster | topology.Topic | topology.Flow | topology.Mirror,
    before: topology.Topology,
    after: topology.Topology,
) -> FieldChange:
    """``field`` with its meaning. Effects on running jobs are in ``flows.mirror_impacts``."""
    if field.means:
        return field
    match noun:
        case topology.Topic():
            return _topic(field, noun, before.topics[noun.name])
        case topology.Cluster():
            return _cluster(field, noun, before.clusters[noun.name], after)
        case topology.Flow():
            return _flow(field, noun, before, after)
        case topology.Mirror():
            was, now = mirror_handover(before, before.mirrors[noun.name]), mirror_handover(after, noun)
            done = (edit for edit in mirror_edits(was, now) if edit.setting == field.path)
            return next((replace(field, means=edit.why, risk=edit.risk) for edit in done), field)


def _flow(field: FieldChange, flow: topology.Flow, before: topology.Topology, after: topology.Topology) -> FieldChange:
    """``moved`` names renamed flows. The effect on records comes from the table that plans use (``flow_edits``)."""
    if field.path == "moved" and flow.moved_from:
        return replace(field, before=NOT_SET, after=f"from {flow.moved_from}", means=f"renamed: {KEEPS}")
    if field.path == "moved":
        means = (
            f"its positions, offset map and pauses stay behind under the name {field.before}: its partitions stop with"
            " position_missing. Keep the entry as long as the flow exists"
        )
        return replace(field, after=NOT_SET, means=means, risk=Risk.HIGH)
    setting = field.path.partition(".")[0]
    if setting == "copies":
        return _copies(field, flow, after)
    if setting in _OF_FLOWS:
        return replace(field, means=_OF_FLOWS[setting])
    was = flow_handover(before, before.flows[flow.name])
    done = list(flow_edits(was, flow_handover(after, flow)))
    edits = [edit for name in (field.path, setting) for edit in done if edit.setting == name]
    if not edits:
        return field
    return replace(field, means=edits[0].why, risk=edits[0].risk, irreversible=edits[0].lasting)


def _copies(field: FieldChange, flow: topology.Flow, after: topology.Topology) -> FieldChange:
    """Adds the number of declared topics concerned; others may match, too."""
    chosen = selector_of(flow)
    there = [each for each in after.topics.values() if flow.source in each.clusters]
    count = sum(chosen.why_not(topic.name) is None for topic in there)
    topics = f"{counted(count, 'remote topic')} of declared topics, and of what else it carries"
    if flow.read_only:
        means = f"stops other writers of {topics}; the live plan shows who loses the right"
    elif field.before == flow_settings.CopyMode.READ_ONLY:
        means = f"whom rules let write may do so again: {topics}; their records are mixed with the mirror's"
    else:
        return replace(field, means="nothing is denied by it")
    return replace(field, means=means, risk=Risk.MEDIUM)


def _topic(field: FieldChange, topic: topology.Topic, old: topology.Topic) -> FieldChange:
    # Only files are compared, so each meaning has to hold whatever the clusters have.
    """The meaning of one edited field of a topic."""
    section, _, key = field.path.partition(".")
    if section == "configs":
        before, after = old.configs.get(key), topic.configs.get(key)
        if after is None:
            means = "no longer declared: topics keep the value they have, unless a default sets it"
            return replace(field, means=means)
        if before is None:
            return replace(field, means="replaces what the topic has now; the live plan shows from what")
        judged = assess_config(ConfigChange(key, before, "declared", after, "declared"))
        return replace(field, means=judged.why, risk=judged.risk, irreversible=judged.reversibility != REVERSIBLE)
    if section == "labels":
        return replace(field, means="for people and rules; nothing changes on a cluster")
    if section == "class":
        return replace(field, means="its values count where neither the topic nor its cluster says otherwise")
    if section == "lower_retention_by":
        return _steps(field, old.lower_retention_by.get(key), topic.lower_retention_by.get(key))
    if section == "undeclared":
        return _undeclared(field)
    if section == "clusters":
        gone = sorted(set(old.clusters) - set(topic.clusters))
        unmanaged = f"it stays on {', '.join(gone)}, unmanaged: only a tombstone deletes a topic" if gone else ""
        return replace(field, means=unmanaged)
    if section == "replication_factor" and topic.replication_factor is not None:
        return replace(field, means="where the topic exists, its replicas have to move")
    if section != "partitions":
        return field
    if topic.partitions is None:
        return replace(field, means="existing topics keep the count they have")
    if old.partitions is None:
        return replace(field, means="whether a topic grows depends on the count it has")
    if topic.partitions < old.partitions:
        return replace(field, means="refused where the topic exists: Kafka cannot remove partitions", risk=Risk.HIGH)

    # Only a label can show that records have keys; without keys a broker refuses records of a compacted topic.
    keyed = topic.labels.get("keyed", "").lower() in ("true", "yes")
    keyed = keyed or "compact" in topic.configs.get("cleanup.policy", "")
    means = "keys move to other partitions; Kafka cannot remove partitions again"
    return replace(field, means=means, risk=Risk.HIGH if keyed else Risk.MEDIUM, irreversible=True)


def _steps(field: FieldChange, before: str | None, after: str | None) -> FieldChange:
    if before is not None and (after is None or int(after) > int(before)):
        means = "a lower retention may delete more at once from now on; nothing changes by itself"
        return replace(field, means=means, risk=Risk.MEDIUM)
    return replace(field, means="how a retention is lowered from now on; nothing changes by itself")


def _undeclared(field: FieldChange) -> FieldChange:
    if field.after == topology.Undeclared.REMOVE:
        means = "overrides that no file declares are taken off; the live plan shows which, and what topics fall back to"
        return replace(field, means=means, risk=Risk.MEDIUM)
    drift = "overrides that no file declares count as drift, and stay"
    return replace(field, means=drift if field.after == topology.Undeclared.DRIFT else "such overrides are left alone")


def _cluster(
    field: FieldChange, cluster: topology.Cluster, old: topology.Cluster, after: topology.Topology
) -> FieldChange:
    """Meaning of a cluster's field, if it has one beyond its value."""
    # The connection comes first: of all fields of a cluster, only these decide who gets its credentials.
    section, _, rest = field.path.partition(".")
    if (
        section in ("client", "principals")
        and field.path.endswith(PROTECTS)
        and any(
            is_verified(old.client_for(who)) and not is_verified(cluster.client_for(who)) for who in topology.Principal
        )
    ):
        return replace(field, means=UNVERIFIED, risk=Risk.HIGH)
    if section == "cluster_id" and not cluster.cluster_id:
        means = "no command notices any more when another cluster answers at these addresses"
        return replace(field, means=means, risk=Risk.MEDIUM)
    if section == "cluster_id":
        return replace(field, means="commands refuse to work on any cluster but the one with this id")
    if field.path == "internal_topics.prefix":
        means = (
            "chosen once: lock, pauses and offset maps under the former names are not read, so plan and apply refuse"
            " another prefix where there are any"
        )
        return replace(field, means=means, risk=Risk.HIGH)
    if section == "prune":
        more = set(cluster.prune_topics) - set(old.prune_topics)
        means = "what plan --prune and apply --prune may delete there"
        return replace(field, means=means, risk=Risk.MEDIUM if more else Risk.LOW)
    if section != "defaults":
        return field
    key = rest.removeprefix("configs.")
    here = sum(cluster.name in topic.clusters and key not in topic.configs for topic in after.topics.values())
    reach = f"for {counted(here, 'declared topic')} there at most, and for remote topics"
    return reaching(replace(field, path=rest), reach, old.defaults, cluster.defaults, path=field.path)


def reaching(
    field: FieldChange, reach: str, old: topology.TopicDefaults, new: topology.TopicDefaults, path: str = ""
) -> FieldChange:
    """``field`` of a layer of defaults, with the topics that it reaches and the worst effect. ``path``: its path in the
    YAML, if the layer is a part of an entry."""
    field_change = replace(field, path=path or field.path)
    section, _, key = field.path.partition(".")
    if section == "lower_retention_by":
        return _steps(field_change, old.lower_retention_by.get(key), new.lower_retention_by.get(key))
    if section == "undeclared":
        return replace(_undeclared(field), path=field_change.path)
    if section != "configs":
        return replace(field_change, means="for topics to be created; existing ones keep what they have")
    if key not in new.configs:
        return replace(field_change, means="topics keep the value they have")
    where = f"{reach}, where nothing stronger says otherwise"
    if key not in old.configs:
        return replace(field_change, means=where, risk=Risk.MEDIUM if "retention" in key else Risk.LOW)
    assessment = assess_config(ConfigChange(key, old.configs[key], "declared", new.configs[key], "declared"))
    steps = f"; at most {human(key, new.lower_retention_by[key])} an apply" if key in new.lower_retention_by else ""
    means = f"{assessment.why}{steps}; {where}" if assessment.why else where
    return replace(field_change, means=means, risk=assessment.risk, irreversible=assessment.reversibility != REVERSIBLE)
