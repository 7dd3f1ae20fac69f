"""A hand-over of one flow, as the mirror job is given it."""

from __future__ import annotations

from typing import Any


def handover(**changes: Any) -> dict[str, Any]:
    def cluster(name: str) -> dict[str, Any]:
        return {"name": name, "bootstrap_servers": [f"{name}:9092"], "client": {"sasl.password": "${env:SECRET}"}}

    flow = {
        "name": "orders",
        "fingerprint": "0123456789abcdef",
        "source": cluster("east"),
        "target": cluster("west"),
        "topics": ["orders"],
        "exclude_topics": [],
        "naming": {"policy": "default", "separator": "."},
        "delivery": "exactly_once",
        "isolation": "read_committed",
        "start": {"kind": "timestamp", "timestamp_ms": 5},
        "lanes": 4,
    }
    return {
        "format_version": 1,
        "environment": "prod",
        "mirror": "west",
        "fingerprint": "0123456789abcdef",
        "parallelism": 2,
        "refresh_interval_ms": 1000,
        "status_interval_ms": 1000,
        "status": {"cluster": cluster("west"), "topic": "__mirror_status", "key": "prod/west"},
        "flows": [flow],
    } | changes
