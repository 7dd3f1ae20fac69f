"""Reads the YAML files of an environment folder; writes text files atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reconciler.errors import Problem, ReconcilerError, TopologyError, Where

_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)


def read_environment(folder: Path) -> Mapping[str, str]:
    """The text of every ``*.yaml`` in ``folder`` and below it, by its path; names that begin with a dot are not read.

    Raises TopologyError with all problems: no such folder, no file, unreadable, not UTF-8, ``.yml`` for ``.yaml``.
    """
    texts, problems = read_readable(folder)
    if problems:
        raise TopologyError(problems)
    return texts


def read_readable(folder: Path) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """As ``read_environment``, with what can be read in spite of the problems, so that all can be told at once."""
    if not folder.is_dir():
        problem = f"{folder} is {'a file, not a folder' if folder.exists() else 'not there'}"
        why = "An environment is a folder with *.yaml files"
        return {}, (Problem("no-folder", Where(str(folder)), problem, why, "Check the path"),)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    repository = _repository(folder)
    if (leads_out := _leads_out(folder, repository)) is not None:
        return {}, (leads_out,)
    for path in sorted(_files(folder, problems, repository)):
        read = _misnamed(path) or _leads_out(path, repository) or _text(path)
        if isinstance(read, Problem):
            problems.append(read)
        else:
            texts[str(path)] = read
    if not texts and not problems:
        problem = "the environment has no *.yaml file"
        why = "An empty environment would mean that nothing is wanted any more"
        problems.append(Problem("no-files", Where(str(folder)), problem, why, "Check the folder's name"))
    return texts, tuple(problems)


def environment_name(folder: Path) -> str:
    """Its own, whatever link leads to it, and whether it is there or not. Never raises."""
    return Path(os.path.realpath(folder)).name  # Path.resolve raises where links lead to each other, before Python 3.13


def write_text(path: Path, text: str) -> None:
    """Writes ``path`` whole or leaves it as it was: a reader never sees half a file. Raises ReconcilerError.

    A link stays a link, and permissions stay as they were; a new file is for this user alone. A pipe or terminal is
    simply written to.
    """
    with _writable(path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            return
    write_texts({path: text}, permissions=0o600)


def make_private(folder: Path) -> None:
    """Makes ``folder`` and what is missing above it for this user alone. Raises OSError.

    By its mode, not by the umask: that one belongs to the whole process, and another thread may put it back meanwhile.
    """
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def write_texts(texts: Mapping[Path, str], permissions: int = 0o666) -> None:
    """Writes all of them or none, as ``write_text`` writes one: what fails does so before the first is put in place.
    ``permissions``: of new files, less the umask."""
    drafts: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            with _writable(path):
                real = path.resolve()
                real.parent.mkdir(parents=True, exist_ok=True)
                drafts[real] = real.parent / f".{real.name}.{secrets.token_hex(4)}"
                _draft(drafts[real], text, real, permissions)
        for real, draft in drafts.items():
            with _writable(real):
                draft.replace(real)
    except BaseException:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()
        raise


def _draft(draft: Path, text: str, path: Path, permissions: int) -> None:
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    with open(opened, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123 - a descriptor
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        draft.chmod(path.stat().st_mode & 0o777)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to each other
        why = getattr(error, "strerror", None) or error
        raise ReconcilerError(
            f"{path} cannot be written: {why}",
            "Nothing was changed there.",
            "Check the folder's permissions and the space left.",
        ) from None


def write_folder(folder: Path, texts: Mapping[Path, str]) -> None:
    """Makes ``folder`` with these files, whose paths begin with it, or leaves nothing. Raises ReconcilerError."""
    folder_beside: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder_beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        folder_beside.chmod(0o755)
        for path, text in texts.items():
            inside = folder_beside / path.relative_to(folder)
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.write_text(text, encoding="utf-8", newline="\n")
        folder_beside.rename(folder)
    except OSError as error:
        raise ReconcilerError(
            f"{folder} cannot be written: {error.strerror or error}",
            "Nothing was changed there.",
            "Check the folder's permissions and the space left.",
        ) from None
    finally:
        if folder_beside is not None and folder_beside.exists():
            shutil.rmtree(folder_beside, ignore_errors=True)


def _files(folder: Path, problems: list[Problem], repository: Path | None) -> Iterator[Path]:
    """``*.yaml`` below the folder; what looks like YAML but is not read, and what cannot be listed, is a problem."""

    def denied(error: OSError) -> None:
        problems.append(_unreadable(Path(error.filename or folder), error))

    for root, folders, names in os.walk(folder, onerror=denied):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in (path for name in folders if (path := Path(root) / name).is_symlink()):
            if (leads_out := _leads_out(link, repository)) is not None:
                problems.append(leads_out)
            elif _is_linked_part(link):
                problems.append(_linked(link))
        if not folders and not names and _is_submodule(Path(root)):
            problems.append(_not_fetched(Path(root)))
        for name in names:
            path = Path(root) / name
            if name.startswith("."):
                continue
            if path.suffix == ".yaml":
                yield path
            elif path.suffix.lower() in (".yml", ".yaml"):
                problem = f"the file ends in {path.suffix}"
                why = "Only *.yaml is read, so it would be left out silently"
                problems.append(Problem("wrong-extension", Where(str(path)), problem, why, "Rename it to .yaml"))


def _repository(folder: Path) -> Path | None:
    """The outermost repository around ``folder``, as it is written or where its links lead."""
    named, real = Path(os.path.abspath(folder)), Path(os.path.realpath(folder))  # noqa: PTH100 - links stay links
    for begin in (named, real):
        around = [Path(os.path.realpath(above)) for above in (begin, *begin.parents) if (above / ".git").exists()]
        if around:
            return around[-1]
    return None


def _leads_out(path: Path, root: Path | None) -> Problem | None:
    """A link of an edit could show any file of this machine to its readers. None outside of a repository."""
    if root is None or Path(os.path.realpath(path)).is_relative_to(root):
        return None
    why = "Files of this machine are no part of the environment, and whoever may edit it could read them"
    todo = "Put the file into the repository, or remove the link"
    return Problem("link-leads-out", Where(str(path)), f"a link leads out of the repository {root}", why, todo)


def _is_linked_part(path: Path) -> bool:
    return any(name.endswith(".yaml") for _, _, names in os.walk(path) for name in names)


def _linked(path: Path) -> Problem:
    problem = f"the folder is a link to {path.readlink()}"
    why = "Links to folders are not followed, so its *.yaml files would be left out silently"
    return Problem("linked-folder", Where(str(path)), problem, why, "Put the folder there, or link each of its files")


def _is_submodule(path: Path) -> bool:
    """Whether the repository around names ``path`` as a submodule, by its file ``.gitmodules``."""
    path = path.resolve()
    root = next((above for above in path.parents if (above / ".git").exists()), None)
    try:
        text = (root / ".gitmodules").read_text("utf-8", "replace") if root else ""
    except OSError:
        return False
    return any(root and root / line.strip(' "') == path for line in _SUBMODULE.findall(text))


def _not_fetched(path: Path) -> Problem:
    problem = "the folder is a git submodule that is not checked out here"
    why = "It is empty, so what its files declare would look as if it were not wanted"
    how = "git submodule update --init; in a workflow: actions/checkout with submodules: true"
    return Problem("not-fetched", Where(str(path)), problem, why, how)


def _misnamed(path: Path) -> Problem | None:
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        problem, why = (
            "the path is not UTF-8",
            "Plans, records and the lock hold the names of folder and files as UTF-8",
        )
        return Problem("not-utf8", Where(str(path)), problem, why, "Rename the folder or file")
    return None


def _text(path: Path) -> str | Problem:
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
