"""A status record as the mirror job writes it."""

from __future__ import annotations

import json
from typing import Any

NOW = 1_800_000_000_000
FLOW = {
    "fingerprint": "f" * 16,
    "state": "degraded",
    "lanes": 2,
    "topics": 3,
    "partitions": 24,
    "records_total": 1000,
    "records_per_second": 10.5,
    "bytes_per_second": 2048.0,
    "records_lag": 7,
    "seconds_lag": 0.5,
    "conditions": [{"code": "target_topic_missing", "text": "t", "todo": "d", "since_ms": NOW, "stops": True}],
}


def record(**fields: Any) -> bytes:
    base = {
        "format_version": 1,
        "environment": "test",
        "mirror": "west",
        "state": "running",
        "application_id": "local-1",
        "fingerprint": "a" * 16,
        "started_at_ms": NOW - 60_000,
        "updated_at_ms": NOW,
        "status_interval_ms": 2_000,
        "host": "driver.example",
        "pid": 4711,
        "flows": {"east-to-west": FLOW},
    }
    return json.dumps(base | fields).encode()
