"""Access rules in short, and environments that ask for them."""

from __future__ import annotations

from reconciler.environment.load import load
from reconciler.errors import ExitCode
from reconciler.model.changes import CreateAcl, DeleteAcl
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Plan, Result
from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.render.plan.text import plan_text
from tests.support.builders import World

CLUSTERS = """
clusters:
  east: {bootstrap_servers: ["east:9092"]}
  west: {bootstrap_servers: ["west:9092"]}
"""


def rule(text: str) -> AclBinding:
    """``allow User:x read topic orders`` or ``... topic pay.*`` for a prefix; ``from 10.0.0.1`` at the end."""
    permission, principal, operation, resource, name, *rest = text.split()
    prefixed = len(name) > 1 and name.endswith("*")
    return AclBinding(
        ResourceType(resource),
        name.removesuffix("*") if prefixed else name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal,
        rest[1] if rest else "*",
        Operation(operation),
        Permission(permission),
    )


def rules(*texts: str) -> set[AclBinding]:
    return set(map(rule, texts))


def env(*texts: str) -> Topology:
    return load({f"{index}.yaml": text for index, text in enumerate((CLUSTERS, *texts))}, "test")


def made(plan: Plan, cluster: str = "east") -> set[AclBinding]:
    changes = [one.change for one in plan.changes if isinstance(one.change, CreateAcl)]
    return {change.acl for change in changes if change.cluster == cluster}


def gone(plan: Plan, cluster: str = "east") -> set[AclBinding]:
    changes = [one.change for one in plan.changes if isinstance(one.change, DeleteAcl)]
    return {change.acl for change in changes if change.cluster == cluster}


def applied(seen: World, wished: Topology) -> None:
    assert {one.result for one in seen.apply(wished)} <= {Result.DONE}
    assert seen.plan(wished).exit_code is ExitCode.DONE, plan_text(seen.plan(wished))
