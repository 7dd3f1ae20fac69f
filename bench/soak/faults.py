"""Faults as values: a name, what begins it, how long it lasts, what ends it. A new one is one entry of ``FAULTS``."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from typing import Any

from bench.processes.fault_proxy import CUT, FLIP, HOLD, PASS, RATE, RESET, TRUNCATE
from bench.soak.load import TOPIC
from bench.soak.world import ELECTED, HEARD_S, KEPT, SIDES, TWIN, VOTING, WAIT_S, SoakError, World
from reconciler.errors import ExitCode
from reconciler.model.state.lock import lock_key
from reconciler.replication.names import LOCK_TOPIC, STATUS_TOPIC, position_group, status_key

Act = Callable[[World], None]
LOST_RECORDS = 300
MIRROR = ("supervisor", "jvm", "driver", "worker")


def nothing(_: World) -> None:
    """It ends by itself."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``lasts_s``: between ``begin`` and ``end``. ``needs``: what has to be there (``World.has``), or empty."""

    name: str
    begin: Act
    end: Act = nothing
    lasts_s: float = 15.0
    needs: str = ""


def signalled(number: Signals, *what: str, everyone: bool = True) -> Act:
    return lambda world: world.signal(number, *what, everyone=everyone)


def broker(side: str, number: Signals) -> Act:
    return lambda world: world.signal_broker(side, number)


def started(side: str) -> Act:
    return lambda world: world.start_broker(side)


def line(side: str, way: str, figure: float = 0.0) -> Act:
    return lambda world: world.proxies[side].turn(way, figure)


def killed(*what: str, everyone: bool = True) -> Act:
    return signalled(SIGKILL, *what, everyone=everyone)


def everything_killed(world: World) -> None:
    """The supervisor first: it would start the others again."""
    for kind in MIRROR:
        for pid in world.pids(kind):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)


def deleted(side: str, topic: str) -> Act:
    return lambda world: world.delete_topic(side, topic)


def garbage(side: str, topic: str, *keys: str) -> Act:
    """Under keys of ours and of nobody, some of it large."""
    values = (b"\x00\xff", b"{", b"[" + b"1," * 200_000 + b"1]")
    return lambda world: world.write(side, topic, [(key.encode(), value) for key in keys for value in values])


def lock_cleared(world: World) -> None:
    """A lock that cannot be understood is refused on purpose; somebody has to clear it."""
    world.write("source", LOCK_TOPIC, [(lock_key(world.env.name).encode(), None)])
    world.apply()


def disk_filled(side: str) -> Act:
    return lambda world: _fill(world.disks[side] / "fill")


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(1 << 20))


def disk_freed(side: str) -> Act:
    """A broker whose only disk failed has ended, or has to."""

    def free(world: World) -> None:
        (world.disks[side] / "fill").unlink(missing_ok=True)
        if side in SIDES:
            world.signal_broker(side, SIGKILL)
            world.start_broker(side)

    return free


def clock_moved(seconds: int) -> Act:
    """Of supervisor, JVM, driver and workers; brokers, the load and who asks for status keep theirs."""

    def move(world: World) -> None:
        assert world.clock is not None
        with world.clock.open("r+b") as file:
            file.write(struct.pack("=q", seconds * 1_000_000_000))

    return move


def frozen_beside_new(world: World) -> None:
    """As if its machine slept: another one, which knows nothing of its folder, starts the mirror."""
    world.frozen[:] = [pid for kind in MIRROR for pid in world.pids(kind)]
    for pid in world.frozen:
        os.kill(pid, SIGSTOP)
    world.await_said("the mirror is not heard of", lambda document: _state(document) != "running")
    runs = world.state.resolve()
    fresh = runs.with_name(str(int(runs.name) + 1))
    fresh.mkdir()
    world.state.unlink()
    world.state.symlink_to(fresh)
    world.apply()


def thawed(world: World) -> None:
    """The old application has to see by itself that another one copies."""
    for pid in world.frozen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, SIGCONT)
    until = time.monotonic() + 2 * WAIT_S
    while left := [pid for pid in world.frozen if Path(f"/proc/{pid}/cmdline").is_file() and _lives(pid)]:
        if time.monotonic() > until:
            raise SoakError(f"of the frozen application {len(left)} processes continue beside the new one")
        time.sleep(1)


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _state(document: Mapping[str, Any]) -> str:
    return str(document.get("mirrors", {}).get("west", {}).get("state", ""))


