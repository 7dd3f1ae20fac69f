"""Doctor checks of the mirror job's platform: this machine (Java, Spark, disk space), Spark masters, executors."""

import re
from collections.abc import Iterator, Mapping, Sequence

from reconciler.errors import RunnerError, Unknown
from reconciler.model.environment.topology import UNAUTHENTICATED, Mirror, Topology
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.reports.doctor import Check, ExecutorLook, Finding, Machine, SparkMaster
from reconciler.replication.handover import CLUSTER
from reconciler.text import BRIEF, counted

_RELEASE = re.compile(r"(?:pyspark|Spark) (([0-9]+)\.([0-9]+)[^ ]*)")
_LEAST_JAVA = {3: 8}
"""Spark's major version -> the Java release of its class files. Other and unknown versions need 17."""
LEAST_FREE = 1 << 30
_EVERY_HOST = ("0.0.0.0", "::")  # noqa: S104  # compared, not bound
THIS_MACHINE = "this machine"
EXECUTORS = "executors"
ABOUT_EXECUTORS = ("lane_without_task", "executor_unfit")
"""Conditions (docs/mirror/conditions.md) about faulty or missing executors."""


def _release(spark: str | Unknown) -> tuple[str, int, int]:
    """Release, major and minor version of Spark; empty and 0 if unknown."""
    match = None if isinstance(spark, Unknown) else _RELEASE.match(spark)
    return (match[1], int(match[2]), int(match[3])) if match else ("", 0, 0)


def machine_findings(machine: Machine) -> Iterator[Finding]:
    """Checks of the machine that runs drivers in client mode: Java for its Spark, and disk space for logs."""
    java, spark, disk = (Check(THIS_MACHINE, name) for name in ("java", "spark", "disk"))
    release, major, minor = _release(machine.spark)
    if isinstance(machine.java, Unknown):
        yield java.problem(machine.java.error, "Spark runs on Java", machine.java.todo)
    elif machine.java < (least := _LEAST_JAVA.get(major, 17)):
        todo = f"Install Java {least} or newer, or set JAVA_HOME to it"
        yield java.problem(f"Java {machine.java}", f"Spark {major or 4} needs Java {least}", todo)
    else:
        yield java.ok(f"Java {machine.java}")
    if isinstance(machine.spark, Unknown):
        yield spark.problem(machine.spark.error, "the mirror job is a Spark application", machine.spark.todo)
    elif release and not (3, 5) <= (major, minor) < (5, 0):
        todo = "Let SPARK_HOME name a Spark 3.5 or 4, or unset it: then the pyspark of [mirror] is used"
        yield spark.problem(machine.spark, "the mirror job needs Spark 3.5 or 4", todo)
    else:
        yield spark.ok(machine.spark)
    if isinstance(machine.free_bytes, Unknown):
        yield disk.unknown(machine.free_bytes.error)
        return
    text = f"{machine.free_bytes / (1 << 30):.1f} GiB free at {machine.folder}"
    if machine.free_bytes < LEAST_FREE:
        why = "logs of the mirror job and Spark's own files are written there"
        yield disk.warning(text, why, "Free some space, at least 1 GiB")
    else:
        yield disk.ok(text)


def spark_cluster_findings(topology: Topology) -> Iterator[Finding]:
    for mirror in topology.mirrors.values():
        check = Check(f"mirror {mirror.name}", "spark authentication")
        if mirror.unauthenticated:
            todo = "Set spark.authenticate and its secret on the Spark cluster and here"
            yield check.warning(f"{mirror.master} is used without spark.authenticate", UNAUTHENTICATED, todo)


def metrics_findings(topology: Topology) -> Iterator[Finding]:
    """Reports mirrors without metrics: no fault, but they cannot trigger alerts."""
    shared = shared_metrics_ports(topology)
    for mirror in topology.mirrors.values():
        check, port = Check(f"mirror {mirror.name}", "metrics"), mirror.metrics_port
        if not port:
            why = "Prometheus gets nothing, so no alert of this mirror can fire"
            todo = f"Write metrics_port: 9400 under mirror {mirror.name}; it restarts the mirror once"
            yield check.warning("off, metrics_port is not set", why, todo)
        elif mirror.name in shared:
            yield check.warning(*shared[mirror.name])
        else:
            yield check.ok(f"on {mirror.metrics_host}:{port}")


def shared_metrics_ports(topology: Topology) -> Mapping[str, tuple[str, str, str]]:
    """By mirror that cannot serve its metrics beside another one: what, why, and what to do."""
    here: list[Mirror] = []
    shared: dict[str, tuple[str, str, str]] = {}
    for mirror in topology.mirrors.values():
        # A host, or Spark, chooses the driver's machine; other drivers run where ``apply`` does, and share its ports.
        if not mirror.metrics_port or mirror.hosted or mirror.deployment.deploy_mode == CLUSTER:
            continue
        for other in here:
            hosts = {mirror.metrics_host, other.metrics_host}
            if mirror.metrics_port == other.metrics_port and (len(hosts) == 1 or not hosts.isdisjoint(_EVERY_HOST)):
                problem = f"port {mirror.metrics_port} is that of mirror {other.name}, too"
                why = "Both drivers run where apply starts them, and one gets the port: no alert of the other can fire"
                todo = f"Write another metrics_port under mirror {mirror.name}; it restarts the mirror once"
                shared.setdefault(mirror.name, (problem, why, todo))
        here.append(mirror)
    return shared


