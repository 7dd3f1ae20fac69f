"""Run folders of mirror jobs on this machine: their paths, files and processes."""

import contextlib
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.backends.files import make_private
from reconciler.backends.repository import Repository, can_ask, checkout_around
from reconciler.errors import ReconcilerError
from reconciler.replication.kept_files import read_kept, read_object
from reconciler.text import BRIEF, first_of

SUPERVISOR = "reconciler.backends.mirror_jobs.runner.supervisor"
SUPERVISOR_MARKS = (SUPERVISOR, "reconciler.edges.supervisor")
"""Marks of a supervisor's command line: ours, and the last release's, since its jobs may still run."""


PRIVATE = 0o077
"""Permissions withheld from other users (umask)."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """``<state folder>/<mirror>`` or ``second`` in it, independent of the working directory."""

    path: Path

    def read(self, name: str) -> Mapping[str, object]:
        return read_object(self.path / name)

    def number(self, name: str, key: str) -> int | None:
        value = self.read(name).get(key)
        return value if type(value) is int else None

    def word(self, name: str, key: str) -> str:
        return str(self.read(name).get(key) or "")

    def a_flow(self) -> str:
        """A flow of its hand-over, for commands in messages."""
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
        """Pid of the Spark driver on this machine, from the folder or as the job ``reported`` it."""
        for pid in (self.number("driver.json", "pid"), reported):
            if works_in(pid, self.path):
                return pid
        return None

    def has_lost(self, application_id: str | None, reported: int | None) -> bool:
        """Whether this application ran here and its process has ended, so that it will never report again."""
        here = "" if self.follows_elsewhere() else self.word("driver.json", "application_id")
        return bool(here) and here == application_id and self.driver_pid(reported) is None

    def follows_elsewhere(self) -> bool:
        """Whether the driver runs on a machine of the cluster: then the process here only follows it, and neither
        proves anything about the other."""
        return bool(self.read("driver.json").get("driver"))

    def asked_at_ms(self) -> int | None:
        """Time in ms when the supervised application was requested."""
        return self.number("asked.json", "at_ms")

    def pids(self, reported: int | None = None) -> list[int]:
        return [pid for pid in (self.supervisor_pid(), self.driver_pid(reported)) if pid is not None]


_guard = threading.Lock()
_umasks: list[int] = []
"""One for each block of ``private_files`` that is open, each as it was before. The umask is global to the process, so
the block that ends last, in whichever thread, restores the first."""


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Within the block, new files and folders are for this user alone, because definitions and logs name clusters and
    records. Thread-safe."""
    with _guard:
        _umasks.append(os.umask(PRIVATE))
    try:
        yield
    finally:
        with _guard:
            before = _umasks.pop()
            if not _umasks:
                os.umask(before)


def state_folder(environment_folder: Path) -> Path:
    """The folder for runs of an environment: below ``$RECONCILER_STATE`` if that is set, else beside the environment.

    Its own ``.gitignore`` hides it from git. CI that clears its checkout needs the variable, since mirror jobs outlive
    a checkout. A folder that cannot be created fails only on writing (``required``). Raises ReconcilerError if git
    tracks a part of it: an edit could then choose processes to signal and definitions to run.
    """
    folder = environment_folder.resolve()
    asked = os.environ.get("RECONCILER_STATE")
    root = Path(asked) if asked else folder.parent / ".reconciler"
    # This program signals pids and runs command lines from that folder, so it must not come from a commit.
    if not asked and os.path.lexists(root):
        checkout = checkout_around(root.parent)
        if checkout is not None and can_ask():
            name = root.relative_to(checkout.root).as_posix()
            if tracked := Repository(checkout).tracked([name]):
                raise ReconcilerError(
                    f"git tracks {first_of(tuple(tracked), BRIEF)}, in the folder where commands keep their state",
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
    return root.resolve() / folder.name  # the job's command line contains the folder, which identifies it


def required(state: Path) -> Path:
    """Creates ``state``, or a folder below it, and returns it. Raises ReconcilerError."""
    try:
        make_private(state)
    except OSError as error:
        raise ReconcilerError(
            f"the folder {state} cannot be made: {error.strerror or error}",
            "The lock, the audit record and the runs of mirrors are kept there. Nothing was started.",
            "Let this user write there, or name another place: RECONCILER_STATE=FOLDER in the environment.",
        ) from None
    return state


# Processes of this machine, identified by pid and command line, since pids are reused.


def command_line(pid: int) -> str:
    """The command line of a running process; empty if there is none (a zombie counts as none)."""
    proc = Path(f"/proc/{pid}")
    if Path("/proc/self").exists():
        try:
            if (proc / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return ""
            return (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()


def is_running(pid: int | None, *marks: str) -> bool:
    """Whether ``pid`` runs with one of ``marks`` in its command line."""
    if pid is None:
        return False
    words = command_line(pid)
    return any(mark in words for mark in marks)


def works_in(pid: int | None, folder: Path) -> bool:
    """Whether ``pid`` runs with exactly ``folder`` as one of its arguments."""
    return pid is not None and f" {folder} " in f" {command_line(pid)} "


def terminate(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
