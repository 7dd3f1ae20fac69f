"""Records of an environment beside its lock: last apply, progress of a rollout, journals of reassignments and cut-
overs, last drills; and the ownership record.
"""

import json
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reconciler.backends.state.records import LockLog, RecordLog, understood
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiftedCopies, Made
from reconciler.model.principals import AclBinding, QuotaEntity, UserRecord, entity
from reconciler.model.replicas import Journal, ListEntries
from reconciler.model.state import cutover_journal, last_apply, last_drill, lock, rejoin_journal, rollout_progress
from reconciler.model.state.cutover_journal import CutoverJournal, cutovers_key
from reconciler.model.state.last_apply import Applied, applied_key
from reconciler.model.state.last_drill import LastDrill, drill_key
from reconciler.model.state.left_by_apply import LeftCluster, left_key, loads
from reconciler.model.state.lock import LockRecord, journal_key, journal_transactional_id, lock_key
from reconciler.model.state.rejoin_journal import RejoinJournal, rejoin_key
from reconciler.model.state.rollout_progress import Promotion, promotion_key
from reconciler.replication.json_codec import Codec, JsonRecord, parsed
from reconciler.replication.records.compacted_topic import RecordFencedError

ANOTHER_VERSION = "Another version of this program wrote it, so"


def read_applied(cluster: Cluster, environment: str, principal: Principal) -> Applied | None:
    """The record of the last apply; None before the first. Opens and closes its own connection. Raises ClusterError."""
    return read_last_apply(cluster, environment, principal)[0]


def read_last_apply(
    cluster: Cluster, environment: str, principal: Principal
) -> tuple[Applied | None, Mapping[str, LeftCluster]]:
    """``read_applied``, and the state that this apply left on each cluster, as far as it is known."""
    records = _newest(cluster, environment, principal)
    record = f"the record of the last apply of environment {environment}"
    why = f"{ANOTHER_VERSION} neither a shrunken topology nor a first contact can be detected"
    todo = "Use that version, or accept with apply --allow-shrink --first-contact."
    value = records.get(applied_key(environment))
    applied = understood(value, last_apply.loads, cluster.name, record, why, todo)
    prefix = left_key(environment, "")
    left = {key.removeprefix(prefix): loads(value) for key, value in records.items() if key.startswith(prefix)}
    return applied, {name: cluster for name, cluster in left.items() if cluster is not None}


def read_promotion(cluster: Cluster, environment: str, principal: Principal) -> Promotion | None:
    """Progress of the last rollout; None before the first. Raises ClusterError."""
    value = _newest(cluster, environment, principal).get(promotion_key(environment))
    record = f"the record of the rollout of environment {environment}"
    why = f"{ANOTHER_VERSION} it is not known what has yet to soak"
    todo = "Use that version until the rollout is over, or continue with apply --ignore-gates REASON."
    return understood(value, rollout_progress.loads, cluster.name, record, why, todo)


def read_cutovers(cluster: Cluster, environment: str, principal: Principal) -> tuple[CutoverJournal, ...]:
    """Journals of all cut-overs. Raises ClusterError."""
    prefix = cutovers_key(environment)
    values = _newest(cluster, environment, principal)
    journals: list[CutoverJournal] = []
    for key, value in values.items():
        if not key.startswith(prefix):
            continue
        record = f"the journal of the cut-over of {key.removeprefix(prefix)}"
        todo = "Use that version to end it or to take it back: cutover apply, cutover rollback."
        why = f"{ANOTHER_VERSION} it is not known which step it has come to"
        journal = understood(value, cutover_journal.loads, cluster.name, record, why, todo)
        if journal is not None:
            journals.append(journal)
    return tuple(journals)


def read_last_drills(cluster: Cluster, environment: str, principal: Principal) -> Mapping[str, LastDrill]:
    """Flow -> its last drill. Raises ClusterError."""
    prefix, drills = drill_key(environment, ""), dict[str, LastDrill]()
    why = f"{ANOTHER_VERSION} it is not known when a drill met its objectives last"
    for key, value in _newest(cluster, environment, principal).items():
        flow = key.removeprefix(prefix)
        record = f"the record of the last drill of {flow}"
        todo = "Use that version for drills."
        if flow != key and (last := understood(value, last_drill.loads, cluster.name, record, why, todo)):
            drills[flow] = last
    return drills


def read_rejoin(cluster: Cluster, environment: str, flow: str, principal: Principal) -> RejoinJournal | None:
    """The journal of the last failback of ``flow`` with ``--diverged``. Raises ClusterError."""
    value = _newest(cluster, environment, principal).get(rejoin_key(environment, flow))
    why = f"{ANOTHER_VERSION} it is not known which topics it has deleted and not created yet"
    todo = f"Use that version to end it: reconciler failback ENV {flow} --diverged to-topic."
    return understood(value, rejoin_journal.loads, cluster.name, f"the journal of the failback of {flow}", why, todo)


def read_holder(cluster: Cluster, environment: str, principal: Principal) -> LockRecord | None:
    """The lock's record; None if the lock was never held, or a newer version wrote the record. Raises ClusterError."""
    value = _newest(cluster, environment, principal).get(lock_key(environment))
    with suppress(ValueError):
        return lock.loads(value) if value is not None else None
    return None


