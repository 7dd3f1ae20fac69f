"""Ends hanging transactions in ``__reconciler``, behind which readers of the lock would wait for ever.

Only an attempt: where it cannot be made (a missing right, an old broker) the reader goes on waiting, and says what for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from reconciler.backends.connections.own import cluster_of
from reconciler.backends.state.compacted_records import RecordLog
from reconciler.errors import ClusterError
from reconciler.kafka.client.cluster import ClusterClient as WireCluster
from reconciler.kafka.client.errors import BrokerError, WireError
from reconciler.kafka.client.hanging_transactions import HangingTransactionError, look, settle
from reconciler.kafka.client.transactions import Identity
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.lock import LOCK_TOPIC, journal_key, journal_transactional_id, lock_key, transactional_id

WITHIN_SECONDS = 10.0
_PLACE = (LOCK_TOPIC, 0)
_log = logging.getLogger("reconciler.kafka")


def end_unmarked(cluster: Cluster, principal: Principal) -> None:
    """Ends what hangs as it was decided. Fences writers whose transaction hangs, which costs them one more try."""
    try:
        writers = _writers(RecordLog(cluster, principal).read(lock_key(""), journal_key("")))
        asyncio.run(_visit(cluster, principal, writers))
    except (ClusterError, WireError, TimeoutError) as error:
        _log.debug("hanging transactions of %s on %s are left: %s", LOCK_TOPIC, cluster.name, type(error).__name__)


def _writers(keys: Iterable[str]) -> tuple[str, ...]:
    """Transactional ids of all writers of that topic, from its keys, uncommitted ones too."""
    environments = {key.partition("/")[2] for key in keys}
    return tuple(
        make(environment)
        for environment in sorted(environments)
        for make in (transactional_id, journal_transactional_id)
    )


async def _visit(cluster: Cluster, principal: Principal, writers: Iterable[str]) -> None:
    target = cluster_of(cluster, principal)
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            await target.refresh([LOCK_TOPIC])
            for writer in writers:
                with contextlib.suppress(BrokerError):  # most often: another environment's, which we have no rights to
                    await _end(target, Identity(target, writer, ""))
    finally:
        target.close()


async def _end(target: WireCluster, identity: Identity) -> None:
    """Leaves alone what its coordinator has under way. Commits a transaction of unknown outcome, so that a lock that
    may be held counts as held until its lease is over."""
    transaction = await identity.state()
    if (
        transaction is None
        or transaction.open
        or _PLACE not in (await look(target, [_PLACE])).of(transaction.producer_id)
    ):
        return
    await identity.start()
    try:
        await settle(target, [_PLACE], identity)
    except HangingTransactionError:
        await identity.finish([_PLACE], committed=True)
