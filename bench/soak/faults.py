"""Faults as values: a name, what begins it, how long it lasts, what ends it. A new one is one entry of ``FAULTS``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals

from bench.processes.fault_proxy import CUT, FLIP, HOLD, PASS, RATE, RESET, TRUNCATE
from bench.soak.world import KEPT, WAIT_S, SoakError, World
from reconciler.model.state.lock import LOCK_TOPIC, lock_key
from reconciler.replication.names import STATUS_TOPIC, status_key

Act = Callable[[World], None]
LOST_RECORDS = 300


def nothing(_: World) -> None:
    """It ends by itself."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``lasts_s``: between ``begin`` and ``end``. ``needs_disk``: only where the target has a small disk of its own."""

    name: str
    begin: Act
    end: Act = nothing
    lasts_s: float = 15.0
    needs_disk: bool = False


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
    for kind in ("supervisor", "jvm", "driver", "worker"):
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


def disk_filled(world: World) -> None:
    assert world.disk is not None
    with (world.disk / "fill").open("wb") as file:
        try:
            while True:
                file.write(b"\0" * (1 << 20))
                file.flush()
        except OSError:
            return


def disk_freed(world: World) -> None:
    assert world.disk is not None
    (world.disk / "fill").unlink(missing_ok=True)
    world.signal_broker("target", SIGKILL)
    world.start_broker("target")


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
    world.configure("source", KEPT, retention_ms="86400000", segment_ms="86400000")
    world.cli("mirror", "resume", str(world.env), "soak", "--topic", KEPT)


def position_moved(world: World) -> None:
    world.cli("mirror", "seek", str(world.env), "soak", "--topic", KEPT, "--to", "earliest", "--yes")


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
    Fault("disk full at the target", disk_filled, disk_freed, 20, needs_disk=True),
    Fault("status topic deleted; apply", deleted("target", STATUS_TOPIC), World.apply, 40),
    Fault(
        "garbage in the status topic", garbage("target", STATUS_TOPIC, "nobody", status_key("soak", "west")), lasts_s=20
    ),
    Fault(f"{LOCK_TOPIC} deleted; apply", deleted("source", LOCK_TOPIC), World.apply, 10),
    Fault(
        f"garbage in {LOCK_TOPIC}; cleared, apply", garbage("source", LOCK_TOPIC, lock_key("soak")), lock_cleared, 10
    ),
    Fault("retention passes a paused position; seek", retention_passed, position_moved, 25),
)
"""Over the topic ``soak``, but for the last one."""
