"""``run --serve``: a page that ends takes no round with it."""

from __future__ import annotations

from typing import Any

from reconciler.operations.apply.controller import _Page


class Log:
    def __init__(self) -> None:
        self.errors: list[dict[str, Any]] = []

    def error(self, event: str, **fields: Any) -> None:
        self.errors.append({"event": event, **fields})


class Failing:
    looks = 0

    def look(self) -> None:
        self.looks += 1
        raise ValueError("no such figure")


def test_a_page_that_fails_is_logged_once_and_rounds_continue() -> None:
    log, failing = Log(), Failing()
    page = _Page(failing, log)
    page.look()
    page.look()
    assert failing.looks == 1
    assert log.errors == [{"event": "live page ended", "error": "ValueError: no such figure"}]
