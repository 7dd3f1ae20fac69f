"""Parses ``clusters`` and the layers of defaults: all that is needed before connecting.

Imports little, so that reads of clusters can begin before most of the program is imported.
"""

from __future__ import annotations

from types import MappingProxyType

from reconciler.environment.parse.values import client_setting, retention_step, topic_config
from reconciler.environment.yaml.entry import Reading
from reconciler.environment.yaml.locations import locate
from reconciler.model.environment.topology import Cluster, Principal, TopicDefaults, Undeclared
from reconciler.model.replicas import ReassignmentPace
from reconciler.text import size_bytes


def build_cluster(reading: Reading) -> Cluster:
    principals = {
        principal: reading.mapping("principals", principal.value, each=client_setting)
        for principal in Principal
        if reading.node("principals", principal.value) is not None
    }
    return Cluster(
        name=reading.name,
        bootstrap_servers=reading.texts("bootstrap_servers"),
        cluster_id=reading.value("cluster_id", default=None),
        region=reading.value("region", default=None),
        client=reading.mapping("client", each=client_setting),
        principals=MappingProxyType(principals),
        defaults=build_defaults(reading, "defaults"),
        prune_topics=reading.expressions("prune", "topics"),
        reassignment=_pace(reading),
        where=reading.place.where,
    )


def _pace(reading: Reading) -> ReassignmentPace:
    usual = ReassignmentPace()
    return ReassignmentPace(
        throttle=reading.quantity("reassignment", "throttle_bytes_per_second", default=usual.throttle, read=size_bytes),
        bytes_in_flight=reading.quantity(
            "reassignment", "bytes_in_flight", default=usual.bytes_in_flight, read=size_bytes
        ),
        partitions_in_flight=reading.value("reassignment", "partitions_in_flight", default=usual.partitions_in_flight),
    )


def build_defaults(reading: Reading, *path: str) -> TopicDefaults:
    """The layer at ``path`` of an entry; without a path the entry is the layer."""
    at = reading.place.document.where(locate(reading.place.entry, path))
    return TopicDefaults(
        partitions=reading.value(*path, "partitions", default=None),
        replication_factor=reading.value(*path, "replication_factor", default=None),
        configs=reading.mapping(*path, "configs", each=topic_config),
        lower_retention_by=reading.mapping(*path, "lower_retention_by", each=retention_step),
        undeclared=read_undeclared(reading, *path),
        where=at,
    )


def read_undeclared(reading: Reading, *path: str) -> Undeclared | None:
    word = reading.value(*path, "undeclared", default=None)
    return None if word is None else Undeclared(word)
