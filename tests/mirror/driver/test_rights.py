"""On a cluster that denies by default: the rights the mirror's principal has are the rights the job needs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver.discovery import Discovery, WireTopics
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Discovered, LaneEnd, lane_spec
from reconciler_mirror.report.status import StatusWriter
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.handover import Endpoint
from reconciler.replication.handover_reader import parse
from tests.support.jobs.records import digest, write_awkward
from tests.support.lanes.handover import handover
from tests.support.lanes.lane_runs import UntilControl, caught_up

pytestmark = pytest.mark.kafka


def cluster(handle: ClusterHandle, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """As a hand-over says it: the password only as a reference."""
    client = handle.client("mirror")
    variable = f"TEST_{handle.name.upper()}_PASSWORD"
    monkeypatch.setitem(os.environ, variable, client.pop("sasl.password"))
    servers = client.pop("bootstrap.servers").split(",")
    return {
        "name": handle.name,
        "bootstrap_servers": servers,
        "client": client | {"sasl.password": f"${{env:{variable}}}"},
    }


def test_the_mirror_principal_may_do_all_the_job_does(
    secure: Sandbox, create_topic: Callable[..., str], unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    east, west = secure.clusters["east"], secure.clusters["west"]
    topic = create_topic(east, unique, 2, retention_ms="-1")
    create_topic(west, f"east.{topic}", 2, retention_ms="-1")
    if "__mirror_status" not in AdminClient(west.super_client()).list_topics(timeout=20).topics:
        create_topic(west, "__mirror_status", 1)
    write_awkward(east, topic, 2, 200)
    flow = {
        **handover()["flows"][0],
        "name": unique,
        "topics": [topic],
        "start": {"kind": "timestamp", "timestamp_ms": 0},
    }
    flow |= {"source": cluster(east, monkeypatch), "target": cluster(west, monkeypatch), "lanes": 1}
    settings = parse(json.dumps(handover(flows=[flow], status=status_place(west, monkeypatch))))
    [made] = settings.flows
    found = Discovery(made, made.selector(), (WireTopics(made.source), WireTopics(made.target))).look(Discovered())
    assert found.conditions == ()
    assert WireTakeover(made).take("app", found.specs).started == 2, "the start is committed"
    again = WireTakeover(made)
    again.prepare()
    took = again.take("app", found.specs)
    again.close()
    assert (took.started, took.claim.number) == (None, 2)
    control = UntilControl(found.specs, caught_up)
    report = batch_path(replace(lane_spec(made, 0), claim=took.claim, partitions=found.specs), control)
    assert report.end is LaneEnd.STOPPED, report
    assert digest(east, topic) == digest(west, f"east.{topic}")
    with closing(StatusWriter(settings.status)) as status:
        assert status.write({"a": 1})


def status_place(handle: ClusterHandle, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    return {"cluster": cluster(handle, monkeypatch), "topic": "__mirror_status", "key": "x"}


def test_a_missing_right_or_secret_is_reported_in_words(secure: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    east = secure.clusters["east"]
    given = cluster(east, monkeypatch)
    monkeypatch.delitem(os.environ, "TEST_EAST_PASSWORD")
    flow = {**handover()["flows"][0], "source": given, "target": given}
    [made] = parse(json.dumps(handover(flows=[flow]))).flows
    here = Endpoint("east", made.source.bootstrap_servers, made.source.client)
    found = Discovery(made, made.selector(), (WireTopics(here), WireTopics(here))).look(Discovered())
    assert not found.complete
    assert "TEST_EAST_PASSWORD" in found.conditions[0].text
