"""Environments that ask for SCRAM users."""

from __future__ import annotations

from reconciler.environment.load import load
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import Mechanism

CLUSTERS = """
clusters:
  east: {bootstrap_servers: ["east:9092"]}
  west: {bootstrap_servers: ["west:9092"]}
"""
SHA_256, SHA_512 = Mechanism.SHA_256, Mechanism.SHA_512
APP = "name: orders-app, password: '${env:APP}'"


def env(*parts: str, clusters: str = CLUSTERS) -> Topology:
    return load({f"{index}.yaml": text for index, text in enumerate((clusters, *parts))}, "test")


def users(*entries: str, clusters: str = CLUSTERS) -> Topology:
    lines = "".join(f"  - {{clusters: [east], {entry}}}\n" for entry in entries)
    return env(f"users:\n{lines}" if entries else "users: []\n", clusters=clusters)
