"""From parsed entries to clusters and layers of defaults: all that a command needs to know before it can connect.

Border: as ``building``, and imports little, so that reads of clusters can begin before most of the program is imported.
"""

from __future__ import annotations

from types import MappingProxyType

from reconciler.places import locate
from reconciler.reading import Reading, sentence
from reconciler.replicas import Pace
from reconciler.settings import Wrong, client_setting, retention_step, topic_config
from reconciler.sizes import size_bytes
from reconciler.topology import Cluster, Principal, TopicDefaults


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
        prune_topics=reading.texts("prune", "topics"),
        reassignment=_pace(reading),
        where=reading.place.where,
    )


def _pace(reading: Reading) -> Pace:
    usual = Pace()
    return Pace(
        throttle=_size(reading, ("reassignment", "throttle_bytes_per_second"), usual.throttle),
        bytes_in_flight=_size(reading, ("reassignment", "bytes_in_flight"), usual.bytes_in_flight),
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
        where=at,
    )


def _size(reading: Reading, path: tuple[str, ...], default: int) -> int:
    text = reading.value(*path, default=None)
    if text is None:
        return default
    try:
        return size_bytes(str(text))
    except ValueError as error:
        what = f'{".".join(path)} is "{text}"'
        reading.wrong(path, Wrong("bad-size", what, "It is not a size", sentence(error)))
    return default
