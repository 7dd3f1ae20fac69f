"""Reads the YAML files of an environment folder; writes text files atomically."""

import contextlib
import errno
import os
import secrets
import select
import shlex
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from reconciler.backends.repository import REGULAR, Checkout, Repository, checkout_around, looks_like_repository
from reconciler.errors import Problem, ReconcilerError, TopologyError, Where
from reconciler.model.schemas import EDITORS_SCHEMA, naming_schema


def read_environment(folder: Path) -> Mapping[str, str]:
    """The text of every ``*.yaml`` in ``folder`` and below it, by its path; names that begin with a dot are not read.

    Raises TopologyError with all problems: no such folder, no file, unreadable, not UTF-8, ``.yml`` for ``.yaml``.
    """
    texts, problems = read_readable(folder)
    if problems:
        raise TopologyError(problems)
    return texts


def read_readable(folder: Path) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """Like ``read_environment``, but returns readable files with the problems, so that all problems are reported at
    once."""
    if not folder.is_dir():
        problem = f"{folder} {'is a file, not a folder' if folder.exists() else 'does not exist'}"
        why = "An environment is a folder with *.yaml files"
        return {}, (Problem("no-folder", Where(str(folder)), problem, why, "Check the path"),)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    checkout = checkout_around(folder)
    if (leads_out := _leads_out(folder, checkout)) is not None:
        return {}, (leads_out,)
    # A repository inside of this one comes from an edit, and git would obey its configuration (decision 200).
    if checkout is not None:
        real = Path(os.path.realpath(folder))
        if checkout.brought is not None and checkout.brought != real:
            problems.append(_nested(checkout.brought))
        for above in real.parents:
            if above.is_relative_to(checkout.root) and above != checkout.root and looks_like_repository(above):
                problems.append(_nested(above))
    try:
        paths = sorted(_files(folder, problems, checkout))
    except TopologyError as error:
        return {}, error.problems
    # A link to an untracked file could show a secret of this machine to the readers of a plan.
    untracked = _untracked([path for path in paths if path.is_symlink()], checkout)
    for path in paths:
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError:
            why = "Plans, records and the lock hold the names of folder and files as UTF-8"
            where, todo = Where(str(path)), "Rename the folder or file"
            problems.append(Problem("not-utf8", where, "the path is not UTF-8", why, todo))
            continue
        # A link's target is checked before it is read, because problems quote the text.
        read = _leads_out(path, checkout) or untracked.get(path) or _text(path)
        if isinstance(read, Problem):
            problems.append(read)
        else:
            texts[str(path)] = read
    if not texts and not problems:
        problem = "the environment has no *.yaml file"
        why = "An empty environment would mean that nothing is declared any more"
        problems.append(Problem("no-files", Where(str(folder)), problem, why, "Check the folder's name"))
    return texts, tuple(problems)


MOST_OTHERS = 10_000
"""Limit of files and folders in an environment that are not ``*.yaml``."""

MOST_GIVEN = 256 << 20
"""Limit in bytes of a file that a user names: no plan and no configuration is as large."""
WRITER_WITHIN_S = 3.0
"""Seconds to wait for the writer of a named pipe, which a shell may start after the reader."""


