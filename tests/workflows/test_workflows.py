"""The workflows, step by step: an edit is planned, reviewed, merged, applied; drift is told; forks get nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import git
import pytest
import yaml
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_sandbox.handles import Sandbox

from tests.support.paths import ROOT
from tests.support.workflow_runner import (
    ACTIONS,
    OURS,
    WORKFLOWS,
    WRITTEN,
    GitHub,
    Job,
    action,
    github,
    repository,
    workflow,
)

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "comment.md"
SECRETS = "# for the names of this environment\nWHO=workflow\n"
NAMES = [*sorted(path.stem for path in WORKFLOWS.glob("*.yml")), *WRITTEN]
OWN = sorted(path.name for path in ACTIONS.iterdir())
PINNED = re.compile(r"[\w-]+/[\w-]+(/[\w-]+)*@[0-9a-f]{40}")


# as files


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_permitted_by_default_and_actions_are_pinned(name: str) -> None:
    read = workflow(name)
    assert read["permissions"] == {}
    for job in read["jobs"].values():
        assert job["timeout-minutes"] <= 120
        assert job["permissions"], "what a job may do is written down"
        _careful(job["steps"])


@pytest.mark.parametrize("name", OWN)
def test_our_actions_describe_their_inputs_and_are_as_careful(name: str) -> None:
    read = action(name)
    assert all(one["description"] for one in (read, *read["inputs"].values()))
    assert all("default" in one or one["required"] for one in read["inputs"].values())
    _careful(read["runs"]["steps"])


def _careful(steps: list[dict[str, Any]]) -> None:
    for step in steps:
        if "uses" in step:
            ours = OURS.fullmatch(step["uses"])
            assert ours[1] in OWN if ours else PINNED.fullmatch(step["uses"])
        if step.get("uses", "").startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", ""), "an expression inside a script is an injection"


def test_what_is_written_uses_each_of_our_actions() -> None:
    steps = [step for name in WRITTEN for job in workflow(name)["jobs"].values() for step in job["steps"]]
    assert {ours[1] for step in steps if (ours := OURS.fullmatch(step.get("uses", "")))} == set(OWN)


def test_newer_actions_and_packages_are_proposed() -> None:
    """What is pinned by a commit stays as it is until somebody looks."""
    updates = yaml.safe_load((WORKFLOWS.parent / "dependabot.yml").read_text("utf-8"))["updates"]
    assert {(update["package-ecosystem"], update["directory"]) for update in updates} == {
        ("github-actions", "/"),
        ("docker", "/docs/mirror/deploy"),
        ("pip", "/"),
    }


def test_a_fork_gets_no_credentials_and_can_write_nothing() -> None:
    job = workflow("plan")["jobs"]["fork"]
    assert job["permissions"] == {"contents": "read"}
    assert "secrets" not in json.dumps(job)
    assert "environment" not in job
    assert "== github.repository" in workflow("plan")["jobs"]["plan"]["if"]


@pytest.mark.parametrize("name", WRITTEN)
def test_secrets_reach_the_one_step_that_needs_them(name: str) -> None:
    (step,) = workflow(name)["jobs"][name]["steps"]
    assert step["uses"].endswith(f"/{name}@REF")
    assert "secrets." not in json.dumps([job for key, job in workflow(name)["jobs"].items() if key != name])
    assert [step["name"] for step in action(name)["runs"]["steps"] if "inputs.secrets" in json.dumps(step)] == [name]


@pytest.mark.parametrize(
    ("results", "passes"),
    [
        ("success success skipped", True),
        ("success skipped skipped", True),
        ("success skipped success", True),
        ("success failure skipped", False),
        ("success cancelled skipped", False),
        ("failure skipped skipped", False),
    ],
)
def test_one_check_sums_up_a_pull_request_and_always_ends(results: str, passes: bool, tmp_path: Path) -> None:
    read = workflow("plan")
    assert read["on"]["pull_request"] is None, "paths would leave a required check waiting for ever"
    last = read["jobs"]["planned"]
    assert set(last["needs"]) == read["jobs"].keys() - {"planned"}
    assert last["if"] == "always()"
    (tmp_path / "runner").mkdir()
    job = Job("plan", "planned", tmp_path / "runner", {"join(needs.*.result, ' ')": results}, {})
    assert [step.code == 0 for step in job.run()] == [passes]


def test_a_secret_is_masked_and_one_that_cannot_be_read_is_not_shown() -> None:
    def sourced(secrets: str) -> subprocess.CompletedProcess[str]:
        words = f'. {ROOT}/.github/scripts/secrets; echo "WHO is ${{WHO:-}}, ${{RECONCILER_SECRETS:-gone}}"'
        variables = {**os.environ, "GITHUB_ACTIONS": "true", "RECONCILER_SECRETS": secrets}
        return subprocess.run(["bash", "-c", words], env=variables, capture_output=True, text=True)

    assert sourced("# a comment\n\nWHO=a$b=c\r\n").stdout == "::add-mask::a$b=c\nWHO is a$b=c, gone\n"
    broken = sourced("hunter2\n")
    assert broken.returncode == 1
    assert "hunter2" not in broken.stdout + broken.stderr


def test_what_an_edit_says_is_no_command_to_the_runner() -> None:
    script, said = ROOT / ".github" / "scripts" / "quiet", "printf '::add-mask::y\\n##[error]x'; exit 3"
    variables = {**os.environ, "GITHUB_ACTIONS": "true"}
    done = subprocess.run([script, "bash", "-c", said], env=variables, capture_output=True, text=True)
    first, *between, last = done.stdout.splitlines()
    word = first.removeprefix("::stop-commands::")
    assert (len(word), between, last, done.returncode) == (32, ["::add-mask::y", "##[error]x"], f"::{word}::", 3)
    for name in OWN:
        steps = action(name)["runs"]["steps"]
        shown = [line for step in steps for line in step.get("run", "").splitlines() if "said.txt" in line]
        assert all("quiet" in line for line in shown if re.search(r"\b(cat|tee)\b", line))


@pytest.mark.parametrize(
    ("code", "touched", "plan", "believed"),
    [
        ("0", True, "{}", True), ("2", True, "{}", True), ("0", False, "", True), ("1", True, "", True),
        ("0", True, "", False), ("2", True, "", False), ("2", False, "", False),
    ],
)  # fmt: skip
def test_an_exit_code_proves_no_plan(code: str, touched: bool, plan: str, believed: bool, tmp_path: Path) -> None:
    repo = git.Repo.init(tmp_path)
    (tmp_path / "environments" / "shop").mkdir(parents=True)
    for text in ("a", "b" if touched else "a"):
        (tmp_path / "environments" / "shop" / "x.yaml").write_text(text)
        repo.git.add(A=True)
        repo.git.commit(m="edit", allow_empty=True)
    (tmp_path / "plan.json").write_text(plan)
    words = [str(ROOT / ".github" / "scripts" / "planned"), code, "HEAD~1", "HEAD", "environments/shop", "plan.json"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == (0 if believed else 1)


# in order, on real clusters


@dataclass
class Repository:
    """The team's repository: what is on main, and a workspace as actions/checkout makes it."""

    repo: git.Repo
    root: Path
    hub: GitHub
    topic: str
    clusters: str

    def write(self, topics: str) -> str:
        folder = Path(self.repo.working_dir) / "environments" / "shop"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "topology.yaml").write_text(f"{self.clusters}topics:\n{topics}", encoding="utf-8")
        self.repo.git.add(A=True)
        self.repo.git.commit(m="edit", allow_empty=True)
        return str(self.repo.head.commit.hexsha)

    def propose(self, topics: str) -> tuple[str, str]:
        """An edit on a branch. Its commit, and the commit that merges it into main as GitHub would."""
        self.repo.git.checkout("-B", "edit", "main")
        head = self.write(topics)
        self.repo.git.checkout("--detach", "main")
        self.repo.git.merge("edit", no_ff=True, m="merge")
        return head, str(self.repo.head.commit.hexsha)

    def checked_out(self, commit: str, name: str = "edit") -> Path:
        workspace = self.root / f"workspace-{len(list(self.root.iterdir()))}"
        git.Repo.clone_from(str(self.repo.working_dir), str(workspace / name)).git.checkout(commit)
        return workspace

    def plan(self, topics: str, job: str = "plan", secrets: str = SECRETS) -> tuple[Job, str, str]:
        head, merge = self.propose(topics)
        values = {
            "matrix.environment": "shop",
            "github.event.pull_request.number": "7",
            "github.server_url": "https://git.example",
            "github.repository": "o/r",
            "github.run_id": "1",
            "github.token": "read-and-comment",
            "secrets.RECONCILER_SECRETS": secrets,
        }
        if job == "fork":  # its token can write nothing, and GitHub would not tell it a secret
            values = {"github.event.pull_request.number": "7", "github.token": "read"}
        made = Job("plan", job, self.checked_out(merge), values, {"GITHUB_API_URL": self.hub.address})
        made.run()
        if (made.temp / "plan.json").exists():
            self.hub.upload("plan-shop-7", [made.temp / "plan.json", made.temp / "plan.html"], head)
        return made, head, merge

    def merged(self, head: str, merge: str) -> None:
        self.repo.git.checkout("main")
        self.repo.git.reset("--hard", merge)
        self.hub.pulls = [{"number": 7, "merged_at": "now", "merge_commit_sha": merge, "head": {"sha": head}}]

    def apply(self, before: str, event: str = "push") -> Job:
        now = str(self.repo.commit("main").hexsha)
        values = {
            "matrix.environment": "shop",
            "github.sha": now,
            "github.event.before": before,
            "github.event_name": event,
            "github.token": "read-and-comment",
            "secrets.RECONCILER_SECRETS": SECRETS,
        }
        return self._ran("apply", "apply", self.checked_out("main", "."), values)

    def touched(self, before: str) -> Job:
        values = {
            "github.sha": str(self.repo.commit("main").hexsha),
            "github.event.before": before,
            "github.event_name": "push",
            "vars.RECONCILER_ENVIRONMENTS": json.dumps(["shop", "other"]),
        }
        return self._ran("apply", "touched", self.checked_out("main"), values)

    def drift(self) -> Job:
        values = {
            "matrix.environment": "shop",
            "github.server_url": "https://git.example",
            "github.repository": "o/r",
            "github.run_id": "2",
            "github.token": "read-and-issue",
            "secrets.RECONCILER_SECRETS": SECRETS,
        }
        return self._ran("drift", "drift", self.checked_out("main", "."), values)

    def _ran(self, name: str, job: str, workspace: Path, values: dict[str, str]) -> Job:
        variables = {"GITHUB_API_URL": self.hub.address, "RECONCILER_STATE": str(self.root / "state")}
        made = Job(name, job, workspace, values, variables)
        made.run()
        return made


