"""The ownership record: access rules, quotas and SCRAM users that runs of this environment made on a cluster.

``__reconciler`` has one compacted record for each rule, each client with quotas, and each user. A lost record, or a
missing topic, means that nothing is owned, so nothing is deleted. Beside them are the former states of rules that a
wave is changing, until a probe confirms it, and one record for each remote topic that takes writes again.
"""

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reconciler.backends.state.records import RecordLog
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiftedCopies, Made
from reconciler.model.principals import AclBinding, QuotaEntity, UserRecord, entity
from reconciler.replication.json_codec import Codec, parsed

Subject = TypeVar("Subject", bound=Hashable)
Said = TypeVar("Said")
_CODEC = Codec(lenient=True)


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
        lambda acl, entry: {"acl": _CODEC.encoded(acl), **_CODEC.encoded(entry)},
        lambda document: (_CODEC.decoded(AclBinding, document["acl"]), _CODEC.decoded(said, document)),
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
    lambda name, record: {"user": name, **_CODEC.encoded(record)},
    lambda document: (str(document["user"]), _CODEC.decoded(UserRecord, document)),
)
