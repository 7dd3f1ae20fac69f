"""The hand-over to a mirror job, and the fingerprint, by whose change the job restarts.

A flow's hand-over is canonical (sorted patterns, alternatives and addresses, without duplicates), and its fingerprint
covers exactly its content. Settings that the job does not read cannot change it: labels, comments, regions, factors,
config sync, groups that are not synced. Secrets stay references. Reads neither files nor clusters.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from reconciler.model.environment.flow_settings import MirrorMakerTopics
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Principal, Topology
from reconciler.replication import handover, names
from reconciler.replication.expressions import record_filter
from reconciler.replication.mirrormaker_records import offset_syncs_topic
from reconciler.replication.policy import policy_word
from reconciler.resources.flows.names.normalise import in_one_order
from reconciler.resources.flows.renames import KEEPS, state_of

Handover = dict[str, Any]

_SECRET = re.compile(r"password|secret|token|\.key\b|key\.pem|jaas", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|file):[^}]*\}")


def flow_handover(topology: Topology, flow: Flow) -> Handover:
    """One entry of ``flows`` in schemas/mirror.schema.json, with its fingerprint."""
    return handover.document(_flow(topology, flow))


def mirror_handover(topology: Topology, mirror: Mirror) -> Handover:
    """The whole hand-over of one mirror, as schemas/mirror.schema.json."""
    status_cluster = topology.clusters[topology.status_cluster(mirror)]
    settings = handover.MirrorSettings(
        environment=topology.environment,
        mirror=mirror.name,
        fingerprint="",
        parallelism=mirror.parallelism,
        refresh_interval_ms=mirror.refresh_interval_ms,
        status_interval_ms=mirror.status_interval_ms,
        status=handover.StatusPlace(
            _endpoint(status_cluster),
            status_cluster.own_topics.status,
            names.status_key(topology.environment, mirror.name),
        ),
        flows=tuple(_flow(topology, flow) for flow in sorted(topology.flows_of(mirror), key=lambda flow: flow.name)),
        metrics_port=mirror.metrics_port,
        metrics_address=mirror.metrics_host if mirror.metrics_port else "",
        deployment=mirror.deployment,
        channel=mirror.channel,
        moved_from=topology.moved_from,
    )
    # Not in the fingerprint: a new address of runbooks is no reason for a restart, and a job gets it at its next start.
    fingerprint = _fingerprint({**handover.document(settings), **submission_of(mirror)})
    return handover.document(replace(settings, fingerprint=fingerprint, docs_url=topology.rules.docs_url))


def submission_of(mirror: Mirror) -> Handover:
    """Settings for spark-submit, which the job does not read. They cannot change while it runs, so the fingerprint
    covers them. A mirror host gets them beside the hand-over, as Spark settings, and compares them with its allow
    list."""
    spark_conf = {**mirror.deployment.spark_conf(mirror.master), **mirror.spark_conf}
    return {"master": mirror.master, "spark_conf": spark_conf}


def _flow(topology: Topology, flow: Flow) -> handover.FlowSettings:
    """Settings of the job in canonical form: sorted expressions, flattened filters, no empty parts, so that an edit
    without effect keeps the fingerprint."""
    # Each part that the flow does not use is None, and left out of the document: a new release may add one without a
    # restart of every flow.
    conditions = flow.on_condition
    provenance = flow.provenance
    settings = handover.FlowSettings(
        name=flow.name,
        fingerprint="",
        source=_endpoint(topology.clusters[flow.source]),
        target=_endpoint(topology.clusters[flow.target]),
        topics=in_one_order(flow.topics),
        exclude_topics=in_one_order(flow.exclude_topics),
        naming=flow.naming,
        delivery=flow.delivery.value,
        isolation=flow.isolation.value,
        start=flow.start,
        lanes=flow.lanes,
        groups=_groups(topology, flow) if flow.groups.sync_offsets else None,
        mirrormaker_topics=_internal_topics(flow) if flow.mirrormaker_topics != MirrorMakerTopics() else None,
        rate_limit=flow.rate_limit,
        continue_on=tuple(sorted(code for code, desired in conditions.items() if desired == "continue"))
        if conditions
        else None,
        where=None if flow.selection is None else record_filter.canonical(flow.selection),
        headers=handover.AddedHeaders(flow.headers) if flow.headers else None,
        provenance=None
        if provenance is None
        else handover.Provenance(
            provenance.value, tuple(sorted(other.state_name for other in topology.arriving(flow)))
        ),
        offsets=flow.offsets.value,
        filler_limit=flow.filler_limit,
        moved_from=flow.moved_from,
    )
    return replace(settings, fingerprint=_fingerprint(handover.document(settings)))


def _fingerprint(document: Handover) -> str:
    return handover.fingerprint({key: value for key, value in document.items() if key != "fingerprint"})


def _groups(topology: Topology, flow: Flow) -> handover.GroupSettings:
    """Group settings. ``returning``: the flow of the other direction, which returns a group's progress after a
    failover."""
    returning = [other.state_name for other in topology.arriving(flow) if other.source == flow.target]
    return handover.GroupSettings(
        include=in_one_order(flow.groups.include),
        exclude=in_one_order(flow.groups.exclude),
        interval_ms=flow.groups.interval_ms,
        follow_rewinds=flow.groups.follow_rewinds,
        returning=min(returning, default=""),
        both_ways=flow.groups.both_ways,
    )


def _internal_topics(flow: Flow) -> handover.InternalTopics:
    """The separator of internal topics, if it differs from the naming's (KIP-949)."""
    asked = flow.mirrormaker_topics
    separator = flow.internal_separator
    other = flow.target if asked.offset_syncs == "source" else flow.source
    return handover.InternalTopics(
        heartbeats_ms=asked.heartbeats,
        offset_syncs=None
        if asked.offset_syncs is None
        else handover.OffsetSyncs(asked.offset_syncs, offset_syncs_topic(other, separator)),
        separator=separator if separator != flow.naming.separator else None,
    )


