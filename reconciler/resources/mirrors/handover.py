"""What a mirror job is told, and the fingerprints that decide whether a running job must be restarted.

A flow's hand-over is already canonical (patterns, their alternatives and addresses sorted, without duplicates), and its
fingerprint covers exactly what is handed over. What the job does not read cannot change it: labels, comments, regions,
factors, config sync, groups that are not synced. Secrets stay references. Nothing here reads a file or a cluster.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.alternatives import in_one_order
from reconciler.flow_syncs import MirrorMakerTopics
from reconciler.topology import Cluster, Flow, Mirror, Principal, Start, Topology
from replication import names, selection
from replication.mirrormaker import internal_separator, offset_syncs_topic

FORMAT_VERSION = 1
Handover = dict[str, Any]

_SECRET = re.compile(r"password|secret|token|\.key\b|key\.pem|jaas", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(env|file):[^}]*\}")


def canonical_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(value: object) -> str:
    """First 16 hex digits of the sha256 of canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:16]


def flow_handover(topology: Topology, flow: Flow) -> Handover:
    """One entry of ``flows`` in schemas/mirror.schema.json, with its fingerprint."""
    told: Handover = {
        "name": flow.name,
        "source": _endpoint(topology.clusters[flow.source]),
        "target": _endpoint(topology.clusters[flow.target]),
        "topics": list(in_one_order(flow.topics)),
        "exclude_topics": list(in_one_order(flow.exclude_topics)),
        "naming": {"policy": flow.naming.policy, "separator": flow.naming.separator},
        "delivery": flow.delivery.value,
        "isolation": flow.isolation.value,
        "start": _start(flow.start),
        "lanes": flow.lanes,
        **_record_work(topology, flow),
    }
    if flow.groups.sync_offsets:
        told["groups"] = {
            "include": list(in_one_order(flow.groups.include)),
            "exclude": list(in_one_order(flow.groups.exclude)),
            "interval_ms": flow.groups.interval_ms,
            "follow_rewinds": flow.groups.follow_rewinds,
        }
        if returning := [other.name for other in topology.arriving(flow) if other.source == flow.target]:
            told["groups"]["returning"] = min(returning)
    asked = flow.mirrormaker_topics
    if asked != MirrorMakerTopics():
        separator = internal_separator(flow.naming.separator, kept=asked.internal_separator)
        told["mirrormaker_topics"] = {
            "heartbeats_ms": asked.heartbeats,
            "offset_syncs": _offset_syncs(flow, separator),
            "separator": separator if separator != flow.naming.separator else None,
        }
    if flow.rate_limit is not None:
        told["rate_limit"] = flow.rate_limit
    if flow.on_condition:
        told["continue_on"] = sorted(code for code, what in flow.on_condition.items() if what == "continue")
    return {**told, "fingerprint": fingerprint(told)}


def _offset_syncs(flow: Flow, separator: str) -> Handover | None:
    where = flow.mirrormaker_topics.offset_syncs
    if where is None:
        return None
    return {"side": where, "topic": offset_syncs_topic(flow.target if where == "source" else flow.source, separator)}


def _record_work(topology: Topology, flow: Flow) -> Handover:
    """Only what is asked for. ``arriving``: flows whose records at the source should carry a provenance header."""
    told: Handover = {}
    if flow.selection is not None:
        told["where"] = selection.told(selection.canonical(flow.selection))
    if flow.headers:
        told["headers"] = {"add": [{"name": one.name, "value": one.value} for one in flow.headers]}
    if flow.provenance is not None:
        arriving = sorted(other.name for other in topology.arriving(flow))
        told["provenance"] = {"carry": flow.provenance.value, "arriving": arriving}
    return told


def mirror_handover(topology: Topology, mirror: Mirror) -> Handover:
    """The whole hand-over of one mirror, as schemas/mirror.schema.json."""
    status_cluster = topology.status_cluster(mirror)
    told: Handover = {
        "format_version": FORMAT_VERSION,
        "environment": topology.environment,
        "mirror": mirror.name,
        "parallelism": mirror.parallelism,
        "refresh_interval_ms": mirror.refresh_interval_ms,
        "status_interval_ms": mirror.status_interval_ms,
        "status": {
            "cluster": _endpoint(topology.clusters[status_cluster]),
            "topic": names.STATUS_TOPIC,
            "key": names.status_key(topology.environment, mirror.name),
        },
        "flows": [flow_handover(topology, flow) for flow in sorted(topology.flows_of(mirror), key=lambda f: f.name)],
    }
    if mirror.metrics_port:
        told |= {"metrics_port": mirror.metrics_port, "metrics_host": mirror.metrics_host}
    # master and spark_conf are read by spark-submit, not by the job, but a running job cannot change them either.
    started_with = {"master": mirror.master, "spark_conf": dict(mirror.spark_conf)}
    return {**told, "fingerprint": fingerprint({**told, **started_with})}


def handovers(topology: Topology) -> dict[str, str]:
    """Mirror name -> text of its hand-over file."""
    return {name: handover_text(mirror_handover(topology, mirror)) for name, mirror in topology.mirrors.items()}


def handover_text(handover: Handover) -> str:
    return json.dumps(handover, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def explain_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each field of two hand-overs that differs, with both values. Literal secrets are not shown."""
    old = {flow["name"]: flow for flow in before.get("flows", ())}
    new = {flow["name"]: flow for flow in after.get("flows", ())}
    lines = [f"flow {name}: added" for name in sorted(new.keys() - old.keys())]
    lines += [f"flow {name}: removed" for name in sorted(old.keys() - new.keys())]
    for name in sorted(old.keys() & new.keys()):
        lines += _differences(f"flow {name}", _readable(old[name]), _readable(new[name]))
    own = [{k: v for k, v in side.items() if k != "flows"} for side in (before, after)]
    lines += _differences(f"mirror {after.get('mirror', before.get('mirror', ''))}", own[0], own[1])
    return tuple(lines)


def _readable(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Groups are handed over only when they are synced; where only one side does, that alone is the difference."""
    return {**told, "groups": {"sync_offsets": True, **told["groups"]}} if "groups" in told else told


def _start(start: Start) -> Handover:
    if start.offsets is None:
        return {"kind": start.kind, "timestamp_ms": start.timestamp_ms}
    offsets = {topic: {str(p): at for p, at in each.items()} for topic, each in start.offsets.items()}
    return {"kind": start.kind, "offsets": offsets, "otherwise": start.otherwise}


def _endpoint(cluster: Cluster) -> Handover:
    return {
        "name": cluster.name,
        "bootstrap_servers": sorted(set(cluster.bootstrap_servers)),
        "client": cluster.client_for(Principal.MIRROR),
    }


def _differences(subject: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    old, new = dict(_leaves(before)), dict(_leaves(after))
    synced = ("groups", "sync_offsets")
    if (synced in old) != (synced in new):
        old, new = (
            {path: v for path, v in side.items() if path[0] != "groups"} | {synced: synced in side}
            for side in (old, new)
        )
    for path in sorted(old.keys() | new.keys()):
        if path[-1] == "fingerprint" or old.get(path) == new.get(path):
            continue
        yield f"{subject}: {'.'.join(path)} {shown(path, old.get(path))} -> {shown(path, new.get(path))}"


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterable[tuple[tuple[str, ...], Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def shown(path: tuple[str, ...], value: object) -> str:
    """A setting's value for people; a literal secret is hidden, a reference to one is not."""
    if value is None:
        return "(not set)"
    if _SECRET.search(path[-1]) and not _REFERENCE.fullmatch(str(value)):
        return "(hidden)"
    return json.dumps(value, ensure_ascii=False)
