"""The one file between the two programs: what the reconciler writes is what the mirror job reads."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from reconciler.backends.files import read_environment
from reconciler.environment.load import load
from reconciler.model.environment.topology import Topology
from reconciler.model.schemas import schema as schema_of
from reconciler.replication.handover import document
from reconciler.replication.handover_reader import parse
from reconciler.replication.names import STATUS_TOPIC, status_key
from reconciler.resources.mirrors.handover import handovers
from tests.support.paths import ROOT

ENVIRONMENTS = sorted(path for path in (ROOT / "environments").iterdir() if path.is_dir() and path.name[0] != ".")


def topology_of(folder: Path) -> Topology:
    return load(read_environment(folder), folder.name)


def test_every_example_environment_is_here() -> None:
    assert {"sandbox", "active-passive", "active-active"} <= {folder.name for folder in ENVIRONMENTS}


@pytest.mark.parametrize("folder", ENVIRONMENTS, ids=lambda folder: folder.name)
def test_what_is_handed_over_fits_the_schema_and_is_read_back_whole(folder: Path) -> None:
    topology = topology_of(folder)
    schema = schema_of("mirror")
    told = handovers(topology)
    assert set(told) == set(topology.mirrors)
    for name, text in told.items():
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        read = parse(text)
        assert document(read) == json.loads(text)
        mirror = topology.mirrors[name]
        assert (read.environment, read.mirror, read.parallelism) == (folder.name, name, mirror.parallelism)
        assert (read.status.topic, read.status.key) == (STATUS_TOPIC, status_key(folder.name, name))
        assert {flow.name for flow in read.flows} == set(mirror.flows)
        for flow in read.flows:
            desired = topology.flows[flow.name]
            assert (flow.source.cluster, flow.target.cluster, flow.lanes) == (
                desired.source,
                desired.target,
                desired.lanes,
            )


def test_no_secret_is_ever_handed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("tell-nobody")
    monkeypatch.setenv("PASSWORD", "tell-nobody")
    client = "security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: me"
    text = f"""
clusters:
  east: {{bootstrap_servers: [a:1], client: {{{client}, sasl.password: "${{env:PASSWORD}}"}}}}
  west: {{bootstrap_servers: [b:1], client: {{{client}, sasl.password: "${{file:{secret}}}"}}}}
flows:
  f: {{source: east, target: west, topics: [orders], replication_factor: 1}}
"""
    (told,) = handovers(load({"topology.yaml": text}, "e")).values()
    assert "tell-nobody" not in told
    assert "${env:PASSWORD}" in told
    assert f"${{file:{secret}}}" in told
