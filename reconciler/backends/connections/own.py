"""Asks a cluster over our own connections, as one principal. Imports no librdkafka: plan's first reads do not wait."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from reconciler.backends.connections.credentials import client_settings
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import DENIED, BrokerError, WireError, name_of
from reconciler.model.environment.topology import Cluster, Principal

WITHIN_SECONDS = 10.0
FAILURES = (ReconcilerError, WireError, OSError, TimeoutError, ValueError)
"""What ``visited`` raises."""

Answer = TypeVar("Answer")


def cluster_of(cluster: Cluster, principal: Principal) -> ClusterClient:
    """Opens nothing yet. Raises SecretError, or SettingError that names the setting. Inside a running loop."""
    return ClusterClient(
        cluster.name, cluster.bootstrap_servers, connection_settings(client_settings(cluster, principal))
    )


def visited(
    declared: Cluster,
    principal: Principal,
    ask: Callable[[ClusterClient], Awaitable[Answer]],
    within_s: float | None = None,
) -> Answer:
    """Opens connections to a cluster, asks, and closes them. Raises ``FAILURES``."""

    async def visit() -> Answer:
        cluster = cluster_of(declared, principal)
        try:
            async with asyncio.timeout(within_s):
                return await ask(cluster)
        finally:
            cluster.close()

    return asyncio.run(visit())


async def or_why(subject: str, asked: Awaitable[Answer]) -> tuple[Answer | None, str]:
    """One of several answers: None, with the reason, if it fails. The others are still reported."""
    try:
        return await asyncio.wait_for(asked, WITHIN_SECONDS), ""
    except (WireError, OSError, TimeoutError, ValueError) as error:
        return None, reason_of(subject, error)


def reason_of(subject: str, error: BaseException) -> str:
    """A short reason for a missing answer: a note beside a plan that does not depend on it."""
    match error:
        case BrokerError(code=code) if code in DENIED:
            return f"{subject}: this principal may not ask ({name_of(code)})"
        case TimeoutError():
            return f"{subject}: no answer within {WITHIN_SECONDS:.0f} s"
        case ReconcilerError():
            return f"{subject}: {error.what}"
    return f"{subject}: {error}"
