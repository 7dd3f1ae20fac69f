"""The GitLab recipe: its commands are ours, and what it says to GitLab is said once."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from reconciler.cli import app
from tests.workflows.runner import PROJECT

RECIPE = PROJECT / "docs" / "gitlab"
COMMENT = '<!-- reconciler-plan {"environment": "prod", "digest": "1"} -->\nplanned\n'


class GitLab:
    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.pipelines = [{"id": 1, "sha": "head", "project_id": 9}, {"id": 2, "sha": "head", "project_id": 8}]
        self.merged = [{"iid": 3, "state": "merged", "sha": "head"}]
        self.address = ""

    def answer(self, method: str, path: str, body: Any) -> Any:
        match method, path.split("/")[3:]:
            case "GET", ["merge_requests", "3", "notes"]:
                return self.notes
            case "POST", ["merge_requests", "3", "notes"]:
                self.notes.append({"id": len(self.notes), **body})
                return self.notes[-1]
            case "PUT", ["merge_requests", "3", "notes", number]:
                self.notes[int(number)] |= body
                return self.notes[int(number)]
            case "GET", ["repository", "commits", "merge", "merge_requests"]:
                return self.merged
            case "GET", ["merge_requests", "3", "pipelines"]:
                return self.pipelines
            case "GET", ["pipelines", "1", "jobs"]:
                return [{"id": 5, "name": "plan: [other]"}, {"id": 6, "name": "plan: [prod]"}]
            case "GET", ["jobs", "6", "artifacts", "plan.json"]:
                return {"kind": "plan"}
            case "GET", ["issues"]:
                return [one for one in self.issues if one["state"] == "opened"]
            case "POST", ["issues"]:
                self.issues.append({"iid": len(self.issues), "state": "opened", **body})
                return self.issues[-1]
            case "PUT", ["issues", number]:
                state = {"state": "closed"} if body.get("state_event") == "close" else {}
                self.issues[int(number)] |= body | state
                return self.issues[int(number)]
        raise AssertionError(f"nobody answers {method} {path}")


@pytest.fixture
def lab() -> Iterator[GitLab]:
    state = GitLab()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            assert self.headers["PRIVATE-TOKEN"] == "token"
            length = int(self.headers["Content-Length"] or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            raw = json.dumps(state.answer(self.command, urlsplit(self.path).path, body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = _any  # noqa: N815  # the server's names

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def said(lab: GitLab, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {
        "CI_API_V4_URL": lab.address,
        "CI_PROJECT_ID": "9",
        "GITLAB_TOKEN": "token",
        "CI_MERGE_REQUEST_IID": "3",
        "CI_COMMIT_SHA": "merge",
        "CI_JOB_URL": "there",
        "ENVIRONMENT": "prod",
    }
    command = [sys.executable, str(RECIPE / "gitlab.py"), *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)


def test_its_commands_are_ours() -> None:
    """Every reconciler command line of the recipe parses, with the options it names."""
    recipe = YAML(typ="safe").load((RECIPE / "gitlab-ci.yml").read_text(encoding="utf-8"))
    scripts = [line for job in recipe.values() if isinstance(job, dict) for line in job.get("script", ())]
    lines = [line for line in scripts if line.startswith("reconciler ")]
    assert len(lines) == 5
    group = get_command(app)
    for line in lines:
        words = shlex.split(line.replace('"$base"', "main").partition(" ||")[0])[1:]
        command = group.commands[words[0]]  # type: ignore[attr-defined]
        command.make_context(words[0], words[1:])


def test_one_note_kept_up_to_date(lab: GitLab, tmp_path: Path) -> None:
    (tmp_path / "comment.md").write_text(COMMENT)
    for text in (COMMENT, COMMENT.replace('"1"', '"2"').replace("planned", "planned again")):
        (tmp_path / "comment.md").write_text(text)
        done = said(lab, tmp_path, "comment", "comment.md")
        assert done.returncode == 0, done.stderr
    assert len(lab.notes) == 1
    assert "planned again" in lab.notes[0]["body"]


def test_the_reviewed_plan_is_of_this_project(lab: GitLab, tmp_path: Path) -> None:
    done = said(lab, tmp_path, "reviewed-plan", "reviewed.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "reviewed.json").read_text()) == {"kind": "plan"}
    lab.pipelines = [lab.pipelines[1]]
    assert "no plan of prod was made" in said(lab, tmp_path, "reviewed-plan", "reviewed.json").stderr
    lab.merged = []
    assert "without a merge request" in said(lab, tmp_path, "reviewed-plan", "reviewed.json").stderr


def test_one_issue_opened_and_closed(lab: GitLab, tmp_path: Path) -> None:
    for code, text in (("2", "first"), ("2", "second"), ("0", "none")):
        (tmp_path / "drift.md").write_text(text)
        done = said(lab, tmp_path, "issue", code, "drift.md")
        assert done.returncode == 0, done.stderr
    (issue,) = lab.issues
    assert (issue["state"], issue["description"]) == ("closed", "second")
    assert re.search("no drift in prod", done.stdout)
