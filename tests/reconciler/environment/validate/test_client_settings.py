"""Settings that the mirror's connections cannot honour: told with their line, of mirrored clusters only, and in the job
as a condition of the flow."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver.board import Board
from reconciler_mirror.driver.driver import Driver
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.report.status import Application

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.kafka.client.errors import SettingError
from reconciler.replication.handover import Endpoint
from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover

CLUSTERS = """clusters:
  east:
    bootstrap_servers: [east:9092]
    client:
      security.protocol: SASL_SSL
      sasl.mechanism: {mechanism}
      sasl.username: reconciler
      sasl.password: ${{env:EAST}}
    principals:
      mirror:
        {mirror}
  west: {{bootstrap_servers: [west:9092]}}
"""
FLOW = "flows:\n  east-to-west: {source: east, target: west, topics: [orders]}\n"


def problems(mechanism: str, mirror: str, flow: str = FLOW) -> list[tuple[int, str]]:
    try:
        load({"a.yaml": CLUSTERS.format(mechanism=mechanism, mirror=mirror) + flow}, "env")
    except TopologyError as error:
        return [(one.where.line, one.what) for one in error.problems]
    return []


def test_each_is_told_at_its_own_line_and_all_at_once() -> None:
    found = problems("GSSAPI", "ssl.sigalgs.list: RSA+SHA512")
    assert [line for line, _ in found] == [6, 11]
    assert all(what.startswith("cluster east: ") for _, what in found)


def test_what_the_mirror_says_of_itself_counts() -> None:
    assert problems("GSSAPI", "sasl.mechanism: SCRAM-SHA-512") == []


def test_a_cluster_that_is_not_mirrored_is_librdkafkas_alone() -> None:
    topic = "topics:\n  orders: {clusters: [east], partitions: 1, replication_factor: 1}\n"
    assert problems("GSSAPI", "ssl.sigalgs.list: RSA+SHA512", topic) == []


def test_a_mechanism_behind_a_reference_is_not_judged() -> None:
    assert problems("${env:MECHANISM}", "sasl.username: mirror") == []


def test_the_default_word_of_the_path_that_went_is_no_problem() -> None:
    mirror = "mirrors:\n  west: {spark_conf: {spark.mirror.path: batch}}\n"
    assert problems("PLAIN", "sasl.username: mirror", FLOW + mirror) == []


def test_the_error_names_the_cluster_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "s3cret")
    client = {"ssl.keystore.location": "x.p12", "ssl.keystore.password": "${env:WORD}"}
    with pytest.raises(SettingError, match=r"^cluster east: the setting ssl\.keystore\.location") as caught:
        cluster_of(Endpoint("east", ("east:9092",), client))
    assert "s3cret" not in str(caught.value)


def test_in_the_job_the_flow_has_a_condition() -> None:
    settings = parse(json.dumps(handover()))
    [flow, *_] = settings.flows
    flow = replace(flow, target=replace(flow.target, client={"ssl.keystore.location": "x.p12"}))
    driver: Any = Driver.__new__(Driver)
    driver._board, driver._can_take = Board((flow,)), set()

    driver._pauses = SimpleNamespace(trouble=None, known=SimpleNamespace(wait=lambda _: True))
    driver._who = Application("app", 1, "host", 2)
    assert driver._take_over(flow, WireTakeover(flow)) is False
    [view] = driver._board.view()
    [(condition, _)] = view.conditions
    assert condition.code == "setting_not_supported"
    assert "ssl.keystore.location" in condition.text
    assert condition.stops
