"""Visits clusters over our own connections, each as one principal, and words what they do not answer.

Imports no librdkafka, so that a plan's first reads do not wait for it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from typing import TypeVar

from reconciler.backends.connections.credentials import client_settings
from reconciler.errors import ReconcilerError
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import DENIED, BrokerError, ConnectionLostError, WireError, name_of
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Cluster, Principal

WITHIN_SECONDS = 10.0
FAILURES = (ReconcilerError, WireError, OSError, TimeoutError, ValueError)
"""What ``visited`` raises."""

Answer = TypeVar("Answer")


def cluster_of(cluster: Cluster, principal: Principal) -> ClusterClient:
    """Opens nothing yet. Raises SecretError, or SettingError that names the setting. Inside a running loop."""
    settings = connection_settings(client_settings(cluster, principal))
    uncompressed = offer_of(cluster).uncompressed
    return ClusterClient(cluster.name, cluster.bootstrap_servers, settings, "", cluster.topic_prefix, uncompressed)


class Visits:
    """Keeps connections open between visits, until ``close``. Threads take turns."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._open: dict[tuple[str, Principal], ClusterClient] = {}
        self._turn = threading.Lock()

    def ask(
        self,
        places: Sequence[tuple[Cluster, Principal]],
        ask: Callable[[Sequence[ClusterClient]], Awaitable[Answer]],
        within_s: float | None,
    ) -> Answer:
        """Runs a visit, and once more if a broker has closed its connection since the last visit."""
        with self._turn:
            kept = any((declared.name, principal) in self._open for declared, principal in places)
            try:
                return self._asked(places, ask, within_s)
            except ConnectionLostError:
                if not kept:
                    raise
                return self._asked(places, ask, within_s)

    def _asked(
        self,
        places: Sequence[tuple[Cluster, Principal]],
        ask: Callable[[Sequence[ClusterClient]], Awaitable[Answer]],
        within_s: float | None,
    ) -> Answer:
        """Raises as ``ask``, and TimeoutError; after any error all connections are closed."""

        async def visit() -> Answer:
            opened: list[ClusterClient] = []
            for declared, principal in places:
                if (key := (declared.name, principal)) not in self._open:
                    self._open[key] = cluster_of(declared, principal)
                opened.append(self._open[key])
                opened[-1].topics.clear()  # cached topics may have been deleted since the last visit
            async with asyncio.timeout(within_s):
                return await ask(opened)

        try:
            return self._runner.run(visit())
        except BaseException:  # connections may have unread responses, and tasks waiting for them
            self._drop()
            raise

    def _drop(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        self._runner.close()
        self._runner = asyncio.Runner()

    def close(self) -> None:
        with self._turn:
            self._drop()


def visited(
    declared: Cluster,
    principal: Principal,
    ask: Callable[[ClusterClient], Awaitable[Answer]],
    within_s: float | None = None,
) -> Answer:
    """A single visit. Raises ``FAILURES``."""
    with closing(Visits()) as visits:
        return visits.ask([(declared, principal)], lambda opened: ask(opened[0]), within_s)


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
