"""Whose a flow is, by what its positions say."""

from __future__ import annotations

import pytest

from reconciler.replication.offsets.position_metadata import (
    END,
    NO_OWNER,
    Owner,
    PositionMark,
    mark_of,
    moved,
    stranger,
    whose,
    written,
)

MINE, OTHER = Owner("prod", "SRC"), Owner("stage", "SRC")
ELSEWHERE = Owner("prod", "ANOTHER")
HERE, THERE, BESIDE = ("east.orders", 0), ("east.orders", 1), ("south.orders", 0)
IDS = {HERE: "a-_A", THERE: "a-_A"}


def at(owner: Owner = NO_OWNER, topic_id: str = "a-_A", hour: int = 1) -> PositionMark:
    return PositionMark(owner, topic_id, "app", hour)


@pytest.mark.parametrize(
    ("positions", "found"),
    [
        ({}, None),
        ({HERE: at(MINE)}, None),
        ({HERE: at(Owner("prod"))}, None),
        ({HERE: at(MINE, "gone")}, None),
        ({HERE: at(OTHER)}, HERE),
        ({HERE: at(MINE), THERE: at(OTHER)}, THERE),
        ({HERE: at(ELSEWHERE)}, HERE),
        ({HERE: at(Owner("old", "SRC"))}, None),
        ({HERE: at(), THERE: at(topic_id="gone")}, None),
        ({HERE: at(topic_id="a+/A")}, None),
        ({HERE: at(topic_id="")}, None),
        ({HERE: at(topic_id="gone"), THERE: at(topic_id="gone", hour=2)}, THERE),
        ({HERE: at(MINE), BESIDE: at(OTHER)}, None),
        ({HERE: at(), BESIDE: at(OTHER)}, None),
        ({BESIDE: at(OTHER)}, BESIDE),
        ({BESIDE: at(OTHER), ("east.gone", 0): at(MINE)}, None),
        ({BESIDE: at(topic_id="gone")}, None),
    ],
    ids=[
        "nobody's", "ours", "ours, source not known", "ours, topic made anew", "another's", "of both", "another source",
        "under an earlier name", "of a release before, one topic made anew", "ids as librdkafka prints them",
        "after a seek", "of a release before, nothing fits", "shared since before", "shared, of a release before",
        "new in a group of another", "new topic of ours in a shared group", "new in a group of a release before",
    ],
)  # fmt: skip
def test_who_owns_a_flow(positions: dict[tuple[str, int], PositionMark], found: tuple[str, int] | None) -> None:
    answer = stranger(MINE, ("old",), positions, IDS)
    assert (None if answer is None else answer[0]) == found


def test_an_owner_survives_a_seek_and_is_reported() -> None:
    metadata = written(HERE, 7, {"i": "id", "c": 3, "a": "app-9", "h": 5, "w": ["stage", "SRC"]}) + END
    mark = mark_of(HERE, 7, metadata)
    assert mark == PositionMark(OTHER, "id", "app-9", 5)
    assert mark_of(HERE, 9, moved(HERE, (7, metadata), 9, "id", same=False)).owner == OTHER
    by = "(position of east.orders-0, by application app-9)"
    assert whose("mirror.f", "west", MINE, HERE, mark) == f"group mirror.f on west belongs to environment stage {by}"


@pytest.mark.parametrize("metadata", ["", "no json", "[]", '{"w": 3}', '{"w":["stage","SRC"],"o":7,"d":"00000000"}'])
def test_what_is_not_proved_says_nothing_of_an_owner(metadata: str) -> None:
    assert mark_of(HERE, 7, metadata) == PositionMark(foreign=True)
