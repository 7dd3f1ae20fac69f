"""Reads and alters the client quotas of one cluster (KIP-546), in batches.

A change counts as done once every broker shows it, because each enforces its own copy. The ownership record gets a key
before it is set, and loses it after it is removed.
"""

import contextlib
from collections.abc import Mapping, Sequence

from reconciler.backends.clusters.in_batches import KindControl, not_shown
from reconciler.backends.connections.errors import Asked
from reconciler.backends.connections.requests import Requests
from reconciler.backends.state.ownership import QUOTAS, SubjectRecord
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.changes import AlterQuota, Subject
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.principals import QuotaEntity, QuotaLimits, entity
from reconciler.text import batched

DESCRIBE = Asked("read the quotas", "DescribeConfigs", "--cluster")
ALTER = Asked("change quotas", "AlterConfigs", "--cluster")
NO_KEYS: frozenset[str] = frozenset()


class QuotaRequests(Requests):
    """Raises ClusterError."""

    def described(self, broker: int | None = None) -> dict[QuotaEntity, QuotaLimits]:
        """All quotas in the copy of ``broker``."""
        answer = self.send(DESCRIBE, protocol.DescribeClientQuotasRequest, broker, components=[], strict=False)
        self.check(answer.error_code, DESCRIBE, answer.error_message)
        return {
            entity({part.entity_type: part.entity_name for part in entry.entity}): {
                item.key: float(item.value) for item in entry.values
            }
            for entry in answer.entries or ()
        }

    def altered(self, changes: Sequence[AlterQuota], validate_only: bool = False) -> dict[QuotaEntity, ClusterError]:
        """Refused entity -> the broker's error."""
        data = protocol.AlterClientQuotasRequest.EntryData
        entries = [
            data(
                entity=[data.EntityData(entity_type=part.kind, entity_name=part.name) for part in change.entity.parts],
                ops=[
                    data.OpData(key=limit.key, value=limit.after or 0.0, remove=limit.after is None)
                    for limit in change.limits
                ],
            )
            for change in changes
        ]
        answer = self.send(ALTER, protocol.AlterClientQuotasRequest, entries=entries, validate_only=validate_only)
        return {
            entity({part.entity_type: part.entity_name for part in entry.entity}): self.refused(
                entry.error_code, ALTER, entry.error_message
            )
            for entry in answer.entries
            if entry.error_code
        }


class QuotaControl(KindControl[AlterQuota]):
    """Client quotas."""

    classes = (AlterQuota,)

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        super().__init__(cluster, principal)
        self.record = SubjectRecord(QUOTAS, cluster, principal, environment)

    def read(self) -> Mapping[QuotaEntity, QuotaLimits]:
        """Raises ClusterError."""
        with QuotaRequests(self.cluster, self.principal) as requests:
            return requests.described()

    def keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        """Entity -> keys that runs of this environment have set. Raises ClusterError."""
        return self.record.read()

    def validate(self, changes: Sequence[AlterQuota]) -> Mapping[Subject, str]:
        """Subject -> the broker's refusal of a validate-only request. Raises ClusterError without the right to ask."""
        refusals: dict[Subject, str] = {}
        with QuotaRequests(self.cluster, self.principal) as requests:
            for batch in batched(changes, self.most):
                refused = requests.altered(batch, validate_only=True)
                for change in batch:
                    error = refused.get(change.entity)
                    if error is not None and error.kind in ("invalid", "other"):
                        refusals[change.subject] = f"{error.what}. {error.todo}"
                    elif error is not None:
                        raise error
        return refusals

    def failures(self, changes: Sequence[AlterQuota]) -> list[str]:
        """As ``KindControl``. The record gets keys before they are set and loses them after they are removed, so that a
        killed run leaves an entry too many, never a quota of ours without one."""
        try:
            known = self.record.read()
            self._write(
                known,
                {change.entity: known.get(change.entity, NO_KEYS) | _keys(change, gone=False) for change in changes},
            )
            with QuotaRequests(self.cluster, self.principal) as requests:
                refused = {whom: str(error) for whom, error in requests.altered(changes).items()}
                sent = [change for change in changes if change.entity not in refused]
                late = not_shown(
                    requests,
                    {change.entity: change for change in sent},
                    lambda change, shown: change.is_done(shown.get(change.entity, {})),
                )
            known = self.record.read()
            self._write(
                known, {change.entity: known.get(change.entity, NO_KEYS) - _keys(change, gone=True) for change in sent}
            )
        except ReconcilerError as error:
            # A request without an answer may have been carried out, so the cluster's quotas decide.
            shown: Mapping[QuotaEntity, QuotaLimits] = {}
            with contextlib.suppress(ReconcilerError):
                shown = self.read()
            return [
                ""
                if any(limit.after for limit in change.limits) and change.is_done(shown.get(change.entity, {}))
                else f"{self.cluster.name}: {error}"
                for change in changes
            ]
        words = {whom: f"{self.cluster.name}: {whom}: {text}" for whom, text in {**refused, **late}.items()}
        return [words.get(change.entity, "") for change in changes]

    def _write(
        self, known: Mapping[QuotaEntity, frozenset[str]], entries: Mapping[QuotaEntity, frozenset[str]]
    ) -> None:
        """Writes changed entries, and deletes entries without a key of ours."""
        differing = {whom: keys or None for whom, keys in entries.items() if keys != known.get(whom, NO_KEYS)}
        if differing:
            self.record.write(differing)


def _keys(change: AlterQuota, *, gone: bool) -> frozenset[str]:
    """Keys that a change removes if ``gone``, else keys that it sets."""
    return frozenset(limit.key for limit in change.limits if (limit.after is None) is gone)
