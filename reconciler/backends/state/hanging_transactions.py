"""Ends hanging transactions in ``__reconciler``, behind which readers of the lock would wait for ever.

Only an attempt: where it cannot be made (a missing right, an old broker) the reader goes on waiting, and says what for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError, WireError
from reconciler.kafka.client.hanging_transactions import HangingTransactionError, look, settle
from reconciler.kafka.client.transactions import Identity
from reconciler.model.state.lock import LOCK_TOPIC, journal_key, journal_transactional_id, lock_key, transactional_id
from reconciler.replication.records.compacted_topic import CompactedTopic

WITHIN_SECONDS = 10.0
_PLACE = (LOCK_TOPIC, 0)
_log = logging.getLogger("reconciler.kafka")


async def end_unmarked(cluster: ClusterClient) -> None:
    """Ends what hangs as it was decided. Fences writers whose transaction hangs, which costs them one more try."""
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            records = CompactedTopic(cluster, LOCK_TOPIC)
            await records.read()
            for writer in _writers(records.values(lock_key(""), journal_key(""))):
                with contextlib.suppress(BrokerError):  # most often: another environment's, which we have no rights to
                    await _end(cluster, Identity(cluster, writer, ""))
    except (WireError, TimeoutError) as error:
        _log.debug("hanging transactions of %s on %s are left: %s", LOCK_TOPIC, cluster.name, type(error).__name__)


def _writers(keys: Iterable[str]) -> tuple[str, ...]:
    """Transactional ids of all writers of that topic, from its keys, uncommitted ones too."""
    environments = {key.partition("/")[2] for key in keys}
    return tuple(
        make(environment)
        for environment in sorted(environments)
        for make in (transactional_id, journal_transactional_id)
    )


async def _end(target: ClusterClient, identity: Identity) -> None:
    """What its coordinator has under way is left alone. Where nobody knows how it ended: committed, so that a lock
    that may be held counts as held until its lease is over."""
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
