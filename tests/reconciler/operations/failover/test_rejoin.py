"""Ways back in memory, killed at every call and gone on with by another run, while producers may still write.

What must hold: no record of the old source is gone unless it is kept or was given up; in the end both sides are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import ReconcilerError
from reconciler.model.options import KeepDiverged
from reconciler.model.reports.failover import FailoverStep, PartedPartition, StepResult, diverged_topics
from reconciler.model.state.rejoin_journal import RejoinJournal, RejoinTopic, dumps, loads
from reconciler.operations.cutover.world import in_order
from reconciler.operations.failover.rejoin import Rejoin, RejoinPlan, place_words

Logs = dict[str, list[list[str]]]
"""Topic -> partition -> value by offset."""
PLACE = "west:TOPIC.diverged.f"


class KilledError(BaseException):
    """kill -9: nothing after it runs."""


@dataclass
class TwoSides:
    """``kill_at``: number of the call that kills. ``late``: number of the call at which a producer that was not stopped
    writes to the old source. ``silent``: no partition can be compared. ``loses``: what is kept is not read back."""

    source: Logs
    target: Logs
    kill_at: int = -1
    late: int = -1
    silent: bool = False
    loses: bool = False
    undecides: tuple[str, ...] = ()
    fenced: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    kept_record: bytes | None = None
    deleted: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    calls: int = 0

    def __post_init__(self) -> None:
        self.ids = dict.fromkeys(self.source, "first")
        self.positions = dict.fromkeys(self.source, "first")
        self.written = {value for log in self.source.values() for part in log for value in part}

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.late and self.source:
            log = self.source[min(self.source)][0]
            log.append(f"late {self.calls}")
            self.written.add(log[-1])
        if self.calls == self.kill_at:
            raise KilledError

    def lost(self) -> set[str]:
        present = {value for log in self.source.values() for part in log for value in part}
        there = {value for log in self.target.values() for part in log for value in part}
        return self.written - present - there - self.kept

    # the port

    def parted(self) -> tuple[PartedPartition, ...]:
        self._call()
        found = []
        for topic, log in sorted(self.source.items()):
            for number, here in enumerate(log):
                there = self.target[topic][number]
                same = next((n for n, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), None)
                at = min(len(here), len(there)) if same is None else same
                key, ours, theirs = (topic, number), len(here) - at, len(there) - at
                if self.silent:
                    found.append(PartedPartition(key, key, unknown="no answer"))
                elif ours or theirs:
                    found.append(PartedPartition(key, key, at, len(here), len(there), ours, theirs))
        return tuple(found)

    def topics(self, names: Collection[str]) -> Mapping[str, RejoinTopic]:
        self._call()
        return {
            name: RejoinTopic(name, self.ids[name], 1, tuple(map(len, self.source[name])), {"a": "b"})
            for name in names
            if name in self.source
        }

    def undecided(self, names: Collection[str]) -> Sequence[str]:
        return self.undecides if names else ()

    def longer(self) -> frozenset[str]:
        pairs = {topic: zip(log, self.target[topic], strict=True) for topic, log in self.source.items()}
        return frozenset(topic for topic, both in pairs.items() if any(len(here) < len(there) for here, there in both))

    def journal(self) -> RejoinJournal | None:
        return None if self.kept_record is None else loads(self.kept_record)

    def record(self, place: str, topics: Sequence[RejoinTopic], *, over: bool) -> None:
        self._call()
        self.kept_record = dumps(RejoinJournal("e", "f", "me", 1, place, tuple(topics), over=over))
        self._call()

    def keep(self, partitions: Sequence[PartedPartition]) -> int:
        count = 0
        for each in partitions:
            self._call()
            values = self.source[each.source[0]][each.source[1]][each.at : each.source_end]
            self.kept |= set(values)
            count += len(values)
        self._call()
        return count - int(self.loses)

    def delete(self, topic: RejoinTopic) -> None:
        # What is written between the last look and this is lost: Kafka cannot delete a topic on a condition.
        assert self.ids[topic.name] == topic.topic_id
        del self.source[topic.name]
        self.deleted.append(topic.name)
        self._call()

    def create(self, topic: RejoinTopic) -> None:
        if topic.name not in self.source:
            self.source[topic.name] = [[] for _ in topic.ends]
            self.ids[topic.name] = f"made {self.calls}"
            self._call()

    def narrow(self, topics: Collection[str]) -> int:
        self._call()
        count = len(self.fenced & set(topics))
        self.fenced -= set(topics)
        self._call()
        return count

    def fill(self, topics: Collection[str]) -> str:
        if closed := self.fenced & set(topics):
            raise ReconcilerError(f"the mirror may not write {closed}")
        for topic in sorted(topics):
            for number, log in enumerate(self.source[topic]):
                whole = self.target[topic][number]
                while log != whole:
                    self._call()
                    if log != whole[: len(log)]:
                        raise ReconcilerError("offsets_diverged", "the mirror writes nothing after it")
                    log.append(whole[len(log)])
        return "filled"

    def seek(self, topic: str) -> int:
        self._call()
        before, self.positions[topic] = self.positions[topic], self.ids[topic]
        return int(before != self.positions[topic])

    # the loop

    def now(self) -> float:
        return 0.0

    def say(self, text: str) -> None:
        pass

    def run(self, place: str = PLACE) -> tuple[FailoverStep, ...]:
        """One run of the command: it looks, and does what it has found. Empty: nothing was to do."""
        journal = self.journal()
        pending = None if journal is None or journal.over else journal
        plan = RejoinPlan("f", "east", "west", place, self.parted(), pending, fenced=tuple(sorted(self.fenced)))
        planned = [step.name for step in plan.steps()]
        if not plan.needed:
            assert not planned
            return ()
        assert {"keep", "fill", "compare"} <= set(planned)
        return in_order(self, Rejoin(self, plan).acts().items(), lambda _, act: act())


def logs(tails: Mapping[str, Sequence[tuple[int, int]]]) -> TwoSides:
    """Topic -> records of its partitions that only the old source has, and only the target."""
    source, target = Logs(), Logs()
    for topic, parts in tails.items():
        same = [[f"{topic}-{n} {offset}" for offset in range(3)] for n in range(len(parts))]
        for name, side, log in (("alone", 0, source), ("there", 1, target)):
            log[topic] = [
                [*both, *(f"{topic}-{n} {name} {i}" for i in range(parts[n][side]))] for n, both in enumerate(same)
            ]
    return TwoSides(source, target)


tails = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=2),
    min_size=1,
)
BOTH = {"a": [(2, 1), (1, 0)], "b": [(0, 2), (0, 0)]}


@given(tails, st.lists(st.integers(1, 40), max_size=4), st.integers(1, 60))
@example(BOTH, [7], -1)
@example(BOTH, [9, 3, 3], -1)
@example({"a": [(1, 0), (0, 1)]}, [5], 4)
def test_killed_anywhere_it_loses_nothing_and_ends_with_both_sides_the_same(
    parts: Mapping[str, Sequence[tuple[int, int]]], kills: list[int], late: int
) -> None:
    sides = logs(parts)
    only_source = {topic for topic, some in parts.items() if not any(theirs for _, theirs in some)}
    sides.late = late
    for kill in [*kills, *([-1] * 4)]:
        sides.kill_at = -1 if kill < 0 else sides.calls + kill
        try:
            steps = sides.run()
        except KilledError:
            assert not sides.lost()
            continue
        assert not sides.lost()
        if not steps or steps[-1].result is not StepResult.FAILED:
            break
    else:
        pytest.fail(f"never the same: {sides}")
    left = {topic for topic in sides.source if sides.source[topic] != sides.target[topic]}
    assert left <= only_source | ({min(parts)} if sides.late > 0 else set()), "what the flow copies when it is resumed"
    assert all(sides.positions[topic] == sides.ids[topic] for topic in sides.source)
    journal = sides.journal()
    assert journal is None or journal.over


@pytest.mark.parametrize("kill", range(1, 26))
def test_killed_at_each_call(kill: int) -> None:
    sides = logs(BOTH)
    sides.kill_at = kill
    try:
        sides.run()
    except KilledError:
        sides.kill_at = -1
        sides.run()
    assert sides.source == sides.target
    assert {value for value in sides.written if "alone" in value} <= sides.kept
    assert sides.deleted == ["a"]
    assert sides.run() == (), "nothing is left to do"


def test_only_topics_of_which_both_sides_have_records_are_deleted() -> None:
    sides = logs({"a": [(2, 1), (0, 0)], "b": [(2, 0), (0, 0)], "c": [(0, 2), (0, 0)], "d": [(1, 0), (0, 1)]})
    assert diverged_topics(sides.parted()) == {"a", "d"}
    sides.run()
    assert sides.deleted == ["a", "d"]
    assert sides.kept == {"a-0 alone 0", "a-0 alone 1", "d-0 alone 0"}
    assert sides.source["b"] != sides.target["b"], "the flow copies it when it is resumed"
    assert sides.source["c"] == sides.target["c"]


def test_what_is_given_up_is_kept_nowhere() -> None:
    sides = logs(BOTH)
    steps = {step.name: step.text for step in sides.run("")}
    assert steps["keep"] == "3 records that only east has are given up, as agreed"
    assert (sides.kept, sides.source) == (set(), sides.target)


def failed(sides: TwoSides) -> str:
    last = sides.run()[-1]
    assert last.result is StepResult.FAILED
    return last.text


def nothing_deleted(spoil: Callable[[TwoSides], None]) -> str:
    sides = logs(BOTH)
    spoil(sides)
    parted = replace(sides, silent=False).parted()
    plan = RejoinPlan("f", "east", "west", PLACE, parted)
    steps = in_order(sides, Rejoin(sides, plan).acts().items(), lambda _, act: act())
    assert (steps[-1].name, steps[-1].result, sides.deleted) == ("keep", StepResult.FAILED, [])
    return steps[-1].text


def test_what_cannot_be_compared_is_never_taken_for_the_same() -> None:
    assert "is not known" in nothing_deleted(lambda sides: setattr(sides, "silent", True))


def test_records_that_are_not_read_back_keep_their_topic() -> None:
    assert "2 of 3 records" in nothing_deleted(lambda sides: setattr(sides, "loses", True))


def test_an_open_transaction_is_waited_for() -> None:
    assert "open transactions in a-0" in nothing_deleted(lambda sides: setattr(sides, "undecides", ("a-0",)))


def test_a_plan_that_the_old_source_has_outrun_is_stale() -> None:
    sides = logs(BOTH)
    plan = RejoinPlan("f", "east", "west", PLACE, sides.parted())
    sides.source["a"][1].append("late")
    (step,) = in_order(sides, Rejoin(sides, plan).acts().items(), lambda _, act: act())
    assert "other records of its own than the plan says" in step.text
    assert "a-1 3 to 4 (1)" in step.text
    assert "a-1 3 to 5 (2)" in step.text


def test_a_topic_that_was_written_after_its_records_were_kept_stays() -> None:
    sides = logs(BOTH)
    sides.late = sides.calls + 9
    assert "was written since its records were kept" in failed(sides)
    assert sides.deleted == []
    sides.run()
    assert sides.source == sides.target
    assert not sides.lost()


def test_producers_that_go_on_at_the_target_are_named() -> None:
    sides = logs(BOTH)
    seek = sides.seek

    def write(topic: str) -> int:
        sides.target["b"][0].append("written meanwhile")
        return seek(topic)

    sides.seek = write  # type: ignore[method-assign]
    assert "lacks 1 record that west has by now" in failed(sides)
    sides.seek = seek  # type: ignore[method-assign]
    sides.run()
    assert sides.source == sides.target


def test_a_topic_that_is_gone_again_is_not_taken_for_the_same() -> None:
    sides = logs(BOTH)
    seek = sides.seek

    def take_away(topic: str) -> int:
        sides.source.pop(topic)
        return 0

    sides.seek = take_away  # type: ignore[method-assign]
    assert "east does not have a" in failed(sides)
    sides.seek = seek  # type: ignore[method-assign]
    sides.run()
    assert sides.source == sides.target


@pytest.mark.parametrize(
    ("choice", "words"), [("to-topic", "west:TOPIC.diverged.f"), ("to-file", "/f"), ("discard", "")]
)
def test_where_records_are_kept(choice: str, words: str) -> None:
    assert place_words(KeepDiverged(choice), "f", "west", "/f") == words


@given(kill=st.integers(1, 40))
def test_a_fence_for_everyone_names_its_producers_before_anything_is_deleted(kill: int) -> None:
    sides = logs({"orders": [(2, 3), (0, 1)], "bills": [(0, 2)]})
    sides.fenced, sides.kill_at = {"orders", "bills"}, kill
    with suppress(KilledError):
        sides.run()
    assert not sides.deleted or not sides.fenced
    sides.kill_at = -1
    for step in sides.run():
        assert step.result is not StepResult.FAILED, step.text
    assert sides.source == sides.target
    assert not sides.lost()
