"""The allow list of a host: without it, any client that may write the control topic could run code on the host."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from reconciler.backends.connections.credentials import require_trusted
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.address import host_port, url_address
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.schemas import validator
from reconciler.model.state.mirror_control import DESIRED, DesiredMirror, DesiredState, Document
from reconciler.replication.allowed import VARIABLE, names_host, policy_permitted
from reconciler.replication.kept_files import read_kept, reason

# Decides which Spark settings, files and masters a pattern in the host's configuration accepts.
#
# It is a list of harmless settings: a list of dangerous ones would miss settings of later Spark releases that load
# classes (decision 202).

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


KEYS = ("environments", "masters", "spark_conf", "archives")
_SETTING = re.compile(r"spark\.[!-<>-~]+")
"""Spark splits ``--conf NAME=VALUE`` at the first ``=``, so a name that contains one would set another setting."""
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The pattern of ``alias`` in schemas/environment.schema.json."""


@dataclass(frozen=True, slots=True)
class HostRefusal:
    what: str
    why: str
    todo: str


@dataclass(frozen=True, slots=True)
class AllowList:
    """Patterns of file names by kind; nothing else may run. ``archives``: values of spark_conf keys that ship files."""

    environments: tuple[str, ...] = ()
    masters: tuple[str, ...] = LOCAL
    spark_conf: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    path: str = field(default="", compare=False)
    """The file that it was read from; empty: the defaults."""

    @property
    def words(self) -> str:
        return f"environments {', '.join(self.environments)}; masters {', '.join(self.masters)}"

    def refusal(self, desired: DesiredMirror, done: int) -> HostRefusal | None:
        """Why this host refuses a desired record; None if it accepts it. ``done``: the last generation that a host
        carried out."""
        problem = next(self._problems(desired, done), None)
        if problem is None:
            return None
        description, todo = problem
        why = (
            f"A host runs only what its own configuration accepts ({self.path or 'the defaults'}), and what is intact."
        )
        return HostRefusal(f"generation {desired.generation} is refused: {description}", why, todo)

    def _problems(self, desired: DesiredMirror, done: int) -> Iterator[tuple[str, str]]:
        """(problem, remedy) for everything in the record that this host does not accept, or that was changed since
        apply wrote it."""
        where = f"the host's configuration {self.path}"
        again = "Run reconciler apply ENV, which writes a new record."
        if not fits(desired.environment, self.environments):
            yield f"environment {desired.environment!r} is not accepted", f"Name it under environments in {where}."
        if desired.generation < done:
            yield f"it is older than generation {done}, which was carried out; an old record was written again", again
        if desired.state is DesiredState.STOPPED:
            return
        # Unknown fields of a later release's record are ignored; a hand-over must match its schema exactly.
        for problem in validator("mirror-desired").iter_errors(json.loads(DESIRED.dumps(desired))):
            if problem.validator != "additionalProperties":
                yield f"{problem.json_path} of the record: {problem.message!r}", again
        for problem in validator("mirror").iter_errors(desired.handover):
            yield f"{problem.json_path} of its hand-over: {problem.message!r}", again

        # apply reviewed the hand-over with this fingerprint; a different content was put there by another client.
        if (actual := desired.actual_fingerprint()) != desired.fingerprint:
            yield f"its fingerprint is {desired.fingerprint!r}, and that of what it holds {actual}", again
        if desired.handover.get("fingerprint") != desired.fingerprint:
            yield "its hand-over has another fingerprint than the record", again
        if any(desired.handover[name] != getattr(desired, name) for name in ("environment", "mirror")):
            yield "its hand-over is of another environment or mirror than the record", again
        yield from _untrusted(desired.handover)
        yield from self._submission(desired.submission, where)

    def _submission(self, submission: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
        """(problem, line to add to the allow list) for each part of the submission that this host does not accept. By
        jars, files or Java options, a principal with Write on the control topic could otherwise run its own code on
        this machine."""
        # A newer release may ask for more. Carrying out only the known part would start another job than the one that
        # was planned.
        if unknown := sorted(submission.keys() - {"master", "spark_conf"}):
            yield (
                f"it asks for {', '.join(map(repr, unknown))}, which this release of the host cannot do",
                "Upgrade it.",
            )
        master = str(submission.get("master", ""))
        if not fits_master(master, self.masters):
            yield f"master {master!r} is not accepted", _line("masters", master, where)
        for key, value in sorted(submission.get("spark_conf", {}).items()):
            if _SETTING.fullmatch(key) is None:
                yield (
                    f"spark_conf {key!r} is no name of a Spark setting",
                    "Check which principals may write to the control topic.",
                )
            # Before the patterns: a pattern over names of settings would otherwise accept every file.
            elif names_files(key):
                for part in value.split(","):
                    if not fits_file(part, self.archives):
                        problem = f"{key} = {value!r} brings files that are not accepted: {part!r}"
                        yield problem, _line("archives", part, where)
            # A setting that the list names in full is the operator's own decision, harmless or not. A pattern may match
            # settings of which its author has never heard, so there the list of harmless ones decides, too.
            elif key in self.spark_conf or (key in AMOUNTS and is_harmless(key, value)):
                continue
            elif not fits(key, self.spark_conf):
                yield f"spark_conf {key!r} is not accepted", _line("spark_conf", key, where)
            elif not is_harmless(key, value):
                problem = (
                    f"spark_conf {key!r} can run code or is not known to be harmless, which a pattern does not accept"
                )
                yield problem, _line("spark_conf", key, where)


def _line(key: str, text: str, where: str) -> str:
    """The line to add to the allow list."""
    return f"If it may be, add under {key} in {where}: - {json.dumps(text)}"


def is_mirror_name(name: str) -> bool:
    """Whether the name is valid for a mirror. Another name could lead out of the host's state folder."""
    return _NAME.fullmatch(name) is not None


def _untrusted(handover: Document) -> Iterator[tuple[str, str]]:
    """Client settings that run code, and addresses and naming policies that this host's RECONCILER_ALLOW does not list.
    References to secrets are checked against the same variable when they are resolved."""
    endpoints = [flow[side] for flow in handover["flows"] for side in ("source", "target")]
    for endpoint in (*endpoints, handover["status"]["cluster"]):
        try:
            require_trusted(
                Cluster(endpoint["name"], tuple(endpoint["bootstrap_servers"]), client=endpoint["client"]),
                Principal.MIRROR,
            )
        except ClusterError as error:
            yield error.what, f"{error.todo}."
    for flow in handover["flows"]:
        policy = flow["naming"]["policy"]
        if ":" in policy and not policy_permitted(policy):
            yield f"naming policy {policy!r} is not accepted", f"List it in {VARIABLE} of the host."


def read_accepted(path: Path) -> AllowList:
    """The host's configuration, a YAML file. Raises ReconcilerError."""
    todo = f"It holds lists of patterns under {', '.join(KEYS)}, such as environments: [prod]."
    try:
        given = yaml.safe_load(read_kept(path))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ReconcilerError(f"the host's configuration {path} cannot be read: {reason(error)}", _WHY, todo) from None
    if not isinstance(given, dict):
        raise ReconcilerError(f"the host's configuration {path} is no mapping", _WHY, todo)
    if unknown := sorted(map(str, given.keys() - set(KEYS))):
        raise ReconcilerError(f"the host's configuration {path} has unknown keys: {', '.join(unknown)}", _WHY, todo)
    lists: dict[str, tuple[str, ...]] = {}
    for key, value in given.items():
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise ReconcilerError(f"{key} in the host's configuration {path} is no list of texts", _WHY, todo)
        lists[key] = tuple(value)
    if not lists.get("environments"):
        raise ReconcilerError(f"the host's configuration {path} names no environments", _WHY, todo)
    return AllowList(**lists, path=str(path))


_WHY = "It decides whose code runs on this machine, so nothing is guessed."
