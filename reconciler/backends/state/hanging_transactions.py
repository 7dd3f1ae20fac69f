"""Transactions in ``__reconciler`` that were decided and whose marker no broker wrote: readers of the lock wait behind
them for ever. See ``wire.hanging`` and decision 80.

Border: an attempt and nothing else. Where it cannot be made (a right, settings only librdkafka knows, an old broker)
the reader goes on waiting, and says itself what it waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from reconciler.edges.kafka.identity import client_settings
from reconciler.edges.kafka.record_log import RecordLog
from reconciler.errors import ClusterError
from reconciler.locks import LOCK_TOPIC, journal_key, journal_transactional_id, lock_key, transactional_id
from reconciler.topology import Cluster, Principal
from wire.cluster import Cluster as WireCluster
from wire.errors import BrokerError, WireError
from wire.hanging import HangingTransactionError, look, settle
from wire.settings import connection_settings
from wire.transactions import Identity

WITHIN_SECONDS = 10.0
_PLACE = (LOCK_TOPIC, 0)
_log = logging.getLogger("reconciler.kafka")


def end_unmarked(cluster: Cluster, principal: Principal) -> None:
    """Ends what hangs as it was decided. Fences writers whose transaction hangs, which costs them one more try."""
    try:
        settings = client_settings(cluster, principal)
        asyncio.run(
            _visit(cluster, settings, _writers(RecordLog(cluster, principal).read(lock_key(""), journal_key(""))))
        )
    except (ClusterError, WireError, TimeoutError) as error:
        _log.debug("hanging transactions of %s on %s are left: %s", LOCK_TOPIC, cluster.name, type(error).__name__)


def _writers(keys: Iterable[str]) -> tuple[str, ...]:
    """Whoever writes there in transactions, by the keys that there are, uncommitted ones too."""
    environments = {key.partition("/")[2] for key in keys}
    return tuple(make(one) for one in sorted(environments) for make in (transactional_id, journal_transactional_id))


async def _visit(cluster: Cluster, settings: dict[str, str], writers: Iterable[str]) -> None:
    target = WireCluster(cluster.name, cluster.bootstrap_servers, connection_settings(settings))
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            await target.refresh([LOCK_TOPIC])
            for writer in writers:
                with contextlib.suppress(BrokerError):  # most often: another environment's, which we have no rights to
                    await _end(target, Identity(target, writer, ""))
    finally:
        target.close()


async def _end(target: WireCluster, identity: Identity) -> None:
    """What its coordinator has under way is left alone. Where nobody knows how it ended: committed, so that a lock
    that may be held counts as held until its lease is over."""
    told = await identity.state()
    if told is None or told.open or _PLACE not in (await look(target, [_PLACE])).of(told.producer_id):
        return
    await identity.start()
    try:
        await settle(identity, target, [_PLACE])
    except HangingTransactionError:
        await identity.finish([_PLACE], committed=True)
