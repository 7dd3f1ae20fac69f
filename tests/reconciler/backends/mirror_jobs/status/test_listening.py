"""New records and our own clock show whether a job reports; no clock of another machine counts."""

from __future__ import annotations

from reconciler.backends.mirror_jobs.status.records import Listening
from reconciler.replication.records.compacted_topic import Newest


class Ears:
    """A listening at times that the test gives."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.listening = Listening(lambda: self.now)

    def heard(self, at: float, offset: int) -> bool | None:
        self.now = 1000.0 + at
        self.listening.note("job", Newest(0, offset, 0, b""))
        return self.listening.speaks("job", 5.0)


def test_the_first_look_reports_nothing_and_silence_only_after_the_patience() -> None:
    ears = Ears()
    assert [ears.heard(at, 7) for at in (0, 2, 5, 5.1, 100)] == [None, None, None, False, False]


def test_a_record_that_came_between_two_looks_is_a_word_for_as_long_as_the_patience() -> None:
    ears = Ears()
    assert [ears.heard(0, 7), ears.heard(2, 8), ears.heard(6, 8)] == [None, True, True]
    assert ears.heard(7.1, 8) is False
    assert ears.heard(8, 9) is True


def test_a_record_that_came_in_a_long_pause_of_ours_may_be_old() -> None:
    ears = Ears()
    assert [ears.heard(0, 7), ears.heard(60, 8), ears.heard(62, 9)] == [None, None, True]
