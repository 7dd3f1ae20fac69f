"""The ownership record: which access rules, quotas and SCRAM users the runs of this environment made on a cluster.

One compacted record a rule, a client with quotas, and a user, in ``__reconciler``. A record that is lost, or a
missing topic, means: nothing is owned, so nothing is deleted. Beside it, one record for each rule that a wave is
about to touch and no probe has confirmed: how it was before; and one for each remote topic that takes writes again.
"""

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reconciler.backends.state.records import RecordLog
from reconciler.model.acls import AclBinding
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiftedCopies, Made
from reconciler.model.quotas import QuotaEntity, entity
from reconciler.model.users import UserRecord
from reconciler.replication.json_codec import Codec, parsed

Subject = TypeVar("Subject", bound=Hashable)
Said = TypeVar("Said")
_CODEC = Codec(lenient=True)


@dataclass(frozen=True, slots=True)
class EntryCodec(Generic[Subject, Said]):
    """``kind`` begins the keys; ``encoded`` gives a JSON document, which ``decoded`` takes."""

    kind: str
    encoded: Callable[[Subject, Said], Mapping[str, object]]
    decoded: Callable[[Any], tuple[Subject, Said]]

    def value_of(self, subject: Subject, said: Said) -> bytes:
        return json.dumps(self.encoded(subject, said), ensure_ascii=False, sort_keys=True).encode()

    def entry_of(self, value: bytes) -> tuple[Subject, Said] | None:
        """None for a value of a later release."""
        try:
            return self.decoded(parsed(value))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return None


class SubjectRecord(Generic[Subject, Said]):
    """One kind of subject. Raises ClusterError."""

    def __init__(
        self, codec: EntryCodec[Subject, Said], cluster: Cluster, principal: Principal, environment: str
    ) -> None:
        self.codec = codec
        self.prefix = f"{codec.kind}/{environment}/"
        self.log = RecordLog(cluster, principal)

    def read(self) -> Mapping[Subject, Said]:
        """Empty where the topic does not exist."""
        return self.among(self.log.read(self.prefix))

    def among(self, values: Mapping[str, bytes]) -> Mapping[Subject, Said]:
        """Picks the entries of this kind out of ``values``, which were read at once for several kinds."""
        mine = (self.codec.entry_of(value) for key, value in values.items() if key.startswith(self.prefix))
        return MappingProxyType(dict(entry for entry in mine if entry is not None))

    def write(self, entries: Mapping[Subject, Said | None]) -> None:
        """All of them, or an error; None strikes an entry. Makes the topic where it is missing."""
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
