"""Access rules of one cluster: read in one request, changed in batches, each change told by what the cluster shows.

Made rules are written to the ownership record before they are made, deleted ones struck from it after they are gone, so
that a run that is cut off leaves at most an entry too many, never a rule that nobody owns up to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from reconciler.acls import AclBinding, Unsupported
from reconciler.changes import AclChange, CreateAcl, DeleteAcl, Grant, Reason
from reconciler.edges.kafka import errors
from reconciler.edges.kafka.acl_codes import acl_of, binding_of, not_understood
from reconciler.edges.kafka.errors import Asked, Speaker
from reconciler.edges.kafka.identity import client_settings, secrets_in, speaker_of
from reconciler.edges.kafka.ownership import OwnershipRecord, Recorded
from reconciler.edges.kafka.performing import perform_in_batches
from reconciler.errors import ClusterError, Unknown
from reconciler.live import Before, LiveAccess, Made
from reconciler.plans import Outcome, Planned
from reconciler.topology import Cluster, Principal
from wire import acls as wire_acls
from wire.cluster import Cluster as WireCluster
from wire.errors import AuthenticationFailedError, BrokerError, SettingError, WireError
from wire.settings import connection_settings

DESCRIBE = Asked("read the access rules", "Describe", "--cluster")
ALTER = Asked("change access rules", "Alter", "--cluster")
BATCH = 1_000
AGREE_SECONDS = 30.0
SECURITY_DISABLED, DENIED = 54, 31

UNDOING, UNDO = Grant("undoing", "undoing"), Reason("undo", "puts back what a wave changed")

Answer = TypeVar("Answer")
Session = Callable[[WireCluster], Awaitable[Answer]]


class AccessControl:
    """The rules of one cluster as one principal. Opens a connection for each call and keeps none."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        self.cluster = cluster
        self.principal = principal
        self.record = OwnershipRecord(cluster, principal, environment)

    def read(self) -> LiveAccess:
        """A refusal is Unknown with the rule to add. Raises ClusterError where the cluster does not answer at all."""
        try:
            found = self._run(_described)
        except ClusterError as error:
            if error.kind in ("unreachable", "authentication"):
                raise
            return LiveAccess(Unknown(f"access of {self.cluster.name}", f"{error.what}. {error.why}", error.todo))
        if isinstance(found, Unsupported):
            return LiveAccess(found)
        words = [(acl, binding_of(acl)) for acl in found]
        recorded = self._recorded()
        return LiveAccess(
            acls=frozenset(binding for _, binding in words if binding is not None),
            owned=recorded if isinstance(recorded, Unknown) else recorded.owned,
            pending={} if isinstance(recorded, Unknown) else recorded.pending,
            not_understood=tuple(sorted(not_understood(acl) for acl, binding in words if binding is None)),
        )

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
        """One outcome a change, in order; never raises for one. ``changes`` are all of access rules."""
        return perform_in_batches(changes, BATCH, lambda batch: self._failures([*map(_narrowed, batch)]), progress)

    def by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        """What each broker's authorizer knows now. Raises ClusterError."""

        async def asked(cluster: WireCluster) -> dict[int, frozenset[AclBinding]]:
            await cluster.refresh(())
            return {node: await _shown(cluster, node) for node in cluster.brokers}

        return self._run(asked)

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        """Why each failed that did. What was ours is ours before it is there again; what was not, is struck last."""
        kept = {acl: one.made for acl, one in before.items() if one.made is not None}
        struck = {acl: None for acl, one in before.items() if one.made is None}
        changes = [_putting_back(self.cluster.name, acl, one.there) for acl, one in before.items()]
        failures: dict[AclBinding, str] = {}
        try:
            self.record.write(kept)
            for start in range(0, len(changes), BATCH):
                failures |= self._run(partial(self._sent, changes=changes[start : start + BATCH]))
            self.record.write({acl: None for acl in struck if acl not in failures})
        except ClusterError as error:
            return dict.fromkeys(before, f"{self.cluster.name}: {error}")
        return failures

    def _failures(self, changes: Sequence[AclChange]) -> list[str]:
        """Why each is not done, or empty."""
        created = {one.acl: Made(one.grant.title, one.grant.maker) for one in changes if isinstance(one, CreateAcl)}
        try:
            if created:
                self.record.write(created)
            errors_by_rule = self._run(lambda cluster: self._sent(cluster, changes))
            gone = [one.acl for one in changes if isinstance(one, DeleteAcl) and one.acl not in errors_by_rule]
            if gone:
                self.record.write(dict.fromkeys(gone))
        except ClusterError as error:
            return self._cut_off(changes, f"{self.cluster.name}: {error}")
        return [errors_by_rule.get(one.acl, "") for one in changes]

    def _cut_off(self, changes: Sequence[AclChange], error: str) -> list[str]:
        """After a request that may or may not have been carried out: what the cluster shows decides."""
        try:
            shown = self.read().acls
        except ClusterError:
            shown = Unknown(f"access of {self.cluster.name}", "no answer")
        done = shown if isinstance(shown, frozenset) else frozenset()
        return ["" if isinstance(one, CreateAcl) and one.acl in done else f"{one.acl}: {error}" for one in changes]

    async def _sent(self, cluster: WireCluster, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        connection = await cluster.control()
        creates = [one.acl for one in changes if isinstance(one, CreateAcl)]
        deletes = [one.acl for one in changes if isinstance(one, DeleteAcl)]
        failed: dict[AclBinding, str] = {}
        for acls, send in ((creates, wire_acls.created), (deletes, wire_acls.deleted)):
            answers = await send(connection, [acl_of(acl) for acl in acls]) if acls else []
            for acl, answer in zip(acls, answers, strict=True):
                if answer.code:
                    failed[acl] = f"{self.cluster.name}: {acl}: {self._refused(answer.code, answer.message, ALTER)}"
        sent = [one for one in changes if one.acl not in failed]
        return failed | await self._agreed(cluster, sent)

    async def _agreed(self, cluster: WireCluster, changes: Sequence[AclChange]) -> dict[AclBinding, str]:
        """Asks every broker until its authorizer shows what was done: a rule is live on each for itself."""
        await cluster.refresh(())
        until = time.monotonic() + AGREE_SECONDS
        differing: dict[AclBinding, str] = {}
        for node in cluster.brokers:
            pause = 0.01
            while changes:
                shown = await _shown(cluster, node)
                differing = {
                    one.acl: f"{self.cluster.name}: {one.acl} {_unlike(one)} on broker {node}\nRun plan again."
                    for one in changes
                    if (one.acl in shown) is isinstance(one, DeleteAcl)
                }
                if not differing or time.monotonic() > until:
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 2, 1.0)
            if differing:
                return differing
        return {}

    def _recorded(self) -> Recorded | Unknown:
        try:
            return self.record.read()
        except ClusterError as error:
            subject = f"ownership record of {self.cluster.name}"
            return Unknown(subject, f"{error.what}. {error.why}", error.todo)

    def _run(self, ask: Session[Answer]) -> Answer:
        """Raises ClusterError, with no secret in it."""
        speaker = speaker_of(self.cluster, self.principal)
        raw = client_settings(self.cluster, self.principal)
        secrets = secrets_in(self.cluster.client_for(self.principal), raw)

        async def session() -> Answer:
            cluster = WireCluster(self.cluster.name, self.cluster.bootstrap_servers, connection_settings(raw))
            try:
                return await ask(cluster)
            finally:
                cluster.close()

        try:
            return asyncio.run(session())
        except WireError as error:
            words = str(error)
            for secret in secrets:
                words = words.replace(secret, "***")
            raise self._error(speaker, error, words) from None

    def _error(self, speaker: Speaker, error: WireError, words: str) -> ClusterError:
        match error:
            case AuthenticationFailedError():
                return errors.authentication(speaker, words)
            case SettingError():
                why = f"Access rules travel over a connection that does not know it: {words}"
                what = f"the access rules of cluster {speaker.cluster} cannot be read or changed"
                return ClusterError(speaker.cluster, "invalid", what, why, "Use settings it knows for this principal.")
            case BrokerError():
                return self._refused(error.code, words, DESCRIBE)
            case _:
                return errors.unreachable(speaker, (words,))

    def _refused(self, code: int, words: str, asked: Asked) -> ClusterError:
        name = self.cluster.name
        if code == DENIED:
            return errors.denied(speaker_of(self.cluster, self.principal), asked)
        if code == SECURITY_DISABLED:
            what = f"cluster {name} has no authorizer"
            return ClusterError(name, "invalid", what, "It keeps no access rules", "Set authorizer.class.name on it.")
        why = "The request as a whole counts as not carried out"
        todo = "See the broker's log for more."
        return ClusterError(name, "other", f"cluster {name} refused to {asked.verb}: {words}", why, todo)


async def _described(cluster: WireCluster) -> list[wire_acls.Acl] | Unsupported:
    try:
        return await wire_acls.described(await cluster.control())
    except BrokerError as error:
        if error.code == SECURITY_DISABLED:
            return Unsupported("the cluster has no authorizer (SECURITY_DISABLED)")
        raise


async def _shown(cluster: WireCluster, node: int) -> frozenset[AclBinding]:
    connection = await cluster.control(node)
    words = (binding_of(acl) for acl in await wire_acls.described(connection))
    return frozenset(acl for acl in words if acl is not None)


def _putting_back(cluster: str, acl: AclBinding, there: bool) -> AclChange:
    return CreateAcl(cluster, acl, UNDOING, UNDO) if there else DeleteAcl(cluster, acl, UNDOING, UNDO)


def _narrowed(planned: Planned) -> AclChange:
    if not isinstance(planned.change, AclChange):
        raise ValueError(f"{planned.id} is no change of an access rule")
    return planned.change


def _unlike(change: AclChange) -> str:
    return "is not there yet" if isinstance(change, CreateAcl) else "is still there"
