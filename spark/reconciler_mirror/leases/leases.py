"""Leases on Spark: each is one job with one task, submitted again when it ends."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from reconciler.replication.handover import MirrorSettings
from reconciler_mirror import log_lines as logs
from reconciler_mirror.board.board import Board
from reconciler_mirror.board.unassigned import FORGOTTEN_S, STOPS_S, Untasked
from reconciler_mirror.conditions.flow import executor_unfit
from reconciler_mirror.leases import channel, preflight
from reconciler_mirror.leases.channel import ROWS
from reconciler_mirror.leases.channel_listener import Listener
from reconciler_mirror.leases.lanes import LaneOrders, LanePlacement
from reconciler_mirror.leases.running import (
    CONTEXT_STOPPED,
    RunningLeases,
    cause,
    describe,
    find_place,
    has_task,
    is_forgotten,
    is_shared,
    is_stopped,
    run_job,
    slot_of,
    why_not_ready,
)
from reconciler_mirror.leases.task import LeaseSpec, in_task
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneKey, LaneProgress, LaneReport

LEASE_S = 60.0
"""A lease that hears nothing from its driver ends after that; while it does, it goes on without a pause."""
_RENEW_S = 15.0
_LONGEST_PAUSE_S = 10.0
COME_BACK_S = 15.0
"""How often a slot that its lanes left looks whether Spark has a place for it again."""
ROWS_PER_S = 20_000
"""Rows of progress that all leases together may send a second: what the driver takes in with half a core."""
_log = logs.logger("leases")


class Leases:
    """Keeps ``parallelism`` leases running. Lanes are leased at once: they get ready and wait until their flow is taken
    over, so that this costs no time then.

    ``superseded`` is called once a lane has learned that a later application owns its flow.
    """

    def __init__(
        self,
        context: Any,
        settings: MirrorSettings,
        board: Board,
        listener: Listener,
        superseded: Callable[[str], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._board = board
        self._superseded = superseded
        self._guard = threading.Condition()
        self._stopping = False
        self._lost = 0
        self._failed: dict[int, str] = {}  # by slot, why its last lease ended that Spark did run
        self._lanes = LaneOrders(settings.flows, board)
        self._placed = LanePlacement(self._board.measure_loads(), settings.parallelism)
        self._untasked = Untasked(key for key in self._lanes if key in self._placed)
        self._running = RunningLeases()
        self._server = channel.ChannelServer(listener, self._orders, self._on_message, self._broken, self._begins)
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
            message = self._lanes.claimed(flow, claim)
            running = list(self._running)
        for name in running:
            self._server.send(name, message)

    def prepared(self, flow: str) -> bool:
        """Whether every lane of the flow that has partitions could copy at once."""
        with self._guard:
            return not self._lanes.unprepared(flow)

    def unplaced(self) -> int:
        """Leases that Spark has not found a place for yet. A worker that is slow to start, or fails, has one."""
        with self._guard:
            waiting = self._placed.slots - self._running.signs.slots - self._failed.keys()
        return sum(not has_task(self._context, f"lease-{slot}") for slot in waiting)

    def unready(self, flow: str) -> Mapping[str, tuple[int, ...]]:
        """Lanes of the flow that could not copy at once, by what each waits for."""
        with self._guard:
            connected, failed = self._running.signs.slots, dict(self._failed)
            slots = {key: self._placed[key] for key in self._lanes.unprepared(flow) if key in self._placed}
        unready: dict[str, tuple[int, ...]] = {}
        for key, slot in slots.items():
            why = why_not_ready(self._context, slot, connected, failed)
            unready[why] = (*unready.get(why, ()), key[1])
        return unready

    def lanes_without_task(self) -> frozenset[LaneKey]:
        """Of those that have partitions, for however short."""
        return frozenset(key for key in self._untasked.without() if self._board.specs(key))

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

    def report_untasked(self) -> str:
        """Lanes without a task that is heard of, to the board; to be called every few seconds. Ends tasks that were
        silent for longer than a lease. Returns why no task can run at all; empty while there is hope."""
        if self.context_stopped():
            return CONTEXT_STOPPED
        with self._guard:
            silent = self._running.signs.silent()
            self._untasked.silent(self._running.silent_lanes(silent))

        # A task that was silent for a whole lease is frozen or cut off. Its lanes go to a new one.
        for name in [name for name, seconds in silent.items() if seconds > LEASE_S]:
            _log.warning("a task was silent for longer than a lease and is ended", lease=name, seconds=LEASE_S)
            self._gone(name, f"it said nothing for {LEASE_S:.0f} s and was ended")
            self._context.cancelJobGroup(f"lease-{slot_of(name)}")

        # Lanes without partitions miss no task. Where Spark has no place for one, its lanes go to other slots.
        lanes = {key: gap for key, gap in self._untasked.lanes().items() if self._board.specs(key)}
        self._board.set_untasked(lanes, self._untasked.without())
        lost = {
            self._placed[key] for key, gap in lanes.items() if gap.why or (gap.seconds >= STOPS_S and not gap.silent)
        }
        self._leave_slots({slot for slot in lost if not has_task(self._context, f"lease-{slot}")})

        # Sooner where the master has forgotten this application: it never gives it an executor again.
        if (ended := self._untasked.hopeless(FORGOTTEN_S)) and is_forgotten(self._context):
            return f"{ended}. The master has no executor for this application, as after a start without its state"
        return self._untasked.hopeless()

    def _leave_slots(self, slots: set[int]) -> None:
        """Spark has no place for these: their lanes go to slots that have a task, which end and are given again. What
        still waits for a place is taken back first, else it would get the core of one that ends."""
        with self._guard:
            at_work = self._running.signs.slots
            slots = slots - at_work
            if self._stopping or not at_work or not slots:
                return
            receivers = self._placed.leave(slots, self._board.measure_loads(), at_work)
        for slot in slots:
            self._context.cancelJobGroup(f"lease-{slot}")
        _log.warning("lanes go to leases that have a task", without=sorted(slots), to=sorted(receivers))
        self._end_early(receivers)

    def _come_back(self, slot: int) -> None:
        """Waits until Spark has a place for a slot that its lanes left; then they come back. A place that is only free
        because another lease is just given again is none."""
        if not find_place(self._context, slot):
            return
        with self._guard:
            if self._stopping or not self._running.all_connected():
                return
            origins = self._placed.come_back(slot)
        _log.info("lanes come back to a lease that has a place again", lease=slot)
        self._end_early(origins)

    def context_stopped(self) -> bool:
        return is_stopped(self._context)

    def share_rates(self) -> None:
        """Limited flows deal their limit out again among their lanes, by what each has reported last."""
        if not self._lanes.share_rates():
            return
        with self._guard:
            running = self._running.lanes()
        for name, lanes in running.items():
            if (message := self._lanes.rates(lanes))["rates"]:
                self._server.send(name, message)

    def partitions_changed(self) -> None:
        """Running leases get their lanes' partitions, and which of them are paused, as the board has them now."""
        with self._guard:
            running = self._running.lanes()
        for name, lanes in running.items():
            self._server.send(name, self._lanes.partitions(lanes))

    def stop(self, patience_s: float, left: Callable[[], None] = lambda: None) -> bool:
        """Asks every lease to commit and leave. False when some had to be cancelled. ``left`` is called as soon as no
        lane is at work, which is a little before Spark knows."""
        give_up = time.monotonic() + patience_s
        with self._guard:
            self._stopping = True
            running = self._running.lanes()
            self._guard.notify_all()
        for name in running:
            self._server.send(name, {"stop": True})

        # Lanes leave before Spark reports the end of their jobs; a successor waits for the lanes alone.
        with self._guard:
            self._guard.wait_for(lambda: self._running.all_left(running), timeout=patience_s)
            threads = [thread for slot, thread in enumerate(self._threads) if slot not in self._placed.vacated]
        left()
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, give_up - time.monotonic()))
        graceful = not any(thread.is_alive() for thread in threads)
        if not graceful:
            _log.warning("leases did not end in time and are cancelled", seconds=patience_s)
            self._context.cancelAllJobs()
        self._server.close()
        return graceful

    # one slot

    def _keep(self, slot: int) -> None:
        """The thread of one slot, that is, of one Spark core that the mirror may use: waits for lanes, leases them as a
        Spark job of one task, and after a failure pauses longer each time. Ends when the mirror stops."""
        pause, number = 0.5, 0
        while (mine := self._wait_for_lanes(slot)) is not None:
            if not mine:
                self._come_back(slot)
                continue
            number += 1
            if self._lease(slot, number, mine):
                pause = 0.5
                continue
            with self._guard:
                self._guard.wait_for(lambda: self._stopping, timeout=pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _wait_for_lanes(self, slot: int) -> tuple[LaneKey, ...] | None:
        """Empty now and then where it was left by its lanes, None at the end."""
        with self._guard:
            while not self._stopping:
                if mine := self._placed.lanes_of(slot):
                    return mine
                if not self._guard.wait(COME_BACK_S) and slot in self._placed.vacated:
                    return ()
            return None

    def _lease(self, slot: int, number: int, mine: tuple[LaneKey, ...]) -> bool:
        """One Spark job. False when Spark lost it: its worker died or could not be started."""
        name = f"{slot}.{number}"
        lanes = self._lanes.specs(mine)
        spec = LeaseSpec(
            name,
            lanes,
            LEASE_S,
            self._server.address,
            self._server.token,
            self._settings.environment,
            self._settings.mirror,
            preflight.installed() if (elsewhere := is_shared(self._context)) else None,
            ROWS_PER_S / self._settings.parallelism,
        )
        given = preflight.packed(self._server.address if elsewhere else None, (in_task, spec))
        for key in mine:
            self._board.lease_begins(key)
        with self._guard:
            if self._stopping:
                return True
            self._running.begins(name, mine)
        try:
            for report in run_job(self._context, slot, describe(slot, lanes), given, preflight.checked):
                self._board.report(report)
                if report.end is LaneEnd.SUPERSEDED:
                    self._superseded(report.error)
        except Exception as error:  # noqa: BLE001  # whatever Spark throws, the lanes must be leased again
            why = cause(error)
            # A slot whose lanes have left it, or a job that ends, loses nothing with its task.
            with self._guard:
                vacated, stopping = slot in self._placed.vacated, self._stopping
                if not stopping and not vacated:
                    self._lost += 1
                    self._failed[slot] = why
            if not stopping and not vacated:
                self._ends(name, mine, why)
                _log.warning("lease lost, assigning it again", lease=describe(slot, lanes), error=why)
            return vacated
        finally:
            self._server.end(name)
            self._ends(name, mine)
            self._preflight_done(slot, mine, ())
            with self._guard:
                self._running.ends(name)
                self._guard.notify_all()
        return True

    def _ends(self, lease: str, lanes: tuple[LaneKey, ...], why: str = "") -> None:
        """Of those that no other lease holds by now."""
        with self._guard:
            held = self._running.held_by_others(lease)
        self._untasked.ends(set(lanes) - held, why)

    def _renew(self) -> None:
        """A lease ends only to be placed again, to stop, or when its driver is gone."""
        balanced = time.monotonic()
        while True:
            with self._guard:
                if self._guard.wait_for(lambda: self._stopping, timeout=_RENEW_S):
                    return
                running = list(self._running)
            for name in running:
                self._server.send(name, {"seconds": LEASE_S})

            # Now and then one lane moves to where less is copied, if that pays.
            if time.monotonic() - balanced < LEASE_S:
                continue
            balanced = time.monotonic()
            with self._guard:
                slots = self._running.signs.slots
                move = None if self._stopping else self._placed.even_out(self._board.measure_loads(), slots)
                if move is None:
                    continue
                self._guard.notify_all()
            flow, lane = move.lane
            _log.info("lane moved", flow=flow, lane=lane, origin=move.origin, destination=move.destination)
            self._end_early({move.origin, move.destination})

    def _end_early(self, slots: Collection[int]) -> None:
        """These leases commit and return, to be given again as the lanes are placed now."""
        with self._guard:
            names = self._running.end_early(slots)
        for name in names:
            self._server.send(name, {"over": True})

    # the channel

    def _begins(self, lease: str) -> None:
        """A task, also one that Spark tries again under the same name: it counts from 0."""
        with self._guard:
            lanes = self._running.lanes_of(lease) or ()
        for key in lanes:
            self._board.lease_begins(key)

    def _orders(self, lease: str) -> channel.Message | None:
        """Everything a task has to know when it connects, also after a lost line: its answer replaces all that it heard
        before. None: the lease is not one of ours any more, so the task is refused."""
        with self._guard:
            lanes = self._running.lanes_of(lease)
            if lanes is None:
                return None
            self._running.signs.begins(lease)
            self._untasked.begins(lanes)
            orders = {**self._lanes.claims(), "stop": self._stopping, "over": self._running.is_over(lease)}
        return {**self._lanes.partitions(lanes), **orders}

    def _broken(self, lease: str) -> None:
        """The line is the proof of life: Spark may learn much later that the executor is gone, and then tries the task
        again within the same job. A task that lives dials again at once, before anything is reported."""
        self._gone(lease, "its connection to the Spark driver ended before it did")

    def _gone(self, lease: str, why: str) -> None:
        with self._guard:
            lanes = self._running.line_ends(lease)
        self._untasked.ends(lanes, why)
        self._board.lost(lanes)

    def _on_message(self, lease: str, message: channel.Message) -> None:
        """A message of a task. The guard is held only for the leases' own state: the board has a lock of its own, and
        decoding a report of thousands of partitions must not hold up other tasks."""
        with self._guard:
            self._running.signs.hear(lease)
        if "alive" in message:
            self._board.at_work(_key(entries) for entries in message["alive"])
        if "prepared" in message or "left" in message:
            with self._guard:
                if "prepared" in message:
                    self._lanes.prepared(_key(message["prepared"]))
                else:
                    self._running.lane_left(lease, _key(message["left"]))
                self._guard.notify_all()
        if "executor" in message:
            said, problems = message["executor"], tuple(message["executor"]["problems"])
            note = _log.warning if problems else _log.info
            note("executor looked at", lease=lease, host=said["host"], python=said["python"], problems=problems)
            with self._guard:
                lanes = self._running.lanes_of(lease) or ()
            self._preflight_done(slot_of(lease), lanes, problems)
        if "progress" in message:
            self._board.progress(ROWS.decoded(LaneProgress, message["progress"]))
        if "report" in message:
            report = ROWS.decoded(LaneReport, message["report"])
            if report.end is LaneEnd.SUPERSEDED:
                self._superseded(report.error)

    def _preflight_done(self, slot: int, lanes: Collection[LaneKey], problems: tuple[str, ...]) -> None:
        condition = executor_unfit(problems) if problems else None
        for flow in {flow for flow, _ in lanes}:
            self._board.set_condition(flow, f"executor of lease {slot}", condition)


def _key(entries: list[Any]) -> LaneKey:
    return str(entries[0]), int(entries[1])
