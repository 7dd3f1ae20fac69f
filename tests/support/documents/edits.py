"""Edits of a small environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.model.environment.topology import Topology
from reconciler.model.reports.edit import Against, EditComparison, FieldChange
from tests.support.builders import flow, topic, topology

AGAINST = Against("main", "4f0c2d1e9ab3" + "0" * 28)


def shop(*more: Any, **fields: Any) -> Topology:
    """Two topics of east, one of which travels to west."""
    orders = topic("orders", partitions=6, configs={"retention.ms": "86400000"})
    return topology(orders, topic("pay", partitions=2), flow("east", "west", "orders", **fields), *more)


def fields(found: EditComparison, name: str) -> dict[str, FieldChange]:
    return {field.path: field for item in found.items if item.name == name for field in item.fields}


def with_topic(base: Topology, name: str, **changed: Any) -> Topology:
    return replace(base, topics={**base.topics, name: replace(base.topics[name], **changed)})


def with_flow(base: Topology, **changed: Any) -> Topology:
    [name] = base.flows
    return replace(base, flows={name: replace(base.flows[name], **changed)})
