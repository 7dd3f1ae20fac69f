"""What a host looks at, whatever lies in the control topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.host.accept import AllowList
from reconciler.backends.mirror_jobs.host.serve import ClusterHost, HostedEnvironment, this_host
from reconciler.environment.load import load
from reconciler.model.state.mirror_control import DESIRED, DesiredState
from reconciler.replication.names import desired_key, host_key
from tests.support.fakes.control import ENVIRONMENT, FakeControl, desired

HERE = load({"clusters.yaml": "clusters: {west: {bootstrap_servers: ['127.0.0.1:1']}}"}, ENVIRONMENT)


@pytest.mark.parametrize("state", list(DesiredState))
def test_a_record_whose_name_leads_elsewhere_is_left_alone_and_reported_once(
    tmp_path: Path, state: DesiredState
) -> None:
    said: list[str] = []
    state_folder = tmp_path / "state" / "host"
    host = ClusterHost(
        this_host(), HostedEnvironment(HERE, state_folder), HERE.clusters["west"], AllowList(("*",)), said.append
    )
    host.control = FakeControl()
    name = "../../outside"
    host.control.swap(desired_key(ENVIRONMENT, name), None, DESIRED.dumps(desired(1, state, mirror=name)))
    for _ in range(3):
        host.step()
    assert (host.keepers, host.jobs, list(tmp_path.rglob("outside"))) == ({}, {}, [])
    assert host_key(ENVIRONMENT, name) not in host.control.read()
    assert [words for words in said if repr(name) in words] == said[-1:], "once"
    host.close()
