"""Heartbeats that cannot be written are a condition of their flow, and end it when they are written again."""

from __future__ import annotations

import json
import threading

from reconciler_mirror.board.board import Board
from reconciler_mirror.driver.heartbeats import Heartbeats

from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover

SETTINGS = parse(json.dumps(handover()))


def test_silent_heartbeats_are_reported_of_each_cluster_until_they_are_written_again() -> None:
    board, flow = Board(SETTINGS.flows), SETTINGS.flows[0]
    beats = Heartbeats(flow, threading.Event(), lambda found: board.set_condition(flow.name, "heartbeats", found))

    def told() -> list[str]:
        return [c.text for c, _ in board.view()[0].conditions if c.code == "heartbeats_not_written" and not c.stops]

    beats._note("east", "")
    assert told() == []
    beats._note("east", "Topic authorization failed")
    beats._note("west", "no answer")
    [text] = told()
    assert "east: Topic authorization failed; west: no answer" in text
    beats._note("east", "")
    [text] = told()
    assert "authorization" not in text
    beats._note("west", "")
    assert told() == []
