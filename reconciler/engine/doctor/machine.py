"""Doctor checks of the machine that runs the mirror job (Java, Spark, disk space), and of its Spark cluster."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.engine.doctor.check import Check
from reconciler.errors import Unknown
from reconciler.model.environment.topology import UNAUTHENTICATED, Topology
from reconciler.model.reports.doctor import Finding, Machine

LEAST_JAVA = 17
LEAST_FREE = 1 << 30
SUBJECT = "this machine"


def machine_findings(machine: Machine) -> Iterator[Finding]:
    yield _java(Check(SUBJECT, "java"), machine.java)
    check = Check(SUBJECT, "spark")
    if isinstance(machine.spark, Unknown):
        yield check.problem(machine.spark.error, "the mirror job is a Spark application", machine.spark.todo)
    else:
        yield check.ok(machine.spark)
    yield _disk(Check(SUBJECT, "disk"), machine)


def spark_cluster_findings(topology: Topology) -> Iterator[Finding]:
    for mirror in topology.mirrors.values():
        check = Check(f"mirror {mirror.name}", "spark authentication")
        if mirror.unauthenticated:
            todo = "Set spark.authenticate and its secret on the Spark cluster and here (docs/SECURITY.md)"
            yield check.warning(f"{mirror.master} is used without spark.authenticate", UNAUTHENTICATED, todo)


def metrics_findings(topology: Topology) -> Iterator[Finding]:
    for mirror in topology.mirrors.values():
        check = Check(f"mirror {mirror.name}", "metrics")
        if mirror.metrics_port:
            yield check.ok(f"on {mirror.metrics_host}:{mirror.metrics_port}")
        else:
            why = "Prometheus gets nothing, so no alert of this mirror can fire"
            todo = f"Write metrics_port: 9400 under mirror {mirror.name}; it restarts the mirror once"
            yield check.warning("off, metrics_port is not set", why, todo)


def _java(check: Check, value: int | Unknown) -> Finding:
    if isinstance(value, Unknown):
        return check.problem(value.error, "Spark runs on Java", value.todo)
    if value < LEAST_JAVA:
        todo = "Install Java 17 or newer, or set JAVA_HOME to it"
        return check.problem(f"Java {value}", f"Spark 4 needs Java {LEAST_JAVA}", todo)
    return check.ok(f"Java {value}")


def _disk(check: Check, machine: Machine) -> Finding:
    if isinstance(machine.free_bytes, Unknown):
        return check.unknown(machine.free_bytes.error)
    text = f"{machine.free_bytes / (1 << 30):.1f} GiB free at {machine.folder}"
    if machine.free_bytes < LEAST_FREE:
        why = "logs of the mirror job and Spark's own files are written there"
        return check.warning(text, why, "Free some space, at least 1 GiB")
    return check.ok(text)