@pytest.fixture
def shop(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Repository]:
    east = plain["east"]
    clusters = (
        f"clusters:\n  east:\n    bootstrap_servers: [{east.bootstrap_servers}]\n    cluster_id: {east.cluster_id}\n"
        '    client: {ssl.key.password: "${env:WHO}"}\n'
    )
    shutil.copytree(repository(), tmp_path / "origin")
    repo = git.Repo.init(tmp_path / "origin", initial_branch="main")
    with repo.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    with github() as hub:
        made = Repository(repo, tmp_path / "runs", hub, unique, clusters)
        made.root.mkdir()
        made.write(f"  {unique}-orders: {{clusters: [east], partitions: 2}}\n")
        yield made


def edited(shop: Repository) -> str:
    return (
        f"  {shop.topic}-orders: {{clusters: [east], partitions: 2}}\n"
        f"  {shop.topic}-clicks: {{clusters: [east], partitions: 3, configs: {{retention.ms: 7d}}}}\n"
    )


def test_planned_merged_applied_and_watched(shop: Repository, plain: Sandbox, create_topic: Callable[..., str]) -> None:
    before = str(shop.repo.head.commit.hexsha)
    planned, head, merge = shop.plan(edited(shop))
    assert [step.code for step in planned.steps] == [0] * 4, planned.words()
    assert [one["issue"] for one in shop.hub.comments] == ["7"]
    _golden(_masked(shop.hub.comments[0]["body"], shop))
    assert (planned.temp / "plan.html").read_text().startswith("<!doctype html>")

    create_topic(plain["east"], f"stranger-of-{shop.topic}")
    planned, head, merge = shop.plan(edited(shop).replace("7d", "6d"))
    assert len(shop.hub.comments) == 1, "one comment, kept up to date"
    assert "6d" in shop.hub.comments[0]["body"]
    assert "stranger-of" not in shop.hub.comments[0]["body"], "what git does not manage is no part of the edit"
    _golden(_masked(shop.hub.comments[0]["body"].replace("6d", "7d"), shop))

    forged = planned.temp / "forged" / "plan.json"
    forged.parent.mkdir()
    forged.write_text("{}")
    shop.hub.upload("plan-shop-7", [forged], head, fork=True)
    shop.merged(head, merge)
    applied = shop.apply(before)
    assert [step.code for step in applied.steps] == [0] * 5, applied.words()
    assert "every change of the fresh plan is in the reviewed one" in applied.words()
    assert len(shop.hub.comments) == 2
    assert "apply of shop: exit code 0" in shop.hub.comments[1]["body"]
    record = (shop.root / "state" / "shop" / "audit.jsonl").read_text()
    assert (applied.temp / "audit.jsonl").read_text() == record, "what the job uploads, wherever the record stands"
    admin = AdminClient(plain["east"].super_client())
    assert len(admin.list_topics(timeout=20).topics[f"{shop.topic}-clicks"].partitions) == 3

    clean = shop.drift()
    assert [step.code for step in clean.steps] == [0] * 4, clean.words()
    assert "no drift in shop" in clean.words()
    assert shop.hub.issues == []
    _alter(admin, f"{shop.topic}-clicks", "1000000")
    for _ in range(2):
        assert [step.code for step in shop.drift().steps] == [0] * 4
    (issue,) = shop.hub.issues
    assert issue["title"] == "Drift in shop"
    assert issue["labels"] == ["drift"]
    assert "retention.ms" in issue["body"]
    _alter(admin, f"{shop.topic}-clicks", str(6 * 24 * 3600 * 1000))
    shop.drift()
    assert issue["state"] == "closed"
    assert shop.hub.tokens == {"Bearer read-and-comment", "Bearer read-and-issue"}


