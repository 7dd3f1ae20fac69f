"""Verifies a fence: for some seconds no end offset moves, no producer writes, and no transaction is open."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import ReconcilerError
from reconciler.kafka.protocol.producers.describe_producers import ActiveProducer
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.model.reports.failover import Key
from reconciler.operations.cutover.decide import ROLLBACK
from reconciler.operations.cutover.world import CutoverWorld
from reconciler.text import counted, first_of, moment

LOOK_S = 0.5
MIRRORS = "mirror."
"""Prefix of the transactional ids of mirrors."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the origin while its fence is verified."""

    ends: Mapping[Key, int]
    producers: Mapping[tuple[Key, int], ActiveProducer]
    """Without mirrors that the fence spares, which write to ``mirrored``."""
    mirrored: frozenset[Key]
    undecided: tuple[str, ...]
    """Partitions with open transactions."""
    unknown: tuple[str, ...]

    @property
    def open(self) -> list[tuple[Key, ActiveProducer]]:
        return [(key, each) for (key, _), each in self.producers.items() if each.open_from >= 0]


class FenceWatch:
    def __init__(self, world: CutoverWorld, plan: CutoverPlan) -> None:
        self.world, self.plan = world, plan
        self._names: dict[int, str] = {}

    def verified(self) -> tuple[Mapping[Key, int], str]:
        """The end of every partition, and a summary. Raises ReconcilerError, which names producers that still write."""
        its, began, aborted = self.plan.settings, self.world.now(), False
        before, since, last = self._look(), self.world.now(), ""
        while True:
            self.world.sleep(min(LOOK_S, its.hold_s or LOOK_S))
            look = self._look()
            words = self._moved(before, look) or self._waits(look)
            now = self.world.now()
            if words:
                since, last = now, words
            elif now - since >= its.hold_s:
                # Producers may be silent without a fence, so a write as the probe's principal must be refused, too.
                if not (through := sorted(self.world.let_through())):
                    refused = f", a write as {self.plan.probe} is refused" if self.plan.probe else ""
                    text = f"{counted(len(look.ends), 'partition')} did not grow for {its.hold_s:g} s"
                    text += f", no producer wrote, no transaction is open{refused} ({now - began:.1f} s)"
                    return look.ends, text
                partitions = [f"{topic}-{number}" for topic, number in through]
                since, last = now, f"a write as {self.plan.probe} is let through in {first_of(partitions)}"
            before = look
            if now - began <= its.within_s + its.hold_s:
                continue
            # Once, and only if the plan says so: the transaction of a producer that the fence cut off would time out by
            # itself, but until then no read_committed reader gets past it.
            if its.aborts and not aborted and look.open:
                for name in sorted({self._names.get(each.producer_id, "") for _, each in look.open} - {""}):
                    self.world.say(f"aborts the open transaction of {name}")
                    self.world.abort(name)
                aborted, began = True, now
                continue
            raise self._error(last, look, aborted=aborted)

    def _look(self) -> _Look:
        """Ends, producers and open transactions now, without those of mirrors that the fence spares."""
        states, producers = self.world.partitions(), self.world.producers() or {}
        # Brokers report producer ids. Each name is looked up only once, since that asks every broker.
        if fresh := {each.producer_id for active in producers.values() for each in active} - self._names.keys():
            names = self.world.names(fresh)
            self._names |= {number: names.get(number, "") for number in fresh}
        writing: dict[tuple[Key, int], ActiveProducer] = {}
        mirrored: set[Key] = set()
        for key, each in ((key, each) for key, active in producers.items() for each in active):
            if self.plan.fence.spared and self._names[each.producer_id].startswith(MIRRORS):
                mirrored.add(key)
            else:
                writing[key, each.producer_id] = each
        unknown = [f"{key[0]}-{key[1]}" for key, state in states.items() if state.written is None]
        undecided = [f"{key[0]}-{key[1]}" for key, state in states.items() if state.undecided and key not in mirrored]
        ends = {key: state.written for key, state in states.items() if state.written is not None}
        return _Look(ends, writing, frozenset(mirrored), tuple(undecided), tuple(unknown))

    def _moved(self, before: _Look, look: _Look) -> str:
        """Words that name the remaining writers and their partitions; empty if there are none. Transaction markers move
        ends, too, so producers are compared as well. Partitions that only mirrors write may move."""
        moved = [
            f"{key[0]}-{key[1]} from {before.ends.get(key, 0):,} to {end:,}"
            for key, end in look.ends.items()
            if before.ends.get(key) != end and key not in look.mirrored
        ]
        writing = [
            f"{self._called(each)} in {key[0]}-{key[1]} (last record {moment(each.last_ms)})"
            for (key, number), each in look.producers.items()
            if _written(before.producers.get((key, number))) != _written(each)
        ]
        parts = [f"still written: {first_of(moved)}"] if moved else []
        parts += [f"by {first_of(writing)}"] if writing else []
        return " ".join(parts)

    def _called(self, producer: ActiveProducer) -> str:
        return self._names.get(producer.producer_id) or f"producer {producer.producer_id}"

    def _waits(self, look: _Look) -> str:
        """Why silence proves nothing yet: an end is unknown, or an open transaction may still commit records."""
        if look.unknown:
            return f"where {first_of(look.unknown)} ends is not known: no leader answers"
        if look.open:
            words = [f"{self._called(each)} in {key[0]}-{key[1]} from {each.open_from:,} on" for key, each in look.open]
            return f"open transactions: {first_of(words)}"
        if look.undecided:
            return f"open transactions in {first_of(look.undecided)}, whose producers brokers do not name"
        return ""

    def _error(self, last: str, look: _Look, *, aborted: bool) -> ReconcilerError:
        """The error with the remedy of its cause: end an open transaction, stop a producer without a fence, or stop a
        super user, whom no rule binds."""
        its, origin = self.plan.settings, self.plan.origin
        back = f"or let producers continue: {ROLLBACK}"
        if look.open and not aborted:
            todo = f"End them, and run this again; plan with --abort-transactions to have them aborted; {back}"
        elif look.open:
            todo = f"No right to abort them, or no transactional id: kafka-transactions.sh find-hanging; {back}"
        elif self.plan.fence.obstacle:
            todo = f"There is no fence on {origin}: stop these producers, and run this again; {back}"
        else:
            todo = "Rules do not bind super users: stop these producers, or take super.users from them, and run this "
            todo += f"again; {back}"
        return ReconcilerError(
            f"{origin} does not come to rest for {its.hold_s:g} s within {its.within_s:g} s: {last}",
            "What is written now would be left behind. Clients are where they were, and nothing else was changed.",
            todo,
        )


def _written(producer: ActiveProducer | None) -> tuple[int, int] | None:
    return None if producer is None else (producer.last_ms, producer.last_sequence)