def codes(document: Mapping[str, Any], flow: str) -> set[str]:
    """Of the conditions that status names for a flow."""
    told = document.get("mirrors", {}).get("west", {}).get("flows", {}).get(flow, {})
    return {condition["code"] for condition in told.get("conditions", ())}


def uncleanly_elected(world: World) -> None:
    """The copy has more than the replica that becomes the leader, which then takes more than it lacks: the position
    lies within its log again, behind other records."""
    while (leader := world.leader(VOTING, ELECTED)) not in (2, 3):
        time.sleep(0.5)
    other = 5 - leader
    world.cluster(VOTING).kill(other)
    world.write(VOTING, ELECTED, [(b"k", b"lost %d" % number) for number in range(LOST_RECORDS)])
    world.await_copied("elected")
    world.cluster(VOTING).kill(leader)
    world.cluster(VOTING).start(other)
    until = time.monotonic() + WAIT_S
    while world.leader(VOTING, ELECTED) != other:
        if time.monotonic() > until:
            raise SoakError(f"broker {other} was not elected for {ELECTED}")
        time.sleep(0.5)
    world.write(VOTING, ELECTED, [(b"k", b"new %d" % number) for number in range(2 * LOST_RECORDS)])
    world.await_said("an election lost records", lambda document: "source_truncated" in codes(document, "elected"))
    world.cluster(VOTING).start(leader)


def begun_again(world: World) -> None:
    for node in (2, 3):
        world.cluster(VOTING).start(node)
    world.cli("mirror", "seek", str(world.env), "elected", "--topic", ELECTED, "--to", "latest", "--yes")
    world.await_said("nothing stands", lambda document: not codes(document, "elected"))
    world.write(VOTING, ELECTED, [(b"k", b"after")])
    world.await_copied("elected")


def retention_passed(world: World) -> None:
    """Records go by time while their topic is paused, and the position with them."""
    world.cli("mirror", "pause", str(world.env), "soak", "--topic", KEPT, "--reason", "soak")
    world.configure("source", KEPT, retention_ms="1000", segment_ms="1000")
    before = world.first_offset("source", KEPT)
    world.write("source", KEPT, [(b"k", b"%d" % number) for number in range(LOST_RECORDS)])
    until = time.monotonic() + WAIT_S
    while world.first_offset("source", KEPT) <= before + LOST_RECORDS / 2:
        world.write("source", KEPT, [(b"k", b"more")])
        if time.monotonic() > until:
            raise SoakError(f"retention took nothing of {KEPT} in {WAIT_S:.0f} s")
        time.sleep(2)
    world.configure("source", KEPT, retention_ms=None, segment_ms=None)
    world.cli("mirror", "resume", str(world.env), "soak", "--topic", KEPT)


def position_moved(world: World) -> None:
    world.cli("mirror", "seek", str(world.env), "soak", "--topic", KEPT, "--to", "earliest", "--yes")


def committed_while_stopped(world: World) -> None:
    """Obeyed, it would double ``LOST_RECORDS`` records of a partition under load."""
    world.cli("mirror", "stop", str(world.env))
    remote = f"{SIDES['source']}.{TOPIC}"
    world.right[:] = [world.position("soak", remote)]
    world.commit("soak", remote, max(0, world.right[0] - LOST_RECORDS))
    world.apply()
    world.await_said("a position is not the mirror's", lambda document: "position_foreign" in codes(document, "soak"))


def sought(world: World) -> None:
    """To the offset that the condition names: a coordinator that has lost commits reports an old position as right."""
    place = ("--topic", TOPIC, "--partition", "0", "--to", _named(world, "soak", "position_foreign"))
    world.cli("mirror", "seek", str(world.env), "soak", *place, "--yes")
    world.await_said("nothing is stopped", lambda document: "position_foreign" not in codes(document, "soak"))


