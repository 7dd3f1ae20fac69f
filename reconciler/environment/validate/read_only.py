"""Validates flows with ``copies: read_only``: the mirror's principal is known, and denials contradict neither
``access`` nor a flow the other way."""

from collections.abc import Iterator, Mapping
from itertools import permutations

from reconciler.environment.validate.provenance_and_offsets import common
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import AccessRole, AclBinding, PatternType
from reconciler.resources.acls.derive_from_flows import FlowTopics
from reconciler.resources.acls.read_only import lets_write, mirror_principals
from reconciler.resources.acls.roles import expand_stable
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.resources.flows.routes import is_copy

KEY = "copies"


def check_read_only(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """Flows with ``copies: read_only``: the mirror can be spared by name, and no two such flows write one name both
    ways."""
    kept = [travel for travel in travels.values() if travel.flow.read_only]
    for travel in kept:
        flow = travel.flow
        if not mirror_principals(topology, flow.target):
            yield Problem(
                "copies-principal-unknown",
                places.of(flow, KEY),
                f"flow {flow.name}: copies: read_only, but as which principal its mirror logs in to {flow.target} is "
                "not known: the settings of the cluster do not name it",
                "Everyone but the mirror is denied Write, so the rules have to know whom to spare",
                f'Add to access: {{role: mirror, principal: "User:...", flows: [{flow.name}]}}',
            )
        yield from _granted(topology, travel, places)

    # Under the same name in both directions each side is the copy of the other.
    for there, back in permutations(kept, 2):
        first, second = there.flow, back.flow
        faces = (first.source, first.target) == (second.target, second.source) and first.name < second.name
        stays = first.naming.policy == second.naming.policy == "identity"
        topic = common(there.arriving, back.arriving) if faces and stays else None
        if topic is not None:
            name = topic or "a topic (their expressions are too large to name one)"
            yield Problem(
                "copies-both-ways",
                places.of(second, KEY),
                f"the flows {first.name} and {second.name} carry {name} both ways under the same name, and both have "
                "copies: read_only",
                f"It would be a copy on {first.target} and on {second.target}, so that no client could write it at all",
                "Keep it on the flow whose target takes no writes, and remove it from the other",
            )


def _granted(topology: Topology, travel: FlowNaming, places: Places) -> Iterator[Problem]:
    """Entries of access that let someone write nothing but copies. One that gives the same name on the flow's source,
    too, is of a client that is ready to move there, and is denied until it has."""
    flow, mirrors = travel.flow, mirror_principals(topology, travel.flow.target)
    for rule in topology.access:
        moves = flow.source in rule.clusters and flow.naming.policy != "default"
        mirror = rule.role is AccessRole.MIRROR or rule.principal in mirrors
        if rule.absent or mirror or moves or flow.target not in rule.clusters:
            continue
        granted = next((acl for acl in expand_stable(rule) if lets_write(acl) and _only_copies(travel, acl)), None)
        if granted is not None:
            yield Problem(
                "access-writes-copies",
                places.of(rule),
                f"access rule {rule.number} has: {granted}, a copy on {flow.target} that flow {flow.name} keeps to "
                f"its mirror (copies: read_only in {flow.where})",
                "One lets the principal write, the other denies it, and a denial wins",
                f"Take the topic out of the entry, or remove copies: read_only from {flow.name}",
            )


def _only_copies(travel: FlowNaming, acl: AclBinding) -> bool:
    """Whether the rule covers only copies of this flow; unknown, so False, with a custom policy."""
    if acl.wildcard or travel.custom:
        return False
    if acl.pattern is PatternType.LITERAL:
        return is_copy(travel.selector, acl.name)
    begin = "" if travel.flow.naming.policy == "identity" else f"{travel.flow.source}{travel.flow.naming.separator}"
    carriage = FlowTopics(travel.flow, travel.selector, {})
    return acl.name.startswith(begin) and carriage.carries_all(acl.name.removeprefix(begin))
