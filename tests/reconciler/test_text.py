"""What is listed together."""

from __future__ import annotations

from reconciler.text import grouped


def test_keys_and_values_keep_their_order() -> None:
    groups = grouped((text[0], text) for text in ("banana", "apple", "blueberry", "apple"))
    assert list(groups.items()) == [("b", ["banana", "blueberry"]), ("a", ["apple", "apple"])]


def test_nothing_makes_no_group() -> None:
    assert grouped(()) == {}