def group_deleted(world: World) -> None:
    """From the beginning all of the copy would be there twice: the plan is blocked until somebody says where it goes
    on."""
    world.write(VOTING, ELECTED, [(b"k", b"before")])
    world.await_copied("elected")
    world.cli("mirror", "stop", str(world.env))
    world.right[:] = [world.position("elected", f"{VOTING}.{ELECTED}")]
    admin, group = world.admin("target"), position_group("elected")
    admin.delete_consumer_groups([group], request_timeout=30)[group].result(60)
    if (code := world.cli("apply", str(world.env), "--yes", check=False)) != ExitCode.BLOCKED:
        raise SoakError(f"without the positions of a flow, apply ends with {code}, not {ExitCode.BLOCKED:d}")


def group_restored(world: World) -> None:
    place = ("--topic", ELECTED, "--to", str(world.right[0]))
    world.cli("mirror", "seek", str(world.env), "elected", *place, "--yes")
    world.apply()
    world.write(VOTING, ELECTED, [(b"k", b"after")])
    world.await_copied("elected")


def committed_beside(world: World) -> None:
    """The lane goes by what it knows, and writes over it."""
    remote = f"{SIDES['source']}.{TOPIC}"
    for _ in range(20):
        world.commit("soak", remote, 0)
        time.sleep(0.2)


def written_by_a_stranger(world: World) -> None:
    """The source writes nothing meanwhile, so only the lane's own look can find it."""
    world.write("source", TWIN, [(b"k", b"%d" % number) for number in range(20)])
    world.await_copied("twin")
    world.right[:] = [int(time.time() * 1000)]
    world.write("target", f"{SIDES['source']}.{TWIN}", [(b"k", b"stranger")], timestamp=world.right[0])
    world.await_said("a copy is not its source", lambda document: "offsets_diverged" in codes(document, "twin"))


def written_at_the_source(world: World) -> None:
    """The same record, as a flow the other way would bring it after a failover: the copy goes on by itself."""
    world.write("source", TWIN, [(b"k", b"stranger")], timestamp=world.right[0])
    world.write("source", TWIN, [(b"k", b"after")])
    world.await_said("the copy continues", lambda document: not codes(document, "twin"), 2 * WAIT_S)
    world.await_copied("twin")


def end_lost(world: World) -> None:
    """The target's broker comes back without its last transaction of a copy, as after an unclean election."""
    world.write(VOTING, ELECTED, [(b"k", b"%d" % number) for number in range(20)])
    world.await_copied("elected")
    world.signal_broker("target", SIGKILL)
    folder = world.cluster("target").folder / "broker-1" / "data" / f"{VOTING}.{ELECTED}-0"
    raw, at, batches = (log := max(folder.glob("*.log"))).read_bytes(), 0, [0]
    while at < len(raw):
        at += 12 + int.from_bytes(raw[at + 8 : at + 12])
        batches.append(at)
    log.write_bytes(raw[: batches[-3]])  # without its records and their marker
    world.start_broker("target")
    world.await_said("the target has lost records", lambda document: "target_truncated" in codes(document, "elected"))


def copied_again(world: World) -> None:
    """From the offset that the condition names."""
    first = _named(world, "elected", "target_truncated")
    world.cli("mirror", "seek", str(world.env), "elected", "--topic", ELECTED, "--to", first, "--yes")
    world.await_said("nothing is stopped", lambda document: not codes(document, "elected"))
    world.write(VOTING, ELECTED, [(b"k", b"after")])
    world.await_copied("elected")


def remote_topic_recreated(world: World) -> None:
    """Under the running mirror, empty: positions of the former topic must not count for the new one."""
    world.write("source", KEPT, [(b"k", b"before %d" % number) for number in range(LOST_RECORDS)])
    world.await_that(f"all of {KEPT} is copied", lambda: _last(world, "target") == _last(world, "source"))
    world.recreate_topic("target", f"{SIDES['source']}.{KEPT}")


def copied_from_the_start(world: World) -> None:
    """Exactly what the source has, once, though retention or a seek came before."""
    world.write("source", KEPT, [(b"k", b"after")])
    remote = f"{SIDES['source']}.{KEPT}"

    def same() -> bool:
        return world.records("target", remote) == world.records("source", KEPT)

    world.await_that(f"{remote}, recreated, has the records of {KEPT}, each once and in order", same)
    time.sleep(HEARD_S)
    if not same():
        raise SoakError(f"{remote}, recreated, was written to again after it had the records of {KEPT}")


