"""Sees what the program touches while it works on an environment: files, processes, sockets, code.

Python reports it to audit hooks (PEP 578). A hook stays for the life of the process; this one looks only while it is
asked to, and on the thread that asked.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.e2e.hostile.words import CANARY
from tests.support.paths import ROOT

SECONDS = 5.0
_WAITS_S = 240.0
_STARTS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.", "os.startfile")
_CONNECTS = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "ssl.")
_CHANGES = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "os.putenv", "os.unsetenv", "os.chdir", "shutil.", "tempfile.",
)  # fmt: skip
_LOADS = ("ctypes.", "pickle.", "code.__new__", "function.__new__")
_LISTS = ("os.listdir", "os.scandir", "os.walk", "glob.")
# A module that is imported by its name from YAML would be one of these
_NEVER_IMPORTED = frozenset(
    {"antigravity", "this", "evil", "hostile", "sitecustomize", "idlelib", "turtledemo", "venv", "conftest"}
)
_OWN = tuple(
    os.path.realpath(place)
    for place in {str(ROOT), sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/usr/share/zoneinfo"}
)


class TooLongError(BaseException):
    """Not caught by what catches exceptions."""


@dataclass
class Watched:
    """``seconds`` of CPU of this process; ``touched``: what an environment must not bring about."""

    folder: Path
    touched: list[str] = field(default_factory=list)
    seconds: float = 0.0


_state = threading.local()
_installed = False


def _hook(event: str, args: tuple[Any, ...]) -> None:
    watched: Watched | None = getattr(_state, "watched", None)
    if watched is None:
        return
    _state.watched = None  # what is asked here is not the program's
    try:
        if fault := _fault(watched.folder, event, args):
            frames = traceback.extract_stack()[-6:-2]
            by = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
            watched.touched.append(f"{event}: {fault} by {by}")
    finally:
        _state.watched = watched


def _fault(folder: Path, event: str, args: tuple[Any, ...]) -> str:
    if event == "open":
        return _opened(folder, *args[:3])
    if event.startswith(_LISTS):
        return "" if _within(args[0], str(folder)) or _within(args[0], *_OWN) else repr(args[0])
    if event == "compile":
        return f"source with {CANARY}" if CANARY in str(args[0]) or _within(args[1], str(folder)) else ""
    if event == "exec":
        return _executed(folder, args[0])
    if event == "subprocess.Popen" and _is_our_git(folder, args[1], args[2]):
        return ""
    if event in ("os.putenv", "os.unsetenv") and args[0] == b"PYDANTIC_DISABLE_PLUGINS":  # Typer's, each time
        return ""
    return repr(args)[:200] if event.startswith((*_STARTS, *_CONNECTS, *_CHANGES, *_LOADS)) else ""


def _is_our_git(folder: Path, command: object, cwd: object) -> bool:
    """At the root of the repository, with what an edit could steer off."""
    words = list(map(os.fsdecode, command)) if isinstance(command, list) else []
    own = {"env", "git", "core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"}
    at = words[words.index("git") :] if "git" in words else []
    discovers = not any(word.startswith("--git-dir=") for word in at) and "rev-parse" not in at
    return words[:1] == ["env"] and own <= set(words) and os.path.realpath(str(cwd)) == str(folder) and not discovers


def _opened(folder: Path, path: object, mode: object, flags: object) -> str:
    if isinstance(path, int):
        return ""
    if path in (os.devnull, tempfile.gettempdir()):
        return ""  # to and from git; a folder that is opened for writing gets a file without a name
    writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if writes and not str(path).endswith(".pyc") and ".pyc." not in str(path):
        return f"{path!r} for writing ({mode!r})"
    return "" if _within(path, str(folder)) or _within(path, *_OWN) else repr(path)


def _executed(folder: Path, code: object) -> str:
    if isinstance(code, CodeType) and (_within(code.co_filename, str(folder)) or CANARY in repr(code.co_consts)):
        return code.co_filename
    return ""


def _within(path: object, *places: str) -> bool:
    """Where links lead."""
    if not isinstance(path, (str, bytes, os.PathLike)) or str(path).startswith("<"):  # "<string>" is no file
        return False
    real = os.path.realpath(os.fsdecode(path))
    return any(real == place or real.startswith(place + os.sep) for place in places)


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """Raises TooLongError within, for what takes twice as long as it may, or waits for something that never comes."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True

    def too_long(_: int, frame: FrameType | None) -> None:
        raise TooLongError(f"more than {2 * SECONDS} s of CPU, or {_WAITS_S} s: {frame}")

    before = {number: signal.signal(number, too_long) for number in (signal.SIGVTALRM, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_VIRTUAL, 2 * SECONDS)
    signal.setitimer(signal.ITIMER_REAL, _WAITS_S)
    seen, began = Watched(Path(os.path.realpath(folder))), time.process_time()
    modules = set(sys.modules)
    _state.watched = seen
    try:
        yield seen
    finally:
        _state.watched = None
        for name in sys.modules.keys() - modules:  # the hook hears of import statements only
            if name.partition(".")[0] in _NEVER_IMPORTED or name.endswith("__main__"):
                seen.touched.append(f"imported {name}")
                del sys.modules[name]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        seen.seconds = time.process_time() - began
        for number, handler in before.items():
            signal.signal(number, handler)
