"""Access rules, quotas and SCRAM users of ``FakeCluster``, by Kafka's rules, with the record of what is ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.errors import ClusterError, Unknown
from reconciler.model.changes import AclChange, AlterQuota, AlterUser, CreateAcl, DeleteUser, UserChange
from reconciler.model.live import Before, Broker, LiftedCopies, LiveAccess, LiveUsers, Made
from reconciler.model.principals import (
    BYTE_RATES,
    CLIENT_QUOTAS,
    AclBinding,
    Mechanism,
    QuotaEntity,
    QuotaLimits,
    Unsupported,
    UserRecord,
)


class BrokerError(Exception):
    """What a broker answers for one topic: Kafka's error name and a message."""


class HeldPrincipals:
    """What a ``FakeCluster`` holds about principals. ``altering``: whether this one may Alter the cluster; ``cut_off``:
    killed once, between a password and its record."""

    brokers: tuple[Broker, ...]
    away: set[int]
    _refuse: dict[str, str]

    @property
    def name(self) -> str:
        raise NotImplementedError

    def call(self) -> None:
        raise NotImplementedError

    def _one_more(self) -> None:
        raise NotImplementedError

    def nobody(self) -> None:
        """No rule, no quota, no user."""
        self.acls: set[AclBinding] = set()
        self.owned: dict[AclBinding, Made] = {}
        self.lifted: dict[LiftedCopies, tuple[str, ...]] = {}
        self.pending: dict[AclBinding, Before] = {}
        self.altering = True
        self._late: tuple[int, int, frozenset[AclBinding]] = (0, 0, frozenset())
        self.access_unreadable: Unknown | Unsupported | None = None
        self.record_unreadable: Unknown | None = None
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.quotas_unreadable: ClusterError | None = None
        self.quota_keys: dict[QuotaEntity, frozenset[str]] = {}
        self.users: dict[str, dict[Mechanism, int]] = {}
        self.passwords: dict[str, dict[Mechanism, str]] = {}
        self.recorded: dict[str, UserRecord] = {}
        self.users_unreadable: Unknown | Unsupported | None = None
        self.cut_off = False

    def show_late(self, broker: int, reads: int) -> None:
        """For so many reads ``broker`` goes on with the rules of now."""
        self._late = (broker, reads, frozenset(self.acls))

    def read_access(self) -> LiveAccess:
        self.call()
        owned = self.record_unreadable or dict(self.owned)
        acls = self.access_unreadable or frozenset(self.acls)
        return LiveAccess(acls, owned, pending=dict(self.pending), lifted=dict(self.lifted))

    def rules_by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        self.call()
        views = {broker.id: frozenset(self.acls) for broker in self.brokers if broker.id not in self.away}
        late, reads, old = self._late
        if reads:
            views[late], self._late = old, (late, reads - 1, old)
        return views

    def own_rules(self, rules: Mapping[AclBinding, Made]) -> None:
        self.call()
        self.owned |= rules

    def keep_pending(self, before: Mapping[AclBinding, Before | None]) -> None:
        self.call()
        for acl, one in before.items():
            if one is None:
                self.pending.pop(acl, None)
            else:
                self.pending[acl] = one

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        self.call()
        failed: dict[AclBinding, str] = {}
        for acl, one in before.items():
            self._one_more()
            if not self.altering or str(acl) in self._refuse:
                failed[acl] = "CLUSTER_AUTHORIZATION_FAILED"
                continue
            if one.made is not None:
                self.owned[acl] = one.made
            (self.acls.add if one.there else self.acls.discard)(acl)
            if one.made is None:
                self.owned.pop(acl, None)
        return failed

    def read_quotas(self) -> Mapping[QuotaEntity, QuotaLimits]:
        self.call()
        if self.quotas_unreadable is not None:
            raise self.quotas_unreadable
        return {whom: dict(limits) for whom, limits in self.quotas.items()}

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        self.call()
        if isinstance(self.record_unreadable, Unknown):
            raise ClusterError(self.name, "denied", self.record_unreadable.error, "", self.record_unreadable.todo)
        return dict(self.quota_keys)

    def read_users(self) -> LiveUsers:
        self.call()
        there = {name: dict(found) for name, found in self.users.items()}
        return LiveUsers(self.users_unreadable or there, self.record_unreadable or dict(self.recorded))

    def _rule(self, change: AclChange) -> None:
        if not self.altering:
            raise BrokerError("CLUSTER_AUTHORIZATION_FAILED: Alter on the cluster is missing")
        if isinstance(self.access_unreadable, Unsupported):
            raise BrokerError("SECURITY_DISABLED: no authorizer is configured")
        if reason := self._refuse.get(str(change.acl)):
            raise BrokerError(f"CLUSTER_AUTHORIZATION_FAILED: {reason}")
        if isinstance(change, CreateAcl):
            self.owned[change.acl] = Made(change.grant.title, change.grant.maker)
            self.acls.add(change.acl)
        else:
            self.acls.discard(change.acl)
            self.owned.pop(change.acl, None)

    def _user(self, change: UserChange) -> None:
        """ScramControlManager; ``cut_off`` is a kill after the password was set and before that was recorded."""
        if reason := self._refuse.get(change.user):
            raise BrokerError(f"CLUSTER_AUTHORIZATION_FAILED: {reason}")
        if isinstance(change, AlterUser) and not all(4096 <= one.after <= 16384 for one in change.credentials):
            raise BrokerError("UNACCEPTABLE_CREDENTIAL: Too few or too many iterations")
        there, before = self.users.setdefault(change.user, {}), self.recorded.get(change.user) or UserRecord(None)
        if isinstance(change, DeleteUser):
            for one in change.mechanisms:
                there.pop(one, None)
            left = tuple(one for one in before.mechanisms if one not in change.mechanisms)
            self.recorded[change.user] = replace(before, mechanisms=left)
            if not there:
                del self.users[change.user]
            if not change.left:
                del self.recorded[change.user]
            return
        ours = tuple(sorted({*before.mechanisms, *(one.mechanism for one in change.credentials)}))
        self.recorded[change.user] = replace(before, mechanisms=ours, setting=change.version)
        for asked in change.credentials:
            there[asked.mechanism] = asked.after
            self.passwords.setdefault(change.user, {})[asked.mechanism] = change.password
        if self.cut_off:
            self.cut_off = False
            raise KeyboardInterrupt
        self.recorded[change.user] = UserRecord(change.version, ours)

    def _check_quota(self, change: AlterQuota) -> None:
        """ClientQuotaControlManager: each key of an entity fits its kind, and rates in bytes are whole numbers."""
        if reason := self._refuse.get(str(change.entity)):
            raise BrokerError(f"CLUSTER_AUTHORIZATION_FAILED: {reason}")
        fitting = ("connection_creation_rate",) if change.entity.parts[0].kind == "ip" else CLIENT_QUOTAS
        for one in change.limits:
            if one.key not in fitting:
                raise BrokerError(f"INVALID_REQUEST: Invalid configuration key {one.key}")
            if one.after is not None and one.key in BYTE_RATES and one.after != int(one.after):
                raise BrokerError(f"INVALID_REQUEST: {one.key} must be a whole number")

    def _quota(self, change: AlterQuota) -> None:
        self._check_quota(change)
        keys = self.quota_keys.get(change.entity, frozenset())
        keys |= {one.key for one in change.limits if one.after is not None}
        self.quota_keys[change.entity] = keys - {one.key for one in change.limits if one.after is None}
        limits = self.quotas.setdefault(change.entity, {})
        for one in change.limits:
            if one.after is None:
                limits.pop(one.key, None)
            else:
                limits[one.key] = one.after
        if not limits:
            del self.quotas[change.entity]
