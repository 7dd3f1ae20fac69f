"""Client quotas of one cluster (KIP-546): read in one request, changed in batches, each change with its own answer.

A change counts as done when every broker shows it: each enforces its own copy. What is set is written to the ownership
record before, and struck from it after it is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest

from reconciler.changes import AlterQuota, touched
from reconciler.edges.kafka.asking import AskingWire
from reconciler.edges.kafka.errors import Asked
from reconciler.edges.kafka.performing import perform_in_batches
from reconciler.edges.kafka.subject_records import QUOTAS, SubjectRecord
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.plans import Outcome, Planned
from reconciler.quotas import Limits, QuotaEntity, entity
from reconciler.topology import Cluster, Principal

DESCRIBE = Asked("read the quotas", "DescribeConfigs", "--cluster")
ALTER = Asked("change quotas", "AlterConfigs", "--cluster")
BATCH = 1_000
AGREE_SECONDS = 30.0
NO_KEYS: frozenset[str] = frozenset()


class QuotaWire(AskingWire):
    """Raises ClusterError."""

    def __enter__(self) -> QuotaWire:
        super().__enter__()
        return self

    def brokers(self) -> tuple[int, ...]:
        return tuple(sorted(broker.node_id for broker in self._admin._manager.cluster.brokers()))

    def described(self, broker: int | None = None) -> dict[QuotaEntity, Limits]:
        """All of them, as ``broker`` knows them now."""
        answer = self._told("quotas", DescribeClientQuotasRequest(components=[], strict=False), broker)
        if answer.error_code:
            raise self._refused(answer.error_code, DESCRIBE, answer.error_message)
        return {
            entity({part.entity_type: part.entity_name for part in entry.entity}): {
                one.key: float(one.value) for one in entry.values
            }
            for entry in answer.entries or ()
        }

    def altered(self, changes: Sequence[AlterQuota], validate_only: bool = False) -> dict[QuotaEntity, ClusterError]:
        """What was refused, with the broker's words. The answers name their entities."""
        data = AlterClientQuotasRequest.EntryData
        entries = [
            data(
                entity=[data.EntityData(entity_type=part.kind, entity_name=part.name) for part in change.entity.parts],
                ops=[
                    data.OpData(key=one.key, value=one.after or 0.0, remove=one.after is None) for one in change.limits
                ],
            )
            for change in changes
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        answer = self._told("a change of quotas", request)
        return {
            entity({part.entity_type: part.entity_name for part in one.entity}): self._refused(
                one.error_code, ALTER, one.error_message
            )
            for one in answer.entries
            if one.error_code
        }


class QuotaControl:
    """The quotas of one cluster as one principal. Opens a connection for each call and keeps none."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        self.cluster = cluster
        self.principal = principal
        self.record = SubjectRecord(QUOTAS, cluster, principal, environment)

    def read(self) -> Mapping[QuotaEntity, Limits]:
        """Raises ClusterError."""
        with self._wire() as wire:
            return wire.described()

    def keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        """Which keys of whose quotas runs of this environment set. Raises ClusterError."""
        return self.record.read()

    def validate(self, changes: Sequence[AlterQuota]) -> Mapping[str, str]:
        """``touched`` -> the broker's refusal, by validate-only requests. Raises ClusterError where nobody may ask."""
        refusals: dict[str, str] = {}
        with self._wire() as wire:
            for start in range(0, len(changes), BATCH):
                batch = changes[start : start + BATCH]
                refused = wire.altered(batch, validate_only=True)
                for change in batch:
                    error = refused.get(change.entity)
                    if error is not None and error.kind in ("invalid", "other"):
                        refusals[touched(change)] = f"{error.what}. {error.todo}"
                    elif error is not None:
                        raise error
        return refusals

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
        """One outcome a change, in order; never raises for one. ``changes`` are all of quotas."""
        return perform_in_batches(changes, BATCH, lambda batch: self._failures([*map(_narrowed, batch)]), progress)

    def _failures(self, changes: Sequence[AlterQuota]) -> list[str]:
        """Why each is not done, or empty."""
        try:
            known = self.record.read()
            self._write(known, {one.entity: known.get(one.entity, NO_KEYS) | _set_by(one) for one in changes})
            with self._wire() as wire:
                refused = {whom: str(error) for whom, error in wire.altered(changes).items()}
                sent = [one for one in changes if one.entity not in refused]
                late = _disagreeing(wire, sent)
            known = self.record.read()
            self._write(known, {one.entity: known.get(one.entity, NO_KEYS) - _unset_by(one) for one in sent})
        except ReconcilerError as error:
            return self._cut_off(changes, f"{self.cluster.name}: {error}")
        words = {whom: f"{self.cluster.name}: {whom}: {text}" for whom, text in (refused | late).items()}
        return [words.get(one.entity, "") for one in changes]

    def _write(
        self, known: Mapping[QuotaEntity, frozenset[str]], entries: Mapping[QuotaEntity, frozenset[str]]
    ) -> None:
        """Only what differs; a client of whom no key is ours is struck."""
        differing = {whom: keys or None for whom, keys in entries.items() if keys != known.get(whom, NO_KEYS)}
        if differing:
            self.record.write(differing)

    def _cut_off(self, changes: Sequence[AlterQuota], error: str) -> list[str]:
        """After a request that may or may not have been carried out: what the cluster shows decides."""
        try:
            shown = self.read()
        except ReconcilerError:
            shown = {}
        return [
            "" if any(one.after for one in change.limits) and _holds(change, shown) else error for change in changes
        ]

    def _wire(self) -> QuotaWire:
        return QuotaWire(self.cluster, self.principal)


def _disagreeing(wire: QuotaWire, changes: Collection[AlterQuota]) -> dict[QuotaEntity, str]:
    """Asks every broker until it shows what was done."""
    until = time.monotonic() + AGREE_SECONDS
    for broker in wire.brokers() if changes else ():
        pause = 0.01
        while differing := list(_differing(changes, wire.described(broker))):
            if time.monotonic() > until:
                return {one.entity: f"broker {broker} does not show it yet\nRun plan again." for one in differing}
            time.sleep(pause)
            pause = min(pause * 2, 1.0)
    return {}


def _set_by(change: AlterQuota) -> frozenset[str]:
    return frozenset(one.key for one in change.limits if one.after is not None)


def _unset_by(change: AlterQuota) -> frozenset[str]:
    return frozenset(one.key for one in change.limits if one.after is None)


def _differing(changes: Iterable[AlterQuota], shown: Mapping[QuotaEntity, Limits]) -> Iterable[AlterQuota]:
    return (change for change in changes if not _holds(change, shown))


def _holds(change: AlterQuota, shown: Mapping[QuotaEntity, Limits]) -> bool:
    there = shown.get(change.entity, {})
    return all(there.get(one.key) == one.after for one in change.limits)


def _narrowed(planned: Planned) -> AlterQuota:
    if not isinstance(planned.change, AlterQuota):
        raise ValueError(f"{planned.id} is no change of a quota")
    return planned.change
