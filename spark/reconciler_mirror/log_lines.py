"""Logging: one JSON object a line on standard error, from the driver, its tasks and librdkafka.

Settings and contents of records are never logged: they may hold secrets.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
import structlog.tracebacks

REPEAT_S = 60.0
_VARIES = re.compile(r"\[rdkafka#[^\]]*\]|\[thrd:[^\]]*\]|\(after [^)]*\)|^[^:]*:\d+/\w+: ")
_MOST = 1000
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
"""Without the variables of each frame: they hold records and settings."""


def configure(**context: str) -> None:
    """Once a process. ``context`` (environment, mirror) is put on every line."""

    def add_context(_logger: Any, _method: str, event: Any) -> Any:
        return {**context, **event}

    shared: list[Any] = [
        add_context,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, _TRACEBACKS, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[_without_record, structlog.processors.JSONRenderer()]
        )
    )
    handler.addFilter(RateLimitedLog())
    kafka = logging.getLogger("librdkafka")
    kafka.handlers = [handler]
    kafka.propagate = False
    kafka.setLevel(logging.WARNING)


class RateLimitedLog(logging.Filter):
    """librdkafka says ten times a second, for each client, that a broker does not answer. Of lines that say the same
    one is let through in a minute, with the number of those that were not: else they push all others out of the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._guard = clock, threading.Lock()
        self._told: dict[tuple[int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        same, now = (record.levelno, _VARIES.sub("", said)), self._clock()
        with self._guard:
            before, held = self._told.get(same, (-REPEAT_S, 0))
            if now - before < REPEAT_S:
                self._told[same] = before, held + 1
                return False
            if len(self._told) >= _MOST:
                self._told.clear()
            self._told[same] = now, 0
        if held:
            record.msg, record.args = f"{said} ({held} more like it since the last such line)", None
        return True


def _without_record(_logger: Any, _method: str, event: Any) -> Any:
    return {key: value for key, value in event.items() if not key.startswith("_")}


def logger(subject: str) -> Any:
    """``subject`` names the part that speaks: driver, lease, discovery, batch path."""
    return structlog.get_logger(subject=subject)
