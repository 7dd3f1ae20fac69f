"""Reads an environment folder from git: its commit, uncommitted changes, and its files at another commit.

It checks nothing out: files of another commit are read from git's object store.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from reconciler.backends import repository as repositories
from reconciler.backends.files import read_environment
from reconciler.errors import ReconcilerError


@dataclass(frozen=True, slots=True)
class Revision:
    """``commit``: empty outside a repository or before the first commit. ``origin``: the remote repository and the
    folder in it; empty without a remote, or with one on this machine."""

    commit: str = ""
    dirty: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ``*.yaml`` texts of a folder at one commit, by path below the folder; empty if the folder did not exist."""

    ref: str
    commit: str
    texts: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    """Its path below the root of the repository, with links."""
    relinked: str = ""
    """Words if links on that path differ from those of the work tree, because the path then means another folder."""

    @property
    def named(self) -> dict[str, str]:
        """Texts by names for messages, which ``git show`` understands."""
        at = self.commit[:12] if self.ref.endswith("...") else self.ref
        return {f"{at}:{PurePosixPath(self.folder) / path}": text for path, text in self.texts.items()}


def revision(folder: Path) -> Revision:
    """The revision of a folder. Dirty: its files differ from HEAD, for any reason. Never raises."""
    try:
        checkout = repositories.checkout_around(folder)
        repository = repositories.Repository(checkout) if checkout is not None else None
        commit = repository.commit("HEAD") if repository is not None else ""
    except ReconcilerError:
        return Revision()
    if not commit or checkout is None or repository is None:
        return Revision()
    try:
        dirty = is_touched(folder, _snapshot(repository, checkout, "HEAD", commit))
    except ReconcilerError:  # files of the work tree or of HEAD cannot be read
        dirty = True
    remotes = repository.remotes()
    url = remotes.get("origin") or (next(iter(remotes.values())) if len(remotes) == 1 else "")
    where = repository_of(url)
    inside = Path(os.path.realpath(folder)).relative_to(repository.root).as_posix()
    return Revision(commit, dirty, f"{where}:{inside}" if where else "")


def origin_of(folder: Path, here: Revision, before: str, commit: str) -> str:
    """The origin of ``folder``. ``here``: its revision; ``before``, ``commit``: origin and commit of an earlier run.

    A repository with that commit counts as the same, whatever its remote's name: a fork, a mirror, a renamed one.
    """
    if not (before and here.origin and commit) or before == here.origin:
        return here.origin
    holds = False  # a shallow clone, or one that is behind
    with contextlib.suppress(ReconcilerError):
        checkout = repositories.checkout_around(folder)
        holds = checkout is not None and bool(repositories.Repository(checkout).commit(commit))
    return f"{before.rpartition(':')[0]}:{here.origin.rpartition(':')[2]}" if holds else here.origin


def lacks(folder: Path, here: Revision, commit: str) -> bool:
    """Whether the checkout provably lacks ``commit``, of an earlier run, and has other files than it. ``here``: the
    folder's revision. A shallow clone proves nothing; a squashed merge has another commit with the same files."""
    if not commit or not here.commit or commit == here.commit:
        return False
    with contextlib.suppress(ReconcilerError):
        if (checkout := repositories.checkout_around(folder)) is None:
            return False
        repository = repositories.Repository(checkout)
        if not repository.commit(commit):
            return not repository.shallow
        return repository.merge_base(commit) != commit and is_touched(folder, snapshot(folder, commit))
    return False


def repository_of(url: str) -> str:
    """``host/path``, equal for all protocols, without user and password; empty for a local path."""
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


def snapshot(folder: Path, ref: str) -> Snapshot:
    """``ref``: any name of a commit; ``main...`` is the merge base of main and HEAD. Raises ReconcilerError."""
    if not folder.is_dir():
        raise ReconcilerError(
            f"{folder} does not exist",
            f"Whether it was removed since {ref} or never was: an environment that is gone declares nothing, and"
            " nothing on its clusters is changed because of that.",
            "Check the path; a folder that was removed on purpose is no longer to be planned.",
        )
    if (checkout := repositories.checkout_around(folder)) is None:
        raise ReconcilerError(
            f"{folder} is in no git repository, so there is no {ref} to compare it with",
            "What an edit means is worked out against a commit.",
            "Check the path, or plan without --base and --changed-since.",
        )
    repository = repositories.Repository(checkout)
    return _snapshot(repository, checkout, ref, _commit(repository, ref))


def touched(folder: Path, at: Snapshot) -> tuple[str, ...]:
    """Paths below the folder that differ from ``at``, including uncommitted and new files."""
    now = {}
    if folder.is_dir() and any(folder.rglob("*.yaml")):
        root = str(folder)
        now = {str(Path(path).relative_to(root)): text for path, text in read_environment(folder).items()}
    paths = now.keys() | at.texts.keys()
    return tuple(sorted(path for path in paths if _lines(now.get(path)) != _lines(at.texts.get(path))))


def is_touched(folder: Path, at: Snapshot) -> bool:
    return bool(at.relinked or touched(folder, at))


