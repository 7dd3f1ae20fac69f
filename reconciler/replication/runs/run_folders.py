"""Run folders of two applications of one mirror; files in both folders show which application copies.

A mirror has a home folder and two run folders: the home itself and ``second`` in it. ``<home>/current`` names the one
with the application that copies. A new application starts in the other folder, warms up, makes its folder the current
one (the point of no return, one rename), and goes on when its predecessor has left or is dead. An application that
finds its folder no longer current commits, leaves its lanes, writes ``left`` and ends. Fencing in Kafka stays the
safety net.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.replication.handover import HandoverError
from reconciler.replication.kept_files import read_json, read_kept, read_object, reason, write_json

SECOND = "second"
HANDOVER, GOAL = "handover.json", "goal.json"
PLACE = "place.json"
_POINTER, _LEFT, _DRIVER = "current", "left", "driver.json"
_AGAIN = "Write it again with reconciler apply ENV."


def current(home: Path) -> Path:
    """The run folder of the application that copies, or that did so last."""
    try:
        named = read_kept(home / _POINTER).strip()
    except OSError:
        return home
    return home / SECOND if named == SECOND else home


def other(home: Path) -> Path:
    """The run folder for a new application beside the current one."""
    return home if current(home) == home / SECOND else home / SECOND


def make_current(home: Path, run_folder: Path) -> None:
    """Sets the current folder atomically: a reader sees the old name or the new one."""
    draft = home / f".{_POINTER}.{os.getpid()}"
    draft.write_text(SECOND if run_folder == home / SECOND else ".", encoding="utf-8")
    draft.replace(home / _POINTER)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The run folder of an application. ``needs``: flows of its predecessor, which must be ready before the takeover.
    Without a home (started manually) it is always current."""

    run_folder: Path
    home: Path | None = None
    needs: tuple[str, ...] = ()

    def is_current(self) -> bool:
        """Whether this application is the current one; True for missing or unreadable folders, which prove no
        successor."""
        return self.home is None or not pointed(self.home) or current(self.home) == self.run_folder

    def take(self) -> None:
        if self.home is not None:
            make_current(self.home, self.run_folder)

    @property
    def predecessor(self) -> Path | None:
        if self.home is None:
            return None
        return self.home if self.run_folder == self.home / SECOND else self.home / SECOND

    def predecessor_left(self) -> bool:
        """Whether the predecessor has reported its end, or its driver is dead."""
        before = self.predecessor
        return before is None or (before / _LEFT).exists() or not alive(read_object(before / _DRIVER).get("pid"))

    def leave(self) -> None:
        """Signals a successor that no lane of ours is at work any more."""
        (self.run_folder / _LEFT).touch()


def settle(run_folder: Path, home: Path, needs: tuple[str, ...]) -> None:
    """Prepares a run folder, which has its hand-over, for an application that is about to start there, and makes sure
    that one is named."""
    if not pointed(home):
        make_current(home, current(home))
    (run_folder / _LEFT).unlink(missing_ok=True)
    files = (run_folder / HANDOVER, run_folder / GOAL)
    written = {file.name: _digest(read_kept(file)) for file in files if file.exists()}
    write_json(run_folder / PLACE, {"home": str(home), "needs": list(needs), "written": written})


def written(run_folder: Path, name: str) -> str | None:
    """The text of ``HANDOVER`` or ``GOAL``; None for a job without a goal. Raises HandoverError if the file is
    unreadable, or was edited since, and so is not the reviewed one."""
    place = _place(run_folder)
    digests, file = place.get("written"), run_folder / name
    wanted = digests.get(name) if isinstance(digests, dict) else None
    try:
        text = read_kept(file)
    except OSError as error:
        if name == GOAL and wanted is None and isinstance(error, FileNotFoundError) and not file.is_symlink():
            return None
        raise HandoverError(f"{file} cannot be read: {reason(error)}. {_AGAIN}") from None
    # A folder of an older release has no digests, and its job must be able to start again.
    if isinstance(digests, dict) and wanted != (real := _digest(text)):
        was = f"{wanted:.16} was written" if isinstance(wanted, str) else "none was written"
        raise HandoverError(
            f"{file} is not as it was written: its SHA-256 is {real:.16}, and {was}. What was reviewed is not what "
            f"would run. {_AGAIN}"
        )
    return text


def is_as_written(run_folder: Path) -> bool:
    """Whether a job could start from the folder."""
    try:
        if _place(run_folder):
            for name in (HANDOVER, GOAL):
                written(run_folder, name)
    except HandoverError:
        return False
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _place(run_folder: Path) -> Mapping[str, object]:
    """The current folder's name; empty for a manually started application. Raises HandoverError."""
    file = run_folder / PLACE
    try:
        place = read_json(file)
    except (OSError, ValueError) as error:
        ours = any((folder / _POINTER).exists() for folder in (run_folder, run_folder.parent))
        if isinstance(error, FileNotFoundError) and not file.is_symlink() and not ours:
            return {}
        raise HandoverError(
            f"{file}, which names the mirror's folders, cannot be read: {reason(error)}. {_AGAIN}"
        ) from None
    if not isinstance(place, dict) or not isinstance(place.get("home"), str):
        raise HandoverError(f"{file} names no home, so beside which application it runs is not known. {_AGAIN}")
    return place


def place_of(run_folder: Path) -> RunPlace:
    """Raises HandoverError."""
    place = _place(run_folder)
    home, needs = place.get("home"), place.get("needs")
    if not isinstance(home, str):
        return RunPlace(run_folder)
    return RunPlace(run_folder, Path(home), tuple(map(str, needs)) if isinstance(needs, list) else ())


def pointed(home: Path) -> bool:
    """Whether it is known which run folder is the current one; not so where the folders were removed."""
    try:
        return bool(read_kept(home / _POINTER))
    except OSError:
        return False


def alive(pid: object) -> bool:
    """Whether such a process runs here. A zombie that was not reaped yet is dead."""
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # no /proc here: the signal said that it runs
    except (ProcessLookupError, OverflowError):  # no process has a number as large
        return False
    except OSError:  # of another user, or it cannot be known: then it is not taken for dead
        return True
