"""Where an environment is from: one name for a repository, however it is reached, and never a password."""

from __future__ import annotations

from pathlib import Path

import git
import pytest

from reconciler.backends.git import origin_of, repository_of, revision

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
