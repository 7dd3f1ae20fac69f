"""Where an environment is from: one name for a repository, however it is reached, and never a password."""

from __future__ import annotations

from pathlib import Path

import git
import pytest

from reconciler.backends.git import lacks, origin_of, repository_of, revision

TEAM = "git.example/team/topics"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://git.example/team/topics", TEAM),
        ("https://git.example/Team/topics.git/", TEAM),
        ("https://gitlab-ci-token:hunter2@git.example/team/topics.git", TEAM),
        ("ssh://git@git.example:2222/team/topics.git", TEAM),
        ("git@git.example:team/topics.git", TEAM),
        ("git.example:team/topics", TEAM),
        ("/srv/git/topics.git", ""),
        ("../topics", ""),
        ("file:///srv/git/topics.git", ""),
        ("C:/topics", ""),
        ("", ""),
    ],
)
def test_all_ways_to_one_repository_are_one(url: str, found: str) -> None:
    assert repository_of(url) == found


def test_the_folder_is_a_part_of_it(tmp_path: Path) -> None:
    repo = git.Repo.init(tmp_path, initial_branch="main")
    folder = tmp_path / "environments" / "prod"
    folder.mkdir(parents=True)
    (folder / "topology.yaml").write_text("clusters: {}\n")
    with repo.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")
    repo.git.add(A=True)
    repo.git.commit(m="one")
    assert revision(folder).origin == "", "a clone of nothing"
    repo.create_remote("upstream", "https://ada:hunter2@git.example/team/topics.git")
    assert revision(folder).origin == f"{TEAM}:environments/prod", "the only one, whatever its name"
    here, other = revision(folder), "git.example/old/name"
    assert origin_of(folder, here, f"{other}:environments/prod", here.commit) == f"{other}:environments/prod", "renamed"
    assert origin_of(folder, here, f"{other}:staging/prod", here.commit) == f"{other}:environments/prod", (
        "another folder"
    )
    for unknown in ("0" * 40, "", "--help"):
        assert origin_of(folder, here, f"{other}:environments/prod", unknown) == here.origin
    repo.create_remote("fork", "git@git.example:ada/topics.git")
    assert revision(folder).origin == "", "one of several, and nobody says which"
    repo.create_remote("origin", "git@git.example:team/topics.git")
    assert revision(folder).origin == f"{TEAM}:environments/prod"


def test_a_checkout_lacks_what_was_applied_from_a_later_commit(tmp_path: Path) -> None:
    repo = git.Repo.init(tmp_path / "there", initial_branch="main")
    folder = tmp_path / "there" / "prod"
    folder.mkdir()
    with repo.config_writer() as config:
        config.set_value("user", "name", "a")
        config.set_value("user", "email", "a@example.com")

    def committed(text: str) -> str:
        (folder / "topology.yaml").write_text(text)
        repo.git.add(A=True)
        repo.git.commit("--allow-empty", m=text)
        return repo.head.commit.hexsha

    first = committed("clusters: {}\n")
    clone = git.Repo.clone_from(str(tmp_path / "there"), tmp_path / "clone")
    behind = tmp_path / "clone" / "prod"
    second = committed("topics: {}\n")
    assert lacks(behind, revision(behind), second), "not fetched yet"
    clone.remote().fetch()
    assert lacks(behind, revision(behind), second), "fetched, not merged"
    assert not lacks(folder, revision(folder), second)
    assert not lacks(folder, revision(folder), first), "HEAD descends from it"
    assert not lacks(behind, revision(behind), "")
    (behind / "topology.yaml").write_text("topics: {}\n")
    clone.git.add(A=True)
    clone.git.execute(["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "squashed"])
    assert not lacks(behind, revision(behind), second), "another commit with the same files"
    shallow = git.Repo.clone_from(f"file://{tmp_path}/there", tmp_path / "shallow", depth=1)
    inside = Path(shallow.working_dir) / "prod"
    assert not lacks(inside, revision(inside), first), "a shallow clone proves nothing"
    assert not lacks(tmp_path, revision(tmp_path), first)
