"""The journal of a running reassignment: one record in ``__reconciler`` on the cluster it changes."""

from __future__ import annotations

from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.backends.state.compare_and_set import LockLog, understood
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.replicas import Journal, ListEntries
from reconciler.model.state.lock import LOCK_TOPIC, journal_key, journal_transactional_id
from reconciler.replication.json_codec import Codec, JsonRecord
from reconciler.replication.records.compacted_topic import RecordFencedError

_ROWS = Codec(rows=True)
_CODEC = Codec({ListEntries: (_ROWS.encoded, lambda row: _ROWS.decoded(ListEntries, row))})
_RECORD = JsonRecord(Journal, "journal", codec=_CODEC)
dumps, loads = _RECORD.dumps, _RECORD.loads


class JournalLog:
    """Raises ClusterError."""

    def __init__(self, cluster: Cluster, environment: str, principal: Principal) -> None:
        self.cluster = cluster
        self.environment = environment
        writer = journal_transactional_id(environment)
        self._log = LockLog(cluster, LOCK_TOPIC, journal_key(environment), writer, principal)
        self._open = False

    def read(self, connection: AdminConnection) -> Journal | None:
        """None also where the topic was never made."""
        value = self._log.read() if connection.topic(LOCK_TOPIC) is not None else None
        record = f"the journal of a reassignment on {self.cluster.name}"
        why, todo = "Another version of this program may be running it.", "Use that version to finish it."
        return understood(value, loads, self.cluster.name, record, why, todo)

    def write(self, journal: Journal | None) -> None:
        value = None if journal is None else dumps(journal)
        for last in (False, True):
            try:
                if not self._open:
                    self._log.open()
                    self._log.fence()
                    self._open = True
                self._log.write(value)
                return
            except RecordFencedError:
                self._open = False
                if last:
                    raise ClusterError(
                        self.cluster.name,
                        "other",
                        f"the journal of the reassignment on {self.cluster.name} is written by someone else as well",
                        "Two runs at once would clear each other's throttles.",
                        "Check who else applies this environment.",
                    ) from None

    def close(self) -> None:
        self._log.close()
