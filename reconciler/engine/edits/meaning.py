"""The meaning of one edited field: cost, risk, and whether it can be taken back."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.edits.fields import NOT_SET
from reconciler.model.changes import ConfigChange, Risk
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Topic, TopicDefaults, Topology, Undeclared
from reconciler.model.reports.edit import FieldChange
from reconciler.resources.flows.renames import KEEPS
from reconciler.resources.kind import REVERSIBLE
from reconciler.resources.mirrors.flow_edits import flow_edits
from reconciler.resources.mirrors.handover import flow_handover
from reconciler.resources.topics.risk import assess_config
from reconciler.text import counted

_OF_FLOWS = {
    "access": "which rules travel with the topics; the live plan shows who gains and who loses access",
    "labels": "for people and rules; nothing changes on a cluster",
    "replication_factor": "of remote topics: where they exist, their replicas have to move",
    "sync_topic_configs": "which configs remote topics get from their sources; the live plan shows which change",
}
"""Settings of a flow that its job does not read."""


def meaning(
    field: FieldChange, noun: Cluster | Topic | Flow | Mirror, before: Topology, after: Topology
) -> FieldChange:
    """``field`` with its meaning. What an edit does to running jobs is told with the mirrors."""
    if field.means:
        return field
    match noun:
        case Topic():
            return _topic(field, noun, before.topics[noun.name])
        case Cluster():
            return _cluster(field, noun, before.clusters[noun.name], after)
        case Flow():
            return _flow(field, noun, before, after)
        case Mirror():
            return field


def _flow(field: FieldChange, flow: Flow, before: Topology, after: Topology) -> FieldChange:
    if field.path == "moved" and flow.moved_from:
        return replace(field, before=NOT_SET, after=f"from {flow.moved_from}", means=f"renamed: {KEEPS}")
    if field.path == "moved":
        means = (
            f"its positions, offset map and pauses stay behind under the name {field.before}: its partitions stop with"
            " position_missing. Keep the entry as long as the flow exists"
        )
        return replace(field, after=NOT_SET, means=means, risk=Risk.HIGH)
    setting = field.path.partition(".")[0]
    if setting in _OF_FLOWS:
        return replace(field, means=_OF_FLOWS[setting])
    was = flow_handover(before, before.flows[flow.name])
    edits = [edit for edit in flow_edits(was, flow_handover(after, flow)) if edit.setting == setting]
    if not edits:
        return field
    return replace(field, means=edits[0].why, risk=edits[0].risk, irreversible=edits[0].lasting)


def _topic(field: FieldChange, topic: Topic, old: Topic) -> FieldChange:
    section, _, key = field.path.partition(".")
    if section == "configs":
        return _config(field, key, old.configs.get(key), topic.configs.get(key))
    if section == "labels":
        return replace(field, means="for people and rules; nothing changes on a cluster")
    if section == "class":
        return replace(field, means="its values count where neither the topic nor its cluster says otherwise")
    if section == "lower_retention_by":
        return replace(field, means="how a retention is lowered from now on; nothing changes by itself")
    if section == "undeclared":
        return _undeclared(field)
    if section == "clusters":
        gone = sorted(set(old.clusters) - set(topic.clusters))
        unmanaged = f"it stays on {', '.join(gone)}, unmanaged: only a tombstone deletes a topic" if gone else ""
        return replace(field, means=unmanaged)
    if section == "partitions":
        return _partitions(field, topic, old)
    if section == "replication_factor" and topic.replication_factor is not None:
        return replace(field, means="where the topic exists, its replicas have to move")
    return field


def _partitions(field: FieldChange, topic: Topic, old: Topic) -> FieldChange:
    if topic.partitions is None:
        return replace(field, means="existing topics keep the count they have")
    if old.partitions is None:
        return replace(field, means="whether a topic grows depends on the count it has")
    if topic.partitions < old.partitions:
        return replace(field, means="refused where the topic exists: Kafka cannot remove partitions", risk=Risk.HIGH)
    keyed = topic.labels.get("keyed", "").lower() in ("true", "yes") or "compact" in topic.configs.get(
        "cleanup.policy", ""
    )
    means = "keys move to other partitions; Kafka cannot remove partitions again"
    return replace(field, means=means, risk=Risk.HIGH if keyed else Risk.MEDIUM, irreversible=True)


def _undeclared(field: FieldChange) -> FieldChange:
    if field.after == Undeclared.REMOVE:
        means = "overrides that stand in no file are taken off; the live plan shows which, and what topics fall back to"
        return replace(field, means=means, risk=Risk.MEDIUM)
    drift = "overrides that stand in no file count as drift, and stay"
    return replace(field, means=drift if field.after == Undeclared.DRIFT else "such overrides are left alone")


def _config(field: FieldChange, key: str, before: str | None, after: str | None) -> FieldChange:
    if after is None:
        return replace(field, means="no longer declared: topics keep the value they have, unless a default sets it")
    if before is None:
        return replace(field, means="replaces what the topic has now; the live plan shows from what")
    assessment = assess_config(ConfigChange(key, before, "declared", after, "declared"))
    return replace(
        field, means=assessment.why, risk=assessment.risk, irreversible=assessment.reversibility != REVERSIBLE
    )


def _cluster(field: FieldChange, cluster: Cluster, old: Cluster, after: Topology) -> FieldChange:
    section, _, rest = field.path.partition(".")
    if section == "cluster_id":
        return replace(field, means="another cluster is meant: commands refuse to work on any but this one")
    if section == "prune":
        return replace(field, means="what plan --prune and apply --prune may delete there", risk=Risk.MEDIUM)
    if section != "defaults":
        return field
    key = rest.removeprefix("configs.")
    here = sum(cluster.name in topic.clusters and key not in topic.configs for topic in after.topics.values())
    reach = f"for {counted(here, 'declared topic')} there at most, and for remote topics"
    return reaching(replace(field, path=rest), reach, old.defaults, cluster.defaults, path=field.path)


def reaching(field: FieldChange, reach: str, old: TopicDefaults, new: TopicDefaults, path: str = "") -> FieldChange:
    """``field`` of a layer that counts for many topics: for which, and what the worst of it is. ``path``: as it is
    to be told, where the layer stands within something."""
    field_change = replace(field, path=path or field.path)
    section, _, key = field.path.partition(".")
    if section == "lower_retention_by":
        return replace(field_change, means="how a retention is lowered from now on; nothing changes by itself")
    if section == "undeclared":
        return replace(_undeclared(field), path=field_change.path)
    if section != "configs":
        return replace(field_change, means="for topics that are yet to be made; existing ones keep what they have")
    if key not in new.configs:
        return replace(field_change, means="topics keep the value they have")
    where = f"{reach}, where nothing stronger says otherwise"
    if key not in old.configs:
        return replace(field_change, means=where, risk=Risk.MEDIUM if "retention" in key else Risk.LOW)
    assessment = assess_config(ConfigChange(key, old.configs[key], "declared", new.configs[key], "declared"))
    steps = f"; at most {human(key, new.lower_retention_by[key])} an apply" if key in new.lower_retention_by else ""
    means = f"{assessment.why}{steps}; {where}" if assessment.why else where
    return replace(field_change, means=means, risk=assessment.risk, irreversible=assessment.reversibility != REVERSIBLE)
