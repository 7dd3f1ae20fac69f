"""Whether a cluster answers at all: one small request, again and again, over a connection that stays open."""

from __future__ import annotations

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError
from reconciler.kafka.protocol.generated import MetadataRequest
from reconciler.model.environment.topology import Cluster, Principal

PATIENCE_SECONDS = 0.8
"""How long a broker may be silent until another one is asked."""


class SignOfLife:
    """Connects at the first ``ask``. One thread at a time."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self._cluster, self._principal = cluster, principal
        self._requests: Requests | None = None

    def ask(self) -> None:
        """One Metadata request that names no topic, so its cost does not depend on the size of the cluster. Raises
        ClusterError, or SecretError, when it is not answered, twice: the first failure may be that of one broker."""
        try:
            self._answered()
        except ClusterError:
            self.close()
            self._answered()

    def close(self) -> None:
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.__exit__(None, None, None)

    def _answered(self) -> None:
        if self._requests is None:
            requests = Requests(self._cluster, self._principal)
            requests.patience = PATIENCE_SECONDS
            self._requests = requests.__enter__()
        self._requests.send(errors.DESCRIBE_CLUSTER, MetadataRequest, topics=[], allow_auto_topic_creation=False)
