"""What brokers tell each login, ahead of a wave and after it. All logins of a cluster are asked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from reconciler.acls import AclBinding
from reconciler.checkups import Ask, Rights
from reconciler.errors import Unknown
from reconciler.ports import Prober
from reconciler.probes import Needs
from reconciler.probing.rights import Login, ask_for, wanted
from reconciler.topology import Principal

Logins = Mapping[Principal, Login]


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
        found: dict[Principal, Login] = {}
        for kind in dict.fromkeys(one.kind for one in needs):
            some = wanted([one for one in needs if one.kind is kind], touched)
            if kind in known and set(some) <= set(known[kind].wanted):
                found[kind] = known[kind]
            else:
                found[kind] = Login(wanted=some, why_not=self.prober.why_not(cluster, kind))
        told = self._told(cluster, {kind: one for kind, one in found.items() if one.before is None})
        return {**found, **{kind: _before(found[kind], rights) for kind, rights in told.items()}}

    def after(self, cluster: str, logins: Logins) -> Logins:
        told = self._told(cluster, logins)
        return {kind: replace(one, after=told.get(kind)) for kind, one in logins.items()}

    def keep(self, cluster: str, logins: Logins) -> None:
        """They were told after a probe that passed."""
        self._known[cluster] = {kind: replace(one, before=one.after, after=None) for kind, one in logins.items()}

    def forget(self, cluster: str) -> None:
        self._known.pop(cluster, None)

    def _told(self, cluster: str, logins: Logins) -> dict[Principal, Rights]:
        asked = {kind: one for kind, one in logins.items() if not one.why_not}
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = {
                kind: pool.submit(self.prober.rights, cluster, kind, ask_for(one.wanted)) for kind, one in asked.items()
            }
            return {kind: answer.result() for kind, answer in answers.items()}


def _before(login: Login, rights: Rights) -> Login:
    if rights.failed is not None:
        return replace(login, why_not=f"could not log in before the wave, either: {rights.failed.error}")
    return replace(login, before=rights)
