"""An edit reviewed from the command line, against a real git repository and without any cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import git
import pytest

from reconciler.backends.git import snapshot, touched
from reconciler.errors import ReconcilerError
from tests.support.commands import Ended

Cli = Callable[..., Ended]

TEXT = """\
clusters:
  east: {bootstrap_servers: [127.0.0.1:1]}
  west: {bootstrap_servers: [127.0.0.1:2]}
topics:
  orders: {clusters: [east], partitions: 6, configs: {retention.ms: 7d}}
flows:
  east-to-west: {source: east, target: west, topics: [orders], lanes: 2}
"""


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    """Two environments at ``main``."""
    made = git.Repo.init(tmp_path / "repo", initial_branch="main")
    with made.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    for name in ("prod", "test"):
        edit(made, name, TEXT)
    commit(made)
    return made


def folder(repo: git.Repo, name: str = "prod") -> Path:
    return Path(repo.working_dir) / "environments" / name


def edit(repo: git.Repo, name: str, text: str, file: str = "topology.yaml") -> None:
    folder(repo, name).mkdir(parents=True, exist_ok=True)
    (folder(repo, name) / file).write_text(text, encoding="utf-8")


def commit(repo: git.Repo, message: str = "edit") -> str:
    repo.git.add(A=True)
    repo.git.commit(m=message)
    return str(repo.head.commit.hexsha)


def test_a_dirty_tree_is_compared_and_flagged(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8").replace("lanes: 2", "lanes: 4"))
    ended = cli("plan", folder(repo), "--base", "main", "--offline")
    assert ended.code == 2
    assert "with uncommitted changes" in ended.out
    assert "partitions: 6 -> 8" in ended.out
    assert "mirror west restarts" in ended.out
    assert "flow east-to-west: lanes 2 -> 4" in ended.out
    commit(repo)
    assert "with uncommitted" not in cli("plan", folder(repo), "--base", "HEAD~1", "--offline").out


def test_nothing_is_checked_out(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", TEXT.replace("6", "8"))
    edit(repo, "prod", "topics: {}\n", "more.yaml")
    before = repo.git.status(porcelain=True), repo.head.commit.hexsha
    cli("plan", folder(repo), "--base", "main", "--offline")
    assert (repo.git.status(porcelain=True), repo.head.commit.hexsha) == before


def test_comments_and_order_are_reported_to_be_nothing(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", "# a comment\n" + TEXT)
    ended = cli("plan", folder(repo), "--base", "main", "--offline")
    assert ended.code == 0
    assert "only comments, layout, order or spelling" in ended.out
    edit(repo, "prod", TEXT)
    assert "nothing was edited" in cli("plan", folder(repo), "--base", "main", "--offline").out


@pytest.mark.parametrize("option", ["--base", "--changed-since"])
def test_a_commit_git_does_not_know(cli: Cli, repo: git.Repo, option: str) -> None:
    ended = cli("plan", folder(repo), option, "no-such-branch")
    assert ended.code == 1
    assert "git knows no commit no-such-branch" in ended.words
    assert "Branches here: main" in ended.words
    assert "git fetch" in ended.words


def test_a_shallow_clone_says_how_to_get_the_rest(cli: Cli, repo: git.Repo, tmp_path: Path) -> None:
    """git still knows the name of the parent that such a clone does not have."""
    edit(repo, "prod", TEXT.replace("6", "8"))
    commit(repo)
    with git.Repo.clone_from(f"file://{repo.working_dir}", tmp_path / "shallow", depth=1) as shallow:
        ended = cli("plan", folder(shallow), "--base", "HEAD~1", "--offline")
    assert ended.code == 1
    assert "git knows no commit HEAD~1" in ended.words
    assert "git fetch --unshallow" in ended.words


@pytest.mark.parametrize("ref", ["main@{now}", "HEAD^{/edit}", ":/edit"])
def test_every_way_in_which_git_names_a_commit(cli: Cli, repo: git.Repo, ref: str) -> None:
    edit(repo, "prod", TEXT.replace("6", "8"))
    assert "partitions: 6 -> 8" in cli("plan", folder(repo), "--base", ref, "--offline").words


@pytest.mark.parametrize("ref", ["^HEAD", "HEAD..main", "--all", "HEAD:environments", "@{u}", "main@{yesterday"])
def test_what_is_no_commit_for_git(cli: Cli, repo: git.Repo, ref: str) -> None:
    ended = cli("plan", folder(repo), f"--base={ref}", "--offline")
    assert (ended.code, f"git knows no commit {ref}\n" in ended.words) == (1, True), ended.words


@pytest.mark.slow
def test_a_repository_with_sha_256_names_is_compared_like_any_other(cli: Cli, tmp_path: Path) -> None:
    made = git.Repo.init(tmp_path / "repo", initial_branch="main", object_format="sha256")
    edit(made, "prod", TEXT)
    made.git.add(A=True)
    made.git.execute(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-m", "one"])
    edit(made, "prod", TEXT.replace("6", "8"))
    assert "partitions: 6 -> 8" in cli("plan", folder(made), "--base", "main", "--offline").out
    planned = cli("plan", folder(made)).out
    assert re.search("environment prod, commit [0-9a-f]{12} with uncommitted changes, topology", planned)


@pytest.mark.parametrize("how", ["ignored", "assumed unchanged"])
def test_files_that_git_does_not_look_at_are_uncommitted_changes(cli: Cli, repo: git.Repo, how: str) -> None:
    if how == "ignored":
        (Path(repo.common_dir) / "info" / "exclude").write_text("extra.yaml\n")
        edit(repo, "prod", "topics: {more: {clusters: [east], partitions: 1}}\n", "extra.yaml")
    else:
        repo.git.update_index("--assume-unchanged", str(folder(repo) / "topology.yaml"))
        edit(repo, "prod", TEXT.replace("6", "8"))
    assert "with uncommitted changes" in cli("plan", folder(repo), "--base", "main", "--offline").out
    assert "with uncommitted changes" not in cli("plan", folder(repo, "test"), "--base", "main", "--offline").out


def test_a_base_without_a_name(cli: Cli, repo: git.Repo) -> None:
    ended = cli("plan", folder(repo), "--base", "", "--offline")
    assert ended.code == 1
    assert "the commit to compare with is empty" in ended.words


def test_an_environment_that_is_gone_is_not_said_to_be_outside_git(cli: Cli, repo: git.Repo) -> None:
    shutil.rmtree(folder(repo))
    ended = cli("plan", folder(repo), "--changed-since", "main")
    assert ended.code == 1
    assert "does not exist" in ended.words
    assert "nothing on its clusters is changed" in ended.words


def test_the_order_of_alternatives_restarts_nothing(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", TEXT.replace("[orders]", "['pay|orders']"))
    commit(repo)
    edit(repo, "prod", TEXT.replace("[orders]", "['orders|pay']"))
    ended = cli("plan", folder(repo), "--base", "HEAD", "--offline")
    assert "mirror west keeps running" in ended.out
    assert "neither order nor repetition of alternatives counts" in ended.out


def test_what_is_new_does_not_list_its_defaults(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "fresh", TEXT.replace("lanes: 2", "lanes: 4, rate_limit: 10MiB, groups: {interval: 30s}"))
    ended = cli("plan", folder(repo, "fresh"), "--base", "main", "--offline")
    assert re.search(r"rate_limit = 10MiB\n +groups.interval = 30s\n", ended.out)
    assert "reassignment" not in ended.out
    assert "naming" not in ended.out


def test_outside_git(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "topology.yaml").write_text(TEXT)
    ended = cli("plan", tmp_path / "e", "--base", "main", "--offline")
    assert ended.code == 1
    assert "in no git repository" in ended.words


def test_an_environment_that_was_not_there_is_new_and_has_no_way_back(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "fresh", TEXT)
    ended = cli("plan", folder(repo, "fresh"), "--base", "main", "--offline")
    assert ended.code == 2
    assert "the environment was not there yet, all of it is new" in ended.out
    assert "+ topic orders" in ended.out
    back = cli("plan", folder(repo, "fresh"), "--base", "main", "--revert", "--offline")
    assert back.code == 1
    assert "no going back" in back.words


def test_a_broken_base_names_its_lines(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: many"))
    commit(repo)
    edit(repo, "prod", TEXT)
    ended = cli("plan", folder(repo), "--base", "HEAD", "--offline")
    assert ended.code == 1
    assert re.search(r"HEAD:environments/prod/topology\.yaml:5:.*many", ended.words)


def test_the_edit_that_removes_an_expired_tombstone_is_reported(cli: Cli, repo: git.Repo) -> None:
    stone = "{topic: old, cluster: east, topic_id: AbCdEfGhIjKlMnOpQrStUv, reason: done, expires: 2025-01-31}"
    edit(repo, "prod", f"{TEXT}deletions: [{stone}]\n")
    commit(repo)
    edit(repo, "prod", TEXT)
    ended = cli("plan", folder(repo), "--base", "main", "--offline")
    assert (ended.code, "- deletion east/old" in ended.out) == (2, True), ended.words
    back = cli("plan", folder(repo), "--base", "main", "--offline", "--revert")
    assert (back.code, "counted until 2025-01-31" in back.words) == (1, True), back.words


def test_three_dots_are_where_the_branch_began(cli: Cli, repo: git.Repo) -> None:
    repo.git.checkout(b="mine")
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8"))
    commit(repo)
    repo.git.checkout("main")
    edit(repo, "prod", TEXT.replace("7d", "9d"))
    commit(repo)
    repo.git.checkout("mine")
    since = cli("plan", folder(repo), "--base", "main...", "--offline").out
    assert "partitions" in since
    assert "retention.ms" not in since
    assert "retention.ms: 9d -> 7d" in cli("plan", folder(repo), "--base", "main", "--offline").out


def test_going_back_is_reported_from_here_to_there(cli: Cli, repo: git.Repo) -> None:
    more = TEXT.replace("flows:", "  pay: {clusters: [east], partitions: 1}\nflows:").replace("lanes: 2", "lanes: 3")
    edit(repo, "prod", more)
    ended = cli("plan", folder(repo), "--base", "main", "--revert", "--offline")
    assert ended.code == 2
    assert "Going back to main" in ended.out
    assert "lanes: 3 -> 2" in ended.out
    assert "Cannot be undone (1)" in ended.out
    assert "topic pay, where it was applied: it stays on its clusters, unmanaged" in ended.out
    again = cli("plan", folder(repo), "--base", "main", "--revert", "--offline", "--format", "json")
    [kept] = json.loads(again.out)["cannot_be_taken_back"]
    assert "topic pay" in kept


@pytest.mark.slow
def test_with_a_silent_cluster_the_edit_is_reported_and_the_plan_is_unknown(
    cli: Cli, repo: git.Repo, tmp_path: Path
) -> None:
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8"))
    ended = cli("plan", folder(repo), "--base", "main", "--revert", "--out", tmp_path / "back.json")
    assert ended.code == 1
    assert "partitions: 8 -> 6" in ended.out
    assert "Unknown (2)" in ended.out
    assert "git revert first" in ended.err
    assert json.loads((tmp_path / "back.json").read_text())["exit_code"] == 1


def test_only_touched_environments_are_planned(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8"))
    both = folder(repo, "prod"), folder(repo, "test")
    ended = cli("plan", *both, "--changed-since", "main", "--base", "main", "--offline")
    assert ended.code == 2
    assert "partitions: 6 -> 8" in ended.out
    assert re.search(r"environments/test is untouched since main \(commit [0-9a-f]{12}\): nothing to plan", ended.out)


def test_an_untouched_environment_asks_no_cluster(cli: Cli, repo: git.Repo) -> None:
    ended = cli("plan", folder(repo), "--changed-since", "main")
    assert ended.code == 0
    assert "untouched" in ended.out


@pytest.mark.parametrize("words", [("--revert",), ("--offline",)])
def test_options_that_need_a_base(cli: Cli, repo: git.Repo, words: tuple[str, ...]) -> None:
    ended = cli("plan", folder(repo), *words)
    assert ended.code == 1
    assert "--base" in ended.words


def test_several_environments_are_text_only(cli: Cli, repo: git.Repo) -> None:
    ended = cli("plan", folder(repo), folder(repo, "test"), "--base", "main", "--offline", "--format", "json")
    assert ended.code == 1
    assert "once for each" in ended.words


def test_an_environment_with_an_error_does_not_keep_the_others_from_being_planned(cli: Cli, repo: git.Repo) -> None:
    edit(repo, "broken", "topics: [\n")
    edit(repo, "typo", TEXT.replace("partitions", "partition"))
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8"))
    names = ("broken", "prod", "typo", "test")
    ended = cli("plan", *(folder(repo, name) for name in names), "--base", "main", "--offline")
    assert ended.code == 1
    assert "partitions: 6 -> 8" in ended.out
    assert "nothing was edited" in ended.out
    for name in ("broken", "typo"):
        assert f"environments/{name} is not planned:" in ended.words
    assert "is 'partition'" in ended.words or "partition" in ended.err
    again = cli("plan", folder(repo, "test"), folder(repo), "--base", "main", "--offline")
    assert again.code == 2


def test_one_run_writes_every_format(cli: Cli, repo: git.Repo, tmp_path: Path) -> None:
    edit(repo, "prod", TEXT.replace("partitions: 6", "partitions: 8"))
    files = [tmp_path / f"review{ending}" for ending in (".md", ".html", ".json", ".txt")]
    written = [word for file in files for word in ("--write", file)]
    assert cli("plan", folder(repo), "--base", "main", "--offline", *written).code == 2
    markdown, page, document, text = (file.read_text("utf-8") for file in files)
    assert markdown.startswith('<!-- reconciler-plan {"environment": "prod"')
    assert page.startswith("<!doctype html>")
    assert json.loads(document)["kind"] == "review"
    assert json.loads(document)["plan"] is None
    assert all("6 -> 8" in one.replace("&gt;", ">") for one in (markdown, page, text))


def test_a_file_no_one_can_write_is_reported_before_anything_is_asked(cli: Cli, repo: git.Repo) -> None:
    ended = cli("plan", folder(repo), "--write", "plan.pdf")
    assert ended.code == 1
    assert ".pdf" in ended.words


def test_explain_works_without_clusters(cli: Cli, repo: git.Repo) -> None:
    ended = cli("explain", folder(repo), "orders:retention.ms", "--offline")
    assert ended.code == 0
    assert re.search(r"retention\.ms +7d +declared, .*topology\.yaml:5", ended.out)
    assert "east-to-west carries it as west/east.orders" in ended.out


@pytest.mark.slow
def test_explain_has_git_alone_where_a_cluster_is_silent(cli: Cli, repo: git.Repo) -> None:
    ended = cli("explain", folder(repo), "east/orders", "--format", "json")
    assert ended.code == 1
    document = json.loads(ended.out)
    assert {one["subject"] for one in document["unknown"]} >= {"cluster east", "cluster west"}
    assert document["topics"][0]["values"][0]["wished"] == "6"


def test_touched_sees_new_removed_and_edited_files(repo: git.Repo) -> None:
    env = folder(repo)
    at = snapshot(env, "main")
    assert touched(env, at) == ()
    edit(repo, "prod", "topics: {}\n", "new.yaml")
    edit(repo, "prod", "not read", ".hidden.yaml")
    assert touched(env, at) == ("new.yaml",)
    (env / "topology.yaml").unlink()
    assert touched(env, at) == ("new.yaml", "topology.yaml")


SHARED = "classes: {hot: {configs: {retention.ms: 1h}}}\n"


def share(repo: git.Repo) -> Path:
    """A file that both environments link to, one of them through a second link."""
    shared = Path(repo.working_dir) / "shared"
    shared.mkdir()
    (shared / "classes.yaml").write_text(SHARED, encoding="utf-8")
    (shared / "latest").symlink_to(".")
    (folder(repo) / "classes.yaml").symlink_to("../../shared/classes.yaml")
    (folder(repo, "test") / "classes.yaml").symlink_to("../../shared/latest/classes.yaml")
    commit(repo)
    return shared / "classes.yaml"


def test_environments_that_share_a_file_by_links_are_all_touched_by_its_edit(cli: Cli, repo: git.Repo) -> None:
    shared = share(repo)
    both = (folder(repo), folder(repo, "test"))
    untouched = cli("plan", *both, "--changed-since", "HEAD")
    assert (untouched.code, untouched.out.count("nothing to plan")) == (0, 2)
    shared.write_text(SHARED.replace("1h", "2h"), encoding="utf-8")
    ended = cli("plan", *both, "--changed-since", "HEAD", "--base", "HEAD", "--offline")
    assert ended.code == 2, ended.words
    assert ended.out.count("with uncommitted changes") == 2, "the edit is in no file of the folders themselves"
    assert ended.out.count("retention.ms: 1h -> 2h") == 2
    commit(repo)
    assert "with uncommitted" not in cli("plan", *both, "--base", "HEAD~1", "--offline").out
    back = cli("plan", folder(repo), "--base", "HEAD~1", "--revert", "--offline")
    assert "retention.ms: 2h -> 1h" in back.out
    assert "HEAD~1:environments/prod/classes.yaml:1" in back.out


@pytest.mark.parametrize("target", ["../../../out.yaml", "/etc/hostname", "gone.yaml", "link.yaml", "../prod"])
def test_a_link_to_what_a_commit_does_not_hold_is_reported(repo: git.Repo, target: str) -> None:
    (folder(repo) / "link.yaml").symlink_to(target)
    commit(repo)
    with pytest.raises(ReconcilerError, match=f"link.yaml is a symbolic link to {re.escape(target)}, and that is no"):
        snapshot(folder(repo), "HEAD")


def test_a_repository_that_git_does_not_trust_is_reported_with_the_command(
    cli: Cli, repo: git.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for this
    ended = cli("plan", folder(repo), "--base", "main", "--offline")
    assert ended.code == 1
    assert f"git config --global --add safe.directory {repo.working_dir}" in ended.err


@pytest.mark.slow
def test_a_machine_without_git_validates_and_names_what_a_base_needs(repo: git.Repo, tmp_path: Path) -> None:
    start = [sys.executable, "-c", "from reconciler.cli.start import main; main()"]
    bare = {**os.environ, "PATH": str(tmp_path)}
    valid = subprocess.run([*start, "validate", str(folder(repo))], env=bare, capture_output=True, text=True)
    assert (valid.returncode, valid.stderr) == (0, "")
    desired = [*start, "plan", str(folder(repo)), "--base", "main", "--offline"]
    based = subprocess.run(desired, env=bare, capture_output=True, text=True)
    assert based.returncode == 1
    assert based.stderr.startswith("the program git is not found")


def test_a_submodule_inside_an_environment_is_refused(cli: Cli, repo: git.Repo, tmp_path: Path) -> None:
    shared = git.Repo.init(tmp_path / "shared", initial_branch="main")
    (tmp_path / "shared" / "shared.yaml").write_text("topics: {more: {clusters: [east], partitions: 1}}\n")
    shared.git.add(A=True)
    shared.git.execute(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-m", "one"])
    allowed = ["git", "-c", "protocol.file.allow=always"]
    repo.git.execute([*allowed, "submodule", "add", str(tmp_path / "shared"), "environments/prod/shared"])
    commit(repo)
    for words in (["validate"], ["plan", "--base", "HEAD", "--offline"]):
        ended = cli(words[0], folder(repo), *words[1:])
        assert (ended.code, "git takes it for a repository of its own" in ended.words) == (1, True), ended.words
    repo.git.submodule("deinit", "-f", "environments/prod/shared")
    ended = cli("validate", folder(repo))
    assert (ended.code, "is a git submodule" in ended.words) == (1, True), ended.words
    repo.git.rm("-f", "environments/prod/shared")
    shutil.rmtree(folder(repo) / "shared", ignore_errors=True)
    assert cli("validate", folder(repo)).code == 0
    ended = cli("plan", folder(repo), "--base", "HEAD", "--offline")
    assert (ended.code, "is a submodule, and its files are another repository's" in ended.words) == (1, True)


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_a_renamed_topic_has_a_card_that_says_what_becomes_of_both(cli: Cli, repo: git.Repo, form: str) -> None:
    edit(repo, "prod", TEXT.replace("  orders: {", "  orders-v2: {"))
    out = " ".join(cli("plan", folder(repo), "--base", "main", "--offline", "--format", form).out.split())
    for words in (
        "Renames", "Kafka renames no topic", "orders to orders-v2: a new topic", "orders-v2 begins empty",
        "orders stays with its records and readers, and is no longer managed",
    ):  # fmt: skip
        assert words in out
    gone = f"cluster: east, topic: orders, topic_id: {'A' * 22}, reason: r, expires: 2099-01-01"
    new = TEXT.replace("  orders: {", "  orders-v2: {").replace("[orders]", "[orders-v2]")
    edit(repo, "prod", f"{new}deletions: [{{{gone}}}]\n")
    out = " ".join(cli("plan", folder(repo), "--base", "main", "--offline", "--format", form).out.split())
    assert "orders is deleted by its tombstone, with its records" in out


def test_what_is_no_rename_has_no_card(cli: Cli, repo: git.Repo) -> None:
    other = TEXT.replace("  orders: {clusters: [east], partitions: 6", "  orders-v2: {clusters: [east], partitions: 7")
    edit(repo, "prod", other)
    assert "Renames" not in cli("plan", folder(repo), "--base", "main", "--offline").out
