"""Asks brokers what each login may do, before an ACL batch and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from reconciler.errors import Unknown
from reconciler.model.acls import AclBinding
from reconciler.model.environment.topology import Principal
from reconciler.model.ports import Prober
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs
from reconciler.resources.acls.probe.rights import ProbedLogin, ask_for, wanted

Logins = Mapping[Principal, ProbedLogin]


class RulesAlone:
    """A ``Prober`` that knows nobody: what is left is whether the cluster shows what was done, and what it comes to."""

    def needs(self, _cluster: str) -> Sequence[Needs]:
        return ()

    def why_not(self, _cluster: str, _kind: Principal) -> str:
        return "nobody is known"

    def rights(self, _cluster: str, kind: Principal, _ask: Ask) -> Rights:
        return Rights(kind, "", "", Unknown("rights", "nobody is known"))

    def server(self, _cluster: str) -> str:
        return "HOST:PORT"


class KnownLogins:
    """Of one run. What a probe was told is what the next wave on that cluster begins with."""

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self._known: dict[str, Logins] = {}

    def before(self, cluster: str, needs: Sequence[Needs], touched: Sequence[AclBinding]) -> Logins:
        known = self._known.get(cluster, {})
        logins: dict[Principal, ProbedLogin] = {}
        for kind in dict.fromkeys(need.kind for need in needs):
            some = wanted([need for need in needs if need.kind is kind], touched)
            if kind in known and set(some) <= set(known[kind].wanted):
                logins[kind] = known[kind]
            else:
                logins[kind] = ProbedLogin(wanted=some, why_not=self.prober.why_not(cluster, kind))
        rights = self._rights(cluster, {kind: login for kind, login in logins.items() if login.before is None})
        return {**logins, **{kind: _before(logins[kind], before) for kind, before in rights.items()}}

    def after(self, cluster: str, logins: Logins) -> Logins:
        rights = self._rights(cluster, logins)
        return {kind: replace(login, after=rights.get(kind)) for kind, login in logins.items()}

    def keep(self, cluster: str, logins: Logins) -> None:
        """They were told after a probe that passed."""
        self._known[cluster] = {kind: replace(login, before=login.after, after=None) for kind, login in logins.items()}

    def forget(self, cluster: str) -> None:
        self._known.pop(cluster, None)

    def _rights(self, cluster: str, logins: Logins) -> dict[Principal, Rights]:
        asked = {kind: login for kind, login in logins.items() if not login.why_not}
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = {
                kind: pool.submit(self.prober.rights, cluster, kind, ask_for(login.wanted))
                for kind, login in asked.items()
            }
            return {kind: answer.result() for kind, answer in answers.items()}


def _before(login: ProbedLogin, rights: Rights) -> ProbedLogin:
    if rights.failed is not None:
        return replace(login, why_not=f"could not log in before the ACL batch, either: {rights.failed.error}")
    return replace(login, before=rights)
