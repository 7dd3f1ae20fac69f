"""The chain of the audit record: what was changed, removed or rewritten, and what no chain can prove."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Unknown
from reconciler.model.state.audit_chain import (
    PREVIOUS,
    AuditVerification,
    ChainReport,
    check,
    compared,
    digest,
    pinned_somewhere,
)


def chain(length: int, after: str | None = None, run: str = "a") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number in range(length):
        records.append({"kind": "change", "run": run, "at": f"t{number}", "id": number, PREVIOUS: after})
        after = digest(records[-1])
    return records


def test_a_whole_chain_has_its_beginning_and_its_head() -> None:
    records = chain(5)
    report = check(records)
    assert (report.whole, report.since, report.records, report.before) == (True, "t0", 5, "")
    assert report.heads == (digest(records[-1]),)


@given(st.integers(2, 8), st.data())
def test_a_record_that_was_changed_or_taken_out_is_noticed_at_the_next(length: int, data: st.DataObject) -> None:
    records = chain(length)
    at = data.draw(st.integers(1, length - 2)) if length > 2 else 0
    original = digest(records[at])
    if at and data.draw(st.booleans()):
        del records[at]
        present = digest(records[at - 1])
    else:
        records[at]["id"] = "forged"
        present = digest(records[at])
    broken = check(records).broken
    assert broken is not None
    assert (broken.expected, broken.present) == (original, present)
    assert (broken.at, "missing, or was changed" in broken.problem) == (f"t{at + 1}", True)


def test_records_of_older_releases_are_counted_where_they_come_first() -> None:
    old = {"kind": "end", "run": "o", "at": "t"}
    report = check([old, *chain(2, digest(old))])
    assert (report.whole, report.unchained, report.records, report.before) == (True, 1, 2, "")
    broken = check([*chain(2), old]).broken
    assert broken is not None
    assert "carries no digest" in broken.problem


def test_a_missing_beginning_is_not_proved_and_reported_by_its_digest() -> None:
    records = chain(4)
    report = check(records[2:])
    assert (report.whole, report.before, report.since) == (False, digest(records[1]), "t2")
    assert f"the first record follows {digest(records[1])}" in report.doubts[0]


def test_records_whose_digests_were_taken_away_are_not_proved() -> None:
    bare = [{name: value for name, value in record.items() if name != PREVIOUS} for record in chain(3)]
    report = check(bare)
    assert not report.whole
    assert "none of its 3 records carries a digest" in report.doubts[0]


@given(st.permutations(range(4)))
def test_another_order_is_noticed(order: list[int]) -> None:
    records = chain(4)
    shuffled = [records[number] for number in order]
    assert check(shuffled).whole is (order == [0, 1, 2, 3])


PLACE = "east/audit"


def verify(file: list[dict[str, Any]], topic: list[dict[str, Any]]) -> dict[str, ChainReport]:
    records = {"this machine": file, PLACE: topic}
    return compared({name: check(lines) for name, lines in records.items()}, records)


def test_an_empty_place_is_not_proved_while_another_one_holds_records() -> None:
    for file, topic, empty in (([], chain(3), "this machine"), (chain(3), [], PLACE)):
        reports = verify(file, topic)
        assert not reports[empty].whole
        assert "it holds no record" in reports[empty].doubts[0]
        assert [report.whole for name, report in reports.items() if name != empty] == [True]
    assert all(report.whole for report in verify([], []).values())


def test_what_the_topic_says_otherwise_than_the_file_is_named_in_both() -> None:
    """Also of the last record, which no digest protects."""
    whole = chain(3)
    for forged in ([*whole[:-1], {**whole[-1], "id": "forged"}], chain(4)):
        reports = verify(whole, forged)
        assert not any(report.whole for report in reports.values())
        assert "one of the two was changed" in reports["this machine"].doubts[0]
    assert all(report.whole for report in verify([*whole, *chain(2, digest(whole[-1]), run="pause")], whole).values())
    other_machine = chain(2, run="elsewhere")
    assert all(report.whole for report in verify(whole, other_machine).values())


def test_a_chain_that_begins_again_is_broken() -> None:
    broken = check([*chain(2), *chain(2, run="b")]).broken
    assert broken is not None
    assert (broken.run, broken.expected) == ("b", "")
    assert "starts again" in broken.problem


def test_records_that_were_put_in_make_two_heads_and_are_not_proved() -> None:
    """As two writers at once do, after a stolen lock."""
    records = chain(2)
    both = [*records, *chain(1, digest(records[0]), run="b")]
    report = check(both)
    assert report.broken is None
    assert "several heads: records were put in" in report.doubts[0]
    assert set(report.heads) == {digest(records[1]), digest(both[-1])}


def test_a_record_that_was_sent_twice_counts_once() -> None:
    records = chain(3)
    report = check([*records[:2], *records])
    assert (report.whole, report.records, len(report.heads)) == (True, 3, 1)


def test_a_head_kept_elsewhere_reveals_a_cut_and_a_rewritten_chain() -> None:
    records = chain(4)
    head = digest(records[-1])
    assert check(records, head).whole
    for history in (records[:-1], chain(4, run="forged")):
        assert check(history).whole, "nothing in the chain itself tells"
        report = check(history, head)
        assert (report.whole, report.pinned) == (False, False)


def test_no_record_is_no_chain() -> None:
    report = check([])
    assert (report.whole, report.since, report.heads) == (True, "", ())


def test_a_head_is_of_one_place_and_says_nothing_of_the_others() -> None:
    here, there = chain(3), chain(3, run="b")
    head, silent = digest(here[-1]), Unknown("topic east/audit", "east does not answer", "")

    def verified(pinned: str, **more: Unknown) -> AuditVerification:
        return AuditVerification(
            "prod", pinned_somewhere({"here": check(here, pinned), "there": check(there, pinned), **more})
        )

    assert verified(head).exit_code == 0
    assert verified("sha256:0").exit_code == 2
    assert verified("sha256:0", silent=silent).exit_code == 1, "it may be where nothing answers"
    assert verified(head, silent=silent).exit_code == 1
