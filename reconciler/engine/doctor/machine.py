"""The machine the mirror job would start on: Java, Spark, room on disk."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.checkups import Finding, Machine, Verdict
from reconciler.errors import Unknown

LEAST_JAVA = 17
LEAST_FREE = 1 << 30
SUBJECT = "this machine"


def machine_findings(machine: Machine) -> Iterator[Finding]:
    yield _java(machine.java)
    if isinstance(machine.spark, Unknown):
        text, todo = machine.spark.error, (machine.spark.todo,)
        yield Finding(SUBJECT, "spark", Verdict.PROBLEM, text, "the mirror job is a Spark application", todo)
    else:
        yield Finding(SUBJECT, "spark", Verdict.OK, machine.spark)
    yield _disk(machine)


def _java(found: int | Unknown) -> Finding:
    if isinstance(found, Unknown):
        return Finding(SUBJECT, "java", Verdict.PROBLEM, found.error, "Spark runs on Java", (found.todo,))
    if found < LEAST_JAVA:
        todo = ("Install Java 17 or newer, or set JAVA_HOME to it",)
        return Finding(SUBJECT, "java", Verdict.PROBLEM, f"Java {found}", f"Spark 4 needs Java {LEAST_JAVA}", todo)
    return Finding(SUBJECT, "java", Verdict.OK, f"Java {found}")


def _disk(machine: Machine) -> Finding:
    if isinstance(machine.free_bytes, Unknown):
        return Finding(SUBJECT, "disk", Verdict.UNKNOWN, machine.free_bytes.error)
    text = f"{machine.free_bytes / (1 << 30):.1f} GiB free at {machine.folder}"
    if machine.free_bytes < LEAST_FREE:
        why = "logs of the mirror job and Spark's own files are written there"
        return Finding(SUBJECT, "disk", Verdict.WARNING, text, why, ("Free some space, at least 1 GiB",))
    return Finding(SUBJECT, "disk", Verdict.OK, text)
