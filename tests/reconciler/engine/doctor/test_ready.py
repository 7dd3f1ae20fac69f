"""Findings on what works now and leaves users without help later: offsets that are not kept, metrics that are off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.engine.doctor.flows import flow_findings
from reconciler.engine.doctor.machines import metrics_findings
from reconciler.model.environment.flow_settings import Groups
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import LiveState
from reconciler.model.reports.doctor import DoctorVerdict, Finding
from tests.support.builders import cluster, flow, topology
from tests.support.commands import Ended, Write

WORLD = topology(flow("east", "west", "orders", name="f"), cluster("east"), cluster("west"))


def offsets(groups: Groups) -> Finding:
    world = replace(WORLD, flows={"f": replace(WORLD.flows["f"], groups=groups)})
    return next(one for one in flow_findings(world, LiveState({}, {}), (), {}) if one.check == "consumer offsets")


def test_a_flow_that_keeps_no_offsets_is_not_ready_for_an_unplanned_failover() -> None:
    found = offsets(Groups())
    assert found.verdict is DoctorVerdict.WARNING
    assert found.text == "not kept on west"
    assert "groups: {sync_offsets: true} under flow f" in found.todo[0]
    assert offsets(Groups(sync_offsets=True)).verdict is DoctorVerdict.OK


def test_a_mirror_without_metrics_is_reported() -> None:
    world = replace(WORLD, mirrors={"west": Mirror("west", ("f",))})
    [found] = metrics_findings(world)
    assert (found.verdict, found.subject, found.check) == (DoctorVerdict.WARNING, "mirror west", "metrics")
    assert "metrics_port: 9400" in found.todo[0]
    [on] = metrics_findings(replace(world, mirrors={"west": Mirror("west", ("f",), metrics_port=9400)}))
    assert on.verdict is DoctorVerdict.OK


@pytest.mark.parametrize(
    ("host", "hosted", "apart"),
    [("127.0.0.1", False, False), ("0.0.0.0", False, False), ("127.0.0.2", False, True), ("127.0.0.1", True, True)],
)
def test_two_drivers_on_one_machine_need_two_ports(host: str, hosted: bool, apart: bool) -> None:
    mirrors = {
        name: Mirror(name, (), metrics_port=9400, metrics_host=its, hosted=hosted)
        for name, its in (("east", "127.0.0.1"), ("west", host))
    }
    one, other = metrics_findings(replace(WORLD, mirrors=mirrors))
    assert one.verdict is DoctorVerdict.OK
    assert other.verdict is (DoctorVerdict.OK if apart else DoctorVerdict.WARNING)
    assert apart or other.text == "port 9400 is that of mirror east, too"


def test_validate_reports_a_shared_port_and_stays_valid(write: Write, cli: Callable[..., Ended]) -> None:
    clusters = "".join(f"  {name}: {{bootstrap_servers: ['{name}.example.net:9092']}}\n" for name in "abc")
    flows = "".join(f"  to-{name}: {{source: a, target: {name}, topics: [x]}}\n" for name in "bc")
    mirrors = "".join(f"  {name}: {{metrics_port: 9400}}\n" for name in "bc")
    ended = cli("validate", write(f"clusters:\n{clusters}flows:\n{flows}mirrors:\n{mirrors}"))
    assert (ended.code, "mirror c: port 9400 is that of mirror b, too. Both drivers" in ended.err) == (0, True), ended
