"""Reads an environment folder from git: its commit, uncommitted changes, and its files at another commit.

Nothing is checked out: files of another commit are read from git's own store.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # a machine without git still plans; GitPython would not load

import git

from reconciler.backends.files import read_environment
from reconciler.errors import ReconcilerError

_LINK = 0o120000
_SHA1 = 40
_MOST_LINKS = 40
"""In one path, as Linux has it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """``commit`` is empty outside a repository or before the first commit. ``origin``: the repository that this one was
    cloned from, and the folder in it; empty where that is on this machine, or none."""

    commit: str = ""
    dirty: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ``*.yaml`` texts of a folder at one commit, by path below the folder; none when it was not there.

    ``folder``: its path below the root of the repository.
    """

    ref: str
    commit: str
    texts: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def named(self) -> dict[str, str]:
        """Texts by the name that problems are to print, which ``git show`` understands."""
        at = self.commit[:12] if self.ref.endswith("...") else self.ref
        return {f"{at}:{PurePosixPath(self.folder) / path}": text for path, text in self.texts.items()}


def revision(folder: Path) -> Revision:
    try:
        with git.Repo(folder, search_parent_directories=True) as repo:
            commit = repo.head.commit.hexsha if repo.head.is_valid() else _named(repo, "HEAD")
            if not commit:
                return Revision()
            places = (folder.resolve(), *_linked(folder, _root(repo)))
            dirty = any(repo.is_dirty(untracked_files=True, path=str(place)) for place in places)
            return Revision(commit, dirty or _read_but_not_watched(folder), _origin(repo, folder))
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.CommandError, ValueError, BrokenPipeError):
        return Revision()


def origin_of(folder: Path, here: Revision, before: str, commit: str) -> str:
    """Of ``folder``; ``here`` is its revision, ``before`` and ``commit`` are what an earlier run left.

    Who has that commit is of the same repository, whatever its remote is called: a fork, a mirror, a renamed one.
    """
    if before and here.origin and commit and before != here.origin and _holds(folder, commit):
        return f"{before.rpartition(':')[0]}:{here.origin.rpartition(':')[2]}"
    return here.origin


def _holds(folder: Path, commit: str) -> bool:
    """A shallow clone, or one that is behind, may not."""
    try:
        with git.Repo(folder, search_parent_directories=True) as repo:
            repo.git.cat_file("-e", f"{commit}^{{commit}}")
            return True
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.CommandError, ValueError, BrokenPipeError):
        return False


def repository_of(url: str) -> str:
    """``host/path``, the same for all ways to reach it and without anybody's name or password; empty for a path."""
    scheme, sign, rest = url.partition("://")
    if sign:
        authority, _, path = rest.partition("/")
        host = authority.rpartition("@")[2].partition(":")[0]
        if scheme == "file":
            return ""
    else:
        host, sign, path = url.rpartition("@")[2].partition(":")
        if not sign or "/" in host or len(host) == 1:  # a path, perhaps with a drive
            return ""
    return f"{host}/{path.strip('/').removesuffix('.git')}".lower() if host and path else ""


def _origin(repo: git.Repo, folder: Path) -> str:
    remotes = {remote.name: remote for remote in repo.remotes}
    remote = remotes.get("origin") or (repo.remotes[0] if len(remotes) == 1 else None)
    where = repository_of(remote.url) if remote is not None else ""
    return f"{where}:{folder.resolve().relative_to(_root(repo)).as_posix()}" if where else ""


def snapshot(folder: Path, ref: str) -> Snapshot:
    """``ref`` is anything git knows as a commit; ``main...`` is where HEAD left main. Raises ReconcilerError."""
    if not folder.is_dir():
        raise ReconcilerError(
            f"{folder} is not there",
            f"Whether it was removed since {ref} or never was: an environment that is gone declares nothing, and"
            " nothing"
            " on its clusters is changed because of that.",
            "Check the path; a folder that was removed on purpose is no longer to be planned.",
        )
    try:
        with git.Repo(folder, search_parent_directories=True) as repo:
            commit = _commit(repo, ref)
            below = PurePosixPath(folder.resolve().relative_to(_root(repo)).as_posix())
            return Snapshot(ref, commit.hexsha, dict(_texts(commit, below)), str(below))
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        raise ReconcilerError(
            f"{folder} is in no git repository, so there is no {ref} to compare it with",
            "What an edit means is worked out against a commit.",
            "Check the path, or plan without --base and --changed-since.",
        ) from None


