"""The hand-over as settings: what is read, and what a person is told when it cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mirror.settings import HandoverError, parse

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "mirror.schema.json").read_text())


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


def test_a_hand_over_that_follows_the_schema_is_read_whole() -> None:
    given = handover()
    jsonschema.validate(given, SCHEMA)
    settings = parse(json.dumps(given))
    [flow] = settings.flows
    assert (settings.environment, settings.mirror, settings.parallelism) == ("prod", "west", 2)
    assert (flow.source.bootstrap_servers, flow.lanes, flow.start_timestamp_ms) == (("east:9092",), 4, 5)
    assert flow.target.client == {"sasl.password": "${env:SECRET}"}, "secrets stay references"
    assert flow.selector().remote_name("orders") == "east.orders"


def test_metrics_are_off_unless_a_port_is_given_and_local_unless_a_host_is() -> None:
    quiet, served, open_to_all = (
        parse(json.dumps(handover(**changes)))
        for changes in ({}, {"metrics_port": 9404}, {"metrics_port": 9404, "metrics_host": "0.0.0.0"})
    )
    assert (quiet.metrics_port, served.metrics_port) == (0, 9404)
    assert (served.metrics_host, open_to_all.metrics_host) == ("127.0.0.1", "0.0.0.0")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format_version": 2}, "format_version 2; this mirror job reads 1"),
        ({"parallelism": 0}, "parallelism is 0"),
        ({"parallelism": True}, "parallelism is True"),
        ({"refresh_interval_ms": 10}, "at least 100"),
        ({"metrics_port": -1}, "metrics_port is -1"),
        ({"metrics_port": 70_000}, "65535 is the highest port"),
        ({"flows": []}, "no flows"),
        ({"flows": [{"name": "a"}]}, "lacks the field"),
        ({"flows": 3}, "malformed"),
        ({"surprise": 1}, "surprise"),
        ({"flows": handover()["flows"] * 2}, "twice"),
    ],
)
def test_a_hand_over_that_cannot_be_used_is_told_in_words(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(HandoverError, match=told):
        parse(json.dumps(handover(**changes)))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("lanes", 65, "64 is the limit"),
        ("delivery", "perhaps", "must be one of exactly_once"),
        ("start", {"kind": "timestamp"}, "timestamp_ms is None"),
        ("source", {"name": "east", "bootstrap_servers": [], "client": {}}, "no bootstrap servers"),
    ],
)
def test_a_flow_that_cannot_be_used_is_told_in_words(field: str, value: Any, told: str) -> None:
    flow = handover()["flows"][0] | {field: value}
    with pytest.raises(HandoverError, match=told):
        parse(json.dumps(handover(flows=[flow])))


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_hand_over_at_all(text: str) -> None:
    with pytest.raises(HandoverError):
        parse(text)


@pytest.mark.parametrize("change", [{"topics": ["("]}, {"naming": {"policy": "no.such:Policy", "separator": "."}}])
def test_a_bad_pattern_or_policy_names_its_flow(change: dict[str, Any]) -> None:
    settings = parse(json.dumps(handover(flows=[handover()["flows"][0] | change])))
    with pytest.raises(HandoverError, match="Flow orders"):
        settings.flows[0].selector()
