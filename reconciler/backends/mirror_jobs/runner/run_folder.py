"""Run folders of mirror jobs on this machine: their paths, files and processes."""

import contextlib
import os
import shlex
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.backends.files import make_private
from reconciler.backends.mirror_jobs.runner.processes import is_running, works_in
from reconciler.backends.repository import Repository, can_ask, checkout_around
from reconciler.errors import ReconcilerError
from reconciler.replication.kept_files import read_kept, read_object
from reconciler.text import first_of

SUPERVISOR = "reconciler.backends.mirror_jobs.runner.supervisor"
SUPERVISOR_MARKS = (SUPERVISOR, "reconciler.edges.supervisor")
"""By which a supervisor's command line is known: ours, and that of the release before, whose jobs may still run."""


PRIVATE = 0o077
"""The permissions that other users do not get (umask)."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """``<state folder>/<mirror>`` or ``second`` in it: the same from wherever the CLI is called."""

    path: Path

    def read(self, name: str) -> Mapping[str, object]:
        return read_object(self.path / name)

    def number(self, name: str, key: str) -> int | None:
        value = self.read(name).get(key)
        return value if type(value) is int else None

    def word(self, name: str, key: str) -> str:
        return str(self.read(name).get(key) or "")

    def a_flow(self) -> str:
        """One of the flows of its hand-over, by which commands name its mirror."""
        flows = self.read("handover.json").get("flows")
        first = flows[0] if isinstance(flows, list) and flows else None
        return str(first.get("name")) if isinstance(first, dict) else "FLOW"

    def log_tail(self, lines: int = 12) -> str:
        try:
            text = read_kept(self.path / "job.log", None, "replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])

    def supervisor_pid(self) -> int | None:
        pid = self.number("supervisor.json", "pid")
        return pid if is_running(pid, *SUPERVISOR_MARKS) and works_in(pid, self.path) else None

    def driver_pid(self, reported: int | None = None) -> int | None:
        """The Spark driver's process here, by the folder or by what the job itself ``reported``."""
        for pid in (self.number("driver.json", "pid"), reported):
            if works_in(pid, self.path):
                return pid
        return None

    def has_lost(self, application_id: str | None, reported: int | None) -> bool:
        """Whether this very application ran here, and its process is gone: its next word need not be waited for."""
        here = "" if self.follows_elsewhere() else self.word("driver.json", "application_id")
        return bool(here) and here == application_id and self.driver_pid(reported) is None

    def follows_elsewhere(self) -> bool:
        """Whether the driver runs on a machine of the cluster: then the process here only follows it, and the loss of
        one says nothing of the other."""
        return bool(self.read("driver.json").get("driver"))

    def asked_at_ms(self) -> int | None:
        """When the application was asked for that a supervisor keeps here, in ms since 1970."""
        return self.number("asked.json", "at_ms")

    def pids(self, reported: int | None = None) -> list[int]:
        return [pid for pid in (self.supervisor_pid(), self.driver_pid(reported)) if pid is not None]


class _Umask:
    """The umask is the process's: the first user of it here changes it, and the last one puts it back."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._users = self._before = 0

    def enter(self) -> None:
        with self._guard:
            if self._users == 0:
                self._before = os.umask(PRIVATE)
            self._users += 1

    def leave(self) -> None:
        with self._guard:
            self._users -= 1
            if self._users == 0:
                os.umask(self._before)


_umask = _Umask()


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Files and folders made meanwhile are for this user alone: definitions and logs name clusters and records.
    Threads may be in it at the same time."""
    _umask.enter()
    try:
        yield
    finally:
        _umask.leave()


def state_folder(environment_folder: Path) -> Path:
    """Where runs of an environment live: under ``$RECONCILER_STATE`` where that is set, else beside the environment.

    Git ignores it by its own ``.gitignore``. A checkout that CI clears needs the first: mirror jobs outlive it.
    Where it cannot be made, only those who write there notice (``required``). Raises ReconcilerError where git tracks
    a part of it: an edit would choose which processes are signalled and which definitions run.
    """
    folder = environment_folder.resolve()
    asked = os.environ.get("RECONCILER_STATE")
    root = Path(asked) if asked else folder.parent / ".reconciler"
    # Pids and command lines in that folder are acted upon, so it must not come from a commit.
    if not asked and os.path.lexists(root):
        checkout = checkout_around(root.parent)
        if checkout is not None and can_ask():
            name = root.relative_to(checkout.root).as_posix()
            if tracked := Repository(checkout).tracked([name]):
                raise ReconcilerError(
                    f"git tracks {first_of(tuple(tracked), 3)}, in the folder where commands keep their state",
                    "An edit could choose which processes are signalled and which definitions of jobs run.",
                    f"Review who added it, then: git -C {shlex.quote(str(checkout.root))} rm -r --cached "
                    f"{shlex.quote(name)}. Or keep state outside of the repository: RECONCILER_STATE=FOLDER.",
                )
    with contextlib.suppress(OSError), private_files():
        if asked:
            make_private(root)
        else:
            root.mkdir(exist_ok=True)
        ignore = root / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    return root.resolve() / folder.name  # the folder is on the job's command line, by which it is found again


def required(state: Path) -> Path:
    """``state``, or a folder below it, made. Raises ReconcilerError."""
    try:
        make_private(state)
    except OSError as error:
        raise ReconcilerError(
            f"the folder {state} cannot be made: {error.strerror or error}",
            "The lock, the audit record and the runs of mirrors are kept there. Nothing was started.",
            "Let this user write there, or name another place: RECONCILER_STATE=FOLDER in the environment.",
        ) from None
    return state
