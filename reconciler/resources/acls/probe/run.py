"""Applies ACL batches one by one: record the state before, apply, probe, undo what fails its probe.

Outcomes are reported only after the probe. After a failed probe, the cluster gets no further access changes in this
run; other clusters and topics continue. A killed run leaves its batch pending for the next plan.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.errors import ClusterError, Unknown
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.live import Before
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.ports import ClusterAdmin, Prober
from reconciler.model.principals import AclBinding
from reconciler.model.reports.probe import Needs, Probe, ProbeCheck, ProbeVerdict
from reconciler.resources.acls.probe import verdict
from reconciler.resources.acls.probe.rights import KnownLogins
from reconciler.resources.acls.probe.verdict import Evidence, Views, checks, lagging
from reconciler.text import counted


@dataclass(frozen=True, slots=True)
class AclBatch:
    cluster: str
    stage: str
    planned: tuple[Planned, ...]

    @property
    def changes(self) -> tuple[AclChange, ...]:
        return tuple(planned.change for planned in self.planned if isinstance(planned.change, AclChange))


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Settings of waves. ``note``, ``probed``: callbacks."""

    prober: Prober
    patience: float
    """Seconds within which brokers must show the changes."""
    held: Callable[[], str]
    """Returns why nothing more may be written, such as a lost lock, or empty."""
    note: Callable[[str, str], None]
    probed: Callable[[Probe], None]
    wait: Callable[[float], None] = time.sleep


@dataclass
class _Open:
    """The wave in progress."""

    wave: AclBatch
    rules: frozenset[AclBinding] = frozenset()
    before: Mapping[AclBinding, Before] = field(default_factory=dict)
    """The state that an undo restores."""
    needs: Sequence[Needs] = ()
    undoing: str = ""
    """Why an undo has begun, or empty."""


