"""Requests by kafka-python's protocol whose failures are ClusterErrors a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.identity import speaker_of
from reconciler.edges.kafka.protocol import Wire
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.topology import Cluster, Principal


class AskingWire(Wire):
    """Raises ClusterError."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        super().__init__(cluster, principal)
        self._speaker = speaker_of(cluster, principal)

    def __enter__(self) -> AskingWire:
        try:
            super().__enter__()
        except ReconcilerError as error:
            raise errors.unreachable(self._speaker, (error.what,)) from None
        return self

    def _told(self, what: str, request: Any, broker: int | None = None) -> Any:
        """``broker`` None: any."""
        where = {} if broker is None else {"node_id": broker}
        try:
            return self._asked(what, lambda: self._admin._manager.run(self._send_to, request, where))
        except ReconcilerError as error:
            raise errors.unreachable(self._speaker, (error.what,)) from None

    async def _send_to(self, request: Any, where: Mapping[str, int]) -> Any:
        return await self._admin._manager.send(request, **where)

    def _check(self, code: int, asked: errors.Asked) -> None:
        if code:
            raise self._refused(code, asked)

    def _refused(self, code: int, asked: errors.Asked, words: str | None = None) -> ClusterError:
        """``words``: the broker's own."""
        error = KafkaError(code, words) if words else KafkaError(code)
        return errors.translate(self._speaker, error, asked)
