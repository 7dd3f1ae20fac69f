"""Reads and changes the ACLs and the client quotas of one cluster, in batches; each change is confirmed by reading
again.

The ownership record gets an entry before its rule is made, and loses it after the rule is deleted: a killed run leaves
at most an entry too many, never a rule of ours without an entry.
"""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite

from reconciler.backends.clusters.in_batches import KindControl, not_shown, unless_refused, until_shown
from reconciler.backends.connections.errors import SECURITY_DISABLED, Asked
from reconciler.backends.connections.requests import Requests
from reconciler.backends.state.environment_records import LIFTED, OWNED, PENDING, QUOTAS, SubjectRecord
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol import acls as wire_acls
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.acls import Acl
from reconciler.model.changes import AclChange, AlterQuota, CreateAcl, DeleteAcl, Grant, Reason, Subject, Why
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiveAccess, Made
from reconciler.model.principals import (
    NO_LIMIT,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    QuotaEntity,
    QuotaLimits,
    ResourceType,
    Unsupported,
    entity,
)
from reconciler.text import batched

RESOURCES = {
    2: ResourceType.TOPIC,
    3: ResourceType.GROUP,
    4: ResourceType.CLUSTER,
    5: ResourceType.TRANSACTIONAL_ID,
    6: ResourceType.DELEGATION_TOKEN,
    7: ResourceType.USER,
}
OPERATIONS = {
    2: Operation.ALL,
    3: Operation.READ,
    4: Operation.WRITE,
    5: Operation.CREATE,
    6: Operation.DELETE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
    9: Operation.CLUSTER_ACTION,
    10: Operation.DESCRIBE_CONFIGS,
    11: Operation.ALTER_CONFIGS,
    12: Operation.IDEMPOTENT_WRITE,
    13: Operation.CREATE_TOKENS,
    14: Operation.DESCRIBE_TOKENS,
    15: Operation.TWO_PHASE_COMMIT,
}
PATTERNS = {3: PatternType.LITERAL, 4: PatternType.PREFIXED}
PERMISSIONS = {2: Permission.DENY, 3: Permission.ALLOW}

_RESOURCE_CODES = {word: code for code, word in RESOURCES.items()}
_OPERATION_CODES = {word: code for code, word in OPERATIONS.items()}
_PATTERN_CODES = {word: code for code, word in PATTERNS.items()}
_PERMISSION_CODES = {word: code for code, word in PERMISSIONS.items()}


def binding_of(acl: Acl) -> AclBinding | None:
    """The rule as a value; None if this version does not know its type, pattern or operation."""
    resource, operation = RESOURCES.get(acl.resource), OPERATIONS.get(acl.operation)
    pattern, permission = PATTERNS.get(acl.pattern), PERMISSIONS.get(acl.permission)
    if resource is None or operation is None or pattern is None or permission is None:
        return None
    return AclBinding(resource, acl.name, pattern, acl.principal, acl.host, operation, permission)


def acl_of(binding: AclBinding) -> Acl:
    """The rule with the protocol's numbers; the inverse of ``binding_of``."""
    return Acl(
        _RESOURCE_CODES[binding.resource],
        binding.name,
        _PATTERN_CODES[binding.pattern],
        binding.principal,
        binding.host,
        _OPERATION_CODES[binding.operation],
        _PERMISSION_CODES[binding.permission],
    )


def not_understood(acl: Acl) -> str:
    """Words for a rule that ``binding_of`` does not know."""
    return (
        f"{acl.principal} on {acl.name}: resource {acl.resource}, pattern {acl.pattern}, operation {acl.operation},"
        f" permission {acl.permission} (numbers of Kafka's protocol)"
    )


DESCRIBE = Asked("read the access rules", "Describe", "--cluster")
ALTER = Asked("change access rules", "Alter", "--cluster")
PATIENCE_SECONDS = 30.0

