"""Where git is opened, whatever an edit brings: the root is found from above, and nothing of an edit runs."""

from __future__ import annotations

import os
from pathlib import Path

import git
import pytest

from reconciler.backends.files import read_environment, read_readable
from reconciler.backends.git import is_touched, revision, snapshot
from reconciler.backends.repository import Repository, checkout_around
from reconciler.cli.main import main
from reconciler.errors import ReconcilerError

TEXT = "topics: {}\n"


@pytest.fixture
def repo(tmp_path: Path) -> git.Repo:
    return make(tmp_path / "repo")


def make(root: Path, text: str = TEXT) -> git.Repo:
    made = git.Repo.init(root, initial_branch="main")
    with made.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    for name in ("prod", "scratch"):
        (root / "environments" / name).mkdir(parents=True)
        (root / "environments" / name / "topology.yaml").write_text(text)
    commit(made)
    return made


def commit(repo: git.Repo, message: str = "edit") -> None:
    repo.git.add(A=True, f=True)
    repo.git.commit(m=message)


def prod(repo: git.Repo) -> Path:
    return Path(repo.working_dir) / "environments" / "prod"


def bait(folder: Path, canary: Path) -> None:
    """Files that git takes for a bare repository, whose configuration runs a program."""
    folder.mkdir(exist_ok=True)
    with git.Repo.init(folder / "made", bare=True) as made:
        for path in Path(made.git_dir).iterdir():
            path.rename(folder / path.name)
    (folder / "made").rmdir()
    program = f'"touch {canary}; false"'
    core = {"repositoryformatversion": "0", "bare": "false", "worktree": "."}
    core |= dict.fromkeys(("fsmonitor", "pager", "sshCommand"), program)
    lines = (f"\t{name} = {value}\n" for name, value in core.items())
    (folder / "config").write_text(f"[core]\n{''.join(lines)}[diff]\n\texternal = {program}\n")


def codes(folder: Path) -> list[str]:
    return [problem.code for problem in read_readable(folder)[1]]


@pytest.mark.parametrize("place", ["environments/prod", "environments", "environments/prod/more", ".", ".hidden"])
def test_a_bare_repository_of_an_edit_is_neither_opened_nor_obeyed(repo: git.Repo, place: str, tmp_path: Path) -> None:
    root, canary = Path(repo.working_dir), tmp_path / "canary"
    bait(root / place if place != ".hidden" else prod(repo) / place, canary)
    commit(repo)
    before = Path.cwd()
    try:
        for cwd, named in ((before, prod(repo)), (prod(repo), Path())):
            os.chdir(cwd)
            assert codes(named) == (["nested-repository"] if place != "." else [])
            assert revision(named).commit == repo.head.commit.hexsha
            assert snapshot(named, "HEAD^1").texts == {"topology.yaml": TEXT}
    finally:
        os.chdir(before)
    assert not canary.exists()


def test_the_canary_sings_where_git_is_asked_from_within(repo: git.Repo, tmp_path: Path) -> None:
    """Else the test above would prove nothing."""
    bait(prod(repo), tmp_path / "canary")
    asked = git.Git(str(prod(repo)))
    for words in (["add", "."], ["status"]):
        asked.execute(["git", "-c", "safe.bareRepository=all", *words], with_exceptions=False)
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("place", ["environments/prod", "environments/prod/more", "environments"])
@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_repository_within_the_repository_is_no_base(repo: git.Repo, place: str, how: str, tmp_path: Path) -> None:
    inner = Path(repo.working_dir) / place
    inner.mkdir(exist_ok=True)
    if how == "folder":
        git.Repo.init(inner)
    else:
        (Path(repo.git_dir) / "modules").mkdir()
        git.Git(str(inner)).execute(["git", "init", f"--separate-git-dir={repo.git_dir}/modules/x"])
    seen = codes(prod(repo))
    if (place, how) != ("environments", "folder"):
        assert seen == ["nested-repository"]
    if not place.endswith("more"):
        assert revision(prod(repo)).commit == ""
        with pytest.raises(ReconcilerError, match="is a repository within the repository"):
            snapshot(prod(repo), "HEAD")


