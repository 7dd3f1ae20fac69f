"""``mirrors``: Spark applications. Keys without effect for their master, and Spark settings that are the job's own.

A setting that is read and changes nothing is worse than an error: its author counts on it.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, spark_setting
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.kafka.address import host_port, url_address, without_login
from reconciler.model.environment.topology import SPARK_SECRET, Mirror, Topology
from reconciler.replication import handover
from reconciler.replication.handover_reader import MOST_PORT
from reconciler.text import suggestion

_PATH = "spark.mirror.path"
_MASTERS = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_SOCKET_NAME_BYTES, _SOCKET_PATH_BYTES = 42, 107
"""Spark adds a slash, a dot, a UUID and four characters to the folder; Linux holds 108 bytes with the closing 0."""

_OWN: Mapping[str, tuple[str, str]] = {
    "spark.speculation": ("false", "a second copy of a task would fence the first one's lanes"),
    "spark.scheduler.mode": ("FAIR", "each lease is a job of its own, and all have to run at the same time"),
}
"""Settings with one value under which the job works."""

_BY_KEY: Mapping[str, str] = {
    "spark.master": "master",
    "spark.submit.deployMode": "deploy_mode",
    "spark.executor.instances": "executors",
    "spark.executor.cores": "cores",
    "spark.executor.memory": "memory",
    "spark.cores.max": "executors",
    "spark.archives": "python.archive",
    "spark.pyspark.python": "python.executable",
}
_ALWAYS_BY_KEY = frozenset({"spark.master", "spark.submit.deployMode"})
_WATCHED = "Who starts the driver watches it by Spark's client, and would take one that only starts for one that ended"
_NO_CLUSTER_MODE: Mapping[handover.MasterKind, str] = {
    handover.MasterKind.LOCAL: "A local master has no machines but this one",
    handover.MasterKind.STANDALONE: (
        "Spark runs no Python driver on a standalone cluster: its submission would be refused"
    ),
}
_NOT_IN_CLUSTER_MODE: Mapping[str, str] = {
    "spark.driver.host": "Spark sets it to the address of the machine that it chooses, and executors connect there",
    "spark.yarn.submit.waitAppCompletion": _WATCHED,
    "spark.kubernetes.submission.waitAppCompletion": _WATCHED,
}


def build_mirror(reading: Reading) -> Mirror:
    """``flows`` is empty if the entry names none; ``environment.load`` fills them in."""
    channel: handover.ChannelSettings | None = None
    if reading.node("channel") is not None:
        bind = reading.value("channel", "bind_address", default="")
        advertised = reading.value("channel", "advertised_address", default="")
        channel = handover.ChannelSettings(bind, advertised)
        if (ports := reading.value("channel", "ports", default=None)) is not None:
            first, _, last = str(ports).partition("-")
            channel = handover.ChannelSettings(bind, advertised, int(first), int(last))
            if not 0 < int(first) < int(last) <= MOST_PORT:
                why = f"Ports go from 1 to {MOST_PORT}, and a new application needs one while the old one still listens"
                todo = "Write the lower port, -, and a higher one, such as 40000-40010"
                wrong = Wrong("out-of-range", f'channel.ports is "{ports}"', why, todo)
                reading.wrong(("channel", "ports"), wrong)
    return Mirror(
        name=reading.name,
        flows=tuple(sorted(reading.texts("flows"))),
        master=reading.value("master", default="local[2]"),
        parallelism=reading.value("parallelism", default=2),
        spark_conf=reading.mapping("spark_conf", each=spark_setting),
        refresh_interval_ms=reading.interval("refresh_interval", default=5_000),
        status_interval_ms=reading.interval("status_interval", default=2_000),
        metrics_port=reading.value("metrics_port", default=0),
        metrics_host=reading.value("metrics_host", default="127.0.0.1"),
        deployment=handover.Deployment(
            deploy_mode=reading.value("deploy_mode", default=handover.CLIENT),
            executors=reading.value("executors", default=0),
            cores=reading.value("cores", default=0),
            memory=reading.value("memory", default=""),
            python=handover.ExecutorPython(
                archive=reading.value("python", "archive", default=""),
                executable=reading.value("python", "executable", default=""),
            ),
        ),
        verify_conf=reading.mapping("verify_conf", each=spark_setting),
        channel=channel,
        hosted=reading.value("hosted", default=False),
        where=reading.place.where,
    )


def check_mirrors(topology: Topology, places: Places) -> Iterator[Problem]:
    """Each flow is in one mirror."""
    carriers: dict[str, Mirror] = {}
    doubtful: set[str] = set()  # they name a flow that does not exist, perhaps a slip for one that does
    for mirror in sorted(topology.mirrors.values(), key=lambda mirror: mirror.name):
        if not mirror.flows and places.complete and not _with_errors("flows", topology.flows, places):
            problem = f"mirror {mirror.name} has no flow"
            why = f"It names none, and no unassigned flow goes to a cluster {mirror.name}"
            todo = "Name its flows, give it the alias of a target cluster, or remove it"
            yield Problem("mirror-without-flows", places.of(mirror), problem, why, todo)
        for index, name in enumerate(mirror.flows):
            where = places.of(mirror, "flows", index)
            if name not in topology.flows:
                doubtful.add(mirror.name)
                if places.complete and not places.has("flows", name):
                    todo = suggestion(name, topology.flows, "Declare it under flows")
                    problem = f"mirror {mirror.name} names the unknown flow {name}"
                    yield Problem("unknown-flow", where, problem, "No file of the environment declares it", todo)
                continue
            other = carriers.setdefault(name, mirror)
            if other is not mirror:
                problem = f"the flow {name} is in the mirrors {other.name} and {mirror.name}"
                why = "The two applications would keep fencing each other"
                yield Problem("flow-in-two-mirrors", where, problem, why, "Keep it in one of them")
    # Only a mirror that lists its flows can leave one out: without a list it gets every other flow to its cluster.
    idle = [flow for flow in topology.flows.values() if flow.name not in carriers and flow.target in topology.mirrors]
    if not idle or not places.complete or _with_errors("mirrors", topology.mirrors, places):
        return
    for flow in idle:
        if flow.target not in doubtful:
            problem = f"flow {flow.name} is in no mirror: mirror {flow.target} lists its flows and leaves it out"
            todo = f"Add it to mirrors.{flow.target}.flows, or name it in a mirror of its own"
            yield Problem("flow-without-mirror", places.of(flow), problem, "No application would run it", todo)


def _with_errors(section: str, built: Collection[str], places: Places) -> bool:
    """Whether an entry could not be read: a flow may belong to any such mirror, and such a mirror may name any flow."""
    return any(of == section and name not in built for of, name in places.entries)


def check_deployments(topology: Topology, places: Places) -> Iterator[Problem]:
    """Settings that contradict the master, the deploy mode, or what the job itself sets. Spark reports none of them: an
    application would wait for cores for ever, or run in another place."""
    for mirror in topology.mirrors.values():
        # An earlier release had a second way of copying; the word for the one that is left may stay.
        path = mirror.spark_conf.get(_PATH, "batch")
        if path != "batch":
            problem = f'mirror {mirror.name}: {_PATH} is "{path}"'
            why = (
                "There is only one way of copying now: whole batches, and single records where batches are not possible"
            )
            todo = "Remove it. Apply then replaces the running job, which continues from its positions"
            yield Problem("one-path", places.of(mirror, "spark_conf", _PATH), problem, why, todo)

        # All further rules depend on the kind of master, so they are not checked for an unreadable one.
        kind = handover.master_kind(mirror.master)
        try:
            check_master(mirror.master)
        except ValueError as error:
            why, todo = "The job, with its secrets, would go to another place or to none", "Correct the master"
            problem = f"mirror {mirror.name}: of its master, {error}"
            yield Problem("bad-value", places.of(mirror, "master"), problem, why, todo)
            continue
        if mirror.deployment.deploy_mode == handover.CLUSTER:
            if kind in _NO_CLUSTER_MODE:
                problem = f"mirror {mirror.name}: deploy_mode is cluster, and the master {mirror.master}"
                todo = "Write client. With hosted: true, mirror hosts keep the driver alive on machines of your choice"
                why = _NO_CLUSTER_MODE[kind]
                yield Problem("deploy-mode", places.of(mirror, "deploy_mode"), problem, why, todo)
            for setting, why in _NOT_IN_CLUSTER_MODE.items():
                value = mirror.spark_conf.get(setting)
                if value is not None and value.lower() != "true":
                    problem = f"mirror {mirror.name}: spark_conf sets {setting} to {value}, and deploy_mode is cluster"
                    yield Problem("set-by-the-job", places.of(mirror, "spark_conf", setting), problem, why, "Remove it")
        yield from _without_effect(mirror, kind, places)
        for section, conf in (("spark_conf", mirror.spark_conf), ("verify_conf", mirror.verify_conf)):
            yield from _spark_settings(mirror, section, conf, places)


def check_master(master: str) -> None:
    """Checks form and addresses; a start shows whether a master answers. Raises ValueError with the problem."""
    if not _MASTERS.fullmatch(master):
        raise ValueError(f"{without_login(master)!a} is not local[2], spark://HOST:PORT, k8s://URL or yarn")
    match handover.master_kind(master):
        case handover.MasterKind.STANDALONE:  # several for a master with standbys
            for address in master.removeprefix("spark://").split(","):
                host_port(address)
        case handover.MasterKind.KUBERNETES:
            server = master.removeprefix("k8s://")
            url_address(server if "://" in server else f"https://{server}")
        case handover.MasterKind.YARN | handover.MasterKind.LOCAL:
            pass


def _without_effect(mirror: Mirror, kind: handover.MasterKind, places: Places) -> Iterator[Problem]:
    """Keys that this master does not read, and cores that no lease would ever get."""
    said = f"mirror {mirror.name}: with the master {mirror.master}"
    # Each of these keys is right for another master. Unrefused, the job would run, only not as its file reads.
    if mirror.channel is not None and mirror.master.startswith("local"):
        why = "Its tasks run in the driver's own processes and reach it on loopback"
        todo = "Remove it, or name the master of a cluster"
        yield Problem("no-effect", places.of(mirror, "channel"), f"{said}, channel has no effect", why, todo)
    if SPARK_SECRET in mirror.spark_conf and not mirror.master.startswith("spark://"):
        problem, why = (
            f"{said}, {SPARK_SECRET} has no effect",
            "Spark makes a secret of its own for each application there",
        )
        yield Problem("no-effect", places.of(mirror, "spark_conf", SPARK_SECRET), problem, why, "Remove it")

    deployment = mirror.deployment
    if kind is handover.MasterKind.LOCAL:
        for key in deployment.settings():
            if key != "deploy_mode":
                problem = f"mirror {mirror.name}: {key} has no effect with the master {mirror.master}"
                why = "A local master has no executors: tasks run beside the driver, with the Python of this program"
                todo = (
                    f"Remove {key}; local[N] says how many tasks run at a time, spark.driver.memory their JVM's memory"
                )
                yield Problem("no-effect", places.of(mirror, *key.split(".")), problem, why, todo)
        return
    # From here on the master has executors. Those of a standalone cluster take whole workers, so their number says
    # nothing.
    if kind is handover.MasterKind.STANDALONE and deployment.executors and not deployment.cores:
        problem = f"mirror {mirror.name}: executors has no effect on a standalone cluster without cores"
        why = "There an executor gets all cores of its worker, unless cores says how many"
        yield Problem("no-effect", places.of(mirror, "executors"), problem, why, "Set cores, too")
    there = deployment.executors * deployment.cores
    if 0 < there < mirror.parallelism:
        problem = (
            f"mirror {mirror.name}: executors {deployment.executors} x cores {deployment.cores} is less than "
            f"parallelism {mirror.parallelism}"
        )
        why = "Each lease is a task that keeps a core, so some would never get one"
        todo = "Raise executors or cores, or lower parallelism"
        yield Problem("too-few-cores", places.of(mirror, "executors"), problem, why, todo)


def _spark_settings(mirror: Mirror, section: str, conf: Mapping[str, str], places: Places) -> Iterator[Problem]:
    """Settings that the job needs otherwise, that another key of the entry sets as well, or with which no task could
    start."""
    for setting, value in conf.items():
        where = places.of(mirror, section, setting)
        if setting in _OWN and value.lower() != (wanted := _OWN[setting][0]).lower():
            problem = f"mirror {mirror.name}: {section} sets {setting} to {value}"
            why = f"The job works with {wanted} only: {_OWN[setting][1]}"
            yield Problem("set-by-the-job", where, problem, why, "Remove it")
        key = _BY_KEY.get(setting, "")
        if setting in _ALWAYS_BY_KEY or (section == "spark_conf" and key in mirror.deployment.settings()):
            problem = f"mirror {mirror.name}: {section} sets {setting}, which {key} sets"
            why = "Of two settings for one thing only one takes effect"
            yield Problem("set-twice", where, problem, why, f"Remove it, and set mirrors.{mirror.name}.{key}")

    # By default sockets are in the container's folder, which has a longer path on YARN.
    folder = conf.get(_SOCKET_FOLDER, "")
    most = _SOCKET_PATH_BYTES - _SOCKET_NAME_BYTES
    if len(folder.encode()) > most:
        problem = f"mirror {mirror.name}: {section} sets {_SOCKET_FOLDER} to a path of {len(folder.encode())} bytes"
        why = f"With the name of a socket it would be longer than {_SOCKET_PATH_BYTES} bytes, and no task could start"
        todo = f"Name a folder of at most {most} bytes, such as /tmp"
        yield Problem("socket-path", places.of(mirror, section, _SOCKET_FOLDER), problem, why, todo)
    elif (
        conf.get(_SOCKETS) == "true"
        and not folder
        and handover.master_kind(mirror.master) is not handover.MasterKind.LOCAL
    ):
        problem = f"mirror {mirror.name}: {section} sets {_SOCKETS} and no {_SOCKET_FOLDER}"
        why = (
            "The sockets would lie in the folder of a container; on YARN its path is too long, and no task could start"
        )
        todo = f"Set {_SOCKET_FOLDER} to a short folder that every executor has, such as /tmp, or remove it"
        yield Problem("socket-path", places.of(mirror, section, _SOCKETS), problem, why, todo)
