"""Makes our own connections to one side of a flow from the settings of an endpoint."""

from __future__ import annotations

import os

from reconciler.kafka.client.auth.secret_files import read_secret
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.secret_references import resolve


def cluster_of(endpoint: Endpoint) -> ClusterClient:
    """Opens nothing yet. Raises MissingReference (a LookupError), or SettingError that names the cluster."""
    client = resolve(endpoint.client, os.environ, read_secret)
    try:
        return ClusterClient(endpoint.cluster, endpoint.bootstrap_servers, connection_settings(client))
    except SettingError as error:
        raise SettingError(f"cluster {endpoint.cluster}: {error}") from None
