"""The ownership record of quotas and SCRAM users: which of them the runs of one environment set, kept on their cluster.

One record a client with quotas, and a user. One that is lost means, as for access rules (``ownership``): not ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Generic, TypeVar

from reconciler.edges.kafka.record_log import RecordLog
from reconciler.quotas import QuotaEntity, entity
from reconciler.topology import Cluster, Principal
from reconciler.users import Mechanism, UserRecord

Subject = TypeVar("Subject", bound=Hashable)
Said = TypeVar("Said")


class Codec(Generic[Subject, Said]):
    """``kind`` begins the keys; ``entry_of`` gives None for a value of a later release."""

    def __init__(
        self,
        kind: str,
        key: Callable[[Subject], str],
        value_of: Callable[[Subject, Said], bytes],
        entry_of: Callable[[bytes], tuple[Subject, Said] | None],
    ) -> None:
        self.kind = kind
        self.key = key
        self.value_of = value_of
        self.entry_of = entry_of


class SubjectRecord(Generic[Subject, Said]):
    """One kind of subject. Raises ClusterError."""

    def __init__(self, codec: Codec[Subject, Said], cluster: Cluster, principal: Principal, environment: str) -> None:
        self.codec = codec
        self.prefix = f"{codec.kind}/{environment}/"
        self.log = RecordLog(cluster, principal)

    def read(self) -> Mapping[Subject, Said]:
        """Empty where the topic does not exist."""
        found = (self.codec.entry_of(value) for value in self.log.read(self.prefix).values())
        return MappingProxyType(dict(entry for entry in found if entry is not None))

    def write(self, entries: Mapping[Subject, Said | None]) -> None:
        """All of them, or an error; None strikes an entry."""
        texts = {
            f"{self.prefix}{self.codec.key(subject)}": None if said is None else self.codec.value_of(subject, said)
            for subject, said in entries.items()
        }
        self.log.write(texts)


def _quota_value(whom: QuotaEntity, keys: frozenset[str]) -> bytes:
    return _json({"entity": {part.kind: part.name for part in whom.parts}, "keys": sorted(keys)})


def _quota_entry(value: bytes) -> tuple[QuotaEntity, frozenset[str]] | None:
    try:
        told = json.loads(value)
        parts = {str(kind): None if name is None else str(name) for kind, name in told["entity"].items()}
        return entity(parts), frozenset(map(str, told["keys"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _user_value(name: str, record: UserRecord) -> bytes:
    return _json({"user": name, **asdict(record)})


def _user_entry(value: bytes) -> tuple[str, UserRecord] | None:
    try:
        told = json.loads(value)
        mechanisms = tuple(Mechanism(one) for one in told["mechanisms"])
        return str(told["user"]), UserRecord(_version(told["version"]), mechanisms, _version(told["setting"]))
    except (ValueError, KeyError, TypeError):
        return None


def _version(told: object) -> int | None:
    if told is not None and not isinstance(told, int):
        raise TypeError(told)
    return told


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()


QUOTAS = Codec("quota", str, _quota_value, _quota_entry)
USERS = Codec[str, UserRecord]("user", str, _user_value, _user_entry)
