"""A pull request of somebody who wants to get at secrets, files or the machine: planned as CI would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import git
import pytest

from tests.support.access.trap import Trap
from tests.support.commands import Ended

Cli = Callable[..., Ended]
SECRET = "hunter2-canary"
CLUSTER = """\
clusters:
  east:
    bootstrap_servers: [127.0.0.1:{port}]
    client:
      security.protocol: {protocol}
      sasl.mechanism: PLAIN
      sasl.username: ada
      sasl.password: "${{env:CANARY}}"
"""
TOPICS = "topics:\n  orders: {clusters: [east], partitions: 6}\n"


@pytest.fixture
def trap() -> Iterator[Trap]:
    with Trap() as made:
        yield made


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> git.Repo:
    monkeypatch.setenv("CANARY", SECRET)
    made = git.Repo.init(tmp_path / "repo", initial_branch="main")
    with made.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    write(made, CLUSTER.format(port=1, protocol="SASL_SSL") + TOPICS)
    made.git.add(A=True)
    made.git.commit(m="base")
    return made


def folder(repo: git.Repo) -> Path:
    return Path(repo.working_dir) / "environments" / "prod"


def write(repo: git.Repo, text: str, file: str = "topology.yaml") -> None:
    folder(repo).mkdir(parents=True, exist_ok=True)
    (folder(repo) / file).write_text(text, encoding="utf-8")


def test_credentials_do_not_go_to_an_address_of_the_edit(cli: Cli, repo: git.Repo, trap: Trap) -> None:
    write(repo, CLUSTER.format(port=trap.port, protocol="SASL_PLAINTEXT") + TOPICS)
    ended = cli("plan", folder(repo), "--base", "HEAD")
    assert ended.code == 1
    assert "cluster east is not planned, connection changed" in ended.out
    assert f"127.0.0.1:{trap.port}, had 127.0.0.1:1" in ended.out
    assert trap.connections == 0
    assert SECRET not in ended.words
    cli("plan", folder(repo), "--base", "HEAD", "--allow-new-address")
    assert trap.connections > 0, "whoever reviewed it can say so"


def test_a_base_that_is_not_valid_still_says_where_credentials_go(cli: Cli, repo: git.Repo, trap: Trap) -> None:
    write(repo, CLUSTER.format(port=1, protocol="SASL_SSL") + TOPICS.replace("6", "0"))
    repo.git.add(A=True)
    repo.git.commit(m="not valid")
    write(repo, CLUSTER.format(port=trap.port, protocol="SASL_SSL") + TOPICS)
    ended = cli("plan", folder(repo), "--base", "HEAD")
    assert "connection changed" in ended.out
    assert trap.connections == 0


@pytest.mark.parametrize("flow", ["", "flows:\n  east-to-west: {source: east, target: west, topics: [orders]}\n"])
def test_a_library_of_the_edit_is_not_loaded(cli: Cli, repo: git.Repo, flow: str, tmp_path: Path) -> None:
    text = CLUSTER.format(port=1, protocol="SASL_SSL") + f"      plugin.library.paths: {tmp_path}/evil.so\n"
    write(repo, text + "  west: {bootstrap_servers: [127.0.0.1:2]}\n" + TOPICS + flow)
    for words in (("validate", folder(repo)), ("plan", folder(repo)), ("plan", folder(repo), "--base", "HEAD")):
        ended = cli(*words)
        assert ended.code == 1
        assert "cluster east: the setting plugin.library.paths is not supported" in ended.words


def test_a_program_of_the_edit_is_not_run(repo: git.Repo, tmp_path: Path) -> None:
    """``venv`` would take our command line for its own, and end with 2, as if changes were pending."""
    flow = "flows:\n  e: {source: east, target: west, topics: [orders], naming: {policy: 'venv.__main__:X'}}\n"
    text = CLUSTER.format(port=1, protocol="SASL_SSL") + "  west: {bootstrap_servers: [127.0.0.1:2]}\n"
    write(repo, text + TOPICS + flow)
    before = sorted(folder(repo).rglob("*"))
    for words in (["validate"], ["plan", "--base", "HEAD", "--offline"]):
        command = [sys.executable, "-m", "reconciler", words[0], str(folder(repo)), *words[1:]]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert ended.returncode == 1, ended.stderr
        assert "is not imported" in ended.stderr
    assert sorted(folder(repo).rglob("*")) == before


@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "../../../outside.yaml", "/"])
def test_files_of_the_machine_are_not_shown(cli: Cli, repo: git.Repo, target: str, tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text(f"{SECRET}: 1\n")
    (folder(repo) / "x.yaml").symlink_to(target)
    for words in (("validate", folder(repo)), ("plan", folder(repo), "--base", "HEAD", "--offline")):
        ended = cli(*words)
        assert ended.code == 1
        assert "a link leads out of the repository" in ended.words
        assert "root:" not in ended.words
        assert SECRET not in ended.words


def test_a_folder_that_is_a_link_to_the_machine_is_not_walked(cli: Cli, repo: git.Repo, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.yaml").write_text(f"{SECRET}: 1\n")
    (folder(repo) / "more").symlink_to(tmp_path / "outside")
    (folder(repo).parent / "other").symlink_to(tmp_path / "outside")
    for place in (folder(repo), folder(repo).parent / "other"):
        ended = cli("validate", place)
        assert "a link leads out of the repository" in ended.words
        assert SECRET not in ended.words


@pytest.mark.parametrize("name", ["x\n::add-mask::y.yaml", "x\r##[error]y.yaml", "x\x1b[31my.yaml"])
@pytest.mark.parametrize("words", [["plan", "--base", "HEAD", "--offline"], ["validate"], ["plan"]])
def test_no_name_begins_a_line_or_steers_a_terminal(cli: Cli, repo: git.Repo, name: str, words: list[str]) -> None:
    write(repo, "topics:\n  more: {clusters: [east], labels: {a: 'x'}}\n", name)
    ended = cli(words[0], folder(repo), *words[1:])
    for line in ended.words.split("\n"):
        assert not line.startswith(("::", "##["))
        assert "\x1b" not in line
        assert "\r" not in line


def test_a_word_that_limits_nothing_is_reported_before_anything_is_read(
    cli: Cli, repo: git.Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_ALLOW", "hots:*.example.net")
    ended = cli("plan", folder(repo))
    assert (ended.code, "RECONCILER_ALLOW holds 'hots:*.example.net'" in ended.err) == (1, True)


COMMANDS = (["validate"], ["plan"], ["plan", "--base", "HEAD^1"], ["plan", "--base", "HEAD^1", "--offline"], ["drift"],
            ["plan", "--changed-since", "HEAD^1"], ["apply", "--yes"], ["map", "--offline"])  # fmt: skip


@pytest.mark.parametrize("place", [".", "more", ".."])
def test_no_program_of_a_repository_in_the_edit_is_run(cli: Cli, repo: git.Repo, tmp_path: Path, place: str) -> None:
    inner = folder(repo) / place
    with git.Repo.init(tmp_path / "made", initial_branch="main") as made:
        (tmp_path / "made" / "topology.yaml").write_text(CLUSTER.format(port=1, protocol="SASL_SSL") + TOPICS)
        made.git.add(A=True)
        made.git.execute(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-m", "one"])
        shutil.copytree(made.git_dir, inner, dirs_exist_ok=True)
    program = f'"echo $CANARY >>{tmp_path}/canary; false"'
    text = f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = {program}\n"
    (inner / "config").write_text(text)
    repo.git.add(A=True, f=True)
    repo.git.commit(m="evil")
    for words in COMMANDS:
        ended = cli(words[0], folder(repo), *words[1:])
        assert (ended.code, "git takes it for a repository of its own" in ended.words) == (1, True), ended.words
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("before", ["folder", "link"])
def test_an_environment_that_becomes_a_link_to_another_is_not_planned(
    cli: Cli, repo: git.Repo, trap: Trap, before: str
) -> None:
    """Those who may read what logs in at scratch's address would be shown the credentials of prod."""
    scratch = folder(repo).parent / "scratch"
    scratch.mkdir()
    (scratch / "topology.yaml").write_text(CLUSTER.format(port=trap.port, protocol="SASL_PLAINTEXT") + TOPICS)
    if before == "link":
        folder(repo).rename(folder(repo).parent / "real")
        folder(repo).symlink_to("real")
    repo.git.add(A=True)
    repo.git.commit(m="scratch is merged")
    folder(repo).unlink() if before == "link" else shutil.rmtree(folder(repo))
    folder(repo).symlink_to("scratch")
    (scratch / "topology.yaml").write_text((scratch / "topology.yaml").read_text().replace("6", "7"))
    repo.git.add(A=True)
    repo.git.commit(m="edit")
    for words in (["--base", "HEAD^1", "--changed-since", "HEAD^1"], ["--base", "HEAD^1", "--offline"]):
        ended = cli("plan", folder(repo), *words)
        assert (ended.code, ended.out) == (1, "")
        assert "is not planned, connection changed" in ended.err
        assert (
            f"environments/prod is a link to scratch, was a {'folder' if before == 'folder' else 'link'}" in ended.err
        )
    assert trap.connections == 0


@pytest.mark.parametrize("target", ["../../.git/HEAD", "../../.git/logs/HEAD", "../../.env"])
def test_files_that_git_does_not_track_are_not_shown(cli: Cli, repo: git.Repo, target: str) -> None:
    (Path(repo.working_dir) / ".env").write_text(f"SECRET_NAME: {SECRET}\n")
    (folder(repo) / "x.yaml").symlink_to(target)
    repo.git.add("environments")
    repo.git.commit(m="edit")
    for words in COMMANDS:
        ended = cli(words[0], folder(repo), *words[1:])
        assert (ended.code, "which git does not track" in ended.words) == (1, True), ended.words
        assert not any(word in ended.words for word in (SECRET, "SECRET_NAME", "ref: refs", "a@example.com"))
