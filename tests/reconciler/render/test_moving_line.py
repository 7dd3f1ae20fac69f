"""Words that count the seconds of something long."""

from __future__ import annotations

import re
import threading

from reconciler.render.moving_line import counting_seconds


def test_seconds_are_told_while_it_lasts_and_not_after_it() -> None:
    told: list[str] = []
    later = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            later.set()

    with counting_seconds("reading cluster east", tell):
        assert later.wait(60)
    assert told[0] == "reading cluster east"
    assert re.fullmatch(r"reading cluster east: \d+ s", told[1])
    assert "seconds" not in {thread.name for thread in threading.enumerate()}
