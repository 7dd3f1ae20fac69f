"""The soak's own judgement: what it calls lost, doubled, out of order, and wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.soak import faults
from bench.soak.__main__ import chosen, turns
from bench.soak.faults import FAULTS
from bench.soak.table import Row, page
from bench.soak.truth import Counts, PartitionTruth
from bench.soak.watch import STANDS_RECORDS, Sample, judged, told
from bench.soak.world import Record, SoakError, World


def followed(steps: Iterable[tuple[str, int]]) -> PartitionTruth:
    part = PartitionTruth()
    for side, number in steps:
        (part.source if side == "s" else part.target)(b"%d" % number)
    return part


def judged_copy(part: PartitionTruth) -> tuple[int, int, int]:
    return len(part.missing), part.doubled, part.reordered


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_true_copy_is_true_however_both_readers_are_delayed(records: int, chance: random.Random) -> None:
    part, source, target = PartitionTruth(), 0, 0
    while source < records or target < records:
        if source < records and chance.random() < 0.5:
            part.source(b"%d" % source)
            source += 1
        elif target < records:
            part.target(b"%d" % target)
            target += 1
    assert judged_copy(part) == (0, 0, 0)
    assert (part.copied, len(part.waiting), len(part.held)) == (records, 0, 0)


@given(st.integers(3, 30), st.data())
def test_what_is_lost_doubled_or_moved_is_counted(records: int, data: st.DataObject) -> None:
    source = [("s", number) for number in range(records)]
    at = data.draw(st.integers(0, records - 2))
    copy = [("t", number) for number in range(records)]
    assert judged_copy(followed([*source, *copy[:at], *copy[at + 1 :]])) == (1, 0, 0)
    assert judged_copy(followed([*source, *copy[: at + 1], *copy[at:]])) == (0, 1, 0)
    swapped = [*copy[:at], copy[at + 1], copy[at], *copy[at + 2 :]]
    assert judged_copy(followed([*source, *swapped])) == (0, 0, 1)


def test_a_record_of_no_one_is_held_and_seen() -> None:
    part = followed([("s", 1), ("t", 99), ("t", 1)])
    assert list(part.held) == [b"99", b"1"]


def flow(lag: int | None = 0, *codes: str) -> dict[str, object]:
    return {"records_lag": lag, "conditions": [{"code": code} for code in codes]}


@pytest.mark.parametrize(
    ("state", "flows", "clusters", "well"),
    [
        ("running", {"a": flow()}, {}, True),
        ("running", {"a": flow(3)}, {}, False),
        ("running", {"a": flow(None)}, {}, False),
        ("running", {"a": flow(0, "source_unreachable")}, {}, False),
        ("running", {"a": flow()}, {"east": {"state": "unknown"}}, False),
        ("starting", {"a": flow()}, {}, False),
        ("running", {}, {}, False),
    ],
)
def test_all_is_well_only_when_every_word_says_so(
    state: str, flows: dict[str, object], clusters: dict[str, object], well: bool
) -> None:
    assert judged({"mirrors": {"west": {"state": state, "flows": flows}}, "clusters": clusters})[1] is well


def test_a_sample_is_wrong_when_all_is_called_well_while_records_stand() -> None:
    assert Sample(0.0, "running, lag 0", well=True, stood=STANDS_RECORDS).wrong
    assert not Sample(0.0, "running, lag 7", well=False, stood=STANDS_RECORDS).wrong
    assert not Sample(0.0, "running, lag 0", well=True, stood=0).wrong


def test_what_status_said_is_reported_once_for_as_long_as_it_was_the_same() -> None:
    samples = [Sample(at, said, well=False, stood=0) for at, said in ((2, "running, lag 9"), (7, "running, lag 12"))]
    assert list(told([*samples, Sample(12, "stale, lag unknown", False, 0)], 1)) == [
        "1 s: running, behind",
        "11 s: stale, lag unknown",
    ]


def test_each_fault_has_its_turn_and_its_own_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    some = chosen("broker,cut")
    assert {fault.name for fault in some} > {"source cut", "kill -9 of the target broker"}
    order = turns(some, random.Random(1), 60)
    assert {next(order).name for _ in some} == {fault.name for fault in some}
    with pytest.raises(SoakError, match="source cut"):
        chosen("earthquake")


RECORDS: list[Record] = [(b"k", b"1", 0), (b"k", b"2", 0), (b"k", b"3", 0)]


@pytest.mark.parametrize(
    ("copies", "wrong"),
    [
        ([[], RECORDS[:1], RECORDS, RECORDS], ""),
        ([RECORDS[2:]], "does not hold that"),
        ([RECORDS[::-1]], "does not hold that"),
        ([[*RECORDS, RECORDS[0]]], "does not hold that"),
        ([RECORDS, RECORDS + RECORDS], "written to again"),
    ],
    ids=["same", "continues after the position", "another order", "one twice", "all again later"],
)
def test_a_recreated_topic_has_to_be_its_source_once_and_stay_so(
    monkeypatch: pytest.MonkeyPatch, copies: list[list[Record]], wrong: str
) -> None:
    """``copies``: what the new topic holds at each look; the last one from then on."""
    later = iter(copies)
    seen = copies[0]

    def records(side: str, _: str) -> list[Record]:
        nonlocal seen
        if side == "target":
            seen = next(later, seen)
        return RECORDS if side == "source" else seen

    def await_that(what: str, holds: Callable[[], bool]) -> None:
        if not any(holds() for _ in range(3)):
            raise SoakError(f"after 0 s it does not hold that {what}")

    monkeypatch.setattr("bench.soak.faults.HEARD_S", 0)
    made = SimpleNamespace(write=lambda *_: None, records=records, await_that=await_that)
    if not wrong:
        faults.copied_from_the_start(cast(World, made))
        return
    with pytest.raises(SoakError, match=wrong):
        faults.copied_from_the_start(cast(World, made))


def test_the_page_has_the_sums_and_what_did_not_go_as_it_should() -> None:
    rows = [
        Row("source cut", Counts(10), 2.0, "3 s: running", 0),
        Row("source cut", Counts(10, doubled=1), 7.0, "4 s: stale", 2),
        Row("disk full", Counts(), None, "", 0, "OSError: no"),
    ]
    text = page(rows, Counts(20, doubled=1), 2, "Measured.")
    assert "| source cut | 2 | 0 / 1 / 0 | 2 to 7 | 4 s: stale | 2 |" in text
    assert "| disk full | 1 | 0 / 0 / 0 | not recovered | no answer yet | 0 |" in text
    assert "status called all well 2 times while records waited" in text
    assert "* disk full: OSError: no" in text
