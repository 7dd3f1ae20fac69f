"""The allow list of a host: without it, any client that may write the control topic could run code on the host."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reconciler.backends.connections.credentials import require_trusted
from reconciler.backends.mirror_jobs.host import spark_settings
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.schemas import validator
from reconciler.model.state.mirror_control import DESIRED, DesiredMirror, DesiredState, Document
from reconciler.replication.allowed import VARIABLE, policy_permitted
from reconciler.replication.kept_files import read_kept, reason

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
    masters: tuple[str, ...] = spark_settings.LOCAL
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
        if not spark_settings.fits(desired.environment, self.environments):
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
        if unknown := sorted(submission.keys() - {"master", "spark_conf"}):
            yield (
                f"it asks for {', '.join(map(repr, unknown))}, which this release of the host cannot do",
                "Upgrade it.",
            )
        master = str(submission.get("master", ""))
        if not spark_settings.fits_master(master, self.masters):
            yield f"master {master!r} is not accepted", _line("masters", master, where)
        for key, value in sorted(submission.get("spark_conf", {}).items()):
            if _SETTING.fullmatch(key) is None:
                yield (
                    f"spark_conf {key!r} is no name of a Spark setting",
                    "Check which principals may write to the control topic.",
                )
            elif spark_settings.names_files(key):
                for part in value.split(","):
                    if not spark_settings.fits_file(part, self.archives):
                        problem = f"{key} = {value!r} brings files that are not accepted: {part!r}"
                        yield problem, _line("archives", part, where)
            elif key in self.spark_conf or (key in spark_settings.AMOUNTS and spark_settings.is_harmless(key, value)):
                continue
            elif not spark_settings.fits(key, self.spark_conf):
                yield f"spark_conf {key!r} is not accepted", _line("spark_conf", key, where)
            elif not spark_settings.is_harmless(key, value):
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
