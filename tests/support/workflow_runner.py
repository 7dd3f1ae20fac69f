"""The steps of a workflow run in order, as a runner does, against a GitHub that lives in this process.

Border: steps of our own actions run; those of others are the test's to prepare; expressions that the test does not know
fail it.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ruamel.yaml import YAML

from tests.support.paths import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
ACTIONS = ROOT / ".github" / "actions"
VENV = Path(os.environ.get("WORKFLOWS_VENV") or ROOT / ".venv")
"""Where the tool is installed that the steps run: ``make test-package`` names one that has the wheel."""
INSIDE = ("chroot", os.environ["WORKFLOWS_ROOT"]) if os.environ.get("WORKFLOWS_ROOT") else ()
"""Before each command of a step: ``make test-machine`` runs them where nothing else is installed."""
WRITTEN = ("plan", "apply", "drift")
"""Workflows that ``reconciler init --repository`` writes."""
OURS = re.compile(r"OWNER/kafka-topology-reconciler/\.github/actions/(\w+)@REF")
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@cache
def repository() -> Path:
    """What ``init --repository`` of the installed tool writes, for actions of OWNER at REF."""
    folder = Path(tempfile.mkdtemp(prefix="repository-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = ("init", "--repository", str(folder), "--actions", "OWNER/kafka-topology-reconciler@REF")
    subprocess.run(
        [*INSIDE, VENV / "bin" / "reconciler", *words],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return folder


def workflow(name: str) -> dict[str, Any]:
    return _read((repository() / ".github" / "workflows" if name in WRITTEN else WORKFLOWS) / f"{name}.yml")


def action(name: str) -> dict[str, Any]:
    return _read(ACTIONS / name / "action.yml")


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return read


@dataclass
class GitHub:
    """Comments, issues and artifacts, and the token each request came with."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    archives: dict[int, bytes] = field(default_factory=dict)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    since: dict[str, Any] = field(default_factory=dict)
    tokens: set[str | None] = field(default_factory=set)
    address: str = ""

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> Any:
        match method, path.strip("/").split("/")[3:]:
            case "GET", ["issues", _, "comments"]:
                return self.comments if query["page"] == ["1"] else []
            case "POST", ["issues", number, "comments"]:
                self.comments.append({"id": len(self.comments) + 1, "user": {"type": "Bot"}, "issue": number, **body})
                return self.comments[-1]
            case "PATCH", ["issues", "comments", number]:
                self.comments[int(number) - 1] |= body
                return self.comments[int(number) - 1]
            case "GET", ["issues"]:
                return [one for one in self.issues if one["state"] == "open" and query["page"] == ["1"]]
            case "POST", ["issues"]:
                self.issues.append({"number": len(self.issues) + 1, "state": "open", **body})
                return self.issues[-1]
            case "PATCH", ["issues", number]:
                self.issues[int(number) - 1] |= body
                return self.issues[int(number) - 1]
            case "GET", ["commits", _, "pulls"]:
                return self.pulls
            case "GET", ["compare", _]:
                return self.since
            case "GET", ["actions", "artifacts"]:
                return {"artifacts": [one for one in self.artifacts if [one["name"]] == query["name"]]}
            case "GET", ["actions", "artifacts", number, "zip"]:
                return self.archives[int(number)]
        raise AssertionError(f"nobody answers {method} {path}")

    def upload(self, name: str, files: list[Path], head_sha: str, fork: bool = False) -> None:
        number = len(self.artifacts) + 1
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as packed:
            for file in files:
                packed.write(file, file.name)
        self.archives[number] = archive.getvalue()
        self.artifacts.append(
            {
                "name": name,
                "expired": False,
                "created_at": f"2026-01-01T00:00:{number:02}Z",
                "workflow_run": {"head_sha": head_sha, "repository_id": 1, "head_repository_id": 2 if fork else 1},
                "archive_download_url": f"{self.address}/repos/o/r/actions/artifacts/{number}/zip",
            }
        )


