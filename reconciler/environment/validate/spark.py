"""Validates what a mirror says to Spark: settings that have no effect with its master."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.model.environment.topology import SPARK_SECRET, Topology


def check_spark(topology: Topology, places: Places) -> Iterator[Problem]:
    for mirror in topology.mirrors.values():
        said = f"mirror {mirror.name}: with the master {mirror.master}"
        if mirror.channel is not None and mirror.master.startswith("local"):
            why = "Its tasks run in the driver's own processes and reach it on loopback"
            todo = "Remove it, or name the master of a cluster"
            yield Problem("no-effect", places.of(mirror, "channel"), f"{said}, channel has no effect", why, todo)
        if SPARK_SECRET in mirror.spark_conf and not mirror.master.startswith("spark://"):
            why = "Spark makes a secret of its own for each application there"
            problem = f"{said}, {SPARK_SECRET} has no effect"
            yield Problem("no-effect", places.of(mirror, "spark_conf", SPARK_SECRET), problem, why, "Remove it")