def test_an_unreviewed_change_is_not_applied(shop: Repository, plain: Sandbox) -> None:
    before = str(shop.repo.head.commit.hexsha)
    _, head, merge = shop.plan(edited(shop))
    shop.merged(head, merge)
    shop.write(edited(shop) + f"  {shop.topic}-late: {{clusters: [east], partitions: 1}}\n")
    shop.hub.pulls[0]["merge_commit_sha"] = str(shop.repo.head.commit.hexsha)
    applied = shop.apply(before)
    assert applied.steps[-1].code == 4, applied.words()
    assert f"create:east/{shop.topic}-late: was not in the reviewed plan" in applied.words()
    assert not [name for name in _topics(plain) if name.startswith(shop.topic)], "nothing at all"
    assert "exit code 4" in shop.hub.comments[-1]["body"]
    assert f"{shop.topic}-late" in shop.hub.comments[-1]["body"]

    by_hand = shop.apply(before, "workflow_dispatch")
    assert by_hand.steps[-1].code == 0, by_hand.words()
    assert f"{shop.topic}-late" in _topics(plain)


def test_a_push_without_a_pull_request_is_not_applied(shop: Repository) -> None:
    before = str(shop.repo.head.commit.hexsha)
    shop.write(edited(shop))
    applied = shop.apply(before)
    assert applied.steps[-1].code == 1
    assert "came without a pull request" in applied.words()


