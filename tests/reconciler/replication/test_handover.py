"""The hand-over as settings: valid ones, and the message for an unusable one."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from reconciler.replication.handover import HandoverError
from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover
from tests.support.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "mirror.schema.json").read_text())


def test_a_hand_over_that_follows_the_schema_is_read_whole() -> None:
    given = handover()
    jsonschema.validate(given, SCHEMA)
    settings = parse(json.dumps(given))
    [flow] = settings.flows
    assert (settings.environment, settings.mirror, settings.parallelism) == ("prod", "west", 2)
    assert (flow.source.bootstrap_servers, flow.lanes, flow.start.timestamp_ms) == (("east:9092",), 4, 5)
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
def test_a_hand_over_that_cannot_be_used_is_reported_in_words(changes: dict[str, Any], told: str) -> None:
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
def test_a_flow_that_cannot_be_used_is_reported_in_words(field: str, value: Any, told: str) -> None:
    flow = handover()["flows"][0] | {field: value}
    with pytest.raises(HandoverError, match=told):
        parse(json.dumps(handover(flows=[flow])))


def test_every_problem_is_reported_at_once_with_its_field_and_value() -> None:
    flow = handover()["flows"][0] | {"lanes": 0, "isolation": "perhaps", "where": {"key": {"matches": "("}}}
    with pytest.raises(HandoverError, match=r"flows\.0\.where holds a regular expression that is none"):
        parse(json.dumps(handover(flows=[flow])))
    del flow["where"]
    with pytest.raises(HandoverError) as caught:
        parse(json.dumps(handover(flows=[flow], parallelism=-1)))
    for told in ("parallelism is -1", "flow orders: lanes is 0", "flow orders: isolation is 'perhaps'"):
        assert told in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_what_is_no_hand_over_at_all(text: str) -> None:
    with pytest.raises(HandoverError):
        parse(text)


@pytest.mark.parametrize("change", [{"topics": ["("]}, {"naming": {"policy": "no.such:Policy", "separator": "."}}])
def test_a_bad_pattern_or_policy_names_its_flow(change: dict[str, Any]) -> None:
    settings = parse(json.dumps(handover(flows=[handover()["flows"][0] | change])))
    with pytest.raises(HandoverError, match="Flow orders"):
        settings.flows[0].selector()