def touched(folder: Path, at: Snapshot) -> tuple[str, ...]:
    """Paths below the folder that differ from ``at``, uncommitted and new files included."""
    now = {}
    if folder.is_dir() and any(folder.rglob("*.yaml")):
        root = str(folder)
        now = {str(Path(path).relative_to(root)): text for path, text in read_environment(folder).items()}
    return tuple(sorted(path for path in now.keys() | at.texts.keys() if now.get(path) != at.texts.get(path)))


def _root(repo: git.Repo) -> Path:
    assert repo.working_tree_dir is not None
    return Path(repo.working_tree_dir).resolve()


def _read_but_not_watched(folder: Path) -> bool:
    """Whether files of the environment are ignored by git, or kept out of its sight: ``git status`` is silent of both,
    while they are read like all others."""
    asked = git.Git(str(folder))
    ignored = asked.ls_files("--others", "--ignored", "--exclude-standard", "--", "*.yaml").splitlines()
    marked = asked.ls_files("-v", "--", "*.yaml").splitlines()  # h: assumed unchanged; S: left out of the work tree
    return any(not name.startswith(".") and "/." not in name for name in ignored) or any(
        mark[0].islower() or mark[0] == "S" for mark in marked
    )


def _named(repo: git.Repo, ref: str) -> str:
    """What git itself understands by ``ref``, which is more than GitPython does; empty for what is no commit."""
    try:
        named = repo.git.rev_parse("--verify", "--quiet", ref)
        return "" if named.startswith("^") else str(repo.git.rev_parse("--verify", "--quiet", f"{named}^{{commit}}"))
    except (git.CommandError, ValueError):
        return ""


def _commit(repo: git.Repo, ref: str) -> git.Commit:
    try:
        named = _named(repo, ref.removesuffix("...")) if not ref.startswith("-") else ""
        if len(named) > _SHA1:
            raise ReconcilerError(
                f"{_root(repo)} is a git repository with SHA-256 names, and only those with SHA-1 can be read",
                "Other commits are read from git's own store; plans without --base and --changed-since do without it.",
                "Plan without them, or keep the environment in a repository of git's usual format.",
            )
        if named and not ref.endswith("..."):
            return _whole(repo.commit(named))
        commits = repo.merge_base(named, "HEAD") if named else []
        if commits:
            return _whole(repo.commit(commits[0].hexsha))
    except (git.BadName, git.CommandError, ValueError, IndexError, TypeError, KeyError, OSError):
        pass  # OSError: git had ended before it was asked, as it does where it does not trust the folder
    _require_answers(repo)
    known = ", ".join(sorted(head.name for head in repo.heads)[:8]) or "none"
    shallow = (Path(repo.common_dir) / "shallow").exists()
    raise ReconcilerError(
        f"git knows no commit {ref}" if ref else "the name of the commit to compare with is empty",
        f"There is nothing to compare with. Branches here: {known}.",
        "This is a shallow clone, without older commits: git fetch --unshallow origin"
        if shallow
        else "Check its name; a branch that is only at the origin is to be fetched first: git fetch origin.",
    )


def _require_answers(repo: git.Repo) -> None:
    """Raises ReconcilerError when it is git itself that does not answer, whatever is asked."""
    try:
        repo.git.rev_parse("--git-dir")
    except git.GitCommandNotFound:
        raise ReconcilerError(
            "the program git is not found",
            "Other commits are read from git's own store; plans without --base and --changed-since do without it.",
            "Install git, or put it on the PATH.",
        ) from None
    except git.GitCommandError as error:
        folder = str(repo.working_tree_dir)
        if "dubious ownership" not in str(error.stderr):
            said = str(error.stderr).strip().removeprefix("stderr: ").strip("' \n").splitlines()
            raise ReconcilerError(
                f"git cannot read the repository {folder}: {said[0] if said else error.status}",
                "There is nothing to compare with.",
                f"Run it yourself: git -C {shlex.quote(folder)} status",
            ) from None
        raise ReconcilerError(
            f"git refuses to read {folder}: the folder belongs to another user than this process",
            "Usual in containers of CI. Until git is told to trust the folder, it answers nothing about it.",
            f"git config --global --add safe.directory {shlex.quote(folder)}",
        ) from None


