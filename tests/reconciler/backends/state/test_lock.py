"""The environment's lock on real brokers: one holder, outlived when killed, taken from the living with a reason."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.state import records
from reconciler.backends.state.lock import KafkaLock, this_process
from reconciler.backends.state.records import LockLog
from reconciler.errors import BlockedError, ClusterError, LockHeld
from reconciler.model.environment.topology import Cluster
from reconciler.model.state.last_apply import applied_key
from reconciler.model.state.lock import Holder, LockRecord, Steal, dumps, loads
from reconciler.replication.names import LOCK_TOPIC
from tests.support.clusters import real_cluster
from tests.support.waiting import until

Make = Callable[..., KafkaLock]


def elsewhere(purpose: str = "apply", who: str = "ada") -> Holder:
    """A process of another host."""
    now = int(time.time() * 1000)
    return Holder(uuid.uuid4().hex, who, f"host-of-{who}", 4711, uuid.uuid4().hex, purpose, now)


@pytest.fixture
def make(plain: Sandbox, unique: str) -> Iterator[Make]:
    made: list[KafkaLock] = []

    def lock(
        holder: Holder | None = None, lease_ms: int = 60_000, environment: str = unique, **fields: Any
    ) -> KafkaLock:
        cluster = replace(real_cluster(plain["east"]), **fields)
        made.append(KafkaLock(cluster, environment, holder or elsewhere(), lease_ms))
        return made[-1]

    yield lock
    for one in made:
        one.release()


def killed(lock: KafkaLock) -> None:
    """Its process is gone: it renews nothing and releases nothing."""
    lock._ended.set()
    lock._renewer.join()
    lock.gone = "killed"
    lock._log.close()


def test_one_holds_it_and_others_learn_who_why_and_how_long(make: Make) -> None:
    rounded_up = 242_000  # minutes: the rest is for a busy machine
    first = make(replace(elsewhere("run", "ada"), since_ms=int(time.time() * 1000) - rounded_up))
    first.take()
    with pytest.raises(LockHeld) as held:
        make(elsewhere(who="bob")).take()
    words = str(held.value)
    for word in ("ada", "host-of-ada", "4711", "run", "5 min", "--steal-lock"):
        assert word in words
    assert held.value.exit_code == 6
    assert first.lost() == "", "a contender who looked hurts nobody"


def test_released_it_is_free_at_once(make: Make) -> None:
    first = make()
    first.take()
    first.release()
    second = make()
    second.take()
    assert second.lost() == ""
    assert second.steal is None


def test_environments_do_not_know_each_other(make: Make) -> None:
    make(environment=f"{uuid.uuid4().hex}").take()
    make(environment=f"{uuid.uuid4().hex}").take()


def test_a_killed_holder_is_outlived_after_its_lease(make: Make) -> None:
    first = make(lease_ms=6_000)
    first.take()
    killed(first)
    with pytest.raises(LockHeld, match="locked by ada"):
        make().take()
    time.sleep(6.2)
    make().take()


def test_a_lease_is_renewed_while_its_holder_lives(make: Make) -> None:
    first = make(lease_ms=4_000)
    first.take()
    time.sleep(6)
    with pytest.raises(LockHeld):
        make().take()
    assert first.lost() == ""


def test_a_dead_process_of_this_very_host_is_outlived_at_once(make: Make) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    first = make(replace(this_process("apply"), pid=child))
    first.take()
    killed(first)
    make(this_process("apply")).take()


def test_a_living_process_of_this_host_is_not(make: Make) -> None:
    first = make(this_process("apply"))
    first.take()
    with pytest.raises(LockHeld):
        make(this_process("apply")).take()


def test_a_stolen_lock_is_noticed_before_the_next_step(make: Make) -> None:
    first, thief = make(elsewhere("run", "ada")), make(elsewhere("apply", "bob"))
    first.take()
    assert first.lost() == ""
    thief.take("ada is on holiday")
    assert thief.steal == Steal("ada", "host-of-ada", 4711, "run", "ada is on holiday")
    lost = first.lost()
    for word in ("taken over", "bob", "ada is on holiday"):
        assert word in lost
    assert first.lost() == lost, "once lost, always lost"
    first.release()
    with pytest.raises(LockHeld, match="taken from ada"):
        make(elsewhere(who="eve")).take()
    assert thief.lost() == ""


def test_of_many_at_once_exactly_one_gets_it(make: Make) -> None:
    locks = [make(elsewhere(who=f"user-{number}")) for number in range(6)]
    start = threading.Barrier(len(locks))
    got: list[KafkaLock] = []
    refused: list[LockHeld] = []

    def contend(lock: KafkaLock) -> None:
        start.wait()
        try:
            lock.take()
            got.append(lock)
        except LockHeld as held:
            refused.append(held)

    threads = [threading.Thread(target=contend, args=(lock,)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [lock for lock in got if lock.lost() == ""]
    assert len(got) == len(held) == 1
    assert len(refused) == 5


def test_a_cluster_with_another_id_is_not_written_to(make: Make) -> None:
    with pytest.raises(BlockedError, match="AAAAAAAAAAAAAAAAAAAAAA"):
        make(cluster_id="AAAAAAAAAAAAAAAAAAAAAA").take()


def test_a_holder_cut_off_from_the_cluster_says_so_once_its_lease_is_over(make: Make) -> None:
    first = make(lease_ms=5_000)
    first.take()

    def cut_off(value: bytes | None, key: str = "") -> None:
        raise ClusterError("east", "unreachable", "cluster east does not answer")

    write = first._log.write
    first._log.write = cut_off  # type: ignore[method-assign]
    assert first.lost() == "", "its lease still counts"
    until(lambda: "could not be renewed in time" in first.lost())
    first._log.write = write  # type: ignore[method-assign]
    assert first.lost() == "", "nobody took it meanwhile"


def test_a_holder_cut_off_while_another_came_and_went_has_lost_it(make: Make) -> None:
    first = make(lease_ms=1_000)
    first.take()

    def cut_off(value: bytes | None, key: str = "") -> None:
        raise ClusterError("east", "unreachable", "cluster east does not answer")

    write = first._log.write
    first._log.write = cut_off  # type: ignore[method-assign]
    time.sleep(1.2)
    other = make(elsewhere(who="bob"))
    other.take()
    other.release()
    first._log.write = write  # type: ignore[method-assign]
    assert "bob" in first.lost()


@pytest.mark.parametrize("principal", ["apply", "user"])
def test_rights(secure: Sandbox, unique: str, principal: str) -> None:
    """The apply principal may; who may not is told what to run."""
    cluster = real_cluster(secure["east"], principal)
    if principal == "apply":
        first = KafkaLock(cluster, unique, elsewhere())
        first.take()
        assert first.lost() == ""
        first.release()
        return
    with pytest.raises(ClusterError) as denied:
        KafkaLock(cluster, unique, elsewhere()).take()
    assert denied.value.kind in ("denied", "missing")
    assert "kafka-acls" in str(denied.value)


def test_a_principal_that_may_not_make_the_topic_learns_how(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ClusterError(
        "east", "denied", "principal apply may not create topic", "It lacks Create", "Allow it: acl."
    )
    monkeypatch.setattr(records, "make_topic", lambda *_: refused)
    monkeypatch.setattr(LockLog, "exists", lambda _: False)
    with pytest.raises(ClusterError) as told:
        make().take()
    assert "kafka-topics.sh" in told.value.todo
    assert LOCK_TOPIC in told.value.todo
    assert "lock" in told.value.what


def test_one_that_was_interrupted_while_it_renewed_gives_the_lock_back(make: Make) -> None:
    first = make()
    first.take()
    first._log.close()  # as Ctrl-C leaves it: what was under way is not known
    first.release()
    make(elsewhere(who="bob")).take()


class Interrupting:
    """A log of the lock: the user presses Ctrl-C in the middle of each write."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes | None]] = []

    def write(self, value: bytes | None, key: str = "") -> None:
        time.sleep(0.5)  # the run waits for the write by now
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.3)  # long enough for the run to see it
        self.written.append((key, value))

    def close(self) -> None: ...


def test_a_record_beside_the_lock_is_written_whole_when_the_run_is_interrupted() -> None:
    lock = KafkaLock(Cluster("east", ("127.0.0.1:1",)), "prod", elsewhere())
    lock._log.close()
    log: Any = Interrupting()
    lock._log = log
    with pytest.raises(KeyboardInterrupt):
        lock.keep(applied_key("prod"), b"{}")
    assert log.written == [(applied_key("prod"), b"{}")]


def test_a_record_comes_back_as_it_was() -> None:
    record = LockRecord(elsewhere(), 5, 6, Steal("a", "b", 1, "c", "d"))
    assert loads(dumps(record)) == record
    assert loads(dumps(replace(record, steal=None))).steal is None


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"format_version": 2}', b'{"format_version": 1, "holder": 5}'])
def test_a_record_of_another_kind_is_no_free_lock(value: bytes) -> None:
    with pytest.raises(ValueError, match="no lock record"):
        loads(value)