def _named(world: World, flow: str, code: str) -> str:
    """The offset of the seek that the flow's condition names."""
    conditions = world.status()["mirrors"]["west"]["flows"][flow]["conditions"]
    [todo] = [each["todo"] for each in conditions if each["code"] == code]
    return str(todo.partition("--to ")[2].partition(".")[0])


def _last(world: World, side: str) -> object:
    topic = KEPT if side == "source" else f"{SIDES['source']}.{KEPT}"
    return world.records(side, topic)[-1:]


FAULTS: tuple[Fault, ...] = (
    Fault("kill -9 of a Python worker", killed("worker", everyone=False), lasts_s=5),
    Fault("kill -9 of the Python driver", killed("driver"), lasts_s=5),
    Fault("kill -9 of the driver's JVM", killed("jvm"), lasts_s=5),
    Fault("kill -9 of supervisor, JVM, driver and workers; apply", everything_killed, World.apply, 20),
    Fault("SIGSTOP of the Python workers", signalled(SIGSTOP, "worker"), signalled(SIGCONT, "worker"), 45),
    Fault("SIGSTOP of driver and JVM", signalled(SIGSTOP, "driver", "jvm"), signalled(SIGCONT, "driver", "jvm"), 45),
    *(
        fault
        for side in ("source", "target")
        for fault in (
            Fault(f"kill -9 of the {side} broker", broker(side, SIGKILL), started(side)),
            Fault(f"SIGSTOP of the {side} broker", broker(side, SIGSTOP), broker(side, SIGCONT), 30),
            Fault(f"{side} cut", line(side, CUT), line(side, PASS), 30),
            Fault(f"{side} half open", line(side, HOLD), line(side, PASS), 40),
            Fault(f"{side} answers at 1 byte/s", line(side, RATE, 1), line(side, PASS), 60),
            Fault(f"{side} answers at 20 KB/s", line(side, RATE, 20_000), line(side, PASS), 40),
            Fault(f"{side} answers truncated, 5 %", line(side, TRUNCATE, 0.05), line(side, PASS), 30),
            Fault(f"{side} connections reset, 5 %", line(side, RESET, 0.05), line(side, PASS), 30),
            Fault(f"{side} answers with flipped bits, 1 %", line(side, FLIP, 0.01), line(side, PASS), 30),
        )
    ),
    *(
        Fault(f"disk full at {name}", disk_filled(side), disk_freed(side), 20, needs=side)
        for side, name in (("source", "the source"), ("target", "the target"), ("spark", "Spark"))
    ),
    Fault("clock of the mirror an hour ahead", clock_moved(3600), clock_moved(0), 30, needs="clock"),
    Fault("clock of the mirror an hour behind", clock_moved(-3600), clock_moved(0), 30, needs="clock"),
    Fault("SIGSTOP of everything; another one started; SIGCONT", frozen_beside_new, thawed, 10),
    Fault("unclean election at a source", uncleanly_elected, begun_again, 5),
    Fault("status topic deleted; apply", deleted("target", STATUS_TOPIC), World.apply, 40),
    Fault(
        "garbage in the status topic", garbage("target", STATUS_TOPIC, "nobody", status_key("soak", "west")), lasts_s=20
    ),
    Fault(f"{LOCK_TOPIC} deleted; apply", deleted("source", LOCK_TOPIC), World.apply, 10),
    Fault(
        f"garbage in {LOCK_TOPIC}; cleared, apply", garbage("source", LOCK_TOPIC, lock_key("soak")), lock_cleared, 10
    ),
    Fault("another client commits a position while the mirror is stopped; seek", committed_while_stopped, sought, 5),
    Fault("position group deleted while the mirror is stopped; seek", group_deleted, group_restored, 5),
    Fault("another client commits a position of a partition that is copied", committed_beside, lasts_s=5),
    Fault("a stranger writes to a copy at the same offsets", written_by_a_stranger, written_at_the_source, 5),
    Fault("the target loses the end of a copy; seek", end_lost, copied_again, 5),
    Fault("a remote topic deleted and recreated", remote_topic_recreated, copied_from_the_start, 5),
    Fault("retention passes a paused position; seek", retention_passed, position_moved, 25),
)
"""Over the topic ``soak``, but for the stranger, the group, the election, the lost end and the last two."""
