"""The lock of an environment: a record with a lease in Kafka, renewed by compare-and-set (decision 21), or a file.

The file keeps runs on one host apart; a killed holder releases it by itself.
"""

import contextlib
import fcntl
import getpass
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.processes import command_line
from reconciler.backends.mirror_jobs.runner.run_folder import private_files, required
from reconciler.backends.state.records import LockLog
from reconciler.errors import ClusterError, LockHeld, ReconcilerError
from reconciler.model.environment.topology import Cluster
from reconciler.model.state import lock
from reconciler.replication.json_codec import parsed
from reconciler.replication.records.compacted_topic import RecordFencedError

ATTEMPTS = 5
"""Contenders that look at the same moment fence each other; one of them comes through."""
ACTORS = ("RECONCILER_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
"""Variables that name the person behind a CI job, whose user is the same for everybody."""


def this_process(purpose: str) -> lock.Holder:
    who = next((os.environ[name] for name in ACTORS if os.environ.get(name)), "")
    if not who:
        try:
            who = getpass.getuser()
        except (KeyError, OSError):
            who = "an unnamed user"
    # This boot of this machine and this process namespace; empty where the system does not expose it.
    place = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        place = f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - this reads the text of the link
    host, pid = socket.gethostname(), os.getpid()
    return lock.Holder(
        id=uuid.uuid4().hex, who=who, host=host, pid=pid, place=place, purpose=purpose, since_ms=_now_ms()
    )


class KafkaLock:
    """``take`` it, ask ``lost`` before each step, ``release`` it. Renews itself on a thread while it is held."""

    def __init__(
        self,
        cluster: Cluster,
        environment: str,
        holder: lock.Holder,
        lease_ms: int = lock.LEASE_MS,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.environment = environment
        self.holder = holder
        self.lease_ms = lease_ms
        self.steal: lock.Steal | None = None
        self._log = LockLog(
            cluster, lock.LOCK_TOPIC, lock.lock_key(environment), lock.transactional_id(environment), progress=progress
        )
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        # Until when (monotonic) the lock counts as ours without a renewal; guarded by ``_mutex``, since the renewer's
        # thread and the run both look.
        self._until = 0.0
        self.gone = ""
        """Why it is someone else's now; once said, it stays."""
        self.cut_off = ""
        """Why it could not be renewed while it still counted; ends when it can be renewed and is still ours."""

        def renew_on_time() -> None:
            while not self._ended.wait(self.lease_ms / 3000):
                self.lost()
                if self.gone:
                    return

        self._renewer = threading.Thread(target=renew_on_time, name="lock", daemon=True)

    def take(self, reason: str = "") -> None:
        """``reason``: take it from any holder. Raises LockHeld, ClusterError, BlockedError."""
        try:
            self._log.open()
            if not reason:
                self._refuse_live(self._read())
            # Compare-and-set: fence, read, write. InitProducerId of the lock's transactional id makes every write fail
            # that another run has begun before, so what is read after the fence is what this write replaces. A run that
            # fences in between makes this one fail, and it looks again.
            for _ in range(ATTEMPTS):
                self._log.fence()
                lock_record = self._read()
                if not reason:
                    self._refuse_live(lock_record)
                before = lock_record.holder if lock_record is not None else None
                if reason and before is not None and before.id != self.holder.id:
                    self.steal = lock.Steal(before.who, before.host, before.pid, before.purpose, reason)
                with contextlib.suppress(RecordFencedError):  # another run came between
                    self._write()
                    self._renewer.start()
                    return
            raise LockHeld(
                f"the lock of environment {self.environment} is asked for by several at once",
                "Each of them was overtaken by another.",
                "Wait a moment, then run the command again.",
            )
        except BaseException:
            self._log.close()
            raise

    def lost(self) -> str:
        """Renews, and returns why no further step may begin, or empty."""
        with self._mutex:
            if not self.gone:
                self.gone, self.cut_off = self._renew()
            return self.lost_because

    def keep(self, key: str, value: bytes) -> str:
        """Writes another record of the environment while the lock is ours. Why it could not, or empty."""
        with self._mutex:
            for _ in range(ATTEMPTS):
                if self.lost_because:
                    break
                try:
                    self._log.write(value, key)
                    return ""
                except RecordFencedError:
                    self.gone, self.cut_off = self._renew()
                except ClusterError as error:
                    return error.what
            return self.lost_because or "the lock is asked for by several at once"

    @property
    def lost_because(self) -> str:
        """What ``lost`` last said."""
        return self.gone or self.cut_off

    def release(self, moved: bool = False) -> None:
        """Gives the lock back at once; if that fails, its lease ends by itself. Never raises.

        The record stays, with no time left: the former holder can read who took it and why. ``moved``: no record
        stays, because the lock is held elsewhere.
        """
        self._ended.set()
        if self._renewer.is_alive():
            self._renewer.join()
        with self._mutex, contextlib.suppress(ClusterError, RecordFencedError):
            if not self.gone:
                given_back = None if moved else lock.dumps(lock.LockRecord(self.holder, _now_ms(), 0, self.steal))
                try:
                    self._log.write(given_back)
                except RecordFencedError:  # another command looked, or a renewal was interrupted
                    self._log.fence()
                    if not self._taken_over():
                        self._log.write(given_back)
        self._log.close()

    def _write(self) -> None:
        """Counts from before the write: what others see is never older than what we believe."""
        began = time.monotonic()
        self._log.write(lock.dumps(lock.LockRecord(self.holder, _now_ms(), self.lease_ms, self.steal)))
        self._until = began + self.lease_ms / 1000

    def _read(self) -> lock.LockRecord | None:
        """The record as it is, None where the lock is free. Raises LockHeld for one of a newer release, which must not
        be taken for free."""
        value = self._log.read()
        if value is None:
            return None
        try:
            return lock.loads(value)
        except ValueError as error:
            raise LockHeld(
                f"the lock of environment {self.environment} cannot be understood: {error}",
                "Another version of this program may hold it.",
                "Use that version, or take the lock with --steal-lock REASON.",
            ) from None

    def _refuse_live(self, lock_record: lock.LockRecord | None) -> None:
        now = _now_ms()
        if lock_record is None or lock_record.holder.id == self.holder.id or lock_record.left_ms(now) <= 0:
            return
        # A holder of this boot and process namespace whose process is gone was killed: its lease need not run out.
        place = lock_record.holder.place
        if place and place == self.holder.place and not command_line(lock_record.holder.pid):
            return
        stolen = f", taken from {lock_record.steal.who} ({lock_record.steal.reason})" if lock_record.steal else ""
        raise LockHeld(
            f"environment {self.environment} is locked by {lock_record.holder.words(now)}{stolen}",
            "Two applies at once would make each other's plans stale.",
            f"{_waits(lock_record.holder.purpose)}; the lock of a killed one ends in "
            f"{lock_record.left_ms(now) // 1000 + 1} s at most. "
            "To take the lock from a running one: --steal-lock REASON.",
        )

    def _renew(self) -> tuple[str, str]:
        """Why it is gone, and why it is cut off; both empty when it was renewed or still counts."""
        try:
            for _ in range(ATTEMPTS):
                with contextlib.suppress(RecordFencedError):
                    self._write()
                    return "", ""
                self._log.fence()
                if taken := self._taken_over():
                    return taken, ""
        except ClusterError as error:
            if time.monotonic() < self._until:
                return "", ""
            return "", f"the lock could not be renewed in time: {error.what}"
        return "", "the lock is asked for by several at once, so it could not be renewed"

    def _taken_over(self) -> str:
        """Who has it now, as words; empty where it is still ours."""
        value = self._log.read()
        if value is None:
            return "the lock was released by someone else"
        try:
            lock_record = lock.loads(value)
        except ValueError as error:
            return f"the lock was overwritten: {error}"
        if lock_record.holder.id == self.holder.id:
            return ""
        reason = f": {lock_record.steal.reason}" if lock_record.steal else ""
        return f"the lock was taken over by {lock_record.holder.words(_now_ms())}{reason}"


def _waits(purpose: str) -> str:
    if purpose == "run":
        return "A run continues until it is stopped: stop it for as long as this takes, and start it again"
    return "Wait until it has ended"


def held_no_longer(environment: str, why: str) -> LockHeld:
    return LockHeld(
        f"environment {environment}: {why}",
        "The step under way was finished and no further one was begun, because someone else may act now.",
        "Run plan to see what is left.",
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


@contextmanager
def environment_lock(state: Path, purpose: str) -> Iterator[None]:
    """Raises LockHeld with the holder's process, purpose and age, ReconcilerError when the folder is not writable."""
    path = required(state) / "lock"
    try:
        with private_files():
            opened = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise ReconcilerError(
            f"the lock {path} cannot be opened: {error.strerror or error}",
            "Without it two runs could act at once. Nothing was started.",
            "Let this user write there, or name another place: RECONCILER_STATE=FOLDER in the environment.",
        ) from None
    # flock is released by the kernel when the process ends, however it ends, so a lock of a dead process cannot stay.
    # What is written into the file is only for words.
    with opened as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            who, end, purpose = "another process of this machine", "or end that process", ""
            with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
                holder = parsed(handle.read())
                seconds, purpose = int(time.time()) - holder["since"], str(holder["purpose"])
                who = f"process {holder['pid']} of this machine ({purpose}), for {seconds} s"
                end = f"or end it: kill {holder['pid']}"
            raise LockHeld(
                f"environment {state.name} is locked by {who}",
                "Two applies at once would make each other's plans stale. --steal-lock takes the lock from other"
                " machines only: here the holder can be ended, and gives it back by that.",
                f"{_waits(purpose)}, {end}; then run the command again.",
            ) from None
        handle.truncate(0)
        written = json.dumps({"pid": os.getpid(), "purpose": purpose, "since": int(time.time())})
        with contextlib.suppress(OSError):  # a full disk: the lock holds, it only does not say whose it is
            os.write(handle.fileno(), written.encode())
        yield
        handle.truncate(0)
