"""Finds the git repository around an environment, and runs git there: the only module that opens git.

An edit may bring folders that look like a repository, submodules and links. So the root is found here, from above, by
names of folders, and no file of an edit decides what git reads, runs or writes (decision 200).
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from reconciler.errors import ReconcilerError

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # a machine without git still plans; GitPython would not load

_REDIRECTS = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS", "GIT_ATTR_SOURCE", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
)  # fmt: skip
"""Variables that lead git elsewhere, set by hooks. What configures git for its user stays: ``safe.directory``."""
_VARIABLES = ("GIT_ALLOW_PROTOCOL=", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_GRAFT_FILE=/dev/null")
_OPTIONS = (
    "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "--no-pager", "--no-replace-objects", "--literal-pathspecs", "--no-optional-locks",
)  # fmt: skip
"""With ``_VARIABLES``: nothing is started, fetched or written, whatever the repository's configuration wants. The
commands used here read no work tree, so filters, textconv, attributes and ``diff.external`` have no part in them."""
_NOT_FOUND = 127
LINK, SUBMODULE, REGULAR = "120000", "160000", "100"
"""Modes of what a commit holds; the last one is how those of regular files begin."""
_MOST_LINKS = 40
"""In one path, as Linux has it."""
Links = tuple[tuple[str, str], ...]
"""Each with its own path below the root, and what it leads to."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Where an environment is in a repository. ``folder``: below ``root``, as it is named. ``links``: links of the
    repository on that way, and what each leads to. ``outer``: a repository around this one. ``brought``: a repository
    below ``root`` that belongs to it (a submodule, or the environment's own folder), and is therefore not opened."""

    root: Path
    folder: PurePosixPath
    links: Links = ()
    outer: Path | None = None
    brought: Path | None = None


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """``kind``: blob, tree or commit (a submodule)."""

    mode: str
    kind: str
    name: str


def checkout_around(folder: Path) -> Checkout | None:
    """The repository around ``folder``, as it is named, else where its links lead. Reads names of folders alone."""
    named, real = Path(os.path.abspath(folder)), Path(os.path.realpath(folder))  # noqa: PTH100 - links stay links
    ways = (named, real) if os.path.realpath(named) == str(real) else (real,)  # ``link/..`` is elsewhere by its text
    return next((checkout for way in ways if (checkout := _around(way)) is not None), None)


def can_ask() -> bool:
    return shutil.which("git") is not None


def looks_like_repository(folder: Path) -> bool:
    """Git treats such a folder as a repository wherever it is, and obeys the file ``config`` in it."""
    there = {name for name in ("HEAD", "objects", "refs", "commondir") if os.path.lexists(folder / name)}
    return "HEAD" in there and ("commondir" in there or {"objects", "refs"} <= there)


class Repository:
    """Git at the root of a checkout. Raises ReconcilerError where git does not answer at all."""

    def __init__(self, checkout: Checkout) -> None:
        self.root = checkout.root
        if checkout.brought is not None:
            raise _brought(checkout.brought, checkout.root)
        if checkout.outer is not None:
            inner = checkout.root.relative_to(checkout.outer)
            if Repository(Checkout(checkout.outer, PurePosixPath())).tracked((inner.as_posix(),)):
                raise _brought(checkout.root, checkout.outer)
        try:
            # Without --git-dir git also looks whether the repository belongs to this user; the ceiling keeps it here.
            answer = self._run("rev-parse", "--absolute-git-dir", "--show-toplevel", "--is-shallow-repository")
        except OSError as error:
            raise _unanswered(self.root, error) from None
        git_dir, top, shallow = answer.decode("utf-8", "surrogateescape").splitlines()
        if os.path.realpath(top) != str(self.root):
            raise ReconcilerError(
                f"git takes {top} for the work tree of {self.root}",
                "Its files would be compared with those of another folder.",
                f"See core.worktree: git -C {shlex.quote(str(self.root))} config --show-origin core.worktree",
            )
        self.shallow = shallow == "true"
        self._at = (f"--git-dir={git_dir}", f"--work-tree={self.root}")

    _at: tuple[str, ...] = ()

    def commit(self, ref: str) -> str:
        """The name of the commit that git understands by ``ref``; empty where it is none, or is not here."""
        if ref.startswith("-"):
            return ""
        try:
            named = self._line("rev-parse", "--verify", "--quiet", ref)
            return (
                "" if named.startswith("^") else self._line("rev-parse", "--verify", "--quiet", f"{named}^{{commit}}")
            )
        except OSError:
            return ""

    def merge_base(self, commit: str) -> str:
        """Where HEAD left ``commit``; empty where they have no history in common."""
        try:
            return self._line("merge-base", commit, "HEAD")
        except OSError:
            return ""

    def branches(self) -> list[str]:
        try:
            return self._line("for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()
        except OSError:
            return []

    def remotes(self) -> dict[str, str]:
        """The configured addresses of the remotes, by name."""
        try:
            lines = self._run("config", "-z", "--get-regexp", r"^remote\..*\.url$").decode("utf-8", "replace")
        except OSError:  # it has none
            return {}
        pairs = (line.partition("\n") for line in lines.split("\0") if line)
        return {key.removeprefix("remote.").removesuffix(".url"): url for key, _, url in reversed(list(pairs))}

    def entries(self, commit: str, *paths: str, below: bool = False) -> dict[str, TreeEntry]:
        """What ``commit`` holds at ``paths``, or with ``below`` in the tree of that one path, however deep."""
        options = ("-r",) if below else ()
        try:
            lines = self._run("ls-tree", "-z", "--full-tree", *options, commit, "--", *paths)
        except OSError as error:
            raise _missing(self.root, commit, error) from None
        entries: dict[str, TreeEntry] = {}
        for line in lines.split(b"\0")[:-1]:
            words, _, path = line.decode("utf-8", "surrogateescape").partition("\t")
            entries[path] = TreeEntry(*words.split(" "))
        return entries

    def texts(self, commit: str, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of blobs by their names."""
        asked = sorted(set(names))
        if not asked:
            return {}
        with tempfile.TemporaryFile() as lines:
            lines.write("".join(f"{name}\n" for name in asked).encode())
            lines.seek(0)
            try:
                answer = self._run("cat-file", "--batch", "--buffer", stdin=lines)
            except OSError as error:
                raise _missing(self.root, commit, error) from None
        # Each blob as "NAME blob SIZE", a line end, its bytes, a line end; "NAME missing" for one that is not here.
        blobs: dict[str, bytes] = {}
        at = 0
        while at < len(answer):
            begin = answer.index(b"\n", at) + 1
            words = answer[at : begin - 1].decode().split(" ")
            if len(words) != 3:
                raise _missing(self.root, commit, words[0])
            at = begin + int(words[2]) + 1
            blobs[words[0]] = answer[begin : at - 1]
        return blobs

    def tracked(self, paths: Iterable[str]) -> dict[str, str]:
        """Modes of what the index holds at ``paths`` (below the root), or below them."""
        try:
            answer = self._run("ls-files", "-z", "--stage", "--", *paths)
        except OSError as error:
            raise _unanswered(self.root, error) from None
        lines = (line.decode("utf-8", "surrogateescape").partition("\t") for line in answer.split(b"\0")[:-1])
        return {path: words.split(" ")[0] for words, _, path in lines}

    def _line(self, *words: str) -> str:
        return self._run(*words).decode("utf-8", "surrogateescape").strip("\n")

    def _run(self, *words: str, stdin: BinaryIO | None = None) -> bytes:
        """Raises OSError with what git said."""
        import git  # its import takes long, so commands that need no git do not wait for it

        unset = [word for name in _REDIRECTS if name in os.environ for word in ("-u", name)]
        variables = (f"GIT_CEILING_DIRECTORIES={self.root.parent}", *_VARIABLES)
        command = ["env", *unset, *variables, "git", *_OPTIONS, *self._at, *words]
        try:
            asked = git.Git(str(self.root)).execute(
                command, istream=stdin, stdout_as_string=False, strip_newline_in_stdout=False
            )
        except git.GitCommandNotFound:
            raise FileNotFoundError("git") from None
        except git.GitCommandError as error:
            if error.status == _NOT_FOUND:
                raise FileNotFoundError("git") from None
            said = str(error.stderr).strip().removeprefix("stderr: ").strip("' \n").splitlines()
            raise OSError(said[0] if said else f"exit code {error.status}") from None
        assert isinstance(asked, bytes)
        return asked


def _around(way: Path) -> Checkout | None:
    root: Path | None = None
    outer: Path | None = None
    brought: Path | None = None
    # Git's own variable, for users with a repository around all others, such as one of a home folder.
    named = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ceilings = [Path(os.path.realpath(ceiling)) for ceiling in named if ceiling]
    for above in (*reversed(way.parents), way):
        if not os.path.lexists(above / ".git") or any(ceiling.is_relative_to(above) for ceiling in ceilings):
            continue
        real = Path(os.path.realpath(above))
        if root is None:
            root, start = real, above
        elif real.is_relative_to(root) and real != root:
            # A submodule is kept within the repository around it; a further work tree of that repository is none.
            inner, kept = real / ".git", os.path.realpath(_git_dir(root / ".git") / "modules")
            if above == way or (inner.is_file() and _git_dir(inner).is_relative_to(kept)):
                brought = real
                break
            outer, root, start = root, real, above
    if root is None:
        return None
    folder = PurePosixPath(way.relative_to(start).as_posix())
    # As it is written: Path.readlink would leave out "./".
    _, links = follow(folder, lambda path: os.readlink(place) if (place := root / path).is_symlink() else "")  # noqa: PTH115
    return Checkout(root, folder, links, outer, brought)


def follow(path: PurePosixPath, link_at: Callable[[PurePosixPath], str | None]) -> tuple[PurePosixPath | None, Links]:
    """Where ``path`` leads as a file system resolves it, and the links on its way; None where it leaves the repository
    or does not end. ``link_at``: what a link leads to, empty for anything else, None for nothing."""
    todo, done = list(path.parts), PurePosixPath()
    links: dict[str, str] = {}
    while todo:
        part = todo.pop(0)
        if part == "/" or (part == ".." and not done.parts):
            return None, tuple(links.items())
        here = done.parent if part == ".." else done / part
        target = "" if part == ".." else link_at(here)
        if target:
            if len(links) == _MOST_LINKS or here.as_posix() in links:  # a second time: they lead to each other
                return None, tuple(links.items())
            links[here.as_posix()] = target
            todo = [*PurePosixPath(target).parts, *todo]
        elif target is None:
            return None, tuple(links.items())
        else:
            done = here
    return done, tuple(links.items())


def _git_dir(place: Path) -> Path:
    """Where a file ``.git`` leads to."""
    if not place.is_file():
        return place
    with place.open("rb") as file:
        text = os.fsdecode(file.read(4096)).strip().removeprefix("gitdir:").strip()
    return Path(os.path.realpath(place.parent / text)) if "\0" not in text else place


def _brought(inner: Path, outer: Path) -> ReconcilerError:
    return ReconcilerError(
        f"{inner} is a repository within the repository {outer}, which has it from an edit",
        "The author of that edit chose its history and its files, so nothing is compared with them.",
        "Clone it beside the other one and name it there, or put its files into the repository.",
    )


def _missing(root: Path, commit: str, reason: object) -> ReconcilerError:
    return ReconcilerError(
        f"commit {commit[:12]} is not whole in {root}: {reason}",
        "A clone may leave out files (--filter); nothing is fetched from here.",
        f"Fetch them: git -C {shlex.quote(str(root))} fetch --refetch --no-filter origin",
    )


def _unanswered(root: Path, error: OSError) -> ReconcilerError:
    """What git's library said, as words with a command."""
    if isinstance(error, FileNotFoundError):
        return ReconcilerError(
            "the program git is not found",
            "Other commits are read from git's own store; plans without --base and --changed-since do without it.",
            "Install git, or put it on the PATH.",
        )
    if "dubious ownership" not in str(error):
        return ReconcilerError(
            f"git cannot read the repository {root}: {error}",
            "There is nothing to compare with.",
            f"Run it yourself: git -C {shlex.quote(str(root))} status",
        )
    return ReconcilerError(
        f"git refuses to read {root}: the folder belongs to another user than this process",
        "Usual in containers of CI. Until git is configured to trust the folder, it answers nothing about it.",
        f"git config --global --add safe.directory {shlex.quote(str(root))}",
    )
