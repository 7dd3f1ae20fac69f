"""Validates where and with what a mirror runs: keys without effect for its master, and Spark settings that the job has.

A setting that is read and changes nothing is worse than an error: whoever wrote it counts on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.model.environment.topology import Mirror, Topology
from reconciler.replication.deployment import CLUSTER, MasterKind, master_kind

_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_SOCKET_NAME_BYTES, _SOCKET_PATH_BYTES = 42, 107
"""Spark adds a slash, a dot, a UUID and four characters to the folder; Linux holds 108 bytes with the closing 0."""

_OWN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "spark.speculation": ("false", "a second copy of a task would fence the first one's lanes"),
        "spark.scheduler.mode": ("FAIR", "each lease is a job of its own, and all have to run at the same time"),
    }
)
"""Settings with one value under which the job works."""

_BY_KEY: Mapping[str, str] = MappingProxyType(
    {
        "spark.master": "master",
        "spark.submit.deployMode": "deploy_mode",
        "spark.executor.instances": "executors",
        "spark.executor.cores": "cores",
        "spark.executor.memory": "memory",
        "spark.cores.max": "executors",
        "spark.archives": "python.archive",
        "spark.pyspark.python": "python.executable",
    }
)
_ALWAYS_BY_KEY = frozenset({"spark.master", "spark.submit.deployMode"})


def check_deployments(topology: Topology, places: Places) -> Iterator[Problem]:
    for mirror in topology.mirrors.values():
        yield from _keys(mirror, places)
        for section, conf in (("spark_conf", mirror.spark_conf), ("verify_conf", mirror.verify_conf)):
            yield from _spark_settings(mirror, section, conf, places)


def _keys(mirror: Mirror, places: Places) -> Iterator[Problem]:
    deployment, kind = mirror.deployment, master_kind(mirror.master)
    if deployment.deploy_mode == CLUSTER:
        yield from _cluster_mode(mirror, kind, places)
    if kind is MasterKind.LOCAL:
        for key in deployment.settings():
            if key != "deploy_mode":
                problem = f"mirror {mirror.name}: {key} has no effect with the master {mirror.master}"
                why = "A local master has no executors: tasks run beside the driver, with the Python of this program"
                todo = (
                    f"Remove {key}; local[N] says how many tasks run at a time, spark.driver.memory their JVM's memory"
                )
                yield Problem("no-effect", places.of(mirror, *key.split(".")), problem, why, todo)
        return
    if kind is MasterKind.STANDALONE and deployment.executors and not deployment.cores:
        problem = f"mirror {mirror.name}: executors has no effect on a standalone cluster without cores"
        why = "There an executor gets all cores of its worker, unless cores says how many"
        yield Problem("no-effect", places.of(mirror, "executors"), problem, why, "Set cores, too")
    there = deployment.executors * deployment.cores
    if 0 < there < mirror.parallelism:
        problem = (
            f"mirror {mirror.name}: {deployment.executors} executors of {deployment.cores} cores are {there} cores, "
            f"and parallelism is {mirror.parallelism}"
        )
        why = "Each lease is a task that keeps a core, so some would never get one"
        todo = "Raise executors or cores, or lower parallelism"
        yield Problem("too-few-cores", places.of(mirror, "executors"), problem, why, todo)


def _cluster_mode(mirror: Mirror, kind: MasterKind, places: Places) -> Iterator[Problem]:
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


_WATCHED = "Who starts the driver watches it by Spark's client, and would take one that only starts for one that ended"
_NO_CLUSTER_MODE: Mapping[MasterKind, str] = MappingProxyType(
    {
        MasterKind.LOCAL: "A local master has no machines but this one",
        MasterKind.STANDALONE: "Spark runs no Python driver on a standalone cluster: its submission would be refused",
    }
)
_NOT_IN_CLUSTER_MODE: Mapping[str, str] = MappingProxyType(
    {
        "spark.driver.host": "Spark sets it to the address of the machine that it chooses, and executors connect there",
        "spark.yarn.submit.waitAppCompletion": _WATCHED,
        "spark.kubernetes.submission.waitAppCompletion": _WATCHED,
    }
)


def _spark_settings(mirror: Mirror, section: str, conf: Mapping[str, str], places: Places) -> Iterator[Problem]:
    for setting, value in conf.items():
        where = places.of(mirror, section, setting)
        if setting in _OWN and value.lower() != (wanted := _OWN[setting][0]).lower():
            problem = f"mirror {mirror.name}: {section} sets {setting} to {value}"
            why = f"The job works with {wanted} only: {_OWN[setting][1]}"
            yield Problem("set-by-the-job", where, problem, why, "Remove it")
        key = _BY_KEY.get(setting, "")
        if setting in _ALWAYS_BY_KEY or (section == "spark_conf" and key in mirror.deployment.settings()):
            problem = f"mirror {mirror.name}: {section} sets {setting}, which is said by {key}"
            why = "What is said in two places holds in one of them only"
            yield Problem("set-twice", where, problem, why, f"Remove it, and set mirrors.{mirror.name}.{key}")
    yield from _socket_path(mirror, section, conf, places)


def _socket_path(mirror: Mirror, section: str, conf: Mapping[str, str], places: Places) -> Iterator[Problem]:
    """Without a folder of their own the sockets lie in that of the container, whose path is longer on YARN."""
    folder = conf.get(_SOCKET_FOLDER, "")
    most = _SOCKET_PATH_BYTES - _SOCKET_NAME_BYTES
    if len(folder.encode()) > most:
        problem = f"mirror {mirror.name}: {section} sets {_SOCKET_FOLDER} to a path of {len(folder.encode())} bytes"
        why = f"With the name of a socket it would be longer than {_SOCKET_PATH_BYTES} bytes, and no task could start"
        todo = f"Name a folder of at most {most} bytes, such as /tmp"
        yield Problem("socket-path", places.of(mirror, section, _SOCKET_FOLDER), problem, why, todo)
    elif conf.get(_SOCKETS) == "true" and not folder and master_kind(mirror.master) is not MasterKind.LOCAL:
        problem = f"mirror {mirror.name}: {section} sets {_SOCKETS} and no {_SOCKET_FOLDER}"
        why = (
            "The sockets would lie in the folder of a container; on YARN its path is too long, and no task could start"
        )
        todo = f"Set {_SOCKET_FOLDER} to a short folder that every executor has, such as /tmp, or remove it"
        yield Problem("socket-path", places.of(mirror, section, _SOCKETS), problem, why, todo)
