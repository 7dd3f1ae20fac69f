"""Leases on Spark: each is one job with one task, and the driver submits it again when it ends."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from reconciler.replication.handover import MirrorSettings
from reconciler_mirror import log_lines as logs
from reconciler_mirror.board.board import Board
from reconciler_mirror.board.unassigned import FORGOTTEN_S, STOPS_S, Untasked
from reconciler_mirror.conditions.flow import executor_unfit
from reconciler_mirror.leases import channel, preflight, running
from reconciler_mirror.leases.channel import ROWS
from reconciler_mirror.leases.channel_listener import Listener
from reconciler_mirror.leases.lanes import LaneOrders, LanePlacement
from reconciler_mirror.leases.task import LeaseSpec, in_task
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneKey, LaneProgress, LaneReport

LEASE_S = 60.0
"""A lease ends after so long without a message from its driver; with one, it continues without a pause."""
_RENEW_S = 15.0
_LONGEST_PAUSE_S = 10.0
COME_BACK_S = 15.0
"""How often a vacated slot checks whether Spark has a place for it again."""
ROWS_PER_S = 20_000
"""Rows of progress per second that all leases together may send: they cost the driver half a core."""
_log = logs.logger("leases")


class Leases:
    """Keeps ``parallelism`` leases running. It leases lanes at once: they prepare, and wait until their flow is taken
    over, so that the takeover does not wait for Spark.

    ``superseded`` is called when a lane learns that a later application owns its flow.
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
        # Guards the fields below; ``_untasked`` and ``_server`` have locks of their own. Slots wait on it for lanes or
        # the end.
        # No message is sent under it: a task with a full socket would hold up all others.
        self._guard = threading.Condition()
        self._stopping = False
        self._lost = 0
        self._failed: dict[int, str] = {}  # by slot, why its last lease failed after Spark had started it
        self._lanes = LaneOrders(settings.flows, board)
        self._placed = LanePlacement(self._board.measure_loads(), settings.parallelism)
        self._untasked = Untasked(key for key in self._lanes if key in self._placed)
        self._running = running.RunningLeases()
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
            live = list(self._running)
        for name in live:
            self._server.send(name, message)

    def prepared(self, flow: str) -> bool:
        """Whether every lane of the flow with partitions is ready to copy."""
        with self._guard:
            return not self._lanes.unprepared(flow)

    def unplaced(self) -> int:
        """Leases without a place from Spark. One with a Python worker that starts slowly, or fails, has a place."""
        with self._guard:
            waiting = self._placed.slots - self._running.signs.slots - self._failed.keys()
        return sum(not running.has_task(self._context, f"lease-{slot}") for slot in waiting)

    def unready(self, flow: str) -> Mapping[str, tuple[int, ...]]:
        """Lanes of the flow that are not ready to copy, by the reason for their wait."""
        with self._guard:
            connected, failed = self._running.signs.slots, dict(self._failed)
            slots = {key: self._placed[key] for key in self._lanes.unprepared(flow) if key in self._placed}
        unready: dict[str, tuple[int, ...]] = {}
        for key, slot in slots.items():
            why = running.why_not_ready(self._context, slot, connected, failed)
            unready[why] = (*unready.get(why, ()), key[1])
        return unready

    def lanes_without_task(self) -> frozenset[LaneKey]:
        """Lanes with partitions but without a task at present."""
        return frozenset(key for key in self._untasked.without() if self._board.specs(key))

    def failures(self) -> tuple[str, ...]:
        """Reasons of the leases that fail although Spark has a place for them, each once."""
        with self._guard:
            return tuple(sorted(set(self._failed.values())))

    def wait_for_room(self) -> bool:
        """Whether leases without a place may get one when another application ends."""
        return running.is_shared(self._context) and self.unplaced() > 0

    def counts(self) -> tuple[int, int]:
        """Running leases, and leases that Spark has lost so far."""
        with self._guard:
            return len(self._running), self._lost

    def report_untasked(self) -> str:
        """Reports lanes without a live task to the board; to be called every few seconds. Ends tasks that were silent
        for longer than a lease. Returns why no task can ever run again; empty otherwise."""
        if self.context_stopped():
            return running.CONTEXT_STOPPED
        with self._guard:
            silent = self._running.signs.silent()
            self._untasked.silent(self._running.silent_lanes(silent))

        # A task that is silent for a whole lease is frozen or cut off. Its lanes go to a new task, which fences it.
        for name in [name for name, seconds in silent.items() if seconds > LEASE_S]:
            _log.warning("a task was silent for longer than a lease and is ended", lease=name, seconds=LEASE_S)
            self._gone(name, f"it said nothing for {LEASE_S:.0f} s and was ended")
            self._context.cancelJobGroup(f"lease-{running.slot_of(name)}")

        # Lanes without partitions need no task. If Spark has no place for a slot, its lanes go to other slots.
        lanes = {key: gap for key, gap in self._untasked.lanes().items() if self._board.specs(key)}
        self._board.set_untasked(lanes, self._untasked.without())
        lost = {
            self._placed[key] for key, gap in lanes.items() if gap.why or (gap.seconds >= STOPS_S and not gap.silent)
        }
        self._leave_slots({slot for slot in lost if not running.has_task(self._context, f"lease-{slot}")})

        # A master that has forgotten this application never gives it an executor again, so waiting is pointless.
        if (ended := self._untasked.hopeless(FORGOTTEN_S)) and running.is_forgotten(self._context):
            return f"{ended}. The master has no executor for this application, as after a start without its state"
        return self._untasked.hopeless()

    def _leave_slots(self, slots: set[int]) -> None:
        """Moves the lanes of ``slots``, for which Spark has no place, to slots with a task; those end and start again.
        Cancels the waiting jobs first: otherwise they would get the cores of the leases that end."""
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
        """Waits until Spark has a place for a vacated slot; then its lanes come back. A core that is free only between
        two leases of another slot does not count."""
        if not running.find_place(self._context, slot):
            return
        with self._guard:
            if self._stopping or not self._running.all_connected():
                return
            origins = self._placed.come_back(slot)
        _log.info("lanes come back to a lease that has a place again", lease=slot)
        self._end_early(origins)

    def context_stopped(self) -> bool:
        return running.is_stopped(self._context)

    def share_rates(self) -> None:
        """Shares the rate limit of each limited flow among its lanes again, by their last reports."""
        if not self._lanes.share_rates():
            return
        with self._guard:
            live = self._running.lanes()
        for name, lanes in live.items():
            if self._lanes.rates(lanes)["rates"]:
                self._server.send(name, partial(self._lanes.rates, lanes))

    def partitions_changed(self) -> None:
        """Sends the board's present partitions and pauses to running leases."""
        with self._guard:
            live = self._running.lanes()
        for name, lanes in live.items():
            self._server.send(name, partial(self._lanes.partitions, lanes))

    def stop(self, patience_s: float, left: Callable[[], None] = lambda: None) -> bool:
        """Asks every lease to commit and leave. False if it had to cancel any. ``left`` is called once no lane is at
        work any more, slightly before Spark reports that."""
        give_up = time.monotonic() + patience_s
        with self._guard:
            self._stopping = True
            live = self._running.lanes()
            self._guard.notify_all()
        for name in live:
            self._server.send(name, {"stop": True})

        # A successor waits for the lanes only, and these leave before Spark reports the end of their jobs.
        with self._guard:
            self._guard.wait_for(lambda: self._running.all_left(live), timeout=patience_s)
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
        """The thread of one slot, that is, of one Spark core for the mirror: waits for lanes, leases them as a job with
        one task, and pauses longer after each failure. Returns when the mirror stops.

        Each slot has a job of its own, so that it can be cancelled, lost and submitted again without the others.
        """
        pause, number = 0.5, 0
        while (lanes := self._wait_for_lanes(slot)) is not None:
            if not lanes:
                self._come_back(slot)
                continue
            number += 1
            if self._lease(slot, number, lanes):
                pause = 0.5
                continue
            with self._guard:
                self._guard.wait_for(lambda: self._stopping, timeout=pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _wait_for_lanes(self, slot: int) -> tuple[LaneKey, ...] | None:
        """The lanes of the slot. Empty every ``COME_BACK_S`` for a vacated slot, None at the end."""
        with self._guard:
            while not self._stopping:
                if lanes := self._placed.lanes_of(slot):
                    return lanes
                if not self._guard.wait(COME_BACK_S) and slot in self._placed.vacated:
                    return ()
            return None

    def _lease(self, slot: int, number: int, lanes: tuple[LaneKey, ...]) -> bool:
        """Runs one Spark job. False if Spark lost it: its worker died or did not start."""
        # A name of its own for each lease: a late message of the slot's former task must not count for this one.
        name = f"{slot}.{number}"
        specs = self._lanes.specs(lanes)
        spec = LeaseSpec(
            name,
            specs,
            LEASE_S,
            self._server.address,
            self._server.token,
            self._settings.environment,
            self._settings.mirror,
            preflight.installed() if (elsewhere := running.is_shared(self._context)) else None,
            ROWS_PER_S / self._settings.parallelism,
        )
        given = preflight.packed(self._server.address if elsewhere else None, (in_task, spec))
        for key in lanes:
            self._board.lease_begins(key)
        # A lease is listed before Spark can start its task, or the task's first message would be refused.
        with self._guard:
            if self._stopping:
                return True
            self._running.begins(name, lanes)
        try:
            # Blocks until the lease is over. Each lane's last report comes back as the job's result; what the channel
            # brought before may be older, or may have been lost with a line.
            for report in running.run_job(self._context, slot, running.describe(slot, specs), given, preflight.checked):
                self._board.report(report)
                if report.end is LaneEnd.SUPERSEDED:
                    self._superseded(report.error)
        except Exception as error:  # noqa: BLE001  # whatever Spark throws, the lanes must be leased again
            why = running.cause(error)
            # A vacated slot, and a mirror that stops, lose nothing with the task.
            with self._guard:
                vacated, stopping = slot in self._placed.vacated, self._stopping
                if not stopping and not vacated:
                    self._lost += 1
                    self._failed[slot] = why
            if not stopping and not vacated:
                self._ends(name, lanes, why)
                _log.warning("lease lost, assigning it again", lease=running.describe(slot, specs), error=why)
            return vacated
        finally:
            # Spark may have lost sight of a task that still copies: it must leave before its lanes are leased again.
            self._server.end(name)
            self._ends(name, lanes)
            self._preflight_done(slot, lanes, ())
            with self._guard:
                self._running.ends(name)
                self._guard.notify_all()
        return True

    def _ends(self, lease: str, lanes: tuple[LaneKey, ...], why: str = "") -> None:
        """Marks lanes as without a task, unless another lease has taken them meanwhile."""
        with self._guard:
            taken = self._running.held_by_others(lease)
        self._untasked.ends(set(lanes) - taken, why)

    def _renew(self) -> None:
        """Renews leases: one ends only for a new placement, for a stop, or after the loss of its driver."""
        balanced = time.monotonic()
        while True:
            with self._guard:
                if self._guard.wait_for(lambda: self._stopping, timeout=_RENEW_S):
                    return
                live = list(self._running)
            for name in live:
                self._server.send(name, {"seconds": LEASE_S})

            # A move interrupts every lane of two leases, so at most one lane moves at a time, and only if that pays.
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
        """Has these leases commit and return; they start again with the present placement."""
        with self._guard:
            names = self._running.end_early(slots)
        for name in names:
            self._server.send(name, {"over": True})

    # the channel

    def _begins(self, lease: str) -> None:
        """A task has begun, perhaps Spark's second try under the same name: its counters begin at 0."""
        with self._guard:
            lanes = self._running.lanes_of(lease) or ()
        for key in lanes:
            self._board.lease_begins(key)

    def _orders(self, lease: str) -> channel.Message | None:
        """Everything that a task has to know when it connects, even again after a lost line: it replaces all earlier
        messages. None: the lease has ended, so the task is refused."""
        with self._guard:
            lanes = self._running.lanes_of(lease)
            if lanes is None:
                return None
            self._running.signs.begins(lease)
            self._untasked.begins(lanes)
            orders = {**self._lanes.claims(), "stop": self._stopping, "over": self._running.is_over(lease)}
        return {**self._lanes.partitions(lanes), **orders}

    def _broken(self, lease: str) -> None:
        """The line is the task's proof of life: Spark may notice the loss of an executor much later, and then tries the
        task again within the same job. A live task dials again at once, before anything is reported."""
        self._gone(lease, "its connection to the Spark driver ended before it did")

    def _gone(self, lease: str, why: str) -> None:
        with self._guard:
            lanes = self._running.line_ends(lease)
        self._untasked.ends(lanes, why)
        self._board.lost(lanes)

    def _on_message(self, lease: str, message: channel.Message) -> None:
        """Handles a task's message. The guard protects only the leases' own state: the board has its own lock, and
        decoding a report of thousands of partitions must not delay other tasks."""
        with self._guard:
            self._running.signs.hear(lease)
        if "alive" in message:
            self._board.at_work(_key(entries) for entries in message["alive"])
        # Both end a wait of the driver for a lane, so the waiting threads are woken.
        if "prepared" in message or "left" in message:
            with self._guard:
                if "prepared" in message:
                    self._lanes.prepared(_key(message["prepared"]))
                else:
                    self._running.lane_left(lease, _key(message["left"]))
                self._guard.notify_all()
        if "executor" in message:
            executor, problems = message["executor"], tuple(message["executor"]["problems"])
            note = _log.warning if problems else _log.info
            note("executor looked at", lease=lease, host=executor["host"], python=executor["python"], problems=problems)
            with self._guard:
                lanes = self._running.lanes_of(lease) or ()
            self._preflight_done(running.slot_of(lease), lanes, problems)
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
