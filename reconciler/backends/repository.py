"""Finds the git repository around an environment, and runs git there: the only module that does.

An edit may contain folders that look like a repository, submodules and links. So the root is found from above, by names
of folders, and no file of an edit decides what git reads, runs or writes (decision 200).
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

_KEPT = ("GIT_CONFIG_", "GIT_TEST_ASSUME_DIFFERENT_OWNER")
"""Beginnings of the only variables of the caller that reach git: they configure it for its user (``safe.directory``).
Others point it to another repository or its parts, as hooks set them, or have it write a trace."""
_VARIABLES = ("GIT_ALLOW_PROTOCOL=", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_GRAFT_FILE=/dev/null")
_OPTIONS = (
    "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "--no-pager", "--no-replace-objects", "--literal-pathspecs", "--no-optional-locks",
)  # fmt: skip
"""With ``_VARIABLES``, git starts, fetches and writes nothing, whatever the repository's configuration says. The
commands used here read no work tree, so filters, textconv, attributes and ``diff.external`` do not apply."""
_NOT_FOUND = 127
LINK, SUBMODULE, REGULAR = "120000", "160000", "100"
"""Modes of entries in a commit; the last one is a prefix, of all regular files."""
_MOST_LINKS = 40
"""Links in one path, as in Linux."""
Links = tuple[tuple[str, str], ...]
"""Pairs of a link's path below the root, and its target."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Place of an environment in a repository."""

    root: Path
    folder: PurePosixPath
    """Path below ``root``, with links."""
    links: Links = ()
    """Links on that path, with targets."""
    outer: Path | None = None
    """A repository around this one."""
    brought: Path | None = None
    """A repository below ``root`` (a submodule, or the environment's folder), which an edit may have brought and git
    must not open."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """``kind``: blob, tree or commit (a submodule)."""

    mode: str
    kind: str
    name: str


def checkout_around(folder: Path) -> Checkout | None:
    """The repository around ``folder``, by its path as given, else with links resolved. Reads only names of folders."""
    named, real = Path(os.path.abspath(folder)), Path(os.path.realpath(folder))  # noqa: PTH100 - links stay links
    ways = (named, real) if os.path.realpath(named) == str(real) else (real,)  # ``link/..`` as text is another folder
    return next((checkout for way in ways if (checkout := _around(way)) is not None), None)


def can_ask() -> bool:
    return shutil.which("git") is not None


def looks_like_repository(folder: Path) -> bool:
    """Whether git would treat the folder as a repository, and obey its file ``config``."""
    there = {name for name in ("HEAD", "objects", "refs", "commondir") if os.path.lexists(folder / name)}
    return "HEAD" in there and ("commondir" in there or {"objects", "refs"} <= there)


class Repository:
    """Git at the root of a checkout. Raises ReconcilerError if git itself fails."""

    def __init__(self, checkout: Checkout) -> None:
        """Raises ReconcilerError for a repository that an edit may have brought, or that git would read in another
        place."""
        self.root = checkout.root
        if checkout.brought is not None:
            raise _brought(checkout.brought, checkout.root)
        if checkout.outer is not None:
            inner = checkout.root.relative_to(checkout.outer)
            if Repository(Checkout(checkout.outer, PurePosixPath())).tracked((inner.as_posix(),)):
                raise _brought(checkout.root, checkout.outer)
        try:
            # No --git-dir, so that git also checks the owner of the repository; the ceiling keeps it at this root.
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
        """The commit id of ``ref``; empty if it is no commit, or is missing here."""
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
        """The merge base of HEAD and ``commit``; empty without common history."""
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
        """Remote -> URL in the repository's own file, not in one that it includes: that one may be an edit's."""
        try:
            lines = self._run("config", "--local", "-z", "--get-regexp", r"^remote\..*\.url$").decode(
                "utf-8", "replace"
            )
        except OSError:  # there are none
            return {}
        pairs = (line.partition("\n") for line in lines.split("\0") if line)
        return {key.removeprefix("remote.").removesuffix(".url"): url for key, _, url in reversed(list(pairs))}

    def entries(self, commit: str, *paths: str, below: bool = False) -> dict[str, TreeEntry]:
        """Entries of ``commit`` at ``paths``, or with ``below`` all entries below one path."""
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
        """Blob id -> content."""
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
        # The batch format: "ID blob SIZE", newline, bytes, newline; "ID missing" for a missing blob.
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
        """Path -> mode in the index, at or below ``paths`` (relative to the root)."""
        try:
            answer = self._run("ls-files", "-z", "--stage", "--", *paths)
        except OSError as error:
            raise _unanswered(self.root, error) from None
        lines = (line.decode("utf-8", "surrogateescape").partition("\t") for line in answer.split(b"\0")[:-1])
        return {path: words.split(" ")[0] for words, _, path in lines}

    def _line(self, *words: str) -> str:
        return self._run(*words).decode("utf-8", "surrogateescape").strip("\n")

    def _run(self, *words: str, stdin: BinaryIO | None = None) -> bytes:
        """Runs git. Raises OSError with git's message."""
        import git  # a slow import, only for commands that need git

        others = (name for name in os.environ if name.startswith("GIT_") and not name.startswith(_KEPT))
        unset = [word for name in others for word in ("-u", name)]
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
    """The repository around a path, from the outermost folder inwards. An edit can bring a nested repository, so an
    inner one counts only if it is no submodule of the outer one."""
    root: Path | None = None
    outer: Path | None = None
    brought: Path | None = None
    # Git's variable for users with a repository around all others, such as one for the home folder.
    named = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ceilings = [Path(os.path.realpath(ceiling)) for ceiling in named if ceiling]
    for above in (*reversed(way.parents), way):
        if not os.path.lexists(above / ".git") or any(ceiling.is_relative_to(above) for ceiling in ceilings):
            continue
        real = Path(os.path.realpath(above))
        if root is None:
            root, start = real, above
        elif real.is_relative_to(root) and real != root:
            # A submodule's git directory is inside the outer repository's; an additional work tree is no submodule.
            inner, kept = real / ".git", os.path.realpath(_git_dir(root / ".git") / "modules")
            if above == way or (inner.is_file() and _git_dir(inner).is_relative_to(kept)):
                brought = real
                break
            outer, root, start = root, real, above
    if root is None:
        return None
    folder = PurePosixPath(way.relative_to(start).as_posix())
    # The target as written: Path.readlink would drop "./".
    _, links = follow(folder, lambda path: os.readlink(place) if (place := root / path).is_symlink() else "")  # noqa: PTH115
    return Checkout(root, folder, links, outer, brought)


def follow(path: PurePosixPath, link_at: Callable[[PurePosixPath], str | None]) -> tuple[PurePosixPath | None, Links]:
    """The target of ``path`` with links resolved, and these links; None if it leaves the repository or is circular.
    ``link_at``: returns a link's target, empty for another entry, None for a missing one."""
    todo, done = list(path.parts), PurePosixPath()
    links: dict[str, str] = {}
    while todo:
        part = todo.pop(0)
        if part == "/" or (part == ".." and not done.parts):
            return None, tuple(links.items())
        here = done.parent if part == ".." else done / part
        target = "" if part == ".." else link_at(here)
        if target:
            if len(links) == _MOST_LINKS or here.as_posix() in links:  # a second visit: circular
                return None, tuple(links.items())
            links[here.as_posix()] = target
            todo = [*PurePosixPath(target).parts, *todo]
        elif target is None:
            return None, tuple(links.items())
        else:
            done = here
    return done, tuple(links.items())


def _git_dir(place: Path) -> Path:
    """The git directory that a file ``.git`` names."""
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
    """The error about a failed call of git, with a command as remedy."""
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
