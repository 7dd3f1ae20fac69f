"""The one file between the two programs: what the reconciler writes is what the mirror job reads."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from mirror import settings

from reconciler.edges.files import read_environment
from reconciler.handover import handovers
from reconciler.loading import load
from reconciler.topology import Topology
from replication.names import STATUS_TOPIC, status_key

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = sorted(path for path in (ROOT / "environments").iterdir() if path.is_dir() and path.name[0] != ".")


def topology_of(folder: Path) -> Topology:
    return load(read_environment(folder), folder.name)


def test_every_example_environment_is_here() -> None:
    assert {"sandbox", "active-passive", "active-active"} <= {folder.name for folder in ENVIRONMENTS}


@pytest.mark.parametrize("folder", ENVIRONMENTS, ids=lambda folder: folder.name)
def test_what_is_handed_over_fits_the_schema_and_is_read_back_whole(folder: Path) -> None:
    topology = topology_of(folder)
    schema = json.loads(resources.files("schemas").joinpath("mirror.schema.json").read_text())
    told = handovers(topology)
    assert set(told) == set(topology.mirrors)
    for name, text in told.items():
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        read = settings.parse(text)
        mirror = topology.mirrors[name]
        assert (read.environment, read.mirror, read.parallelism) == (folder.name, name, mirror.parallelism)
        assert (read.status.topic, read.status.key) == (STATUS_TOPIC, status_key(folder.name, name))
        assert {flow.name for flow in read.flows} == set(mirror.flows)
        for flow in read.flows:
            wish = topology.flows[flow.name]
            assert (flow.source.cluster, flow.target.cluster, flow.lanes) == (wish.source, wish.target, wish.lanes)


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
