"""What git says of an environment folder: the commit, and whether the folder differs from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import git


@dataclass(frozen=True, slots=True)
class Revision:
    """``commit`` is empty outside a repository or before the first commit."""

    commit: str = ""
    dirty: bool = False


def revision(folder: Path) -> Revision:
    try:
        with git.Repo(folder, search_parent_directories=True) as repo:
            if not repo.head.is_valid():
                return Revision()
            return Revision(repo.head.commit.hexsha, repo.is_dirty(untracked_files=True, path=str(folder.resolve())))
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError, ValueError):
        return Revision()
