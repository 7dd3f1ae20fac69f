"""Which groups travel, and when a translated offset may be written: MirrorMaker 2's rules, and never backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.groups import (
    EXCLUDED_GROUPS,
    Synced,
    UnsupportedGroup,
    checkpoint_due,
    idle,
    make_group_selector,
    may_write,
    unsupported,
)

OFFSETS = st.integers(0, 50)


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("billing", None),
        ("console-consumer-4711", "excluded"),
        ("connect-sink", "excluded"),
        ("__amazon_msk", "excluded"),
        ("mirror.east-to-west", "holds positions of a mirror"),
        ("", "has no name"),
    ],
)
def test_mirrormaker_2s_groups_travel_by_default(group: str, why: str | None) -> None:
    assert make_group_selector([".*"], EXCLUDED_GROUPS).why_not(group) == why


def test_names_match_as_a_whole_and_exclude_wins() -> None:
    selector = make_group_selector(["bill", "pay.*"], ["pay-test"])
    assert selector.why_not("billing") == "no pattern matches"
    assert selector.why_not("payments") is None
    assert selector.why_not("pay-test") == "excluded"


def test_no_filter_lets_positions_of_mirrors_travel() -> None:
    assert make_group_selector(["mirror.*"], []).why_not("mirror.f")


def test_an_empty_include_list_matches_nothing() -> None:
    assert make_group_selector([], []).why_not("billing")


@pytest.mark.parametrize(("state", "free"), [("Empty", True), ("Dead", True), ("", True), ("Stable", False)])
def test_only_a_group_without_members_is_idle(state: str, free: bool) -> None:
    assert idle(state) is free
    assert not idle("PreparingRebalance")
    assert not idle("Assigning")


def test_kinds_that_have_no_offsets_are_named() -> None:
    assert unsupported("share", "g", "", ()) is UnsupportedGroup.SHARE
    assert unsupported("streams", "g", "", ()) is UnsupportedGroup.STREAMS
    assert unsupported("other", "g", "", ()) is UnsupportedGroup.OTHER
    assert unsupported("classic", "g", "range", ["orders"]) is None
    assert unsupported("consumer", "g", "uniform", ["g-orders"]) is None
    assert unsupported("classic", "app", "stream", ["orders"]) is UnsupportedGroup.STREAMS_CLASSIC
    assert unsupported("classic", "app", "", ["app-KSTREAM-0001-repartition"]) is UnsupportedGroup.STREAMS_CLASSIC


def test_an_exact_checkpoint_replaces_a_later_one_of_a_former_topic() -> None:
    assert checkpoint_due(Synced(40, 44), Synced(40, 4), exact=True)
    assert checkpoint_due(Synced(40, 44), Synced(41, 5), exact=True)
    assert not checkpoint_due(Synced(40, 44), Synced(41, 5), exact=False)
    assert not checkpoint_due(Synced(40, 44), Synced(41, 44), exact=True)


@given(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=20))
def test_checkpoints_advance_at_the_target_unless_the_group_goes_back(steps: list[tuple[int, int]]) -> None:
    last: Synced | None = None
    for upstream, downstream in steps:
        now = Synced(upstream, downstream)
        if checkpoint_due(last, now, exact=False):
            assert last is None or downstream > last.downstream or upstream < last.upstream
            last = now
        else:
            assert last is not None
            assert downstream <= last.downstream
            assert upstream >= last.upstream


@given(OFFSETS, OFFSETS)
def test_nothing_is_written_backwards_unasked(translated: int, there: int) -> None:
    assert may_write(translated, there, rewound=False) is (translated > there)
    assert may_write(translated, there, rewound=True) is (translated != there)
    assert may_write(translated, None, rewound=False)