def _newest(cluster: Cluster, environment: str, principal: Principal) -> Mapping[str, bytes]:
    log = LockLog(cluster, cluster.own_topics.lock, lock_key(environment), "", principal)
    try:
        return log.read_all() if log.exists() else {}
    finally:
        log.close()


_ROWS = Codec(rows=True)
_CODEC = Codec({ListEntries: (_ROWS.encoded, lambda row: _ROWS.decoded(ListEntries, row))})
JOURNAL = JsonRecord(Journal, "journal", codec=_CODEC)


class JournalLog:
    """Raises ClusterError."""

    def __init__(self, cluster: Cluster, environment: str, principal: Principal) -> None:
        self.cluster = cluster
        writer = journal_transactional_id(environment)
        self._log = LockLog(cluster, cluster.own_topics.lock, journal_key(environment), writer, principal)
        self._open = False

    def read(self) -> Journal | None:
        """The journal; None if it or the topic is missing."""
        value = self._log.read() if self._log.exists() else None
        record = f"the journal of a reassignment on {self.cluster.name}"
        why, todo = "Another version of this program may be running it.", "Use that version to finish it."
        return understood(value, JOURNAL.loads, self.cluster.name, record, why, todo)

    def write(self, journal: Journal | None) -> None:
        """Writes under a fence like the lock's: of two concurrent runs the later one wins, and the earlier one's next
        write fails. It is retried once, because the fence may be our own, from a lost connection."""
        value = None if journal is None else JOURNAL.dumps(journal)
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


# The ownership record: access rules, quotas and SCRAM users that runs of this environment made on a cluster.
#
# `__reconciler` has one compacted record for each rule, each client with quotas, and each user. A lost record, or a
# missing topic, means that nothing is owned, so nothing is deleted. Beside them are the former states of rules that a
# wave is changing, until a probe confirms it, and one record for each remote topic that takes writes again.

Subject = TypeVar("Subject", bound=Hashable)
Said = TypeVar("Said")
_LENIENT = Codec(lenient=True)


@dataclass(frozen=True, slots=True)
class EntryCodec(Generic[Subject, Said]):
    """``kind``: prefix of the keys; ``encoded``: to a JSON document; ``decoded``: back."""

    kind: str
    encoded: Callable[[Subject, Said], Mapping[str, object]]
    decoded: Callable[[Any], tuple[Subject, Said]]

    def value_of(self, subject: Subject, said: Said) -> bytes:
        return json.dumps(self.encoded(subject, said), ensure_ascii=False, sort_keys=True).encode()

    def entry_of(self, value: bytes) -> tuple[Subject, Said] | None:
        """A record's subject and content; None for a later release's format."""
        try:
            return self.decoded(parsed(value))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return None


class SubjectRecord(Generic[Subject, Said]):
    """Records of one kind of subject. Raises ClusterError."""

    def __init__(
        self, codec: EntryCodec[Subject, Said], cluster: Cluster, principal: Principal, environment: str
    ) -> None:
        self.codec = codec
        self.prefix = f"{codec.kind}/{environment}/"
        self.log = RecordLog(cluster, principal)

    def read(self) -> Mapping[Subject, Said]:
        """All entries; empty if the topic does not exist."""
        return self.among(self.log.read(self.prefix))

    def among(self, values: Mapping[str, bytes]) -> Mapping[Subject, Said]:
        """Entries of this kind among ``values``, which one read returned for several kinds."""
        mine = (self.codec.entry_of(value) for key, value in values.items() if key.startswith(self.prefix))
        return MappingProxyType(dict(entry for entry in mine if entry is not None))

    def write(self, entries: Mapping[Subject, Said | None]) -> None:
        """Writes all entries, or raises; None deletes an entry. Creates a missing topic."""
        texts = {
            f"{self.prefix}{subject}": None if said is None else self.codec.value_of(subject, said)
            for subject, said in entries.items()
        }
        self.log.write(texts)


def _rules(kind: str, said: type[Said]) -> EntryCodec[AclBinding, Said]:
    return EntryCodec(
        kind,
        lambda acl, entry: {"acl": _LENIENT.encoded(acl), **_LENIENT.encoded(entry)},
        lambda document: (_LENIENT.decoded(AclBinding, document["acl"]), _LENIENT.decoded(said, document)),
    )


OWNED, PENDING = _rules("access", Made), _rules("access-pending", Before)
FENCED = _rules("fence", Made)
"""Deny rules of a failover; ``maker``: its flow."""
LIFTED: EntryCodec[LiftedCopies, tuple[str, ...]] = EntryCodec(
    "lifted",
    lambda copies, denied: {"flow": copies.flow, "topic": copies.topic, "denied": sorted(denied)},
    lambda document: (
        LiftedCopies(str(document["flow"]), str(document["topic"])),
        tuple(map(str, document["denied"])),
    ),
)
QUOTAS: EntryCodec[QuotaEntity, frozenset[str]] = EntryCodec(
    "quota",
    lambda whom, keys: {"entity": {part.kind: part.name for part in whom.parts}, "keys": sorted(keys)},
    lambda document: (
        entity({str(kind): None if name is None else str(name) for kind, name in document["entity"].items()}),
        frozenset(map(str, document["keys"])),
    ),
)
USERS: EntryCodec[str, UserRecord] = EntryCodec(
    "user",
    lambda name, record: {"user": name, **_LENIENT.encoded(record)},
    lambda document: (str(document["user"]), _LENIENT.decoded(UserRecord, document)),
)
