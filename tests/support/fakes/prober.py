"""A ``Prober`` over fake clusters: what brokers say of a login, worked out from the rules that are there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveState
from reconciler.model.principals import CLUSTER_NAME, Operation, ResourceType
from reconciler.model.reports.doctor import Ask, Rights
from reconciler.model.reports.probe import Needs
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook
from reconciler.resources.acls.authorizer.gains_and_losses import OPERATIONS
from reconciler.resources.acls.authorizer.lockout import needs_of
from reconciler.resources.flows.routes import find_routes
from tests.support.fakes.cluster import FakeCluster


@dataclass
class FakeProber:
    """``no_login``: principals whose secrets are not here. ``silent``: calls of ``rights`` that are not answered."""

    topology: Topology
    clusters: Mapping[str, FakeCluster]
    super_users: Collection[str] = ()
    no_login: Collection[Principal] = ()
    silent: Collection[int] = ()
    asked: list[tuple[str, Principal]] = field(default_factory=list)

    def needs(self, cluster: str) -> Sequence[Needs]:
        live = LiveState({name: self.clusters[name].seen() for name in self.topology.clusters}, {})
        return tuple(needs_of(self.topology, cluster, find_routes(self.topology, live).routes))

    def why_not(self, cluster: str, kind: Principal) -> str:
        return f"no secret of {kind} on {cluster}" if kind in self.no_login else ""

    def rights(self, cluster: str, kind: Principal, ask: Ask) -> Rights:
        self.asked.append((cluster, kind))
        name = self.topology.clusters[cluster].client_for(kind).get("sasl.username", "ANONYMOUS")
        who = f"User:{name}"
        if len(self.asked) in self.silent:
            return Rights(kind, who, "", Unknown(f"cluster {cluster}", "nobody answers"))
        book = Rulebook.of(self.clusters[cluster].acls, self.super_users)

        def may(operation: Operation, resource: ResourceType, names: Iterable[str]) -> dict[str, bool]:
            return {one: book.allows(AccessRequest(who, operation, resource, one)) for one in names}

        there = [one for one in ask.topics if one in self.clusters[cluster].topics]
        seen = may(Operation.DESCRIBE, ResourceType.TOPIC, there)
        allowed = {
            one: frozenset(
                op.upper()
                for op in OPERATIONS[ResourceType.TOPIC]
                if book.allows(AccessRequest(who, op, ResourceType.TOPIC, one))
            )
            for one in there
        }
        of_cluster = OPERATIONS[ResourceType.CLUSTER]
        return Rights(
            kind,
            who,
            "",
            operations={one: some for one, some in allowed.items() if seen[one]},
            denied=frozenset(one for one in there if not seen[one]),
            groups=may(Operation.READ, ResourceType.GROUP, ask.groups),
            described=may(Operation.DESCRIBE, ResourceType.GROUP, ask.described),
            transactional_ids=may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ask.transactional_ids),
            cluster=frozenset(
                op.upper()
                for op in of_cluster
                if book.allows(AccessRequest(who, op, ResourceType.CLUSTER, CLUSTER_NAME))
            ),
        )

    def server(self, cluster: str) -> str:
        return self.topology.clusters[cluster].bootstrap_servers[0]
