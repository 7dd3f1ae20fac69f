"""Logging: one JSON object per line on standard error, from the driver and its tasks.

Settings and contents of records are never logged, because they may hold secrets.
"""

import sys
from typing import Any

import structlog
import structlog.tracebacks

_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
"""Without the variables of frames, which hold records and settings."""


def configure(**context: str) -> None:
    """To be called once per process. ``context`` (environment, mirror) is added to every line."""

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


def logger(subject: str) -> Any:
    """``subject``: the part of the program that logs: driver, lease, discovery, batch path."""
    return structlog.get_logger(subject=subject)
