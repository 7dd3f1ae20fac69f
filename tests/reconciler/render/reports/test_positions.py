"""Translated positions in all three formats."""

from __future__ import annotations

import json
from dataclasses import replace

from reconciler.model.reports.offsets import TranslatedOffset, Translations
from reconciler.render.reports.positions import translations_csv, translations_json, translations_text
from reconciler.replication.offsets.map import Exactness, Translation

EXACT = TranslatedOffset("billing", "orders", 0, 120, "east.orders", Translation(140, Exactness.RECORD))
NEXT = TranslatedOffset("billing", "orders", 1, 7, "east.orders", Translation(9, Exactness.NEXT))
EARLIER = TranslatedOffset(
    "billing", "orders", 12, 500, "east.orders", Translation(400, Exactness.EARLIER, "the map ends")
)
NOWHERE = TranslatedOffset(
    "billing", "pay", 0, 5, "east.pay", Translation(None, Exactness.UNKNOWN, "no such partition")
)
MADE = Translations("prod", "east-to-west", "east", "west", (EXACT, NEXT, EARLIER, NOWHERE), ("group x: nothing",))


def test_a_table_says_what_is_exact_and_why_the_rest_is_not() -> None:
    assert translations_text(MADE) == (
        "group    on east    offset  on west         offset\n"
        "billing  orders-0   120     east.orders-0   140     exact\n"
        "billing  orders-1   7       east.orders-1   9       exact: the next record that was copied\n"
        "billing  orders-12  500     east.orders-12  400     earlier: the map ends\n"
        "billing  pay-0      5       east.pay-0      -       unknown: no such partition\n"
        "left out: group x: nothing\n"
        "4 positions, 2 exact\n"
    )


def test_positions_by_hand_have_no_column_for_groups() -> None:
    made = replace(MADE, rows=(replace(EXACT, group=""),), left_out=())
    assert translations_text(made).splitlines()[0].split() == ["on", "east", "offset", "on", "west", "offset"]


def test_json_says_the_same() -> None:
    told = json.loads(translations_json(MADE))
    assert (told["from"], told["to"], told["exact"]) == ("east", "west", False)
    assert [one["exactness"] for one in told["positions"]] == ["record", "next", "earlier", "unknown"]
    assert told["positions"][2]["reason"] == "the map ends"
    assert told["positions"][3]["to_offset"] is None


def test_the_reset_file_is_what_kafkas_tool_reads() -> None:
    """One group: topic,partition,offset; several: group,topic,partition,offset (kafka-consumer-groups)."""
    assert translations_csv(MADE) == "east.orders,0,140\neast.orders,1,9\neast.orders,12,400\n"
    both = replace(MADE, rows=(EXACT, replace(EXACT, group="audit")))
    assert translations_csv(both) == "billing,east.orders,0,140\naudit,east.orders,0,140\n"


def test_no_position_at_all_is_not_called_exact() -> None:
    assert (replace(MADE, rows=(EXACT, NEXT)).exit_code, replace(MADE, rows=()).exit_code) == (0, 2)