def _whole(commit: git.Commit) -> git.Commit:
    """A shallow clone knows the names of parents that it does not have. ValueError for such a one."""
    assert commit.tree is not None
    return commit


def _linked(folder: Path, root: Path) -> Iterator[Path]:
    """Files elsewhere below ``root`` that files of ``folder`` are links to."""
    here = folder.resolve()
    for path in folder.rglob("*.yaml"):
        if path.is_symlink() and (target := path.resolve()).is_relative_to(root) and not target.is_relative_to(here):
            yield target


def _texts(commit: git.Commit, below: PurePosixPath) -> Iterator[tuple[str, str]]:
    tree: git.Tree = commit.tree
    try:
        for part in below.parts:
            tree = tree / part
    except KeyError:
        return
    if tree.type != "tree":
        return
    for item in tree.traverse():
        assert isinstance(item, (git.Blob, git.Tree, git.Submodule))
        path = PurePosixPath(str(item.path)).relative_to(below)
        if isinstance(item, git.Submodule):
            yield from ((str(path / inner), text) for inner, text in _texts(_submodule(commit, item), PurePosixPath()))
        if item.type == "blob" and path.suffix == ".yaml" and not any(part.startswith(".") for part in path.parts):
            yield str(path), _text(_followed(commit, item), f"{commit.hexsha[:12]}:{item.path}")


def _submodule(commit: git.Commit, item: git.Submodule) -> git.Commit:
    """The commit of a submodule that ``commit`` names. Raises ReconcilerError where it is not here."""
    try:
        return _whole(git.Repo(_root(commit.repo) / str(item.path)).commit(item.hexsha))
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.BadName, git.CommandError, ValueError):
        raise ReconcilerError(
            f"{commit.hexsha[:12]}:{item.path} is a submodule, and its commit {item.hexsha[:12]} is not here",
            "Its files belong to the environment, and without them the whole of it would seem to be new.",
            "git submodule update --init; in a workflow: actions/checkout with submodules: true.",
        ) from None


def _followed(commit: git.Commit, item: git.IndexObject) -> git.IndexObject:
    """What a link leads to at the same commit: environments may share a file by links. Raises ReconcilerError."""
    if item.mode != _LINK:
        return item
    try:
        index_object = _walked(commit, PurePosixPath(str(item.path)))
    except KeyError:
        index_object = None
    if index_object is not None and index_object.type == "blob":
        return index_object
    raise ReconcilerError(
        f"{commit.hexsha[:12]}:{item.path} is a symbolic link to {_target(item)}, and that is no file of this commit",
        "At another commit only what the repository itself holds can be read.",
        "Link to a file of the repository, by a relative path; or put the file there.",
    )


def _walked(commit: git.Commit, path: PurePosixPath) -> git.IndexObject | None:
    """As the file system would resolve ``path``. None where that leaves the repository or does not end."""
    index_object: git.IndexObject = commit.tree
    todo, done, links = list(path.parts), PurePosixPath(), 0
    while todo:
        match todo.pop(0):
            case "/":
                return None
            case ".." if not done.parts:
                return None
            case "..":
                done = done.parent
                continue
            case part:
                index_object = commit.tree / str(done / part)
        if index_object.mode != _LINK:
            done /= part
        elif (links := links + 1) > _MOST_LINKS:
            return None
        else:
            todo = [*PurePosixPath(_target(index_object)).parts, *todo]
    return index_object


def _target(link: git.IndexObject) -> str:
    return os.fsdecode(bytes(link.data_stream.read()))


def _text(blob: git.IndexObject, name: str) -> str:
    try:
        return bytes(blob.data_stream.read()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ReconcilerError(f"{name}: byte {error.start} is not UTF-8", "YAML files are UTF-8 here.", "") from None