def read_given(path: Path) -> bytes:
    """Reads a file or pipe that a user names. Raises OSError, also for one larger than ``MOST_GIVEN`` or endless, such
    as a device, and for a pipe without a writer."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as file:  # noqa: PTH123 - a descriptor
        first: bytes | None = b""
        if stat.S_ISFIFO(os.fstat(opened).st_mode):
            select.select([file], [], [], WRITER_WITHIN_S)
            first = file.raw.read(1)  # None while the writer has written nothing
            if first == b"":
                raise OSError(errno.EPIPE, "it is a pipe that no process writes to")
        os.set_blocking(opened, True)
        content = (first or b"") + file.read(MOST_GIVEN + 1)
    if len(content) > MOST_GIVEN:
        raise OSError(errno.EFBIG, f"it has more than {MOST_GIVEN >> 20} MiB")
    return content


def read_given_text(path: Path, subject: str, why: str, todo: str) -> str:
    """``read_given`` as UTF-8. Raises ReconcilerError that ``subject`` cannot be read, with ``why`` and ``todo``."""
    try:
        return read_given(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{subject} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        raise ReconcilerError(problem, why, todo) from None


def environment_name(folder: Path) -> str:
    """The name of the real folder behind links, existing or not. Never raises."""
    return Path(os.path.realpath(folder)).name  # Path.resolve raises for circular links before Python 3.13


def is_taken(folder: Path) -> bool:
    """Whether the path exists as anything but an empty folder."""
    return (folder.exists() or folder.is_symlink()) and not (folder.is_dir() and not any(folder.iterdir()))


def obstacle(folder: Path) -> str:
    """Why this user cannot create ``folder``, or empty; checked before the user is asked anything."""
    above = next(path for path in folder.absolute().parents if os.path.lexists(path))
    if not above.is_dir():
        return f"{above} is no folder"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"this user cannot write in {above}"


def unused_file(folder: Path, stem: str) -> Path:
    """``STEM.yaml`` in the folder, or the first ``STEM-2.yaml``, ``STEM-3.yaml`` ... that does not exist."""
    names = chain((f"{stem}.yaml",), (f"{stem}-{number}.yaml" for number in count(2)))
    return next(path for name in names if not (path := folder / name).exists())


def for_editors_in(folder: Path, path: Path, text: str) -> str:
    """``text`` of a new file ``path``; it names the schema for editors where the environment in ``folder`` has one."""
    return naming_schema(path.relative_to(folder).as_posix(), text) if (folder / EDITORS_SCHEMA).is_file() else text


def write_text(path: Path, text: str) -> None:
    """Writes ``path`` atomically: a reader never sees half a file. Raises ReconcilerError.

    A link stays a link, and permissions are kept; only this user may read a new file. Pipes and terminals are written
    directly.
    """
    with _writable(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            # Non-blocking: opening a pipe without a reader would wait for ever.
            opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.set_blocking(opened, True)
            with open(opened, "w", encoding="utf-8", newline="\n") as stream:  # noqa: PTH123 - a descriptor
                stream.write(text)
            return
    write_texts({path: text}, permissions=0o600)


def make_private(folder: Path) -> None:
    """Creates ``folder`` and missing parents for this user alone. Raises OSError.

    By mode, not by umask: the umask belongs to the whole process, and another thread may reset it meanwhile.
    """
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def keep_names(folder: Path) -> None:
    """Syncs the folder, so that its file names survive a power loss. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_texts(texts: Mapping[Path, str], permissions: int = 0o666) -> None:
    """Writes all files or none, each like ``write_text``: failures come before the first file is put in place.
    ``permissions``: of new files, less the umask."""
    drafts: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            with _writable(path):
                real = path.resolve()
                real.parent.mkdir(parents=True, exist_ok=True)
                draft = drafts[real] = real.parent / f".{real.name}.{secrets.token_hex(4)}"
                opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
                with open(opened, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a descriptor
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                if real.exists():
                    draft.chmod(real.stat().st_mode & 0o777)
                if real.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for real, draft in drafts.items():
            with _writable(real):
                draft.replace(real)
    except BaseException:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()
        raise


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        why = getattr(error, "strerror", None) or error
        raise ReconcilerError(
            f"{path} cannot be written: {why}",
            "Nothing was changed there.",
            "Check the folder's permissions and the space left.",
        ) from None


def write_folder(folder: Path, texts: Mapping[Path, str]) -> None:
    """Creates ``folder`` with these files, whose paths begin with it, or nothing. Raises ReconcilerError."""
    with _writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside it, so that the rename stays on one file system and is atomic: a reader never sees half an environment.
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            beside.chmod(0o755)
            for path, text in texts.items():
                inside = beside / path.relative_to(folder)
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.write_text(text, encoding="utf-8", newline="\n")
            beside.rename(folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise


class _Walker:
    """Walks an environment's folders; raises TopologyError if they hold too many files."""

    def __init__(self, environment: Path) -> None:
        self._environment, self._others = environment, 0

    def walk(
        self, folder: Path, denied: Callable[[OSError], None] | None = None
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As ``os.walk``."""
        for root, folders, names in os.walk(folder, onerror=denied):
            self._others += len(folders) + sum(not name.endswith(".yaml") for name in names)
            if self._others > MOST_OTHERS:
                problem = f"beside *.yaml, it holds more than {MOST_OTHERS:,} files and folders"
                why = "An environment is a folder of *.yaml files that declare clusters, not a home or a whole machine"
                todo = "Name the environment's folder"
                raise TopologyError((Problem("no-folder", Where(str(self._environment)), problem, why, todo),))
            yield root, folders, names


def _files(folder: Path, problems: list[Problem], checkout: Checkout | None) -> Iterator[Path]:
    """``*.yaml`` below the folder. Problems: files that look like YAML but are not read, and unreadable folders."""

    def denied(error: OSError) -> None:
        problems.append(_unreadable(Path(error.filename or folder), error))

    walker = _Walker(folder)
    for root, folders, names in walker.walk(folder, denied):
        here = Path(root)
        # Folders that git would treat as separate repositories: the folder itself, or one directly in it.
        if looks_like_repository(here):
            problems.append(_nested(here))
        for path in (here / name for name in (*folders, *names) if name.startswith(".")):
            own = checkout is not None and path.name == ".git" and Path(os.path.realpath(here)) == checkout.root
            if not own and (path.name.lower() == ".git" or looks_like_repository(path)):
                problems.append(_nested(path))
        # Hidden folders are an editor's or a tool's; os.walk does not enter what is taken out here.
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in (path for name in folders if (path := here / name).is_symlink()):
            if (leads_out := _leads_out(link, checkout)) is not None:
                problems.append(leads_out)
            elif any(name.endswith(".yaml") for _, _, below in walker.walk(link) for name in below):
                problem = f"the folder is a link to {link.readlink()}"
                why = "Links to folders are not followed, so its *.yaml files would be left out silently"
                todo = "Put the folder there, or link each of its files"
                problems.append(Problem("linked-folder", Where(str(link)), problem, why, todo))
        if not folders and not names and checkout is not None and _is_submodule(here, checkout):
            problem = "the folder is a git submodule that is not checked out here"
            why = (
                "What its files declare would look as if it were not wanted, and its repository is not the one that is"
                " reviewed"
            )
            todo = "Put its files into the repository, in place of the submodule"
            problems.append(Problem("not-fetched", Where(root), problem, why, todo))
        for path in (here / name for name in names if not name.startswith(".")):
            if path.suffix == ".yaml":
                yield path
            elif path.suffix.lower() in (".yml", ".yaml"):
                why = "Only *.yaml is read, so it would be left out silently"
                problem = f"the file ends in {path.suffix}"
                problems.append(Problem("wrong-extension", Where(str(path)), problem, why, "Rename it to .yaml"))


def _nested(path: Path) -> Problem:
    problem = "git takes it for a repository of its own"
    why = "The author of an edit would choose its history, and its configuration can name programs that git runs"
    todo = "Remove it, and put the files of a submodule into the repository around it"
    return Problem("nested-repository", Where(str(path)), problem, why, todo)


def _leads_out(path: Path, checkout: Checkout | None) -> Problem | None:
    """The problem of a link out of the repository: an edit could show any file of this machine to readers of a plan.
    None outside of a repository."""
    if checkout is None or Path(os.path.realpath(path)).is_relative_to(checkout.root):
        return None
    why = "Files of this machine are no part of the environment, and anyone who may edit it could read them"
    todo = "Put the file into the repository, or remove the link"
    problem = f"a link leads out of the repository {checkout.root}"
    return Problem("link-leads-out", Where(str(path)), problem, why, todo)


def _untracked(links: Sequence[Path], checkout: Checkout | None) -> Mapping[Path, Problem]:
    """Problems of links to untracked files, such as git's own files or ignored secrets. Empty outside of a
    repository."""
    if checkout is None:
        return {}
    real = {link: Path(os.path.realpath(link)) for link in links}
    names = {
        link: path.relative_to(checkout.root).as_posix()
        for link, path in real.items()
        if path.is_relative_to(checkout.root) and path.exists()
    }
    if not names:
        return {}
    unknown, todo = "", ""
    try:
        # Git is asked once for all links: it is a process each time.
        held = Repository(checkout).tracked(names.values())
    except ReconcilerError as error:
        held, unknown, todo = {}, f"and whether git tracks it is not known: {error.what}", error.todo.rstrip(".")
    why = "Anyone who may edit the environment could read files that are no part of it, such as secrets beside it"
    add = f"git -C {shlex.quote(str(checkout.root))} add"
    return {
        link: Problem(
            "untracked-link",
            Where(str(link)),
            f"a link leads to {name}, {unknown or 'which git does not track'}",
            why,
            todo or f"Remove the link{'' if name.startswith('.git/') else f', or: {add} {shlex.quote(name)}'}",
        )
        for link, name in names.items()
        if not held.get(name, "").startswith(REGULAR)
    }


def _is_submodule(path: Path, checkout: Checkout) -> bool:
    """Whether the surrounding repository lists ``path`` as a submodule in ``.gitmodules``."""
    try:
        text = read_given(checkout.root / ".gitmodules").decode("utf-8", "replace")
    except OSError:
        return False
    named = (line.partition("=") for line in text.splitlines())
    return any(
        key.strip() == "path" and checkout.root / value.strip(' "\t') == path.resolve() for key, _, value in named
    )


def _text(path: Path) -> str | Problem:
    """A file's text, or its problem. Pipes and devices are refused unread; invalid UTF-8 is reported with line and
    column."""
    if path.exists() and not path.is_file():
        why = "Reading it might never end"
        return Problem("unreadable", Where(str(path)), "is no regular file", why, "Put a text file there")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        where = Where(str(path), before.count(b"\n") + 1, len(before.rpartition(b"\n")[2].decode()) + 1)
        problem = f"byte {error.start}, 0x{error.object[error.start]:02X}, is not UTF-8"
        return Problem("not-utf8", where, problem, "YAML files are UTF-8 here", "Save the file as UTF-8")
    except OSError as error:
        return _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> Problem:
    problem = f"cannot be read: {error.strerror or type(error).__name__}"
    why = "A part that is left out would look as if its topics and flows were not wanted"
    todo = f"Fix or remove the link, which leads to {path.readlink()}" if path.is_symlink() else ""
    return Problem("unreadable", Where(str(path)), problem, why, todo or "Check the file's permissions")
