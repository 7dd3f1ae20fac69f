"""Changes of client quotas."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.changes.reasons import Why
from reconciler.model.changes.subject import About, Subject
from reconciler.model.changes.vocabulary import Action, BaseChange, KindName, Reason, Stage
from reconciler.model.quotas import QuotaEntity


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One key of a quota. ``before`` None: not set; ``after`` None: removed."""

    key: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class AlterQuota(BaseChange):
    """The keys of one entity that differ; its other keys do not change."""

    kind = KindName.QUOTAS
    word = "alter_quota"

    cluster: str
    entity: QuotaEntity
    limits: tuple[LimitChange, ...]
    reason: Reason

    @property
    def id(self) -> str:
        verb = "prune-quota" if self.reason.code is Why.PRUNE else "quota"
        return f"{verb}:{self.cluster}: {self.entity}"

    @property
    def subject(self) -> Subject:
        return Subject(About.QUOTA, self.cluster, str(self.entity))

    @property
    def stage(self) -> Stage:
        return Stage.REMOVALS if self.reason.code is Why.PRUNE else Stage.QUOTAS

    @property
    def action(self) -> Action:
        if all(limit.before is None for limit in self.limits):
            return Action.CREATE
        return Action.DELETE if all(limit.after is None for limit in self.limits) else Action.UPDATE

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(f"{self.id} {limit.key} = {limit.after}" for limit in self.limits)
