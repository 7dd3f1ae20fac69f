"""What an executor lacks is told with its name, before anything else there fails in other words."""

from __future__ import annotations

import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.conditions.flow import executor_unfit
from reconciler_mirror.leases import preflight
from reconciler_mirror.leases.preflight import NotFitError, fit, look, packed
from reconciler_mirror.leases.running import cause

from reconciler.backends.mirror_jobs.runner.python_archive import PACKAGES
from reconciler.replication.handover import Endpoint

HOST = socket.gethostname()
HERE = preflight.installed()


@pytest.fixture
def closed() -> tuple[str, int]:
    """An address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return "127.0.0.1", int(held.getsockname()[1])


def test_what_is_looked_for_is_what_is_packed() -> None:
    besides = {"prometheus-client", "confluent-kafka"}
    assert {*preflight.PACKAGES.values(), *besides} == set(PACKAGES), "for a driver, and as verify's second client"
    assert None not in HERE.values()


def test_it_can_be_imported_where_no_package_is() -> None:
    """Else its own import would fail first, with a traceback instead of the machine's name."""
    script = (
        "import sys; import reconciler_mirror.leases.preflight as p; "
        "found = sorted(set(p.PACKAGES) & set(sys.modules)); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_missing_package_is_named_with_the_machine_and_what_to_do() -> None:
    with pytest.raises(NotFitError) as told:
        fit(packed(None, "work"), HERE | {"structlog": None, "cramjam": None})
    assert str(told.value).startswith(f"the Python of executor {HOST} ({sys.executable}")
    assert "lacks cramjam, structlog: name an archive made by `reconciler mirror pack`" in str(told.value)
    of_spark = RuntimeError(
        f"Traceback (most recent call last):\n  ...\n{type(told.value).__module__}.{told.typename}: x"
    )
    assert "NotFitError: x" in cause(of_spark), "the line that reaches status"


def test_a_channel_out_of_reach_is_named_before_a_lease_waits_for_its_deadline(closed: tuple[str, int]) -> None:
    with pytest.raises(NotFitError) as told:
        fit(packed(closed, "work"))
    words = f"executor {HOST} cannot reach the control channel of the Spark driver at 127.0.0.1:{closed[1]}: "
    assert str(told.value).startswith(words)
    assert "spark.driver.host" in str(told.value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert fit(packed(server.getsockname()[:2], {"a": 1})) == {"a": 1}
    assert fit(packed(None, "on the driver's machine")) == "on the driver's machine"


def test_another_version_than_the_drivers_is_reported() -> None:
    [line] = look((), HERE | {"crc32c": "0.0.1"})
    assert line == f"executor {HOST} has crc32c {HERE['crc32c']}, the driver has 0.0.1"
    assert look((), HERE) == []


def test_a_cluster_out_of_reach_and_a_secret_that_is_missing_are_reported(
    closed: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH", raising=False)
    monkeypatch.setattr(preflight, "ANSWER_S", 2.0)
    silent = Endpoint("east", (f"127.0.0.1:{closed[1]}",))
    secret = Endpoint("west", ("127.0.0.1:1",), {"sasl.password": "${env:NO_SUCH}"})
    east, west = look((silent, secret), HERE)
    assert east.startswith(f"executor {HOST} cannot use cluster east: ")
    assert str(closed[1]) in east
    assert west.startswith(f"executor {HOST}: ")
    assert "NO_SUCH" in west
    assert west.endswith("which the client settings of cluster west name")


def test_a_broker_whose_own_address_is_out_of_reach_is_named(
    closed: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bootstrap server answers, and names an address that only its own network knows."""

    async def refresh(_: object) -> None:
        return None

    cluster: Any = SimpleNamespace(refresh=refresh, brokers=(1,), address_of=lambda _: closed, close=lambda: None)
    monkeypatch.setattr("reconciler_mirror.clients.own.cluster_of", lambda _: cluster)
    [line] = look((Endpoint("east", ("b:9092",)),), HERE)
    assert line.startswith(f"executor {HOST} cannot reach a broker of cluster east at 127.0.0.1:{closed[1]}: ")


def test_the_condition_says_what_to_do_and_stops_nothing() -> None:
    made = executor_unfit(("executor a cannot use cluster east: no", "executor a has x 1, the driver has 2"))
    assert (made.code, made.stops) == ("executor_unfit", False)
    assert made.text == "executor a cannot use cluster east: no; executor a has x 1, the driver has 2"
