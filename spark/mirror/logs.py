"""Log lines: one JSON object a line on standard error, from the driver, its tasks and librdkafka alike.

Settings are never logged: they may hold secrets.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


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
        processors=[*shared, structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[_without_record, structlog.processors.JSONRenderer()]
        )
    )
    kafka = logging.getLogger("librdkafka")
    kafka.handlers = [handler]
    kafka.propagate = False
    kafka.setLevel(logging.WARNING)


def _without_record(_logger: Any, _method: str, event: Any) -> Any:
    return {key: value for key, value in event.items() if not key.startswith("_")}


def logger(subject: str) -> Any:
    """``subject`` names the part that speaks: driver, lease, discovery, batch path."""
    return structlog.get_logger(subject=subject)
