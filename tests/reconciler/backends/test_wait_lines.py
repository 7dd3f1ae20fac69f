"""A waiting user sees the reason: new words at once, the same ones now and then."""

from __future__ import annotations

from reconciler.backends.wait_lines import AGAIN_S, SOON_S, WaitLines


def test_new_words_are_reported_and_the_same_ones_now_and_then() -> None:
    now: list[float] = [100.0]
    said: list[str] = []
    lines = WaitLines(said.append, clock=lambda: now[0])
    for at, words in ((0, "a"), (SOON_S, "a"), (SOON_S + 1, "a"), (SOON_S + 2, "b"), (SOON_S + 2 + AGAIN_S, "b")):
        now[0] = 100.0 + at
        lines.show(words)
    assert said == ["a", "b", "b, for 15 s now"]


def test_what_is_over_soon_is_not_reported() -> None:
    said: list[str] = []
    lines = WaitLines(said.append, clock=lambda: 0.0)
    lines.show("a leader")
    assert said == []