class AclBatches:
    """The waves of one run. ``stopped``: cluster -> why no further access change begins there."""

    def __init__(self, conduct: ProbeSettings) -> None:
        self.conduct = conduct
        self.stopped: dict[str, str] = {}
        self._logins = KnownLogins(conduct.prober)
        self._open: _Open | None = None

    def carry_out(self, wave: AclBatch, admin: ClusterAdmin) -> list[Outcome]:
        """Returns one outcome for each change, in order. Raises only interrupts."""
        if why := self.stopped.get(wave.cluster):
            return [Outcome(planned.id, Result.SKIPPED, f"not begun: {why}") for planned in wave.planned]
        began = time.monotonic()
        under_way = self._open = _Open(wave)
        try:
            if wrong := self._look(under_way, admin):
                return _all(wave, wrong)
            outcomes = self._probed(under_way, admin)
        except ClusterError as error:
            return _all(wave, str(error))
        self._open = None
        seconds = (time.monotonic() - began) / len(outcomes)
        return [replace(outcome, seconds=seconds) for outcome in outcomes]

    def cut_off(self, planned: Planned, acls: frozenset[AclBinding]) -> Outcome | None:
        """The outcome of a change that an interrupt caught in progress; ``acls``: the present rules."""
        change, under_way = planned.change, self._open
        if under_way is None or not isinstance(change, AclChange):
            return None
        if (change.acl in acls) is isinstance(change, CreateAcl):
            return Outcome(planned.id, Result.UNPROVEN, verdict.interrupted(under_way.undoing))
        if under_way.undoing:
            return Outcome(planned.id, Result.UNDONE, verdict.undone(under_way.undoing))
        return None

    def _look(self, under_way: _Open, admin: ClusterAdmin) -> str:
        """Records the state before the wave. Returns why the wave cannot begin, or empty."""
        access = admin.read_access()
        if not isinstance(access.acls, frozenset):
            return verdict.unreadable(access)
        if isinstance(access.owned, Unknown):
            return f"{access.owned.error}\n{access.owned.todo}"
        wave = under_way.wave
        under_way.before = verdict.before_of(wave.changes, access)
        under_way.rules = verdict.put_back(access.acls, under_way.before)
        under_way.needs = self.conduct.prober.needs(wave.cluster)
        return ""

    def _probed(self, under_way: _Open, admin: ClusterAdmin) -> list[Outcome]:
        """Makes the changes of a wave, and probes them: confirms them, reverts them, or reports them as unproven if no
        answer decides."""
        wave = under_way.wave
        logins = self._logins.before(wave.cluster, under_way.needs, [change.acl for change in wave.changes])
        admin.keep_pending(under_way.before)
        # A sent change counts only after its probe, so its outcome is reported then.
        by_id = {outcome.id: outcome for outcome in admin.perform(wave.planned, lambda _: None)}
        silent = f"cluster {wave.cluster} gave no answer for this change\nRun plan again to see what is left."
        outcomes = [by_id.get(planned.id) or Outcome(planned.id, Result.FAILED, silent) for planned in wave.planned]
        done = _done(wave, outcomes)
        if not done:
            return outcomes
        self.conduct.note(f"access {wave.cluster}", f"probing {counted(len(done), 'rule')} of stage {wave.stage}")
        began = time.monotonic()
        views: Views = {}
        try:
            views = self._views(done, admin)
            logins = self._logins.after(wave.cluster, logins)
            server = self.conduct.prober.server(wave.cluster)
            probe_checks = checks(Evidence(under_way.rules, done, views, tuple(under_way.needs), logins, server))
        except ClusterError as error:
            why = ". ".join(filter(None, (error.what, error.why)))
            probe_checks = (ProbeCheck("rules", ProbeVerdict.UNKNOWN, f"the rules could not be read again: {why}"),)
        probe = Probe(wave.cluster, wave.stage, len(done), probe_checks, time.monotonic() - began)
        self.conduct.probed(probe)
        match probe.verdict:
            case ProbeVerdict.PASSED:
                self._logins.keep(wave.cluster, logins)
                return self._confirmed(under_way, outcomes, views, admin)
            case ProbeVerdict.FAILED:
                self._stop(wave, "failed")
                return self._undone(under_way, outcomes, probe, admin)
            case _:
                self._stop(wave, "could not determine whether it holds")
                return [_turned(outcome, Result.UNPROVEN, verdict.unproven(probe.why)) for outcome in outcomes]

    def _views(self, done: Sequence[AclChange], admin: ClusterAdmin) -> Views:
        """Waits, up to the patience, until every broker shows the changes."""
        until, pause = time.monotonic() + self.conduct.patience, 0.02
        while True:
            views = admin.rules_by_broker()
            if not lagging(views, done) or time.monotonic() > until:
                return views
            self.conduct.wait(pause)
            pause = min(pause * 2, 1.0)

    def _confirmed(
        self, under_way: _Open, outcomes: Sequence[Outcome], views: Views, admin: ClusterAdmin
    ) -> list[Outcome]:
        """Marks a passed wave as confirmed. If that cannot be written, the next run would undo the wave, so it counts
        as unproven."""
        done = {change.acl for change in _done(under_way.wave, outcomes)}
        as_before = frozenset.intersection(*(verdict.settled(view, under_way.before) for view in views.values()))
        try:
            admin.keep_pending(dict.fromkeys(done | as_before))
        except ClusterError as error:
            return [
                _turned(outcome, Result.UNPROVEN, verdict.unproven(f"that it passed is not written: {error.what}"))
                for outcome in outcomes
            ]
        return list(outcomes)

    def _undone(
        self, under_way: _Open, outcomes: Sequence[Outcome], probe: Probe, admin: ClusterAdmin
    ) -> list[Outcome]:
        """Restores everything that the wave touched, including failed changes."""
        wave, before = under_way.wave, under_way.before
        under_way.undoing = probe.why
        failures: Mapping[AclBinding, str]
        if held := self.conduct.held():
            failures = dict.fromkeys(before, held)
        else:
            self.conduct.note(f"access {wave.cluster}", f"undoing stage {wave.stage}: {probe.why}")
            try:
                failures = admin.put_back(before)
            except ClusterError as error:
                failures = dict.fromkeys(before, str(error))
        with contextlib.suppress(ClusterError):  # an entry about an unchanged rule is harmless
            admin.keep_pending({acl: None for acl in before if acl not in failures})
        self._logins.forget(wave.cluster)
        server = self.conduct.prober.server(wave.cluster)
        all_outcomes = []
        for change, outcome in zip(wave.changes, outcomes, strict=True):
            if reason := failures.get(change.acl):
                text = verdict.left_words(change, before[change.acl], (probe.why, reason, server), probe.todo)
                all_outcomes.append(_turned(outcome, Result.LEFT, text))
            else:
                all_outcomes.append(_turned(outcome, Result.UNDONE, verdict.undone(probe.why)))
        return all_outcomes

    def _stop(self, wave: AclBatch, how: str) -> None:
        self.stopped[wave.cluster] = (
            f"the probe of stage {wave.stage} on {wave.cluster} {how}, so no further access change is made there"
        )


def _done(wave: AclBatch, outcomes: Sequence[Outcome]) -> tuple[AclChange, ...]:
    pairs = zip(wave.changes, outcomes, strict=True)
    return tuple(change for change, outcome in pairs if outcome.result is Result.DONE)


def _all(wave: AclBatch, error: str) -> list[Outcome]:
    return [Outcome(planned.id, Result.FAILED, error) for planned in wave.planned]


def _turned(outcome: Outcome, result: Result, text: str) -> Outcome:
    """An outcome after undoing; a failed change keeps its own."""
    return replace(outcome, result=result, error=text) if outcome.result is Result.DONE else outcome
