"""Our own connections to one side of a flow. Secrets are resolved here, at the last moment."""

from __future__ import annotations

import os
from pathlib import Path

from mirror.lanes import Condition, Endpoint
from replication.references import resolve
from wire.cluster import Cluster
from wire.errors import SettingError
from wire.settings import connection_settings


def cluster_of(endpoint: Endpoint) -> Cluster:
    """Opens nothing yet. Raises MissingReference (a LookupError), or SettingError that names the cluster."""
    client = resolve(endpoint.client, os.environ, lambda path: Path(path).read_text(encoding="utf-8"))
    try:
        return Cluster(endpoint.cluster, endpoint.bootstrap_servers, connection_settings(client))
    except SettingError as error:
        raise SettingError(f"cluster {endpoint.cluster}: {error}") from None


def setting_refused(flow: str, error: SettingError) -> Condition:
    """The flow is not copied before somebody edits the settings of a cluster."""
    return Condition(
        "setting_not_supported",
        f"{flow} is not copied: {error}",
        "Edit the client settings of that cluster, run reconciler validate, then apply.",
        stops=True,
    )
