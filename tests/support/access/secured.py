"""Clusters that ask who one is, the roles of the program, and a world in which all of it is granted."""

from __future__ import annotations

from reconciler.environment.load import load
from reconciler.errors import ExitCode
from reconciler.model.environment.topology import Topology
from reconciler.render.plan.text import plan_text
from tests.support.builders import World, world

PLAIN = """
clusters:
  east: {bootstrap_servers: ["east:9092"]}
  west: {bootstrap_servers: ["west:9092"]}
"""
SECURE = """
clusters:
  east:
    bootstrap_servers: ["east:9092"]
    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512}
    principals:
      plan: {sasl.username: plan, sasl.password: "${env:P}"}
      apply: {sasl.username: apply, sasl.password: "${env:A}"}
      mirror: {sasl.username: mirror, sasl.password: "${env:M}"}
  west:
    bootstrap_servers: ["west:9092"]
    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512}
    principals:
      plan: {sasl.username: plan, sasl.password: "${env:P}"}
      apply: {sasl.username: apply, sasl.password: "${env:A}"}
      mirror: {sasl.username: mirror, sasl.password: "${env:M}"}
"""
ROLES = """
  - {role: mirror, principal: "User:mirror"}
  - {role: reconciler-plan, principal: "User:plan", clusters: [east, west]}
  - {role: reconciler-apply, principal: "User:apply", clusters: [east, west]}
"""
FLOW = """
topics: {orders: {clusters: [east], partitions: 1}}
flows: {east-to-west: {source: east, target: west, topics: [orders]}}
mirrors: {west: {}}
"""


def env(*texts: str) -> Topology:
    return load({f"{index}.yaml": text for index, text in enumerate(texts)}, "test")


def secured(*texts: str, roles: str = ROLES) -> Topology:
    return env(SECURE, FLOW, f"access:{roles}", *texts)


def ran(wished: Topology) -> World:
    """Everything that ``wished`` asks for is there."""
    seen = world()
    seen.apply(wished)
    seen.apply(wished)
    assert seen.plan(wished).exit_code is ExitCode.DONE, plan_text(seen.plan(wished))
    return seen
