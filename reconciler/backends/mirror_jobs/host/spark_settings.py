"""Decides which Spark settings, files and masters a pattern in the host's configuration accepts.

It is a list of harmless settings: a list of dangerous ones would miss settings of later Spark releases that load
classes (decision 202).
"""

import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from reconciler.kafka.address import host_port, url_address
from reconciler.replication.allowed import names_host

AMOUNTS = frozenset(
    {
        "spark.driver.memory",
        "spark.executor.memory",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.cores.max",
    }
)
"""Settings accepted without a pattern: they run no code."""
_HARMLESS = AMOUNTS | {
    # amounts and times
    "spark.driver.cores", "spark.driver.memoryOverhead", "spark.driver.memoryOverheadFactor",
    "spark.driver.maxResultSize", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory", "spark.executor.heartbeatInterval", "spark.executor.maxNumFailures",
    "spark.executor.failuresValidityInterval", "spark.memory.fraction", "spark.memory.storageFraction",
    "spark.memory.offHeap.enabled", "spark.memory.offHeap.size", "spark.task.cpus", "spark.task.maxFailures",
    "spark.default.parallelism", "spark.stage.maxConsecutiveAttempts", "spark.network.timeout",
    "spark.network.timeoutInterval", "spark.rpc.askTimeout", "spark.rpc.lookupTimeout", "spark.rpc.message.maxSize",
    "spark.rpc.numRetries", "spark.rpc.retry.wait", "spark.port.maxRetries", "spark.locality.wait",
    "spark.locality.wait.node", "spark.locality.wait.process", "spark.locality.wait.rack",
    "spark.scheduler.maxRegisteredResourcesWaitingTime", "spark.scheduler.minRegisteredResourcesRatio",
    "spark.speculation", "spark.excludeOnFailure.enabled", "spark.excludeOnFailure.timeout",
    "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.minExecutors", "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.initialExecutors", "spark.dynamicAllocation.executorIdleTimeout",
    "spark.decommission.enabled", "spark.executor.decommission.killInterval", "spark.worker.timeout",
    # ports of driver and executors, protected by the cluster's secret or by loopback
    "spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port", "spark.ui.port",
    # what an application reports
    "spark.app.name", "spark.log.level", "spark.ui.showConsoleProgress", "spark.ui.retainedJobs",
    "spark.ui.retainedStages", "spark.ui.retainedTasks", "spark.metrics.namespace", "spark.eventLog.enabled",
    "spark.eventLog.compress", "spark.eventLog.rolling.enabled", "spark.eventLog.rolling.maxFileSize",
    # amounts and queues of cluster managers
    "spark.yarn.queue", "spark.yarn.priority", "spark.yarn.tags", "spark.yarn.am.memory", "spark.yarn.am.cores",
    "spark.yarn.am.memoryOverhead", "spark.yarn.maxAppAttempts", "spark.yarn.am.attemptFailuresValidityInterval",
    "spark.yarn.submit.waitAppCompletion", "spark.kubernetes.driver.request.cores",
    "spark.kubernetes.driver.limit.cores", "spark.kubernetes.executor.request.cores",
    "spark.kubernetes.executor.limit.cores", "spark.kubernetes.memoryOverheadFactor",
    "spark.kubernetes.allocation.batch.size", "spark.kubernetes.allocation.batch.delay",
    "spark.kubernetes.executor.deleteOnTermination",
}  # fmt: skip
_VALUE = re.compile(r"[A-Za-z0-9._:+-]{1,200}")
_FILES = (
    "spark.jars",
    "spark.jars.*",
    "spark.archives",
    "spark.files",
    "spark.submit.pyFiles",
    "spark.yarn.dist.*",
    "spark.yarn.jars",
    "spark.yarn.archive",
    "spark.sql.hive.metastore.jars*",
    "spark.pyspark.*",
    "spark.kubernetes.*container.image",
    "spark.kubernetes.*podTemplateFile",
)
_LOCAL = re.compile(r"local(\[(\*|[0-9]{1,4})(,[0-9]{1,4})?\])?")
LOCAL = ("local", "local[...]")
"""Default masters of a host; without ``local-cluster[...]``, which unpacks archives."""
_CLEAN = re.compile(r"[A-Za-z0-9._:/@#=+~*-]+")
_AUTHORITY = re.compile(r"([A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_WILD = re.compile(r"[*?\[]")


def names_files(key: str) -> bool:
    """Whether ``key`` ships files: then its values must be listed, even if its name matches a pattern."""
    return any(fnmatchcase(key, pattern) for pattern in _FILES)


def is_harmless(key: str, value: str) -> bool:
    """Whether a pattern may accept the value: an amount, a time, a port or a name, without variables that Spark
    substitutes."""
    return key in _HARMLESS and _VALUE.fullmatch(value) is not None


def fits(text: str, patterns: Iterable[str]) -> bool:
    return any(text == pattern or fnmatchcase(text, pattern) for pattern in patterns)


def fits_file(value: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path or URL is in ``patterns``, or matches one by scheme, host or first folder, and rest of the path,
    without parts that lead elsewhere."""
    return value in patterns or (_is_clean(value) and any(_is_file(value, pattern) for pattern in patterns))


def fits_master(master: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern accepts the master. Each address of a standalone master with standbys needs one: the job, with
    its secrets, may go to any of them."""
    if master in patterns:
        return True
    if _LOCAL.fullmatch(master):
        return any(fnmatchcase(master, pattern) or (pattern == LOCAL[1] and "[" in master) for pattern in patterns)
    kind, sign, rest = master.partition("://")
    if not sign:  # yarn
        beginning = master.partition("[")[0]
        return any(fnmatchcase(master, pattern) and pattern.startswith(beginning) for pattern in patterns)
    named = [pattern.removeprefix(f"{kind}://") for pattern in patterns if pattern.startswith(f"{kind}://")]
    try:
        if kind == "spark":
            return all(any(names_host(name, host_port(part)) for name in named) for part in rest.split(","))
        if kind == "k8s":
            scheme, _, authority = _with_scheme(rest).partition("://")
            address = url_address(f"{scheme}://{authority}")
            places = [_with_scheme(name).partition("://") for name in named]
            return "/" not in authority and any(scheme == of and names_host(name, address) for of, _, name in places)
    except ValueError:
        return False
    return False


def _with_scheme(place: str) -> str:
    """The address after ``k8s://``, with the scheme that Spark assumes."""
    return place if "://" in place else f"https://{place}"


def _is_clean(value: str) -> bool:
    """Whether the place has no character that one program decodes, cuts or resolves and another does not."""
    path, _, alias = value.partition("#")
    scheme, sign, rest = path.rpartition("://")
    first, *folders = (rest if sign else path).split("/")
    there = not sign or (re.fullmatch("[a-z][a-z0-9+.-]*", scheme) and _AUTHORITY.fullmatch(first))
    return bool(
        _CLEAN.fullmatch(value)
        and there
        and first != ".."
        and not {"", ".", ".."} & set(folders)
        and "/" not in alias
        and alias not in (".", "..")
    )


def _is_file(value: str, pattern: str) -> bool:
    """Whether a file or URL matches a pattern of the allow list. Scheme and host are matched separately, so that ``*``
    in a path cannot reach another host; a local path must not leave the folder by a link."""
    scheme, sign, rest = value.rpartition("://")
    of, named, others = pattern.rpartition("://")
    first, slash, path = rest.partition("/")
    first_of, slash_of, path_of = others.partition("/")
    if (scheme, sign, slash) != (of, named, slash_of) or not fnmatchcase(first, first_of):
        return False
    return fnmatchcase(path, path_of) and (first != "" or _stays(f"/{path}", f"/{path_of}"))


def _stays(path: str, pattern: str) -> bool:
    """Whether the path, with links resolved, stays in the folder that the pattern names."""
    folder = os.path.dirname(pattern[: match.start()] if (match := _WILD.search(pattern)) else pattern)  # noqa: PTH120
    within = os.path.realpath(folder).rstrip("/") + "/"
    return os.path.realpath(path.partition("#")[0]).startswith(within)
