"""The job's log holds no contents of records."""

from __future__ import annotations

import json

import pytest
import structlog
from reconciler_mirror import log_lines


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