def test_an_edit_of_a_file_that_an_environment_links_to_touches_it(shop: Repository) -> None:
    own = Path(shop.repo.working_dir) / "environments"
    (own / "shared.yaml").write_text(f"topics:\n  {shop.topic}-shared: {{clusters: [east], partitions: 1}}\n")
    (own / "shop" / "shared.yaml").symlink_to("../shared.yaml")
    same = f"  {shop.topic}-orders: {{clusters: [east], partitions: 2}}\n"
    before = shop.write(same)
    (own / "shared.yaml").write_text(f"topics:\n  {shop.topic}-shared: {{clusters: [east], partitions: 3}}\n")
    shop.write(same)
    assert _told(shop.touched(before)) == ["shop"]
    assert _told(shop.touched("main")) == []


def test_a_push_that_git_cannot_compare_is_not_taken_for_untouched(shop: Repository) -> None:
    job = shop.touched("0" * 40)
    assert job.steps[-1].code == 1, job.words()
    assert "cannot be told" in job.words()


def test_what_is_untouched_asks_for_no_approval() -> None:
    """Nor does a path filter decide: behind 300 files GitHub looks no further."""
    read = workflow("apply")
    assert "paths" not in read["on"]["push"]
    assert "environment" not in read["jobs"]["touched"]
    assert "needs.touched.outputs.environments" in read["jobs"]["apply"]["strategy"]["matrix"]["environment"]