def master_findings(mirror: Mirror, master: SparkMaster, ours: str | Unknown = "") -> Iterator[Finding]:
    """``ours``: the release of Spark that would submit the job. Empty or Unknown: it cannot be compared."""
    check, cores = Check(f"mirror {mirror.name}", "spark master"), Check(f"mirror {mirror.name}", "free cores")
    if isinstance(master.reached, Unknown):
        yield check.problem(master.reached.error, "the mirror job cannot start there", master.reached.todo)
        return

    # Patch releases of Spark are compatible with each other, minor releases may not be.
    here, *_ = _release(ours)
    text = f"{mirror.master}: {master.reached}" + (f", Spark {master.version}" if master.version else "")
    if master.version and here and master.version.split(".")[:2] != here.split(".")[:2]:
        why = "driver and executors speak Spark's own protocol and pickle for each other, which differ between releases"
        todo = f"Let SPARK_HOME name a Spark {master.version} on this machine, or upgrade the cluster to {here}"
        yield check.problem(f"{text}; here it is Spark {here}", why, todo)
    else:
        yield check.ok(text)

    # A restart by takeover needs as many free cores as the mirror has, since both applications run for a while.
    free, held = master.free_cores, master.own_cores
    if isinstance(free, Unknown):
        yield cores.unread(free)
        return
    if free is None:
        tool = "yarn node -list -all" if mirror.master == "yarn" else "kubectl describe nodes"
        text = "only the cluster's own tools know how many cores are free"
        yield cores.unknown(text, "", f"{tool} shows what the nodes have")
        return
    leases = counted(mirror.parallelism, "lease")
    own = f"; the mirror holds {held}" if held else ""
    text = f"{free} free on {counted(master.workers, 'worker')}{own}; it runs {leases}, one core each"
    if free + held < mirror.parallelism:
        why = "lanes without a core share the others' tasks; none is copied where there is no core at all"
        todo = "Add workers, lower parallelism, or limit other applications (spark.cores.max)"
        yield cores.problem(text, why, todo)
    elif free < mirror.parallelism:
        why = "a restart stops the old job before the new one can start, and verify waits for a core"
        todo = f"Keep {mirror.parallelism} cores free for a restart without a gap"
        yield cores.warning(text, why, todo)
    else:
        yield cores.ok(text)


def task_findings(mirror: Mirror, live: LiveMirror | Unknown | None) -> Iterator[Finding]:
    """Executors, as the mirror's tasks reported them. ``live``: by the newest status record; None: there is none.

    Unknown while the mirror does not run: looking at an executor takes an application, and cores (decision 162).
    """
    check = Check(f"mirror {mirror.name}", EXECUTORS)
    if isinstance(live, Unknown):
        yield check.unread(live)
        return
    if live is None or not live.state.runs:
        state = "it has not run yet" if live is None else f"the mirror is {live.state}"
        todo = "Start it (reconciler apply ENV), or let an application look: doctor --executors"
        yield check.unknown(f"their packages, secrets and network were not checked: {state}", "", todo)
        return
    conditions = [each for flow in live.flows.values() for each in flow.conditions if each.code in ABOUT_EXECUTORS]
    texts = list(dict.fromkeys(each.text or each.code for each in conditions))
    if texts:
        left = f"; and {len(texts) - BRIEF} more: reconciler status ENV" if len(texts) > BRIEF else ""
        why = "lanes are copied by none of these executors, or by fewer than requested"
        todo = next((each.todo for each in conditions if each.todo), "Run reconciler status ENV")
        yield check.problem("; ".join(texts[:BRIEF]) + left, why, todo)
    elif live.state is JobState.STARTING or any(flow.state != "running" for flow in live.flows.values()):
        text = "its tasks have not reported yet what they lack; not every flow runs"
        yield check.unknown(text, "", "Ask again once reconciler status ENV says that they run")
    else:
        yield check.ok("its tasks have their packages, secrets, the control channel and all brokers")


def executor_findings(mirror: Mirror, looks: Sequence[ExecutorLook] | RunnerError | Unknown) -> Iterator[Finding]:
    """``looks``: checks of executors that got a task; an error if the application failed; Unknown if none answered."""
    check = Check(f"mirror {mirror.name}", EXECUTORS)
    if isinstance(looks, Unknown):
        yield check.unread(looks)
    elif isinstance(looks, RunnerError):
        yield check.problem(f"{looks.what}. {looks.why}", "the mirror would not run there either", looks.todo)
    else:
        for problem in dict.fromkeys(problem for look in looks for problem in look.problems):
            why = "a lane on it would not run, or not reach a cluster"
            todo = "Fix it on that machine, or keep the mirror off it"
            yield check.problem(problem, why, todo)
        if fit := [look for look in looks if not look.problems]:
            machines = ", ".join(sorted({f"{look.host} (Python {look.python})" for look in fit}))
            yield check.ok(f"{counted(len(fit), 'executor')} on {machines}: packages, secrets, brokers, channel")
