"""Small parts of the live page: tiles, states, and when something was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.model.reports.health import Health
from reconciler.render.escape import page as safe
from reconciler.render.live.view import TOO_OLD_MS, LiveReading, LiveView
from reconciler.text import moment

STATES: Mapping[str, str] = MappingProxyType(
    {"ok": "answers", "problem": "problem", "unknown": "unknown", "idle": "idle", "busy": "busy"}
)
STATE_OF: Mapping[Health, str] = MappingProxyType(
    {
        Health.OK: "ok",
        Health.PAUSED: "idle",
        Health.DEGRADED: "busy",
        Health.UNKNOWN: "unknown",
        Health.STOPPED: "problem",
    }
)
"""How a verdict looks: green, amber, amber, grey and dashed, red."""


def pill(words: str, state: str) -> str:
    """``state``: a key of ``STATES``; a colour beside the words, never instead of them."""
    return f'<span class="pill {state}">{safe(words)}</span>'


def tile(title: str, words: str, state: str, link: str) -> str:
    return f'<a class="tile {state}" href="{safe(link)}"><small>{safe(title)}</small><span>{safe(words)}</span></a>'


def clock(at_ms: int) -> str:
    """A time that the script says as an age."""
    text = moment(at_ms, "%H:%M:%S UTC")
    return f'<time datetime="{moment(at_ms, "%Y-%m-%dT%H:%M:%SZ")}" data-at="{at_ms}">{text}</time>'


def ages(view: LiveView, now_ms: int) -> str:
    """When each part was read, and why it was not read since."""
    readings: dict[str, LiveReading[object]] = {
        "jobs and lag": view.jobs,
        "clusters": view.clusters,
        "lock": view.lock,
        "plan and drift": view.review,
    }
    return ages_of(readings, now_ms)


def age(title: str, reading: LiveReading[object], now_ms: int) -> str:
    return ages_of({title: reading}, now_ms)


def ages_of(readings: Mapping[str, LiveReading[object]], now_ms: int) -> str:
    return f'<p class="faint">{"; ".join(_ages(readings, now_ms))}</p>'


def _ages(readings: Mapping[str, LiveReading[object]], now_ms: int) -> Iterator[str]:
    for title, reading in readings.items():
        failure = f" (the newest try failed: {safe(reading.failure.what)})" if reading.failure is not None else ""
        if reading.value is None:
            yield f"{title} not read yet{failure}"
        else:
            late = ' class="late"' if reading.age_ms(now_ms) > TOO_OLD_MS else ""
            yield f"<span{late}>{title} read {clock(reading.at_ms)}{failure}</span>"