def _endpoint(cluster: Cluster) -> handover.Endpoint:
    servers = tuple(sorted(set(cluster.bootstrap_servers)))
    settings = cluster.client_for(Principal.MIRROR)
    offer = offer_of(cluster)
    more = (cluster.cluster_id or "", cluster.topic_prefix, offer.uncompressed, offer.request_bytes)
    return handover.Endpoint(cluster.name, servers, settings, *more)


def handovers(topology: Topology) -> dict[str, str]:
    """Mirror name -> text of its hand-over file."""
    return {name: handover_text(mirror_handover(topology, mirror)) for name, mirror in topology.mirrors.items()}


def handover_text(document: Handover) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def explain_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each differing field of two hand-overs, with both values and without literal secrets."""
    new = {flow["name"]: flow for flow in after.get("flows", ())}
    old, renamed = flows_before(before, after)
    lines = [f"flow {name}: renamed from {renamed[name]}; {KEEPS}" for name in sorted(renamed)]
    lines += [f"flow {name}: added" for name in sorted(new.keys() - old.keys())]
    lines += [f"flow {name}: removed" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        lines += _differences(f"flow {name}", _readable(old[name]), _readable(new[name]))
    own = [{k: v for k, v in side.items() if k != "flows"} for side in (before, after)]
    lines += _differences(f"mirror {after.get('mirror', before.get('mirror', ''))}", own[0], own[1])
    return tuple(lines)


def flows_before(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Flows of ``before`` by their names in ``after``; and renamed ones: new name -> former name."""
    states = {state_of(flow): str(flow["name"]) for flow in after.get("flows", ())}
    flows = {states.get(state_of(flow), str(flow["name"])): flow for flow in before.get("flows", ())}
    return flows, {name: str(flow["name"]) for name, flow in flows.items() if flow["name"] != name}


def _readable(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields for a comparison: if only one side syncs groups, that alone is the difference."""
    return {**fields, "groups": {"sync_offsets": True, **fields["groups"]}} if "groups" in fields else fields


def _differences(subject: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    """Differences, leaf by leaf. Switching group sync on or off is one difference, not one for each field."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    synced = ("groups", "sync_offsets")
    if (synced in old) != (synced in new):
        old, new = (
            {path: v for path, v in side.items() if path[0] != "groups"} | {synced: synced in side}
            for side in (old, new)
        )
    for path in sorted(old.keys() | new.keys()):
        if (
            path[-1] in ("fingerprint", "moved_from", *handover.UNCOVERED)
            or path == ("name",)
            or old.get(path) == new.get(path)
        ):
            continue
        yield f"{subject}: {'.'.join(path)} {shown(path, old.get(path))} -> {shown(path, new.get(path))}"


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def shown(path: tuple[str, ...], value: object) -> str:
    """A setting's value for users; hides a literal secret, but not a reference."""
    if value is None:
        return "(not set)"
    if _SECRET.search(path[-1]) and not _REFERENCE.fullmatch(str(value)):
        return "(hidden)"
    value = policy_word(str(value)) if path[-1] == "policy" else value
    return json.dumps(value, ensure_ascii=False)