def _told(job: Job) -> list[str]:
    assert [step.code for step in job.steps] == [0], job.words()
    found: list[str] = json.loads(job.values["steps.look.outputs.environments"])
    return found


@pytest.mark.parametrize(("edited_one", "told"), [("environments/shop/x.yaml", "environments"), ("README", "")])
def test_only_an_edit_of_environments_is_planned(shop: Repository, edited_one: str, told: str) -> None:
    shop.repo.git.checkout("-B", "edit", "main")
    (Path(shop.repo.working_dir) / edited_one).write_text("topics: {}\n")
    shop.repo.git.add(A=True)
    shop.repo.git.commit(m="edit")
    shop.repo.git.checkout("--detach", "main")
    shop.repo.git.merge("edit", no_ff=True, m="merge")
    pull = {"github.event_name": "pull_request", "github.sha": "", "github.event.before": ""}
    job = Job("plan", "touched", shop.checked_out(str(shop.repo.head.commit.hexsha)), pull, {})
    assert [step.code for step in job.run()] == [0], job.words()
    assert job.values["steps.look.outputs.environments"] == told
    assert "touched" in workflow("plan")["jobs"]["plan"]["needs"]


def test_a_broken_edit_is_reported_in_the_comment_and_fails(shop: Repository) -> None:
    planned, _, _ = shop.plan("  orders: {clusters: [eats]}\n")
    assert planned.steps[-1].code == 1, planned.words()
    (comment,) = shop.hub.comments
    assert comment["body"].startswith('<!-- reconciler-plan {"environment": "shop"')
    assert "eats" in comment["body"]
    shop.plan(edited(shop))
    assert len(shop.hub.comments) == 1
    assert "create" in shop.hub.comments[0]["body"]


def test_an_untouched_environment_gets_no_comment(shop: Repository) -> None:
    planned, _, _ = shop.plan(f"  {shop.topic}-orders: {{clusters: [east], partitions: 2}}\n")
    assert [step.code for step in planned.steps] == [0] * 4, planned.words()
    assert "untouched" in planned.words()
    assert shop.hub.comments == []


def test_a_secret_that_is_no_pair_is_refused_and_not_shown(shop: Repository) -> None:
    planned, _, _ = shop.plan(edited(shop), secrets="hunter2")
    assert planned.steps[1].code == 1
    assert "not NAME=VALUE" in planned.words()
    assert "hunter2" not in planned.words()


def test_a_fork_sees_what_the_edit_means(shop: Repository) -> None:
    planned, _, _ = shop.plan(edited(shop), "fork")
    assert [step.code for step in planned.steps] == [0] * 5, planned.words()
    assert f"{shop.topic}-clicks" in (planned.temp / "summary.md").read_text()
    assert shop.hub.tokens == set(), "GitHub is not asked"


def _topics(plain: Sandbox) -> set[str]:
    return set(AdminClient(plain["east"].super_client()).list_topics(timeout=20).topics)


def _alter(admin: AdminClient, topic: str, retention: str) -> None:
    entry = ConfigEntry("retention.ms", retention, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(20)


def _masked(text: str, shop: Repository) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"cluster id [^ ,]+", "cluster id id-of-east", text.replace(shop.topic, "team"))
    text = re.sub(r"plan <code>[0-9a-f]{16}", "plan <code>0000000000000000", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "0" * 64, text)
    text = re.sub(r"(commit|topology) [0-9a-f]{12}\b", r"\1 000000000000", text)
    text = re.sub(r"--plan \S+/plan\.json", "--plan plan.json", text)
    text = re.sub(r"(brokers?), [\d,]+ topics?\b", r"\1, N topics", text)
    return re.sub(r"[\d,]+ topics? visible", "N topics visible", text)


def _golden(text: str) -> None:
    """To accept new words: ``UPDATE_GOLDEN=1 pytest tests/workflows``, then review the file."""
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
