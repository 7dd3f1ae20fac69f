"""Leases on Spark: each is one job with one task, submitted again when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reconciler.replication.handover import MirrorSettings
from reconciler_mirror import log_lines as logs
from reconciler_mirror.driver.board import Board
from reconciler_mirror.leases import channel
from reconciler_mirror.leases.assign import LaneKey, best_move, pack
from reconciler_mirror.leases.channel import ROWS, SPECS
from reconciler_mirror.leases.spark_slots import describe, has_task, is_shared
from reconciler_mirror.leases.task import LeaseSpec, run_lease
from reconciler_mirror.leases.unassigned import Untasked
from reconciler_mirror.leases.worker_stderr import heard_while_at_work
from reconciler_mirror.model import Claim, LaneEnd, LaneProgress, LaneReport, lane_spec

LEASE_S = 60.0
"""A lease that hears nothing from its driver ends after that; while it does, it goes on without a pause."""
_RENEW_S = 15.0
_LONGEST_PAUSE_S = 10.0
_log = logs.logger("leases")


class Leases:
    """Keeps ``parallelism`` leases running. Lanes are leased at once: they get ready and wait until their flow is taken
    over, so that this costs no time then.

    ``superseded`` is called once a lane has learned that a later application owns its flow.
    """

    def __init__(
        self, context: Any, settings: MirrorSettings, board: Board, host: str, superseded: Callable[[str], None]
    ) -> None:
        self._context = context
        self._settings = settings
        self._board = board
        self._superseded = superseded
        self._host = host
        self._guard = threading.Condition()
        self._stopping = False
        self._lost = 0
        self._failed: dict[int, str] = {}  # by slot, why its last lease ended that Spark did run
        self._rates: Mapping[LaneKey, float] = board.rate_shares()
        self._lanes = {
            (flow.name, lane): lane_spec(flow, lane) for flow in settings.flows for lane in range(flow.lanes)
        }
        self._placed = dict(pack(self._board.measure_loads(), settings.parallelism))
        self._untasked = Untasked(key for key in self._lanes if key in self._placed)
        self._claims: dict[str, Claim] = {}
        self._prepared: set[LaneKey] = set()
        self._left: dict[str, set[LaneKey]] = {}
        self._connected: set[str] = set()
        self._running: dict[str, tuple[LaneKey, ...]] = {}
        self._over: set[str] = set()  # running leases that must end early; some may not have connected yet
        self._server = channel.ChannelServer(host, self._orders, self._told)
        self._threads = [
            threading.Thread(target=self._keep, args=(slot,), name=f"lease {slot}", daemon=True)
            for slot in range(settings.parallelism)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._renew, name="renew leases", daemon=True).start()

    def claimed(self, flow: str, claim: Claim) -> None:
        """The flow is taken over: its lanes may begin."""
        with self._guard:
            self._claims[flow] = claim
            for key, lane in self._lanes.items():
                if key[0] == flow:
                    self._lanes[key] = replace(lane, claim=claim)
            running = list(self._running)
        for name in running:
            self._server.send(name, {"claims": [[flow, ROWS.encoded(claim)]]})

    def prepared(self, flow: str) -> bool:
        """Whether every lane of the flow that has partitions could copy at once."""
        with self._guard:
            lanes = {key for key in self._lanes if key[0] == flow}
            return all(key in self._prepared or not self._board.specs(key) for key in lanes)

    def unplaced(self) -> int:
        """Leases that Spark has not found a place for yet. A worker that is slow to start, or fails, has one."""
        with self._guard:
            connected = {_slot_of(name) for name in self._connected & self._running.keys()}
            waiting = set(self._placed.values()) - connected - self._failed.keys()
        return sum(not has_task(self._context, f"lease-{slot}") for slot in waiting)

    def failures(self) -> tuple[str, ...]:
        """Why leases fail that Spark has a place for, each reason once."""
        with self._guard:
            return tuple(sorted(set(self._failed.values())))

    def wait_for_room(self) -> bool:
        """Some leases have no place yet, and the end of another application may make room for them."""
        return is_shared(self._context) and self.unplaced() > 0

    def counts(self) -> tuple[int, int]:
        """Leases that run now, and how many Spark has lost so far."""
        with self._guard:
            return len(self._running), self._lost

    def tell_untasked(self) -> str:
        """Lanes without a task, to the board. Returns why no task can run at all; empty while there is hope."""
        by_partition = {key: parts for key, parts in self._untasked.lanes().items() if self._board.specs(key)}
        self._board.set_untasked(by_partition)
        return self._untasked.hopeless()

    def share_rates(self) -> None:
        """Limited flows deal their limit out among their lanes anew, by what each has told last."""
        fresh = self._board.rate_shares()
        if fresh == self._rates:
            return
        with self._guard:
            self._rates = fresh
            running = dict(self._running)
        for name, lanes in running.items():
            if mine := [[*key, fresh[key]] for key in lanes if key in fresh]:
                self._server.send(name, {"rates": mine})

    def partitions_changed(self) -> None:
        """Running leases get their lanes' partitions, and which of them are paused, as the board has them now."""
        with self._guard:
            running = dict(self._running)
        for name, lanes in running.items():
            self._server.send(name, self._known(lanes))

    def stop(self, patience_s: float, left: Callable[[], None] = lambda: None) -> bool:
        """Asks every lease to commit and leave. False when some had to be cancelled. ``left`` is called as soon as no
        lane is at work, which is a little before Spark knows."""
        give_up = time.monotonic() + patience_s
        with self._guard:
            self._stopping = True
            running = dict(self._running)
            self._guard.notify_all()
        for name in running:
            self._server.send(name, {"stop": True})
        with self._guard:
            self._guard.wait_for(lambda: self._all_left(running), timeout=patience_s)
        left()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, give_up - time.monotonic()))
        graceful = not any(thread.is_alive() for thread in self._threads)
        if not graceful:
            _log.warning("leases did not end in time and are cancelled", seconds=patience_s)
            self._context.cancelAllJobs()
        self._server.close()
        return graceful

    def _all_left(self, leases: Mapping[str, tuple[LaneKey, ...]]) -> bool:
        return all(
            name not in self._running or self._left.get(name, set()).issuperset(lanes) for name, lanes in leases.items()
        )

    # one slot

    def _keep(self, slot: int) -> None:
        pause, number = 0.5, 0
        while (mine := self._wait_for_lanes(slot)) is not None:
            number += 1
            if self._lease(slot, number, mine):
                pause = 0.5
                continue
            with self._guard:
                self._guard.wait_for(lambda: self._stopping, timeout=pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _wait_for_lanes(self, slot: int) -> tuple[LaneKey, ...] | None:
        with self._guard:
            while not self._stopping:
                mine = tuple(key for key, place in self._placed.items() if place == slot)
                if mine:
                    return mine
                self._guard.wait()
            return None

    def _lease(self, slot: int, number: int, mine: tuple[LaneKey, ...]) -> bool:
        """One Spark job. False when Spark lost it: its worker died or could not be started."""
        name = f"{slot}.{number}"
        lanes = tuple(
            replace(
                self._lanes[key],
                partitions=self._board.specs(key),
                paused=self._board.paused(key),
                rate=self._rates.get(key, 0.0),
            )
            for key in mine
        )
        spec = LeaseSpec(
            name,
            lanes,
            LEASE_S,
            (self._host, self._server.port),
            self._server.token,
            self._settings.environment,
            self._settings.mirror,
        )
        for key in mine:
            self._board.lease_begins(key)
        with self._guard:
            if self._stopping:
                return True
            self._running[name] = mine
        try:
            self._context.setJobGroup(f"lease-{slot}", describe(slot, lanes))
            self._context.setLocalProperty("spark.scheduler.pool", f"lease-{slot}")
            for report in self._context.parallelize([spec], 1).mapPartitions(_in_task).collect():
                self._board.report(report)
                if report.end is LaneEnd.SUPERSEDED:
                    self._superseded(report.error)
        except Exception as error:  # noqa: BLE001  # whatever Spark throws, the lanes must be leased again
            if not self._stopping:
                self._lost += 1
                self._failed[slot] = _first_line(error)
                self._untasked.ends(mine, _first_line(error))
                _log.warning("lease lost, assigning it again", lease=describe(slot, lanes), error=_first_line(error))
            return False
        finally:
            self._server.end(name)
            self._untasked.ends(mine)
            with self._guard:
                del self._running[name]
                self._over.discard(name)
                self._connected.discard(name)
                self._left.pop(name, None)
                self._guard.notify_all()
        return True

    def _renew(self) -> None:
        """A lease ends only to be placed anew, to stop, or when its driver is gone."""
        balanced = time.monotonic()
        while True:
            with self._guard:
                if self._guard.wait_for(lambda: self._stopping, timeout=_RENEW_S):
                    return
                running = list(self._running)
            for name in running:
                self._server.send(name, {"seconds": LEASE_S})
            if time.monotonic() - balanced >= LEASE_S:
                balanced = time.monotonic()
                self._rebalance()

    def _rebalance(self) -> None:
        with self._guard:
            move = best_move(self._placed, self._board.measure_loads(), self._settings.parallelism)
            if move is None or self._stopping:
                return
            self._placed[move.lane] = move.destination
            self._guard.notify_all()
        _log.info("lane moved", flow=move.lane[0], lane=move.lane[1], origin=move.origin, destination=move.destination)
        self._end_early({move.origin, move.destination})

    def _end_early(self, slots: set[int]) -> None:
        """These leases commit and return, to be given again as the lanes are placed now."""
        with self._guard:
            names = {name for name in self._running if _slot_of(name) in slots}
            self._over |= names
        for name in names:
            self._server.send(name, {"over": True})

    # the channel

    def _orders(self, lease: str) -> channel.Message | None:
        with self._guard:
            lanes, stop, over = self._running.get(lease), self._stopping, lease in self._over
            claims = [[flow, ROWS.encoded(claim)] for flow, claim in self._claims.items()]
            if lanes is not None:
                self._connected.add(lease)
                self._untasked.begins(lanes)
        return None if lanes is None else {**self._known(lanes), "claims": claims, "stop": stop, "over": over}

    def _known(self, lanes: tuple[LaneKey, ...]) -> channel.Message:
        return {
            "lanes": [[*key, ROWS.encoded(self._board.specs(key), SPECS)] for key in lanes],
            "paused": [[*key, sorted(self._board.paused(key))] for key in lanes],
            "rates": [[*key, self._rates[key]] for key in lanes if key in self._rates],
        }

    def _told(self, lease: str, message: channel.Message) -> None:
        if "prepared" in message or "left" in message:
            with self._guard:
                if "prepared" in message:
                    self._prepared.add(_key(message["prepared"]))
                else:
                    self._left.setdefault(lease, set()).add(_key(message["left"]))
                self._guard.notify_all()
        if "progress" in message:
            self._board.progress(ROWS.decoded(LaneProgress, message["progress"]))
        if "report" in message:
            report = ROWS.decoded(LaneReport, message["report"])
            if report.end is LaneEnd.SUPERSEDED:
                self._superseded(report.error)


def _key(entries: list[Any]) -> LaneKey:
    return str(entries[0]), int(entries[1])


def _slot_of(lease: str) -> int:
    return int(lease.partition(".")[0])


def _first_line(error: Exception) -> str:
    """Of what Spark says; Py4J puts a line before it that only names the call."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    names = lines[1:] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines
    return names[0][:300].rstrip(".") if names else type(error).__name__


def _in_task(specs: Any) -> Any:
    with heard_while_at_work():
        for spec in specs:
            logs.configure(environment=spec.environment, mirror=spec.mirror, lease=spec.name)
            yield from run_lease(spec)