def _lines(text: str | None) -> str | None:
    """Normalises line ends, which git may change at checkout (``core.autocrlf``) and YAML ignores."""
    return None if text is None else text.replace("\r\n", "\n")


def _commit(repository: repositories.Repository, ref: str) -> str:
    """The commit of a name; ``NAME...`` is the merge base with NAME, as in ``git diff``. Raises ReconcilerError, with
    the fetch that a shallow clone of CI needs."""
    commit = repository.commit(ref.removesuffix("..."))
    if commit and ref.endswith("..."):
        commit = repository.merge_base(commit)
    if commit:
        return commit
    known = ", ".join(repository.branches()[:8]) or "none"
    raise ReconcilerError(
        f"git knows no commit {ref}" if ref else "the name of the commit to compare with is empty",
        f"There is nothing to compare with. Branches here: {known}.",
        "This is a shallow clone, without older commits: git fetch --unshallow origin"
        if repository.shallow
        else "Check its name; fetch a branch that only the origin has: git fetch origin.",
    )


def _snapshot(repository: repositories.Repository, checkout: repositories.Checkout, ref: str, commit: str) -> Snapshot:
    """The folder at one commit, read from git's objects: no file of the work tree counts, and no filter or hook
    runs."""
    tree = _Tree(repository, commit)
    place, links = tree.resolve(checkout.folder)
    files = dict(tree.files(place)) if place is not None else {}
    blobs = repository.texts(commit, (entry.name for entry in files.values()))
    prefix = checkout.folder.as_posix()
    texts: dict[str, str] = {}
    for path, entry in files.items():
        try:
            texts[path] = blobs[entry.name].decode("utf-8")
        except UnicodeDecodeError as error:
            name = f"{commit[:12]}:{prefix}/{path}"
            raise ReconcilerError(
                f"{name}: byte {error.start} is not UTF-8", "YAML files are UTF-8 here.", ""
            ) from None
    # A changed link on the path makes it another folder; the first difference is reported.
    relinked = ""
    if links != checkout.links:
        both = (*checkout.links, *links)
        path = next(pair[0] for pair in both if (pair in checkout.links) != (pair in links))
        is_link, was_link = dict(checkout.links).get(path), dict(links).get(path)
        is_words = f"is a link to {is_link}" if is_link is not None else "is no link"
        was_words = "was a folder" if files else "was not there"
        if was_link is not None:
            was_words = f"was a link to {was_link}"
        relinked = f"{path} {is_words}, {was_words}"
    return Snapshot(ref, commit, texts, prefix, relinked)


class _Tree:
    """The files of one commit, with links resolved as by a file system."""

    def __init__(self, repository: repositories.Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._known: dict[str, repositories.TreeEntry | None] = {"": repositories.TreeEntry("040000", "tree", commit)}

    def files(self, place: PurePosixPath) -> Iterator[tuple[str, repositories.TreeEntry]]:
        """Path below ``place`` and blob of each ``*.yaml`` of an environment. Raises ReconcilerError for a submodule,
        and for a dangling link."""
        if (tree := self._entry(place)) is None or tree.kind != "tree":
            return
        paths = () if place == PurePosixPath() else (place.as_posix(),)
        for path, entry in self._repository.entries(self._commit, *paths, below=True).items():
            inner = PurePosixPath(path).relative_to(place)
            if any(part.startswith(".") for part in inner.parts):
                continue
            if entry.mode == repositories.SUBMODULE:
                raise ReconcilerError(
                    f"{self._commit[:12]}:{path} is a submodule, and its files are another repository's",
                    "Anyone who may edit the environment chooses that repository, so nothing is compared with it.",
                    "Put its files into the repository; until that is merged, plan without --base and --changed-since.",
                )
            if entry.kind != "blob" or inner.suffix != ".yaml":
                continue
            if entry.mode != repositories.LINK:
                yield inner.as_posix(), entry
                continue
            # Environments may share a file by links, so the target is read at the same commit.
            target, _ = self.resolve(PurePosixPath(path))
            followed = self._entry(target) if target is not None else None
            if followed is None or followed.kind != "blob":
                raise ReconcilerError(
                    f"{self._commit[:12]}:{path} is a symbolic link to {self._target(entry)}, and that is no file of"
                    " this commit",
                    "At another commit only what the repository itself holds can be read.",
                    "Link to a file of the repository, by a relative path; or put the file there.",
                )
            yield inner.as_posix(), followed

    def resolve(self, path: PurePosixPath) -> tuple[PurePosixPath | None, repositories.Links]:
        def link_at(path: PurePosixPath) -> str | None:
            entry = self._entry(path)
            return None if entry is None else self._target(entry) if entry.mode == repositories.LINK else ""

        return repositories.follow(path, link_at)

    def _entry(self, path: PurePosixPath) -> repositories.TreeEntry | None:
        name = "" if path == PurePosixPath() else path.as_posix()
        if name not in self._known:
            self._known[name] = self._repository.entries(self._commit, name).get(name)
        return self._known[name]

    def _target(self, link: repositories.TreeEntry) -> str:
        return os.fsdecode(self._repository.texts(self._commit, (link.name,))[link.name])
