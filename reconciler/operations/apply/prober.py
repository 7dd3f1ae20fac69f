"""The ``Prober`` of a session: which permissions to probe on each cluster, and the logins to ask with."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from reconciler.backends.clusters.permissions import rights
from reconciler.backends.connections.credentials import client_settings
from reconciler.errors import SecretError
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs
from reconciler.operations.session.session import Session
from reconciler.resources.acls.authorizer.lockout import needs_of
from reconciler.resources.flows.routes import Route, find_routes


class SessionProber:
    """Routes are those of the last look at all clusters; a saved plan has had none, so then there is one now."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @cached_property
    def _routes(self) -> tuple[Route, ...]:
        return find_routes(self.session.topology, self.session.last.live or self.session.observe()).routes

    def needs(self, cluster: str) -> Sequence[Needs]:
        """Plan logs in as apply does where nothing else is set; what apply works with contains what plan does."""
        declared = self.session.topology.clusters[cluster]
        alike = declared.client_for(Principal.PLAN) == declared.client_for(Principal.APPLY)
        entries = needs_of(self.session.topology, cluster, self._routes)
        return tuple(entry for entry in entries if not (alike and entry.kind is Principal.PLAN))

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
