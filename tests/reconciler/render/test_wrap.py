"""On a terminal of 80 columns lines break between words, elsewhere they stay whole; words that count seconds."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.console import EVERY_S, MovingLine, counting_seconds, terminal_width
from reconciler.render.markup import NARROWEST, PLAIN, Style, table_lines, wrapped
from reconciler.render.reports.failover import failover_text
from reconciler.render.reports.verify import verify_text
from tests.support.documents.reports import REPORT, VERIFICATION
from tests.support.paths import ROOT

WIDE = 80
TEXTS = sorted((ROOT / "tests" / "golden").rglob("*.txt"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def too_long(text: str) -> list[str]:
    """Lines wider than the terminal that hold two words, so that they could have been broken."""
    lines = wrapped(text, WIDE).split("\n")
    return [line for line in lines if len(line) > WIDE and len(line.split()) > 1]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT / "tests" / "golden").as_posix())
def test_whatever_is_printed_fits_into_80_columns(path: Path) -> None:
    text = path.read_text()
    assert not too_long(text)
    assert wrapped(text, WIDE).split() == text.split(), "every word is there, in order"
    assert wrapped(text, None) == text, "a file has whole lines"


WORDS = st.text("ab~+:. \t", max_size=200) | st.lists(st.text("xyz/", max_size=30), max_size=20).map("  ".join)


@given(WORDS, st.integers(NARROWEST, 200))
def test_words_stay_as_they_are_in_lines_that_fit(text: str, width: int) -> None:
    broken = wrapped(text, width)
    assert broken.split() == text.split()
    assert all(len(line) <= width or len(line.split()) == 1 for line in broken.split("\n") if line.strip())


def test_a_line_continues_below_its_last_column_and_colours_have_no_width() -> None:
    row = "  retention.ms   7d   " + "declared in a file of this environment " * 2
    _, second, *_ = wrapped(row, 60).split("\n")
    assert second == " " * row.index("declared") + "declared in a file of this environment"
    assert wrapped("\x1b[1m" + "a " * 39 + "\x1b[0m", WIDE).count("\n") == 0
    assert wrapped("    HIGH risk: " + "word " * 20, WIDE).split("\n")[1].startswith("      word")


def test_a_table_that_does_not_fit_has_its_titles_with_each_row() -> None:
    rows = [("flow", "state", "lag"), ("orders", "running", "12"), ("pay", "unknown", "unknown; 7 when last reported")]
    assert table_lines(rows, None, indent="  ")[2] == "  pay     unknown  unknown; 7 when last reported"
    narrow = table_lines(rows, 40, indent="  ")
    assert narrow[:2] == ["  orders", "    state running, lag 12"]
    assert narrow[2:] == ["  pay", "    state unknown, lag unknown; 7 when last reported"]


@pytest.mark.parametrize("form", [verify_text, failover_text])
def test_reports_with_tables_fit(form: Any) -> None:
    report = {verify_text: VERIFICATION, failover_text: REPORT}[form]
    assert not too_long(form(report, Style(width=WIDE)))
    assert form(report, PLAIN) == form(report, Style(width=400))


def test_only_a_terminal_has_a_width() -> None:
    assert terminal_width(io.StringIO(), {"COLUMNS": "80"}) is None
    assert terminal_width(Terminal(), {"COLUMNS": "80"}) == 80
    assert terminal_width(Terminal(), {"COLUMNS": "20"}) is None
    assert terminal_width(Terminal(), {}) is None, "it does not tell"


def test_progress_moves_on_a_terminal() -> None:
    out, line = Terminal(), MovingLine(environ={"COLUMNS": "80", "TERM": "xterm"})
    line.tell("1 of 3", out)
    line.tell("2 of 3 " + "word " * 20, out)
    line.tell("3 of 3", out)
    line.erase(out)
    line.erase(out)
    two_rows = "\r\x1b[K\x1b[A\x1b[K"
    assert out.getvalue().startswith("1 of 3\r\x1b[K2 of 3 word")
    assert out.getvalue().endswith(f"{two_rows}3 of 3\r\x1b[K")


def test_progress_in_a_log_is_a_line_now_and_then() -> None:
    now = [0.0]
    out, line = io.StringIO(), MovingLine(lambda: now[0], {})
    for done in range(8):
        line.tell(f"{done} of 8", out)
        now[0] += EVERY_S / 2
    assert out.getvalue() == "0 of 8\n2 of 8\n4 of 8\n6 of 8\n"


def test_progress_in_a_log_leaves_out_nothing_that_is_said_once() -> None:
    out, line = io.StringIO(), MovingLine(lambda: 0.0, {})
    for text in ("reading: 0 of 4", "partitions to compare: 9", "reading: 3 of 4", "what is compared cannot be kept"):
        line.tell(text, out)
    assert out.getvalue() == "reading: 0 of 4\npartitions to compare: 9\nwhat is compared cannot be kept\n"


def test_a_long_name_stays_whole() -> None:
    name = "a-flow-with-a-name-that-is-longer-than-a-terminal-is-wide-and-nobody-may-cut-it-or-it-is-lost"
    assert name in wrapped(f"flow {name} is paused", WIDE).split("\n")[1].split()


def test_seconds_are_reported_while_it_lasts_and_not_after_it() -> None:
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
