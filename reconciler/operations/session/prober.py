"""The ``Prober`` of a session: what its topology needs of each cluster, and logins that can be opened from here.

Border: puts edges into doings; decides nothing about what an answer means.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from reconciler.authorizing.standing import needs_of
from reconciler.checkups import Ask, Rights
from reconciler.edges.kafka.identity import client_settings
from reconciler.edges.kafka.probing import rights
from reconciler.errors import SecretError
from reconciler.probes import Needs
from reconciler.routing import Route, find_routes
from reconciler.topology import Principal
from reconciler.wiring import Session


class SessionProber:
    """Routes are those of the last look at all clusters; a saved plan has had none, so then there is one now."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @cached_property
    def _routes(self) -> tuple[Route, ...]:
        return find_routes(self.session.topology, self.session.seen or self.session.observe()).routes

    def needs(self, cluster: str) -> Sequence[Needs]:
        """Plan logs in as apply does where nothing else is set; what apply works with contains what plan does."""
        wish = self.session.topology.clusters[cluster]
        alike = wish.client_for(Principal.PLAN) == wish.client_for(Principal.APPLY)
        found = needs_of(self.session.topology, cluster, self._routes)
        return tuple(one for one in found if not (alike and one.kind is Principal.PLAN))

    def why_not(self, cluster: str, kind: Principal) -> str:
        try:
            client_settings(self.session.topology.clusters[cluster], kind)
        except SecretError as error:
            return f"cannot log in from here ({error.what})"
        return ""

    def rights(self, cluster: str, kind: Principal, ask: Ask) -> Rights:
        return rights(self.session.topology.clusters[cluster], kind, ask)

    def server(self, cluster: str) -> str:
        return self.session.topology.clusters[cluster].bootstrap_servers[0]
