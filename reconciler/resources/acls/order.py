"""Which changes must wait for changes of access rules: nothing is opened before what closes it again is done.

Border: knows ids and changes, orders nothing; ``planning`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.access.mirrors import flows_of
from reconciler.access.roles import title_of
from reconciler.access_rules import AccessRole
from reconciler.acls import ANYONE, AclBinding, Permission, ResourceType
from reconciler.changes import Change, CreateAcl, CreateTopic, DeleteAcl
from reconciler.topology import Mirror, Topology

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
        found: dict[str, None] = {}
        for rule in topology.access:
            if rule.role is AccessRole.MIRROR and {flow.name for flow in flows_of(rule, topology)} & set(mirror.flows):
                for side in sides:
                    found |= dict.fromkeys(self.rights.get(rule.principal, {}).get(side, ()))
        return tuple(found)


def access_links(changes: Mapping[str, Change], topology: Topology) -> AccessLinks:
    """``changes`` by id, in their order."""
    carriers = {rule.principal: title_of(rule) for rule in topology.access if rule.role is AccessRole.MIRROR}
    denials: dict[str, tuple[Denial, ...]] = {}
    rights: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, change in changes.items():
        if not isinstance(change, CreateAcl):
            continue
        if change.acl.permission is Permission.DENY:
            denials[change.cluster] = (*denials.get(change.cluster, ()), (name, change.acl))
        elif carriers.get(change.acl.principal) == change.grant.title:
            mine = rights.setdefault(change.acl.principal, {})
            mine[change.cluster] = (*mine.get(change.cluster, ()), name)
    return AccessLinks(denials, rights)


def used_by_a_job(change: DeleteAcl) -> bool:
    """Whether a mirror job may still work with the right."""
    return change.grant.title.endswith(f": {AccessRole.MIRROR}")
