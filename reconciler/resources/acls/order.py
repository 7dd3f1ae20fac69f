"""Which changes must wait for ACL changes: nothing is allowed before its denial is in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.model.acls import ANYONE, AccessRole, AclBinding, Permission, ResourceType
from reconciler.model.changes import Change, CreateAcl, CreateTopic, DeleteAcl
from reconciler.model.environment.topology import Mirror, Topology
from reconciler.resources.acls.mirror_rights import flows_of
from reconciler.resources.acls.roles import title_of

Denial = tuple[str, AclBinding]
"""Id of a planned denial, and the rule."""


@dataclass(frozen=True, slots=True)
class AccessLinks:
    """``denials`` by cluster; ``rights``: principal of a mirror job -> cluster -> ids of what it is allowed anew."""

    denials: Mapping[str, tuple[Denial, ...]]
    rights: Mapping[str, Mapping[str, tuple[str, ...]]]

    def before_topic(self, change: CreateTopic) -> tuple[str, ...]:
        """A remote topic holds records as soon as it is there."""
        denials = self.denials.get(change.ref.cluster, ())
        return tuple(
            name
            for name, acl in denials
            if acl.resource is ResourceType.TOPIC and acl.covers_name(change.ref.name) and change.depth
        )

    def before_grant(self, change: CreateAcl) -> tuple[str, ...]:
        """What a flow allows may be wider than what it denies to the same principal."""
        if change.acl.permission is Permission.DENY or not change.rests_on:
            return ()
        denials = self.denials.get(change.cluster, ())
        return tuple(name for name, acl in denials if acl.principal in (change.acl.principal, ANYONE))

    def before_job(self, mirror: Mirror, topology: Topology) -> tuple[str, ...]:
        flows = [topology.flows[name] for name in mirror.flows]
        sides = sorted({side for flow in flows for side in (flow.source, flow.target)})
        by_name: dict[str, None] = {}
        for rule in topology.access:
            if rule.role is AccessRole.MIRROR and {flow.name for flow in flows_of(rule, topology)} & set(mirror.flows):
                for side in sides:
                    by_name |= dict.fromkeys(self.rights.get(rule.principal, {}).get(side, ()))
        return tuple(by_name)


def access_links(changes: Iterable[Change], topology: Topology) -> AccessLinks:
    carriers = {rule.principal: title_of(rule) for rule in topology.access if rule.role is AccessRole.MIRROR}
    denials: dict[str, tuple[Denial, ...]] = {}
    rights: dict[str, dict[str, tuple[str, ...]]] = {}
    for change in changes:
        if not isinstance(change, CreateAcl):
            continue
        if change.acl.permission is Permission.DENY:
            denials[change.cluster] = (*denials.get(change.cluster, ()), (change.id, change.acl))
        elif carriers.get(change.acl.principal) == change.grant.title:
            mine = rights.setdefault(change.acl.principal, {})
            mine[change.cluster] = (*mine.get(change.cluster, ()), change.id)
    return AccessLinks(denials, rights)


def used_by_a_job(change: DeleteAcl) -> bool:
    """Whether a mirror job may still work with the right."""
    return change.grant.title.endswith(f": {AccessRole.MIRROR}")
