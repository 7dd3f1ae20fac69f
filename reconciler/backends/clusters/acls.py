"""Reads, creates and deletes the ACLs of one cluster, in batches; each change is confirmed by reading again.

Made rules are written to the ownership record before they are made, deleted ones struck from it after they are gone, so
that a run that is cut off leaves at most an entry too many, never a rule without an entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from reconciler.backends.clusters.acl_codes import acl_of, binding_of, not_understood
from reconciler.backends.clusters.in_batches import KindControl, unless_refused, until_shown
from reconciler.backends.clusters.topics.name_batches import batched
from reconciler.backends.connections.errors import SECURITY_DISABLED, Asked
from reconciler.backends.connections.requests import Requests
from reconciler.backends.state.ownership import OWNED, PENDING, SubjectRecord
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol import acls as wire_acls
from reconciler.model.acls import AclBinding, Unsupported
from reconciler.model.changes import AclChange, CreateAcl, DeleteAcl, Grant, Reason, Why
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiveAccess, Made

DESCRIBE = Asked("read the access rules", "Describe", "--cluster")
ALTER = Asked("change access rules", "Alter", "--cluster")
PATIENCE_SECONDS = 30.0

UNDOING, UNDO = Grant("undoing", "undoing"), Reason(Why.UNDO, "puts back what an ACL batch changed")


class AclRequests(Requests):
    """Raises ClusterError."""

    patience = PATIENCE_SECONDS

    def described(self, broker: int | None = None) -> list[wire_acls.Acl] | Unsupported:
        """Every rule, as the authorizer of ``broker`` knows it now."""

        async def session(connection: Connection) -> list[wire_acls.Acl] | Unsupported:
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
        """Why each is not done that is not, or is not shown by every broker."""
        creates = [change.acl for change in changes if isinstance(change, CreateAcl)]
        deletes = [change.acl for change in changes if isinstance(change, DeleteAcl)]
        failed: dict[AclBinding, str] = {}
        for acls, send in ((creates, wire_acls.created), (deletes, wire_acls.deleted)):
            session = partial(send, acls=[acl_of(acl) for acl in acls], patience=self.patience)
            answers = self.ask(ALTER, session) if acls else []
            for acl, answer in zip(acls, answers, strict=True):
                if answer.code:
                    failed[acl] = str(self.refused(answer.code, ALTER, answer.message))
        sent = {change.acl: change for change in changes if change.acl not in failed}

        def differing(broker: int) -> list[AclBinding]:
            shown = self.shown(broker)
            return [acl for acl, change in sent.items() if (acl in shown) is isinstance(change, DeleteAcl)]

        late = until_shown(self.brokers() if sent else (), differing)
        return failed | {
            acl: f"{_unlike(sent[acl])} on broker {broker}\nRun plan again." for acl, broker in late.items()
        }


class AccessControl(KindControl[AclChange]):
    """Access rules."""

    classes = (CreateAcl, DeleteAcl)

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        super().__init__(cluster, principal)
        self.record = SubjectRecord(OWNED, cluster, principal, environment)
        self.pending = SubjectRecord(PENDING, cluster, principal, environment)

    def read(self) -> LiveAccess:
        """A refusal is Unknown with the rule to add. Raises ClusterError where the cluster does not answer at all."""
        acls = unless_refused(f"access of {self.cluster.name}", self._described, "unreachable", "authentication")
        if isinstance(acls, Unknown | Unsupported):
            return LiveAccess(acls)
        words = [(acl, binding_of(acl)) for acl in acls]
        prefixes = self.record.prefix, self.pending.prefix
        records = unless_refused(f"ownership record of {self.cluster.name}", lambda: self.record.log.read(*prefixes))
        return LiveAccess(
            acls=frozenset(binding for _, binding in words if binding is not None),
            owned=records if isinstance(records, Unknown) else self.record.among(records),
            pending={} if isinstance(records, Unknown) else self.pending.among(records),
            not_understood=tuple(sorted(not_understood(acl) for acl, binding in words if binding is None)),
        )

    def _described(self) -> list[wire_acls.Acl] | Unsupported:
        with AclRequests(self.cluster, self.principal) as requests:
            return requests.described()

    def by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        """What each broker's authorizer knows now. Raises ClusterError."""
        with AclRequests(self.cluster, self.principal) as requests:
            return {broker: requests.shown(broker) for broker in requests.brokers()}

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        """Why each failed that did. What was ours is ours before it is there again; what was not, is struck last."""
        kept = {acl: state.made for acl, state in before.items() if state.made is not None}
        struck = {acl: None for acl, state in before.items() if state.made is None}
        changes = [
            (CreateAcl if entry.there else DeleteAcl)(self.cluster.name, acl, UNDOING, UNDO)
            for acl, entry in before.items()
        ]
        failures: dict[AclBinding, str] = {}
        try:
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
            return self._cut_off(changes, f"{self.cluster.name}: {error}")
        return [errors_by_rule.get(change.acl, "") for change in changes]

    def _cut_off(self, changes: Sequence[AclChange], error: str) -> list[str]:
        """After a request that may or may not have been carried out: what the cluster shows decides."""
        try:
            shown = self.read().acls
        except ClusterError:
            shown = Unknown(f"access of {self.cluster.name}", "no answer")
        done = shown if isinstance(shown, frozenset) else frozenset()
        return [
            "" if isinstance(change, CreateAcl) and change.acl in done else f"{change.acl}: {error}"
            for change in changes
        ]

    def sent(self, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        with AclRequests(self.cluster, self.principal) as requests:
            failed = requests.changed(changes)
        return {acl: f"{self.cluster.name}: {acl}: {words}" for acl, words in failed.items()}


def _unlike(change: AclChange) -> str:
    return "is not there yet" if isinstance(change, CreateAcl) else "is still there"