UNDOING, UNDO = Grant("undoing", "undoing"), Reason(Why.UNDO, "puts back what an ACL batch changed")


class AclRequests(Requests):
    """Raises ClusterError."""

    patience = PATIENCE_SECONDS

    def described(self, broker: int | None = None) -> list[Acl] | Unsupported:
        """All rules in the authorizer of ``broker``."""

        async def session(connection: Connection) -> list[Acl] | Unsupported:
            try:
                return await wire_acls.described(connection, self.patience)
            except BrokerError as error:
                if error.code == SECURITY_DISABLED:
                    return Unsupported("the cluster has no authorizer (SECURITY_DISABLED)")
                raise

        return self.ask(DESCRIBE, session, broker)

    def shown(self, broker: int) -> frozenset[AclBinding]:
        acls = self.described(broker)
        if isinstance(acls, Unsupported):
            raise self.refused(SECURITY_DISABLED, DESCRIBE)
        return frozenset(binding for acl in acls if (binding := binding_of(acl)) is not None)

    def changed(self, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        """Rule -> why its change failed, or the broker that does not show it; confirmed changes are left out."""
        creates = [change.acl for change in changes if isinstance(change, CreateAcl)]
        deletes = [change.acl for change in changes if isinstance(change, DeleteAcl)]
        failed: dict[AclBinding, str] = {}
        for acls, send in ((creates, wire_acls.created), (deletes, wire_acls.deleted)):
            session = partial(send, acls=[acl_of(acl) for acl in acls], patience=self.patience)
            answers = self.ask(ALTER, session) if acls else []
            for acl, answer in zip(acls, answers, strict=True):
                if answer.code:
                    failed[acl] = str(self.refused(answer.code, ALTER, answer.message))
        # A broker answers when the controller has the change. Each authorizes by its own copy, so each is asked.
        sent = {change.acl: change for change in changes if change.acl not in failed}

        def differing(broker: int) -> list[AclBinding]:
            shown = self.shown(broker)
            return [acl for acl, change in sent.items() if (acl in shown) is isinstance(change, DeleteAcl)]

        for acl, broker in until_shown(self.brokers() if sent else (), differing).items():
            state = "does not exist yet" if isinstance(sent[acl], CreateAcl) else "still exists"
            failed[acl] = f"{state} on broker {broker}\nRun plan again."
        return failed


class AccessControl(KindControl[AclChange]):
    """Access rules."""

    classes = (CreateAcl, DeleteAcl)

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        super().__init__(cluster, principal)
        self.record = SubjectRecord(OWNED, cluster, principal, environment)
        self.pending = SubjectRecord(PENDING, cluster, principal, environment)
        self.lifted = SubjectRecord(LIFTED, cluster, principal, environment)

    def read(self) -> LiveAccess:
        """All rules, and those of ours. A refusal is Unknown with the rule to add. Raises ClusterError if the cluster
        does not answer."""

        def described() -> list[Acl] | Unsupported:
            with AclRequests(self.cluster, self.principal) as requests:
                return requests.described()

        acls = unless_refused(f"access of {self.cluster.name}", described, "unreachable", "authentication")
        if isinstance(acls, Unknown | Unsupported):
            return LiveAccess(acls)
        words = [(acl, binding_of(acl)) for acl in acls]
        prefixes = self.record.prefix, self.pending.prefix, self.lifted.prefix
        records = unless_refused(f"ownership record of {self.cluster.name}", lambda: self.record.log.read(*prefixes))
        return LiveAccess(
            acls=frozenset(binding for _, binding in words if binding is not None),
            owned=records if isinstance(records, Unknown) else self.record.among(records),
            pending={} if isinstance(records, Unknown) else self.pending.among(records),
            lifted={} if isinstance(records, Unknown) else self.lifted.among(records),
            not_understood=tuple(sorted(not_understood(acl) for acl, binding in words if binding is None)),
        )

    def by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        """Broker -> rules in its authorizer. Raises ClusterError."""
        with AclRequests(self.cluster, self.principal) as requests:
            return {broker: requests.shown(broker) for broker in requests.brokers()}

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        """Restores rules as they were. Rule -> why it could not be restored; restored ones are left out."""
        kept = {acl: state.made for acl, state in before.items() if state.made is not None}
        struck = {acl: None for acl, state in before.items() if state.made is None}
        changes = [
            (CreateAcl if entry.there else DeleteAcl)(self.cluster.name, acl, UNDOING, UNDO)
            for acl, entry in before.items()
        ]
        failures: dict[AclBinding, str] = {}
        try:
            # Rules of ours are recorded before they exist again, and rules of others struck only once they are
            # restored: a killed run leaves an entry too many, never a rule of ours without one.
            self.record.write(kept)
            for batch in batched(changes, self.most):
                failures |= self.sent(batch)
            self.record.write({acl: None for acl in struck if acl not in failures})
        except ClusterError as error:
            return dict.fromkeys(before, f"{self.cluster.name}: {error}")
        return failures

    def failures(self, changes: Sequence[AclChange]) -> list[str]:
        created = {
            change.acl: Made(change.grant.title, change.grant.maker)
            for change in changes
            if isinstance(change, CreateAcl)
        }
        try:
            if created:
                self.record.write(created)
            errors_by_rule = self.sent(changes)
            gone = [
                change.acl for change in changes if isinstance(change, DeleteAcl) and change.acl not in errors_by_rule
            ]
            if gone:
                self.record.write(dict.fromkeys(gone))
        except ClusterError as error:
            # A request without an answer may have been carried out, so the cluster's rules decide. A deletion counts as
            # failed, because its entry may still be in the record.
            made: frozenset[AclBinding] = frozenset()
            with contextlib.suppress(ClusterError):
                shown = self.read().acls
                made = shown if isinstance(shown, frozenset) else made
            return [
                ""
                if isinstance(change, CreateAcl) and change.acl in made
                else f"{change.acl}: {self.cluster.name}: {error}"
                for change in changes
            ]
        return [errors_by_rule.get(change.acl, "") for change in changes]

    def sent(self, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        """Rule -> why its change failed, in words that name cluster and rule."""
        with AclRequests(self.cluster, self.principal) as requests:
            failed = requests.changed(changes)
        return {acl: f"{self.cluster.name}: {acl}: {words}" for acl, words in failed.items()}


# Reads and alters the client quotas of one cluster (KIP-546), in batches.
#
# A change counts as done once every broker shows it, because each enforces its own copy. The ownership record gets a
# key before it is set, and loses it after it is removed.

DESCRIBE_QUOTAS = Asked("read the quotas", "DescribeConfigs", "--cluster")
ALTER_QUOTAS = Asked("change quotas", "AlterConfigs", "--cluster")
NO_KEYS: frozenset[str] = frozenset()


class QuotaRequests(Requests):
    """Raises ClusterError."""

    def described(self, broker: int | None = None) -> dict[QuotaEntity, QuotaLimits]:
        """All quotas in the copy of ``broker``."""
        answer = self.send(DESCRIBE_QUOTAS, protocol.DescribeClientQuotasRequest, broker, components=[], strict=False)
        self.check(answer.error_code, DESCRIBE_QUOTAS, answer.error_message)
        return {
            entity({part.entity_type: part.entity_name for part in entry.entity}): {
                item.key: float(item.value) if isfinite(item.value) else NO_LIMIT for item in entry.values
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
        answer = self.send(
            ALTER_QUOTAS, protocol.AlterClientQuotasRequest, entries=entries, validate_only=validate_only
        )
        return {
            entity({part.entity_type: part.entity_name for part in entry.entity}): self.refused(
                entry.error_code, ALTER_QUOTAS, entry.error_message
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
