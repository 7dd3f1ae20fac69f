"""Run folders of two applications of one mirror: which of them copies, by files in both folders.

A mirror has a home folder and two run folders: the home itself and ``second`` in it. ``<home>/current`` names the one
whose application copies. A new application starts in the other folder, warms up, makes its folder the current one (the
point of no return, one rename), and goes on when its predecessor has left or is dead. An application that finds its
folder no longer current commits, leaves its lanes, writes ``left`` and ends. Fencing in Kafka stays the safety net.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SECOND = "second"
_POINTER, _PLACE, _LEFT, _DRIVER = "current", "place.json", "left", "driver.json"


def current(home: Path) -> Path:
    """The run folder of the application that copies, or that did so last."""
    try:
        named = (home / _POINTER).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return home
    return home / SECOND if named == SECOND else home


def other(home: Path) -> Path:
    """The run folder for a new application beside the current one."""
    return home if current(home) == home / SECOND else home / SECOND


def make_current(home: Path, run_folder: Path) -> None:
    """In one step: a reader sees the old name or the new one."""
    draft = home / f".{_POINTER}.{os.getpid()}"
    draft.write_text(SECOND if run_folder == home / SECOND else ".", encoding="utf-8")
    draft.replace(home / _POINTER)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where an application runs. ``needs``: the flows its predecessor copies, which must be ready before it is
    replaced. Without a home (started manually) it is always current."""

    run_folder: Path
    home: Path | None = None
    needs: tuple[str, ...] = ()

    def is_current(self) -> bool:
        """Also where the folders are gone or cannot be read: that is no word of a successor."""
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
        """It said so, or its driver is dead."""
        before = self.predecessor
        return before is None or (before / _LEFT).exists() or not alive(_read(before / _DRIVER).get("pid"))

    def leave(self) -> None:
        """Signals a successor that no lane of ours is at work any more."""
        (self.run_folder / _LEFT).touch()


def settle(run_folder: Path, home: Path, needs: tuple[str, ...]) -> None:
    """Prepares a run folder for an application that is about to start there, and makes sure that one is named."""
    if not pointed(home):
        make_current(home, current(home))
    (run_folder / _LEFT).unlink(missing_ok=True)
    text = json.dumps({"home": str(home), "needs": list(needs)})
    (run_folder / _PLACE).write_text(text, encoding="utf-8")


def place_of(run_folder: Path) -> RunPlace:
    place = _read(run_folder / _PLACE)
    home, needs = place.get("home"), place.get("needs")
    if not isinstance(home, str):
        return RunPlace(run_folder)
    return RunPlace(run_folder, Path(home), tuple(map(str, needs)) if isinstance(needs, list) else ())


def pointed(home: Path) -> bool:
    """Whether it is known which run folder is the current one; not so where the folders were removed."""
    try:
        return bool((home / _POINTER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
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
    except ProcessLookupError:
        return False
    except OSError:  # of another user, or it cannot be known: then it is not taken for dead
        return True


def write_json(path: Path, value: object) -> None:
    """Replaces the file in one step, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value), encoding="utf-8")
    draft.replace(path)


def _read(path: Path) -> Mapping[str, object]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
