"""Opens our own connections to a cluster as one principal. Imports no librdkafka: plan's first reads do not wait."""

from reconciler.backends.connections.credentials import client_settings
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient as WireCluster
from reconciler.model.environment.topology import Cluster, Principal


def cluster_of(cluster: Cluster, principal: Principal) -> WireCluster:
    """Opens nothing yet. Raises SecretError, or SettingError that names the setting. Inside a running loop."""
    return WireCluster(
        cluster.name, cluster.bootstrap_servers, connection_settings(client_settings(cluster, principal))
    )