@contextmanager
def github() -> Iterator[GitHub]:
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            state.tokens.add(self.headers["Authorization"])
            length = int(self.headers["Content-Length"] or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            url = urlsplit(self.path)
            found = state.answer(self.command, url.path, parse_qs(url.query), body)
            raw = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = _any  # noqa: N815  # the server's names

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Step:
    name: str
    code: int
    words: str


class Job:
    """One run of one job: ``values`` are what its expressions evaluate to."""

    def __init__(self, name: str, job: str, workspace: Path, values: Mapping[str, str], variables: Mapping[str, str]):
        self.job = workflow(name)["jobs"][job]
        self.workspace = workspace
        self.values = dict(values)
        self.temp = workspace.parent / f"temp-{name}-{len(list(workspace.parent.iterdir()))}"
        self.temp.mkdir()
        (self.temp / "venv").symlink_to(VENV)  # as if an earlier step had installed there
        self.variables = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "GITHUB_", "PYTHON"))},
            **variables,
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_PATH": str(self.temp / "path"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_ACTIONS": "true",
        }
        self.steps: list[Step] = []

    def run(self) -> list[Step]:
        """Until a step fails; after that only those with ``always()``."""
        for step in self.job["steps"]:
            ours = OURS.fullmatch(step.get("uses", ""))
            if ours:
                self._action(ours[1], step)
            elif "run" in step:
                self._step(step, self.values, {})
        return self.steps

    def words(self) -> str:
        return "".join(f"--- {step.name}: {step.code}\n{step.words}" for step in self.steps)

    def _action(self, name: str, caller: Mapping[str, Any]) -> None:
        """Steps of a composite action see its inputs, and no steps of its caller."""
        read = action(name)
        given = {key: self._value(value, self.values) for key, value in caller.get("with", {}).items()}
        assert given.keys() <= read.get("inputs", {}).keys()
        inputs = {key: str(given.get(key, one.get("default", ""))) for key, one in read.get("inputs", {}).items()}
        values = {key: value for key, value in self.values.items() if not key.startswith("steps.")}
        values |= {f"inputs.{key}": value for key, value in inputs.items()}
        for step in read["runs"]["steps"]:
            if "run" in step:
                assert step["shell"] == "bash", "a composite action has no default"
                self._step(step, values, {"GITHUB_ACTION_PATH": str(ACTIONS / name)})
        for key, output in read.get("outputs", {}).items():
            self.values[f"steps.{caller['id']}.outputs.{key}"] = self._value(output["value"], values)

    def _step(self, step: Mapping[str, Any], values: dict[str, str], variables: Mapping[str, str]) -> None:
        condition = step.get("if", "")
        if any(done.code for done in self.steps) and "always()" not in condition:
            return
        if ".outputs." in condition and not values.get(_inner(condition)):
            return
        done = self._ran(step, values, variables)
        self.steps.append(done)

    def _ran(self, step: Mapping[str, Any], values: dict[str, str], variables: Mapping[str, str]) -> Step:
        assert "${{" not in step["run"], "an expression inside a script is an injection"
        output = self.temp / "output"
        output.write_text("")
        told = {**self.job.get("env", {}), **step.get("env", {})}
        variables = {**self.variables, **variables, **{key: self._value(value, values) for key, value in told.items()}}
        if (self.temp / "path").exists():
            added = ":".join((self.temp / "path").read_text().split())
            variables["PATH"] = f"{added}:{variables['PATH']}"
        folder = self.workspace / step.get("working-directory", ".")
        done = subprocess.run(
            [*INSIDE, "env", "-C", folder, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**variables, "GITHUB_OUTPUT": str(output)},
            capture_output=True,
            text=True,
            timeout=200,
        )
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
        return Step(step.get("name", step["run"]), done.returncode, done.stdout + done.stderr)

    def _value(self, text: object, values: Mapping[str, str]) -> str:
        def evaluated(expression: str) -> str:
            """What is not set, or not put out, is empty; ``A || 'B'`` is B where A is empty."""
            name, _, default = expression.partition(" || ")
            known = values.get(name, "") if name.startswith(("vars.", "steps.")) else values[name]
            return known or default.strip("'")

        return EXPRESSION.sub(lambda found: evaluated(found[1]), str(text))


def _inner(condition: str) -> str:
    found = re.search(r"steps\.\w+\.outputs\.\w+", condition)
    assert found is not None
    return found[0]
