"""The job's log: what librdkafka repeats ten times a second does not push everything else out of it."""

from __future__ import annotations

import json
import logging

import pytest
import structlog
from reconciler_mirror import log_lines
from reconciler_mirror.log_lines import REPEAT_S, RateLimitedLog

LINE = (
    "FAIL [rdkafka#consumer-%d] [thrd:127.0.0.1:1/bootstrap]: 127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 "
    "failed: Connection refused (after %dms in state CONNECT)"
)


def line(text: str, *args: object, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("librdkafka", level, "", 0, text, args, None)


def test_what_is_said_again_and_again_is_one_line_a_minute_with_the_number_of_the_others() -> None:
    now = [0.0]
    sieve = RateLimitedLog(lambda: now[0])
    assert [sieve.filter(line(LINE, client, client)) for client in range(50)] == [True] + [False] * 49
    assert sieve.filter(line(LINE, 1, 2, level=logging.WARNING))
    assert sieve.filter(line(LINE.replace("127.0.0.1:1", "127.0.0.1:2"), 1, 2))
    now[0] = REPEAT_S
    again = line(LINE, 7, 7)
    assert sieve.filter(again)
    assert again.getMessage().endswith("in state CONNECT) (49 more like it since the last such line)")
    assert not sieve.filter(line(LINE, 7, 7))


def test_what_never_ends_takes_no_more_memory() -> None:
    sieve = RateLimitedLog(lambda: 0.0)
    assert all(sieve.filter(line("%d", number)) for number in range(5000))
    assert len(sieve._told) <= 1000


def test_a_traceback_names_its_frames_and_holds_none_of_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(record: str) -> None:
        raise ZeroDivisionError(len(record))

    try:
        log_lines.configure(mirror="m")
        try:
            failing("a customer's name")
        except ZeroDivisionError:
            log_lines.logger("lease").exception("defect")
    finally:
        structlog.reset_defaults()
    told = capsys.readouterr().err
    assert "customer" not in told
    assert json.loads(told)["exception"][0]["frames"][-1]["name"] == "failing"
