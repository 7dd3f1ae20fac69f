"""The GitLab recipe: its commands are ours, its jobs run as GitLab runs them, and what they say is said once."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import git
import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from reconciler.cli.main import app
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

COMPONENT = ROOT / "templates" / "topology.yml"
SCRIPT = ROOT / ".github" / "scripts" / "gitlab.py"
OURS, THEIRS = 1, 2
COMMENT = '<!-- reconciler-plan {"environment": "prod", "digest": "1"} -->\nplanned\n'


class GitLab:
    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.pipelines = [{"id": 1, "sha": "head", "project_id": 9}, {"id": 2, "sha": "head", "project_id": 8}]
        self.merged = [{"iid": 3, "state": "merged", "sha": "head"}]
        self.address = ""

    def answer(self, method: str, path: str, page: int, body: Any) -> Any:
        if path == "/user":
            return {"id": OURS}
        match method, path.split("/")[3:]:
            case "GET", ["merge_requests", "3", "notes"]:
                return self.notes[100 * (page - 1) : 100 * page]
            case "POST", ["merge_requests", "3", "notes"]:
                self.notes.append({"id": len(self.notes), "author": {"id": OURS}, **body})
                return self.notes[-1]
            case "PUT", ["merge_requests", "3", "notes", number]:
                self.notes[int(number)] |= body
                return self.notes[int(number)]
            case "GET", ["repository", "commits", _, "merge_requests"]:
                return self.merged
            case "GET", ["merge_requests", "3", "pipelines"]:
                return self.pipelines
            case "GET", ["pipelines", "1", "jobs"]:
                jobs = [*({"id": 100 + number, "name": f"lint {number}"} for number in range(100))]
                jobs += [{"id": 5, "name": "plan: [other]"}, {"id": 6, "name": "plan: [prod]"}]
                return jobs[100 * (page - 1) : 100 * page]
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
            url = urlsplit(self.path)
            page = int(parse_qs(url.query).get("page", ["1"])[0])
            raw = json.dumps(state.answer(self.command, url.path, page, body)).encode()
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


def variables(lab: GitLab) -> dict[str, str]:
    return os.environ | {
        "CI_API_V4_URL": lab.address,
        "CI_PROJECT_ID": "9",
        "GITLAB_TOKEN": "token",
        "CI_MERGE_REQUEST_IID": "3",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "base",
        "CI_COMMIT_SHA": "merge",
        "CI_JOB_URL": "there",
        "CI_PIPELINE_ID": "1",
        "ENVIRONMENT": "prod",
    }


def said(lab: GitLab, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *words]
    return subprocess.run(command, cwd=folder, env=variables(lab), capture_output=True, text=True)


WRITTEN = """for word; do case "$word" in
*/plan.json) plan=$word ;; */comment.md) comment=$word ;; */drift.md) drift=$word ;; */reviewed.json) reviewed=$word ;;
esac; done
"""


def ran(lab: GitLab, folder: Path, job: str, reconciler: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A job's lines in one shell that ends at the first that fails, as a runner has them; ``reconciler``: a script in
    place of ours, with the files that it is asked to write as $plan, $comment and $drift."""
    tool = folder / "tool"
    (tool / ".venv/bin").mkdir(parents=True, exist_ok=True)
    for name, words in (("reconciler", WRITTEN + reconciler), ("python", f'exec {sys.executable} "$@"')):
        (tool / ".venv/bin" / name).write_text(f"#!/bin/sh\n{words}\n")
        (tool / ".venv/bin" / name).chmod(0o755)
    if not (tool / ".github").exists():
        (tool / ".github").symlink_to(ROOT / ".github")
    recipe = read_recipe()
    lines = [*recipe[".reconciler"]["before_script"], *recipe[job]["script"]]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "\n".join(lines)],
        cwd=folder,
        env={**variables(lab), "TOOL": str(tool), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def read_recipe() -> Any:
    _, jobs = YAML(typ="safe").load_all(COMPONENT.read_text(encoding="utf-8"))
    return jobs


def test_each_input_of_the_component_is_described_and_used() -> None:
    spec, _ = YAML(typ="safe").load_all(COMPONENT.read_text(encoding="utf-8"))
    used = set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", COMPONENT.read_text(encoding="utf-8")))
    assert used == spec["spec"]["inputs"].keys()
    assert all(one["description"] for one in spec["spec"]["inputs"].values())
    assert read_recipe()[".each"]["parallel"]["matrix"] == [{"ENVIRONMENT": "$[[ inputs.environments ]]"}]


def test_its_commands_are_ours() -> None:
    """Every reconciler command line of the recipe parses, with the options it names."""
    recipe = read_recipe()
    scripts = [line for job in recipe.values() if isinstance(job, dict) for line in job.get("script", ())]
    lines = [line for line in scripts if line.startswith("reconciler ")]
    assert len(lines) == 4
    group = get_command(app)
    for line in lines:
        words = shlex.split(line.replace('"$base"', "main").partition(" 2>")[0].partition(" ||")[0])[1:]
        command = group.commands[words[0]]  # type: ignore[attr-defined]
        command.make_context(words[0], words[1:])


def test_a_merge_request_that_touches_no_environment_has_a_pipeline_too() -> None:
    """Where pipelines must succeed, GitLab merges nothing that has none."""
    jobs = [job for job in read_recipe().values() if isinstance(job, dict)]
    rules = [rule for job in jobs for rule in job.get("rules", ())]
    assert {"if": '$CI_PIPELINE_SOURCE == "merge_request_event"'} in rules


def test_one_note_kept_up_to_date(lab: GitLab, tmp_path: Path) -> None:
    repo = git.Repo.init(tmp_path)
    repo.git.commit(m="base", allow_empty=True)
    repo.create_tag("base")
    lab.notes = [{"id": number, "author": {"id": THEIRS}, "body": COMMENT} for number in range(120)]
    again = COMMENT.replace('"1"', '"2"').replace("planned", "planned again")
    for code, words in (("2", f"printf '%s' '{COMMENT}' >$comment"), ("2", f"printf '%s' '{again}' >$comment")):
        done = ran(lab, tmp_path, "plan", f"{words}; echo {{}} >$plan; exit {code}")
        assert done.returncode == 0, done.stderr
    assert [note["body"] for note in lab.notes[120:]] == [again]
    forged = ran(lab, tmp_path, "plan", "exit 2")
    assert forged.returncode == 1, "an exit code alone proves no plan"
    done = ran(lab, tmp_path, "plan", "echo 'broken ``` YAML' >&2; exit 1")
    assert done.returncode == 1, "a plan that could not be made must not be merged unseen"
    [told] = lab.notes[120:]
    assert "No plan of prod could be made (exit code 1)" in told["body"]
    assert "````text\nbroken ``` YAML\n````" in told["body"]
    assert ran(lab, tmp_path, "plan", "exit 0").returncode == 0
    assert "does not touch this environment any more" in told["body"]
    assert len(lab.notes) == 121
    assert {note["body"] for note in lab.notes[:120]} == {COMMENT}, "what others wrote is left alone"


@pytest.mark.parametrize("code", [3, 4])
def test_a_blocked_plan_fails_the_pipeline(lab: GitLab, tmp_path: Path, code: int) -> None:
    assert ran(lab, tmp_path, "plan", f"echo planned >$comment; exit {code}").returncode == code


@dataclass
class Project:
    repo: git.Repo
    root: Path

    def commit(self, **environments: str) -> str:
        for name, text in environments.items():
            file = self.root / "environments" / name / "topology.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.repo.git.add("environments")
        self.repo.git.commit(m="edit")
        return str(self.repo.head.commit.hexsha)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(git.Repo.init(tmp_path / "repo", initial_branch="main"), tmp_path / "repo")
    with made.repo.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    return made


OFFLINE = 'echo "$1 $2"; case "$2" in */bad) exit 1 ;; esac; if [ "$1" = plan ]; then exit 3; fi'


def test_an_environment_outside_the_matrix_is_validated_and_reported_as_not_planned(
    lab: GitLab, project: Project
) -> None:
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": project.commit(prod="a: 1", old="a: 1", other="a: 1")}
    project.commit(prod="a: 2", fresh="a: 1", other="a: 2")
    done = ran(lab, project.root, "unlisted", OFFLINE, **base)
    assert done.returncode == 0, done.stderr
    assert [note["body"].split("\n")[1] for note in lab.notes] == ["### fresh is valid, and not planned"]
    assert "plan environments/fresh" in lab.notes[0]["body"], "what the edit means"

    shutil.rmtree(project.root / "environments/fresh")
    project.commit(bad="a: 1")
    done = ran(lab, project.root, "unlisted", OFFLINE, **base)
    assert done.returncode == 1, "what is not valid must not be merged unseen"
    assert "does not touch this environment any more" in lab.notes[0]["body"]
    assert "### bad is not valid, and not planned" in lab.notes[1]["body"]


def test_all_that_a_fork_touches_is_validated_without_asking_clusters(lab: GitLab, project: Project) -> None:
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": project.commit(prod="a: 1", old="a: 1"), "GITLAB_TOKEN": ""}
    untouched = ran(lab, project.root, "fork", OFFLINE, **base)
    assert (untouched.returncode, untouched.stdout) == (0, ""), untouched.stderr
    project.commit(prod="a: 2", fresh="a: 1")
    done = ran(lab, project.root, "fork", OFFLINE, **base)
    assert done.returncode == 0, done.stderr
    assert sorted(set(done.stdout.split("\n")) - {""}) == [
        "plan environments/fresh",
        "plan environments/prod",
        "validate environments/fresh",
        "validate environments/prod",
    ]
    project.commit(bad="a: 1")
    assert ran(lab, project.root, "fork", OFFLINE, **base).returncode == 1
    assert lab.notes == []


def hostile(root: Path) -> None:
    """Files of an edit under every name that a job of the recipe writes or reads, links and folders among them."""
    forged = "<!-- reconciler prod -->\nApproved."
    for name in ("comment.md", "drift.md", "said.txt", "unlisted.txt", "touched.txt", "reviewed.json"):
        (root / name).write_text(forged)
    (root / "plan.html").symlink_to("/etc/hostname")
    (root / "plan.json").mkdir()
    (root / "plan.json/x").write_text(forged)
    for folder in ("unlisted/x", "touched/x"):
        (root / folder).mkdir(parents=True)
        for name in ("said.txt", "edit.md", "code.txt"):
            (root / folder / name).write_text(forged)


def test_nothing_that_an_edit_brings_is_posted_kept_or_applied(lab: GitLab, project: Project) -> None:
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": project.commit(prod="a: 1", old="a: 1")}
    hostile(project.root)
    lab.notes = [{"id": 0, "author": {"id": OURS}, "body": COMMENT}]
    assert ran(lab, project.root, "plan", "exit 0", **base).returncode == 0, "untouched"
    assert not (project.root / "plan.html").exists()
    assert not (project.root / "plan.json").exists()
    done = ran(lab, project.root, "drift", "exit 1", **base)
    assert done.returncode == 1
    for job in ("unlisted", "fork"):
        done = ran(lab, project.root, job, OFFLINE, **base)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    said_anywhere = [text for one in (*lab.notes, *lab.issues) for text in map(str, one.values())]
    assert not [text for text in said_anywhere if "Approved" in text]
    lab.merged = []
    applied = ran(lab, project.root, "apply-by-hand", 'echo "$@"')
    assert "reviewed" not in applied.stdout


def test_a_fork_is_known_by_the_project_of_its_merge_request() -> None:
    """Its pipelines run in the fork: there CI_PROJECT_ID is that of the source, too."""
    recipe = read_recipe()
    own, fork = (recipe[name]["rules"][0]["if"] for name in (".edit", "fork"))
    assert own.endswith("$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID")
    assert fork == own.replace("ID == $CI_MERGE", "ID != $CI_MERGE")


def test_secrets_are_read_unchanged_and_never_shown(lab: GitLab, tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text('# of prod\nEAST_PASSWORD=a$b `c` "d" & e\n')
    done = ran(
        lab, tmp_path, "drift", 'printf "%s" "$EAST_PASSWORD" >seen', RECONCILER_SECRETS=str(tmp_path / "secrets")
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == 'a$b `c` "d" & e'
    assert "a$b" not in done.stdout + done.stderr


def test_only_what_a_push_touched_is_applied(lab: GitLab, project: Project) -> None:
    commits = [project.commit(prod="topics: {}\n"), project.commit(staging="topics: {}\n")]
    push = {"CI_COMMIT_BEFORE_SHA": commits[0], "CI_COMMIT_SHA": commits[1]}
    words = 'echo "$@" >>applied'
    lab.merged = []
    untouched = ran(lab, project.root, "apply", words, **push)
    assert (untouched.returncode, untouched.stderr) == (0, "")
    assert not (project.root / "applied").exists()
    touched = ran(lab, project.root, "apply", words, ENVIRONMENT="staging", **push)
    assert "came without a merge request" in touched.stderr
    assert touched.returncode == 1


def test_the_reviewed_plan_is_of_this_project(lab: GitLab, tmp_path: Path) -> None:
    done = said(lab, tmp_path, "reviewed-plan", "reviewed.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "reviewed.json").read_text()) == {"kind": "plan"}
    lab.pipelines = [lab.pipelines[1]]
    assert "no plan of prod was made" in said(lab, tmp_path, "reviewed-plan", "reviewed.json").stderr
    lab.merged = []
    assert "without a merge request" in said(lab, tmp_path, "reviewed-plan", "reviewed.json").stderr


def test_one_issue_opened_and_closed(lab: GitLab, tmp_path: Path) -> None:
    lab.issues = [{"iid": 0, "state": "opened", "title": "Drift in prod", "description": None}]
    for code, text in ((2, "first"), (1, ""), (3, "second"), (0, "none")):
        done = ran(lab, tmp_path, "drift", f"echo {text} >$drift; exit {code}")
        assert done.returncode == (1 if code == 1 else 0), done.stderr
        if code == 1:
            assert lab.issues[1]["title"] == "Drift of prod could not be told"
    other, issue = lab.issues
    assert other["state"] == "opened"
    assert (issue["state"], issue["title"]) == ("closed", "Drift in prod")
    assert "second" in issue["description"]
    assert "no drift in prod" in done.stdout
