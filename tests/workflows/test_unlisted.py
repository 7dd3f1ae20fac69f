"""An environment that a pull request adds, and that nobody has listed yet: validated, and told as not planned."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import git
import pytest

from reconciler.render.plan.markdown import marker
from tests.support.paths import ROOT
from tests.support.workflow_runner import GitHub, Job, github

pytestmark = pytest.mark.slow

LIMIT = 65_536  # characters that GitHub takes
CLUSTERS = "clusters: {east: {bootstrap_servers: ['127.0.0.1:9']}}\n"
VALID = CLUSTERS + "topics: {orders: {clusters: [east], partitions: 2}}\n"
BROKEN = CLUSTERS + "topics: {orders: {clusters: [esat], partitions: 2}}\n"


@dataclass
class Team:
    """A repository with the environment ``prod``, which is listed."""

    repo: git.Repo
    root: Path
    hub: GitHub

    def commit(self, files: dict[str, str], links: dict[str, str] | None = None) -> None:
        for name, text in files.items():
            path = Path(self.repo.working_dir) / "environments" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name, to in (links or {}).items():
            path = Path(self.repo.working_dir) / "environments" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(to)
        self.repo.git.add(A=True)
        self.repo.git.commit(m="edit")

    def propose(self, files: dict[str, str], links: dict[str, str] | None = None, listed: str = '["prod"]') -> Job:
        self.repo.git.checkout("-B", "edit", "main")
        self.commit(files, links)
        self.repo.git.checkout("--detach", "main")
        self.repo.git.merge("edit", no_ff=True, m="merge")
        workspace = self.root / f"workspace-{len(list(self.root.iterdir()))}"
        git.Repo.clone_from(str(self.repo.working_dir), str(workspace / "edit"))
        git.Repo(workspace / "edit").git.checkout(str(self.repo.head.commit.hexsha))
        values = {
            "github.event.pull_request.number": "7",
            "github.token": "read-and-comment",
            "vars.RECONCILER_ENVIRONMENTS": listed,
        }
        made = Job("plan", "unlisted", workspace, values, {"GITHUB_API_URL": self.hub.address})
        made.run()
        return made

    def told(self) -> list[str]:
        return [one["body"] for one in self.hub.comments]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    repo = git.Repo.init(tmp_path / "origin", initial_branch="main")
    with repo.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    (tmp_path / "runs").mkdir()
    with github() as hub:
        made = Team(repo, tmp_path / "runs", hub)
        made.commit({"prod/topology.yaml": VALID, "old/topology.yaml": BROKEN})
        yield made


def test_a_new_environment_is_validated_and_reported_as_not_planned(team: Team) -> None:
    done = team.propose({"fresh/topology.yaml": BROKEN, "prod/topology.yaml": BROKEN})
    assert done.steps[-1].code == 1, done.words()
    (told,) = team.told()
    assert "### fresh is not valid, and not planned" in told, "nobody touched old, and prod has a plan of its own"
    assert "RECONCILER_ENVIRONMENTS does not list it" in told
    assert "esat" in told

    done = team.propose({"fresh/topology.yaml": VALID})
    assert {step.code for step in done.steps} == {0}, done.words()
    (told,) = team.told()
    assert "### fresh is valid, and not planned" in told, "one comment, kept up to date"
    assert "orders" in told.split("```")[-1], "what the edit means"

    done = team.propose({"fresh/topology.yaml": VALID}, listed='["prod", "fresh"]')
    assert team.told() == [told], "its plan has a job of its own, which finds this comment by its first words"

    done = team.propose({"prod/topology.yaml": VALID + "# edited\n"})
    assert {step.code for step in done.steps} == {0}, done.words()
    (told,) = team.told()
    assert "does not touch this environment any more" in told


@pytest.mark.long
def test_where_nothing_is_listed_every_touched_environment_is_validated(team: Team) -> None:
    team.propose({"fresh/topology.yaml": VALID, "prod/topology.yaml": VALID + "# edited\n"}, listed="")
    assert [body.split("\n")[1] for body in team.told()] == [
        "### fresh is valid, and not planned",
        "### prod is valid, and not planned",
    ]


def test_a_place_for_shared_files_is_no_environment(team: Team) -> None:
    team.commit(
        {"shared/classes.yaml": "{}\n", "eu/prod/topology.yaml": VALID}, {"prod/classes.yaml": "../shared/classes.yaml"}
    )
    done = team.propose(
        {"shared/classes.yaml": "classes: {}\n", "eu/prod/topology.yaml": VALID + "# edited\n"},
        listed='["prod", "eu/prod"]',
    )
    assert ({step.code for step in done.steps}, team.told()) == ({0}, []), done.words()


def test_a_list_that_is_none_ends_with_words(team: Team) -> None:
    done = team.propose({"fresh/topology.yaml": VALID}, listed="prod, fresh")
    assert done.steps[0].code == 1
    assert "no JSON list of names" in done.words()
    assert "Traceback" not in done.words()


def test_both_texts_of_a_comment_fit_into_it(team: Team, tmp_path: Path) -> None:
    folder = tmp_path / "unlisted" / "fresh"
    folder.mkdir(parents=True)
    (folder / "said.txt").write_text("s" * 100_000)
    (folder / "edit.md").write_text("e" * (LIMIT // 2))
    _call(team, "comment-unlisted", str(folder.parent))
    assert len(team.told()[0]) < LIMIT


def test_the_name_of_a_folder_writes_nothing_into_the_comment(team: Team, tmp_path: Path) -> None:
    name = "x--> @team <img> [a](b) *c*"
    (tmp_path / "unlisted" / name).mkdir(parents=True)
    for _ in range(2):
        _call(team, "comment-unlisted", str(tmp_path / "unlisted"))
    (told,) = team.told()
    assert told.split("\n")[0].startswith(f"{marker('plan', name)}, "), "as the reconciler begins the plan's own"
    assert told.count("-->") == 1
    assert not re.search(r"@team|<img|\]\(|\*c", told.partition("\n")[2])


@pytest.mark.parametrize(
    ("since", "refused"),
    [
        ({"status": "identical", "files": []}, False),
        ({"status": "ahead", "files": [{"filename": "README.md"}]}, False),
        ({"status": "ahead", "files": [{"filename": "environments/prod/topology.yaml"}]}, True),
        ({"status": "ahead", "files": [{"filename": f"{number}"} for number in range(300)]}, True),
        ({"status": "diverged", "files": []}, True),
    ],
)
def test_an_old_run_that_is_started_again_does_not_undo_what_came_later(
    team: Team, tmp_path: Path, since: dict[str, Any], refused: bool
) -> None:
    team.hub.since = since
    first = _call(team, "reviewed-plan", str(tmp_path / "plan.json"))
    assert "came without a pull request" in first
    again = _call(team, "reviewed-plan", str(tmp_path / "plan.json"), GITHUB_RUN_ATTEMPT="2")
    assert ("main has gone on" in again) is refused, again
    assert ("came without a pull request" in again) is not refused, again


def _call(team: Team, *words: str, **more: str) -> str:
    """What the script says."""
    variables = {"GITHUB_API_URL": team.hub.address, "GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "t"}
    variables |= {"PULL_REQUEST": "7", "COMMIT": "merge", "GITHUB_REF_NAME": "main"}
    done = subprocess.run(
        [sys.executable, str(ROOT / ".github/scripts/github.py"), *words],
        env={**os.environ, **variables, **more},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


CUNNING = ["x\n:!*.yaml", "x\n:(exclude)environments", "*", "[a-z]*.yaml"]


@pytest.mark.parametrize("name", CUNNING)
def test_the_name_of_a_file_hides_no_edit(team: Team, name: str) -> None:
    before = team.repo.head.commit.hexsha
    team.commit({f"prod/{name}.yaml": "topics: {}\n"})
    assert _touched(team, before) == ["prod"]
    before = team.repo.head.commit.hexsha
    team.commit({"old/topology.yaml": VALID})
    assert _touched(team, before) == [], "another environment alone"


def _touched(team: Team, before: str) -> list[str]:
    command = [sys.executable, str(ROOT / ".github/scripts/environments.py"), "listed", before, "HEAD"]
    variables = {**os.environ, "RECONCILER_ENVIRONMENTS": '["prod"]'}
    done = subprocess.run(command, cwd=team.repo.working_dir, env=variables, capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_folder_whose_name_no_line_can_hold_is_refused(team: Team) -> None:
    done = team.propose({"fresh\n..": VALID, "fresh\nprod/topology.yaml": VALID})
    assert done.steps[0].code == 1
    assert "a name that no line can hold" in done.words()


def test_the_code_of_a_pull_request_is_not_run_to_install_the_tool(tmp_path: Path) -> None:
    """``python -m venv`` would take a venv.py of the folder it is started in."""
    (tmp_path / "python").write_text("#!/bin/sh\npwd\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        [ROOT / ".github/scripts/install"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(ROOT)
