"""The lock of an environment: a record with a lease in Kafka, renewed by compare-and-set (decision 21), and a file
lock.

The file separates runs on one machine; the kernel releases it when its holder is killed.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.run_folder import command_line, private_files, required
from reconciler.backends.state.records import LockLog
from reconciler.errors import ClusterError, LockHeld, ReconcilerError
from reconciler.model.environment.topology import Cluster
from reconciler.model.state import lock
from reconciler.replication.json_codec import parsed
from reconciler.replication.records.compacted_topic import RecordFencedError

ATTEMPTS = 5
"""Attempts: contenders at the same moment fence each other until one succeeds."""
ACTORS = ("RECONCILER_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
"""Variables with the person behind a CI job, since all CI jobs run as the same user."""


def this_process(purpose: str) -> lock.Holder:
    """This run as a holder of the lock, named after the person behind it where CI says who that is."""
    who = next((os.environ[name] for name in ACTORS if os.environ.get(name)), "")
    if not who:
        try:
            who = getpass.getuser()
        except (KeyError, OSError):
            who = "an unnamed user"
    # Boot id and pid namespace; empty if the system does not expose them.
    place = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        place = f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - this reads the text of the link
    host, pid = socket.gethostname(), os.getpid()
    return lock.Holder(
        id=uuid.uuid4().hex, who=who, host=host, pid=pid, place=place, purpose=purpose, since_ms=_now_ms()
    )


class KafkaLock:
    """Call ``take``, then ``lost`` before each step, then ``release``. A thread renews the lock meanwhile."""

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
            cluster,
            cluster.own_topics.lock,
            lock.lock_key(environment),
            lock.transactional_id(environment),
            progress=progress,
        )
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        # Monotonic time until which the lock counts as ours without a renewal; guarded by ``_mutex``, since the
        # renewing thread and the run both use it.
        self._until = 0.0
        self.gone = ""
        """Why the lock is no longer ours, or empty; never cleared."""
        self.cut_off = ""
        """Why the last renewal failed while the lease still counts; cleared by a successful renewal."""

        def renew_on_time() -> None:
            while not self._ended.wait(self.lease_ms / 3000):
                self.lost()
                if self.gone:
                    return

        self._renewer = threading.Thread(target=renew_on_time, name="lock", daemon=True)

    def take(self, reason: str = "") -> None:
        """``reason``: take the lock from its holder. Raises LockHeld, ClusterError, BlockedError."""
        try:
            self._log.open()
            if not reason:
                self._refuse_live(self._read())
            # Compare-and-set: fence, read, write. InitProducerId with the lock's transactional id makes all earlier
            # writers' transactions fail, so the value read after it is the one that this write replaces. If another run
            # fences in between, this write fails, and the loop starts again.
            for _ in range(ATTEMPTS):
                self._log.fence()
                lock_record = self._read()
                if not reason:
                    self._refuse_live(lock_record)
                before = lock_record.holder if lock_record is not None else None
                if reason and before is not None and before.id != self.holder.id:
                    self.steal = lock.Steal(before.who, before.host, before.pid, before.purpose, reason)
                with contextlib.suppress(RecordFencedError):  # another run fenced in between
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
        """Renews the lock; returns why no further step may begin, or empty."""
        with self._mutex:
            if not self.gone:
                self.gone, self.cut_off = self._renew()
            return self.lost_because

    def keep(self, key: str, value: bytes) -> str:
        """Writes another record of the environment under the lock. Returns the error, or empty.

        On a thread of its own, because Ctrl-C interrupts only the main one: a write that ends in the middle leaves its
        transaction open, and the run does not know whether the record is there.
        """

        def write() -> str:
            with self._mutex:
                for _ in range(ATTEMPTS):
                    if self.lost_because:
                        break
                    try:
                        self._log.write(value, key)
                        return ""
                    except RecordFencedError:
                        # Another client used the lock's transactional id. Only a renewal shows whether it took the
                        # lock, or asked for it and lost.
                        self.gone, self.cut_off = self._renew()
                    except ClusterError as error:
                        return error.what
                return self.lost_because or "the lock is asked for by several at once"

        with ThreadPoolExecutor(1) as aside:
            return aside.submit(write).result()

    @property
    def lost_because(self) -> str:
        """The last result of ``lost``."""
        return self.gone or self.cut_off

    def release(self, moved: bool = False) -> None:
        """Releases the lock; if that fails, its lease expires. Never raises.

        The record stays, expired, so that a former holder can read who took the lock and why. ``moved``: delete the
        record, because the lock has another home.
        """
        self._ended.set()
        if self._renewer.is_alive():
            self._renewer.join()
        with self._mutex, contextlib.suppress(ClusterError, RecordFencedError):
            if not self.gone:
                given_back = None if moved else lock.dumps(lock.LockRecord(self.holder, _now_ms(), 0, self.steal))
                try:
                    self._log.write(given_back)
                except RecordFencedError:  # another run fenced, or a renewal was interrupted
                    self._log.fence()
                    if not self._taken_over():
                        self._log.write(given_back)
        self._log.close()

    def _write(self) -> None:
        """Writes the record. Our lease counts from before the write, so it never ends later than others see it end."""
        began = time.monotonic()
        self._log.write(lock.dumps(lock.LockRecord(self.holder, _now_ms(), self.lease_ms, self.steal)))
        self._until = began + self.lease_ms / 1000

    def _read(self) -> lock.LockRecord | None:
        """The record; None if the lock is free. Raises LockHeld for a newer release's record, which must not count as
        free."""
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
        """Raises LockHeld while another holder may live: its lease counts, unless its process has ended on this
        machine."""
        now = _now_ms()
        if lock_record is None or lock_record.holder.id == self.holder.id or lock_record.left_ms(now) <= 0:
            return
        # A holder of this boot and pid namespace without a process was killed, so its lease need not expire first.
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
        """Renews. Returns new values of ``gone`` and ``cut_off``, both empty if the lock is renewed or still counts."""
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
        """Words for the present holder; empty if the lock is still ours."""
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
    """The file lock. Raises LockHeld with the holder's process, purpose and age, ReconcilerError if the folder is not
    writable."""
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
    # The kernel releases flock when the process ends for any reason, so no lock of a dead process remains. The file's
    # content is only used for messages.
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
        with contextlib.suppress(OSError):  # a full disk: the lock holds without its holder's name
            os.write(handle.fileno(), written.encode())
        yield
        handle.truncate(0)
