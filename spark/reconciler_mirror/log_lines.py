"""Logging: one JSON object a line on standard error, from the driver and its tasks.

Settings and contents of records are never logged: they may hold secrets.
"""

import sys
from typing import Any

import structlog
import structlog.tracebacks

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


def logger(subject: str) -> Any:
    """``subject`` names the part that speaks: driver, lease, discovery, batch path."""
    return structlog.get_logger(subject=subject)
