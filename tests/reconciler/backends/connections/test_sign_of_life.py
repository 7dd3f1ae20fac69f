"""A sign of life of a cluster: without a listener, with a silent listener, and with brokers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.connections.requests import SignOfLife
from reconciler.engine.observe.read_all import SilenceWatch
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal


def cluster_at(*servers: str) -> Cluster:
    return Cluster("east", servers, client={"socket.connection.setup.timeout.ms": "400"})


@pytest.fixture
def listening() -> Iterator[str]:
    """Takes connections, as the kernel of a frozen broker does, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_where_no_one_listens_it_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    sign = SignOfLife(cluster_at(f"127.0.0.1:{port}"), Principal.PLAN)
    with closing(sign), pytest.raises(ClusterError, match="east does not answer"):
        sign.ask()


def test_one_that_listens_and_says_nothing_is_silent(listening: str) -> None:
    with ThreadPoolExecutor(1) as pool, closing(SignOfLife(cluster_at(listening), Principal.PLAN)) as sign:
        watch = SilenceWatch(pool, {"east": sign})
        began = time.monotonic()
        while not (silent := watch.look(0.2)):
            assert time.monotonic() - began < 60
        assert "east" in silent["east"].error


@pytest.mark.kafka
def test_a_cluster_that_runs_answers_again_and_again_by_one_connection(plain: Sandbox) -> None:
    servers = plain["east"].bootstrap_servers
    with closing(SignOfLife(Cluster("east", tuple(servers.split(","))), Principal.PLAN)) as sign:
        sign.ask()
        held = sign._requests
        sign.ask()
        assert sign._requests is held is not None
