"""Rules over the whole topology that no single file can know."""

from __future__ import annotations

from reconciler.errors import Problem
from reconciler.places import Places
from reconciler.topology import Topology

NO_PLACES = Places()


def check(topology: Topology, places: Places = NO_PLACES) -> tuple[Problem, ...]:  # noqa: ARG001
    """Every problem of the relations between clusters, topics, flows and mirrors."""
    return ()
