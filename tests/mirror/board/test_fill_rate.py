"""The rate at which new copies are filled: soon after a restart, never of what a lane only told late."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler_mirror.board.flow_state import FillSamples


def after(steps: Iterable[tuple[float, int]]) -> FillSamples:
    samples = FillSamples()
    for now, left in steps:
        samples = samples.seen(now, left)
    return samples


def test_a_restart_has_a_rate_from_its_first_step() -> None:
    """Before lanes have told anything nothing is left, which is no place to count from."""
    begun = [(0.0, 0), (1.0, 0), (2.0, 8_000)]
    assert after(begun).per_second(2.0) == 0
    assert after([*begun, (4.0, 6_000)]).per_second(4.0) == 1_000


def test_the_first_report_of_a_lane_is_no_progress_backwards() -> None:
    told = [(0.0, 8_000), (1.0, 7_000), (2.0, 15_000), (4.0, 13_000)]
    assert after(told).per_second(4.0) == 1_000


def test_it_falls_while_nothing_moves_and_is_known_between_long_steps() -> None:
    told = [(0.0, 9_000), (2.0, 8_000), (30.0, 7_000), (40.0, 7_000)]
    assert after(told[:2]).per_second(2.0) == 500
    assert after(told[:3]).per_second(30.0) == 35.7
    assert after(told).per_second(40.0) == 26.3


def test_the_window_moves_on() -> None:
    slow, fast = [(float(at), 100_000 - at) for at in range(20)], [(20.0 + at, 90_000 - 100 * at) for at in range(20)]
    assert after([*slow, *fast]).per_second(39.0) == 100


def test_what_is_filled_is_forgotten() -> None:
    assert after([(0.0, 10), (1.0, 0)]) == FillSamples()
