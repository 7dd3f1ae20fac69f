"""Doctor checks of the Spark masters that mirrors use: reachable, and cores enough for their leases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.engine.doctor.check import Check
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.reports.doctor import Finding, SparkMaster
from reconciler.text import counted

_ASK: Mapping[bool, str] = {True: "yarn node -list -all", False: "kubectl describe nodes"}


def master_findings(mirror: Mirror, master: SparkMaster, ours: str | Unknown = "") -> Iterator[Finding]:
    """``ours``: the release of Spark that would submit the job; empty or Unknown: none that could be compared."""
    check = Check(f"mirror {mirror.name}", "spark master")
    if isinstance(master.reached, Unknown):
        yield check.problem(master.reached.error, "the mirror job cannot start there", master.reached.todo)
        return
    cores = Check(f"mirror {mirror.name}", "free cores")
    yield _version(check, mirror, master, ours)
    if isinstance(master.free_cores, Unknown):
        yield cores.unread(master.free_cores)
    elif master.free_cores is None:
        todo = f"{_ASK[mirror.master == 'yarn']} tells what the nodes have"
        yield cores.unknown("only the cluster's own tools tell how many cores are free", "", todo)
    else:
        yield _cores(cores, mirror, master.free_cores, master)


def _version(check: Check, mirror: Mirror, master: SparkMaster, ours: str | Unknown) -> Finding:
    here = ours.removeprefix("pyspark ") if isinstance(ours, str) and ours.startswith("pyspark ") else ""
    spark = f", Spark {master.version}" if master.version else ""
    text = f"{mirror.master}: {master.reached}{spark}"
    if master.version and here and _minor(master.version) != _minor(here):
        why = "driver and executors speak Spark's own protocol and pickle for each other, which differ between releases"
        todo = f"Let SPARK_HOME name a Spark {master.version} on this machine, or upgrade the cluster to {here}"
        return check.problem(f"{text}; here it is Spark {here}", why, todo)
    return check.ok(text)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _cores(check: Check, mirror: Mirror, free: int, master: SparkMaster) -> Finding:
    leases = counted(mirror.parallelism, "lease")
    held = f"; the mirror holds {master.own_cores}" if master.own_cores else ""
    text = f"{free} free on {counted(master.workers, 'worker')}{held}; it runs {leases}, one core each"
    if free + master.own_cores < mirror.parallelism:
        why = "lanes without a core share the others' tasks; none is copied where there is no core at all"
        return check.problem(text, why, "Add workers, lower parallelism, or limit other applications (spark.cores.max)")
    if free < mirror.parallelism:
        why = "a restart stops the old job before the new one can start, and verify waits for a core"
        return check.warning(text, why, f"Keep {mirror.parallelism} cores free for a restart without a gap")
    return check.ok(text)