def test_a_clone_in_a_repository_that_does_not_know_it_counts(repo: git.Repo, tmp_path: Path) -> None:
    """Dotfiles in a home folder, and work trees within the repository."""
    git.Repo.init(tmp_path)
    assert revision(prod(repo)).commit == repo.head.commit.hexsha
    repo.git.worktree("add", "-b", "more", "inner")
    inner = Path(repo.working_dir) / "inner" / "environments" / "prod"
    assert (codes(inner), snapshot(inner, "HEAD").texts) == ([], {"topology.yaml": TEXT})


def test_a_repository_around_all_others_is_left_out_by_gits_own_variable(
    repo: git.Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git.Repo.init(tmp_path / "home")
    own = make(tmp_path / "home" / "kafka")
    (Path(own.working_dir) / "topology.yaml").write_text(TEXT)
    commit(own)
    assert codes(Path(own.working_dir)) == ["nested-repository"]
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path / "home"))
    assert (codes(Path(own.working_dir)), revision(Path(own.working_dir)).dirty) == ([], False)


VARIABLES = {
    "GIT_DIR": "other/.git", "GIT_WORK_TREE": "other", "GIT_INDEX_FILE": "other/.git/index",
    "GIT_OBJECT_DIRECTORY": "other/.git/objects", "GIT_COMMON_DIR": "other/.git", "GIT_CONFIG": "other/.git/config",
    "GIT_SHALLOW_FILE": "shallow", "GIT_TRACE": "trace", "GIT_TRACE2_EVENT": "trace", "GIT_TRACE_SETUP": "1",
}  # fmt: skip


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_a_hook_leads_nowhere_else(
    repo: git.Repo, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, head = make(tmp_path / "other", "topics: {x: {}}\n"), repo.head.commit.hexsha
    for each, at in ((repo, "own"), (other, "others")):
        each.create_remote("origin", f"https://git.example/{at}")
    (tmp_path / "shallow").write_text(f"{head}\n")
    value = VARIABLES[name]
    monkeypatch.setenv(name, value if value == "1" else str(tmp_path / value))
    assert snapshot(prod(repo), "main").texts == {"topology.yaml": TEXT}
    assert revision(prod(repo)).commit == head
    (prod(repo) / "l.yaml").symlink_to("../scratch/topology.yaml")
    assert read_environment(prod(repo))[str(prod(repo) / "l.yaml")] == TEXT
    checkout = checkout_around(prod(repo))
    assert checkout is not None
    assert (Repository(checkout).remotes(), Repository(checkout).shallow) == (
        {"origin": "https://git.example/own"},
        False,
    )
    assert not (tmp_path / "trace").exists()


def test_a_configuration_that_an_edit_brings_names_no_remote(
    repo: git.Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Teams keep a ``.gitconfig`` beside the code and include it, so an edit may write what it says."""
    config = Path(repo.git_dir) / "config"
    config.write_text(f"[include]\n\tpath = ../.gitconfig\n{config.read_text()}")
    repo.create_remote("origin", "https://git.example/own")
    lines = (f"\t{name} = touch {tmp_path}/canary" for name in ("fsmonitor", "hooksPath", "pager", "sshCommand"))
    text = '[remote "origin"]\n\turl = https://git.example/others\n[core]\n' + "\n".join(lines)
    (Path(repo.working_dir) / ".gitconfig").write_text(text)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "remote.origin.url")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://git.example/others")
    assert revision(prod(repo)).origin == "git.example/own:environments/prod"
    assert snapshot(prod(repo), "HEAD").texts == {"topology.yaml": TEXT}
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "attribute", ["filter=evil", "diff=evil", "working-tree-encoding=UTF-16", "ident", "text eol=crlf"]
)
def test_attributes_of_an_edit_run_and_change_nothing(repo: git.Repo, attribute: str, tmp_path: Path) -> None:
    program = f"touch {tmp_path / 'canary'}; cat"
    with repo.config_writer() as config:  # the user's own filters, which an edit may name
        for setting in ("clean", "smudge", "process"):
            config.set_value('filter "evil"', setting, program)
        config.set_value('diff "evil"', "textconv", program)
        config.set_value('diff "evil"', "command", program)
    (Path(repo.working_dir) / ".gitattributes").write_text(f"*.yaml {attribute}\n")
    os.utime(prod(repo) / "topology.yaml", (0, 0))
    assert (revision(prod(repo)).dirty, snapshot(prod(repo), "main").texts) == (False, {"topology.yaml": TEXT})
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", [".GIT", ".Git", "GIT~1"])
def test_what_another_file_system_would_take_for_git_is_refused(repo: git.Repo, name: str, tmp_path: Path) -> None:
    """Where case does not count ``.GIT`` is the folder of a repository. Git itself tracks no such name."""
    bait(prod(repo) / name, tmp_path / "canary")
    assert codes(prod(repo)) == ["nested-repository"]
    assert snapshot(prod(repo), "HEAD").texts == {"topology.yaml": TEXT}
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("place", [".", "environments", "environments/prod", "environments/prod/more"])
def test_objects_that_an_edit_brings_are_no_history(repo: git.Repo, place: str, tmp_path: Path) -> None:
    """``objects/info/alternates`` lends a repository the objects of another one."""
    other = make(tmp_path / "other", "topics: {x: {}}\n")
    for folder in (Path(repo.working_dir) / place, Path(repo.working_dir) / place / "bare"):
        bait(folder, tmp_path / "canary")
        info = folder / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{other.git_dir}/objects\n")
    commit(repo)
    assert snapshot(prod(repo), "HEAD^1").texts == {"topology.yaml": TEXT}
    with pytest.raises(ReconcilerError):
        snapshot(prod(repo), other.head.commit.hexsha)
    assert not (tmp_path / "canary").exists()


def test_submodules_and_attributes_of_an_edit_run_nothing_where_it_is_planned(
    repo: git.Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary, root = tmp_path / "canary", Path(repo.working_dir)
    program = f"touch {canary}; cat"
    clusters = "clusters: {east: {bootstrap_servers: ['a:1']}}\n"
    (prod(repo) / "topology.yaml").write_text(f"{clusters}topics: {{orders: {{clusters: [east], partitions: 1}}}}\n")
    commit(repo)
    with repo.config_writer() as config:
        for name in ("smudge", "clean", "process"):
            config.set_value('filter "evil"', name, program)
        config.set_value('diff "evil"', "textconv", program)
        config.set_value('diff "evil"', "command", program)
        config.set_value('merge "evil"', "driver", program)
    for folder in (root, prod(repo).parent, prod(repo)):
        lines = "* filter=evil diff=evil merge=evil working-tree-encoding=UTF-16 ident export-subst text eol=crlf\n"
        (folder / ".gitattributes").write_text(lines)
        module = f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "{program}"\n\tupdate = !{program}\n'
        (folder / ".gitmodules").write_text(module)
    (prod(repo) / "topology.yaml").write_text(f"{clusters}topics: {{orders: {{clusters: [east], partitions: 2}}}}\n")
    with pytest.raises(SystemExit):
        main(["plan", str(prod(repo)), "--base", "HEAD", "--offline"])
    assert "1 -> 2" in capsys.readouterr().out
    assert not canary.exists()


def test_a_linked_work_tree_is_a_checkout_as_any_other(repo: git.Repo, tmp_path: Path) -> None:
    repo.git.worktree("add", "-b", "edit", str(tmp_path / "linked"))
    linked = tmp_path / "linked" / "environments" / "prod"
    (linked / "topology.yaml").write_text("topics: {x: {}}\n")
    assert codes(linked) == []
    assert revision(linked).commit == repo.head.commit.hexsha
    assert snapshot(linked, "main").texts == {"topology.yaml": TEXT}
    assert is_touched(linked, snapshot(linked, "main"))
    assert not is_touched(prod(repo), snapshot(prod(repo), "main"))


def test_hooks_and_programs_of_the_repository_are_not_run(repo: git.Repo, tmp_path: Path) -> None:
    program = f"touch {tmp_path / 'canary'}"
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        path = Path(repo.git_dir) / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)
    with repo.config_writer() as config:
        for name in ("fsmonitor", "pager", "sshCommand", "askPass", "gitProxy", "alternateRefsCommand"):
            config.set_value("core", name, program)
        config.set_value("diff", "external", program)
        config.set_value("alias", "ls-tree", f"!{program}")
    assert (revision(prod(repo)).dirty, snapshot(prod(repo), "main").texts) == (False, {"topology.yaml": TEXT})
    assert not (tmp_path / "canary").exists()


def test_a_clone_without_files_fetches_none_and_says_so(repo: git.Repo, tmp_path: Path) -> None:
    (prod(repo) / "topology.yaml").write_text("topics: {only: {}}\n")
    commit(repo)
    (prod(repo) / "topology.yaml").write_text("topics: {a: {}}\n")
    commit(repo)
    repo.git.config("uploadpack.allowFilter", "true")
    address = f"ext::sh -c 'touch {tmp_path}/canary; git-upload-pack {repo.working_dir}'"
    with git.Repo.clone_from(f"file://{repo.working_dir}", tmp_path / "partial", filter="blob:none") as partial:
        partial.git.config("remote.origin.url", address)
        partial.git.config("protocol.ext.allow", "always")
        with pytest.raises(ReconcilerError, match="is not whole") as raised:
            snapshot(prod(partial), "HEAD~1")
        assert snapshot(prod(partial), "HEAD").texts
    assert "fetch --refetch" in raised.value.todo
    assert not (tmp_path / "canary").exists()


def test_history_is_not_replaced(repo: git.Repo) -> None:
    first = repo.head.commit.hexsha
    (prod(repo) / "topology.yaml").write_text("topics: {a: {}}\n")
    commit(repo)
    repo.git.replace(first, "HEAD")
    assert snapshot(prod(repo), first).texts == {"topology.yaml": TEXT}
    repo.git.replace("--delete", first)
    grafts = Path(repo.git_dir) / "info" / "grafts"  # git's older way: here HEAD would have no parent
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{repo.head.commit.hexsha}\n")
    assert snapshot(prod(repo), "HEAD^").commit == first


@pytest.mark.parametrize("ref", ["--help", "-h", "--upload-pack=x", "^HEAD", "HEAD:environments", "a\nb", "", "--"])
def test_no_name_of_a_commit_is_an_option(repo: git.Repo, ref: str) -> None:
    with pytest.raises(ReconcilerError, match=r"git knows no commit|is empty"):
        snapshot(prod(repo), ref)


def test_names_of_files_are_taken_as_they_are(repo: git.Repo) -> None:
    names = ("a\nb.yaml", "\t.yaml", ":(glob)x.yaml", "ä.yaml", '"q".yaml', "*.yaml")
    for name in names:
        (prod(repo) / name).write_text(TEXT)
    commit(repo)
    assert set(snapshot(prod(repo), "HEAD").texts) == {*names, "topology.yaml"}
    assert not revision(prod(repo)).dirty


@pytest.mark.parametrize("named", ["environments/prod", "./environments/../environments/prod/", "environments/prod/."])
def test_however_an_environment_is_named(repo: git.Repo, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.working_dir)
    assert snapshot(Path(named), "HEAD").folder == "environments/prod"
    monkeypatch.chdir(prod(repo))
    assert snapshot(Path(), "HEAD").folder == snapshot(Path("../prod"), "HEAD").folder == "environments/prod"
    assert snapshot(Path("../.."), "HEAD").texts.keys() == {
        "environments/prod/topology.yaml",
        "environments/scratch/topology.yaml",
    }


def test_a_link_of_the_users_own_leads_to_the_environment(repo: git.Repo, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(repo.working_dir)
    (tmp_path / "prod").symlink_to(prod(repo))
    for named in (tmp_path / "mine" / "environments" / "prod", tmp_path / "prod"):
        at = snapshot(named, "HEAD")
        assert (at.folder, at.relinked, is_touched(named, at)) == ("environments/prod", "", False)


# links of the repository


def relink(path: Path, target: str) -> None:
    path.rename(path.parent / ".old") if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    path.symlink_to(target)


def test_the_base_of_a_link_is_what_its_name_was(repo: git.Repo) -> None:
    (prod(repo) / "topology.yaml").write_text("topics: {a: {}}\n")
    commit(repo)
    relink(prod(repo), "scratch")
    at = snapshot(prod(repo), "HEAD")
    assert at.texts == {"topology.yaml": "topics: {a: {}}\n"}
    assert at.relinked == "environments/prod is a link to scratch, was a folder"
    assert is_touched(prod(repo), at)
    commit(repo)
    assert (snapshot(prod(repo), "HEAD").relinked, snapshot(prod(repo), "HEAD").texts) == ("", {"topology.yaml": TEXT})
    relink(prod(repo), "./scratch")
    assert snapshot(prod(repo), "HEAD").relinked == "environments/prod is a link to ./scratch, was a link to scratch"
    prod(repo).unlink()
    (prod(repo).parent / ".old").rename(prod(repo))
    assert snapshot(prod(repo), "HEAD").relinked == "environments/prod is no link, was a link to scratch"


def test_a_link_further_up_counts_too(repo: git.Repo) -> None:
    root = Path(repo.working_dir)
    (root / "other" / "prod").mkdir(parents=True)
    (root / "other" / "prod" / "topology.yaml").write_text(TEXT)
    commit(repo)
    relink(root / "environments", "other")
    assert snapshot(prod(repo), "HEAD").relinked == "environments is a link to other, was a folder"


@pytest.mark.parametrize("target", ["../../.git/HEAD", "../../.git/logs/HEAD", "../../.env", "../../.git/config"])
def test_what_git_does_not_track_is_not_read(repo: git.Repo, target: str) -> None:
    root = Path(repo.working_dir)
    (root / ".gitignore").write_text(".env\n.reconciler\n")
    repo.git.add(A=True)
    repo.git.commit(m="ignore")
    (root / ".env").write_text("SECRET: hunter2\n")
    (root / "more").symlink_to(".")
    for leads in (target, target.replace("../../", "../../more/")):
        (prod(repo) / "l.yaml").unlink(missing_ok=True)
        (prod(repo) / "l.yaml").symlink_to(leads)
        texts, (problem,) = read_readable(prod(repo))
        assert (problem.code, list(texts)) == ("untracked-link", [str(prod(repo) / "topology.yaml")])
        assert "hunter2" not in str(problem)
        assert (problem.todo == "Remove the link") == ("/.git/" in target), "git never tracks its own files"


def test_a_new_file_is_read_in_its_place_and_through_a_link_once_git_tracks_it(repo: git.Repo) -> None:
    shared = Path(repo.working_dir) / "shared.yaml"
    shared.write_text(TEXT)
    (prod(repo) / "new.yaml").write_text(TEXT)
    (prod(repo) / "l.yaml").symlink_to("../../shared.yaml")
    (problem,) = read_readable(prod(repo))[1]
    assert (problem.code, "add shared.yaml" in problem.todo) == ("untracked-link", True)
    repo.git.add("shared.yaml")
    assert len(read_environment(prod(repo))) == 3


def test_where_git_does_not_answer_no_link_is_followed(repo: git.Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    (prod(repo) / "l.yaml").symlink_to("../scratch/topology.yaml")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    (problem,) = read_readable(prod(repo))[1]
    assert ("is not known" in problem.what, "safe.directory" in problem.todo) == (True, True)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "*")
    assert read_readable(prod(repo))[1] == (), "what configures git for its user is obeyed"


def test_a_work_tree_that_the_configuration_moved_is_refused(repo: git.Repo, tmp_path: Path) -> None:
    repo.git.config("core.worktree", str(tmp_path))
    checkout = checkout_around(prod(repo))
    assert checkout is not None
    with pytest.raises(ReconcilerError, match=r"core\.worktree|takes .* for the work tree|cannot read"):
        Repository(checkout)
