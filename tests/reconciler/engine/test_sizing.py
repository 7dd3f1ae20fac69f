"""From rates to lanes, cores, lines and disk: by figures that were measured, and unknown where nothing was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.engine.sizing import (
    CORE_BYTES,
    LANE_BYTES,
    MOST_LANES,
    RECORD_WORK,
    FlowLoad,
    MirrorSize,
    disk_by_cluster,
    flow_size,
    growth,
    mirror_size,
)
from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.topology import Flow, Mirror
from reconciler.render.sizing import sizing_code, sizing_json, sizing_text
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.handover import Deployment
from tests.support.paths import SCHEMAS

UNREAD = Unknown("flow f", "its topics could not be read", "do this")
FLOW = Flow("f", "east", "west", ("orders",), lanes=2)
MIRROR = Mirror("west", ("f",), master="spark://h:7077", parallelism=2)
BYTES = st.floats(0, 1e12)


def load(rate: float | Unknown = 100e6, **changes: object) -> FlowLoad:
    return replace(FlowLoad(FLOW, rate, 500, 10**12, 3), **changes)  # type: ignore[arg-type]  # by name


def as_document(mirrors: list[MirrorSize]) -> Any:
    """What --format json prints, as its schema has it."""
    document = json.loads(sizing_json("prod", mirrors, 1.0))
    Draft202012Validator(json.loads((SCHEMAS / "reports" / "sizing.schema.json").read_text("utf-8"))).validate(document)
    return document


def test_ten_gigabytes_a_second_need_what_performance_says() -> None:
    size = flow_size(load(5e9), 2.0)
    assert (size.peak, size.lanes) == (10e9, 50)
    assert isinstance(size.cores, float)
    assert size.cores == pytest.approx(14.9, abs=0.1), "about 15 cores"
    assert size.problems == ()


def test_a_flow_above_what_its_lanes_carry_says_so_and_what_to_do() -> None:
    size = flow_size(load(20e9), 1.0)
    assert size.lanes == MOST_LANES
    assert size.problems == ("needs 100 lanes, and a flow has 64 at most: split its topics into several flows",)
    few = flow_size(load(2e9, partitions=3), 1.0)
    assert few.problems == ("has 3 partitions for 10 lanes; one lane copies a partition, so some would be idle",)


def test_record_work_costs_cores_and_so_lanes() -> None:
    worked = replace(FLOW, headers=(AddedHeader("a", "b"),))
    whole, opened = flow_size(load(CORE_BYTES), 1.0), flow_size(load(CORE_BYTES, flow=worked), 1.0)
    assert (whole.cores, opened.cores) == (1.0, RECORD_WORK)
    assert opened.lanes == RECORD_WORK


@given(BYTES, BYTES, st.floats(1, 10))
def test_more_load_never_needs_less(one: float, other: float, headroom: float) -> None:
    less, more = (flow_size(load(rate), headroom) for rate in sorted((one, other)))
    for low, high in ((less.lanes, more.lanes), (less.cores, more.cores), (less.peak, more.peak)):
        assert not isinstance(low, Unknown)
        assert not isinstance(high, Unknown)
        assert low <= high
    assert isinstance(more.lanes, int)
    assert more.lanes == MOST_LANES or more.lanes * LANE_BYTES >= max(one, other) * headroom * 0.999


def test_what_is_not_known_of_a_flow_is_not_known_of_its_mirror() -> None:
    known, unknown = flow_size(load(), 2.0), flow_size(load(UNREAD, kept_bytes=UNREAD), 2.0)
    assert (unknown.lanes, unknown.cores, unknown.disk_bytes) == (UNREAD, UNREAD, UNREAD)
    sources = {"f": "east", "g": "east"}
    mirror = mirror_size(MIRROR, [known, replace(unknown, flow="g")], sources)
    assert (mirror.cores, mirror.executors) == (UNREAD, UNREAD)
    assert mirror.line_bits == {("east", "west"): UNREAD}, "never the sum of what is known"
    assert disk_by_cluster([mirror]) == {"west": UNREAD}
    text = sizing_text([mirror], 2.0)
    assert "parallelism unknown (now 2): unknown cores on unknown executors of 4" in text
    assert "unknown: its topics could not be read. do this" in text
    assert sizing_code([mirror]) is ExitCode.ERROR
    document = as_document([mirror])
    assert (document["exit_code"], document["disk_bytes"]) == (1, {"west": None})
    [flow] = [each for each in document["mirrors"][0]["flows"] if each["flow"] == "g"]
    assert (flow["bytes_per_second"], flow["lanes"], flow["cores"]) == (None, None, None)
    assert document["unknown"] == ["its topics could not be read. do this"]


def test_executors_have_the_cores_that_the_mirror_gives_them() -> None:
    sizes = [flow_size(load(4e9), 1.0), flow_size(load(1e9, flow=replace(FLOW, name="g")), 1.0)]
    sources = {"f": "east", "g": "east"}
    small = replace(MIRROR, deployment=Deployment(executors=1, cores=2))
    mirror = mirror_size(small, sizes, sources)
    assert (mirror.cores, mirror.executors, mirror.executor_cores) == (8, 4, 2)
    assert mirror.line_bits == {("east", "west"): 40e9}
    assert disk_by_cluster([mirror]) == {"west": 6 * 10**12}
    text = sizing_text([mirror], 1.0)
    assert "parallelism 8 (now 2): 8 cores on 4 executors of 2, and one for the driver" in text
    assert "line east to west: 40,000.0 Mbit/s" in text
    assert sizing_code([mirror]) is ExitCode.DONE
    document = as_document([mirror])
    [told] = document["mirrors"]
    assert (told["parallelism"], told["executors"], told["executor_cores"]) == (8, 4, 2)
    assert told["lines"] == [{"source": "east", "target": "west", "bits_per_second": 40e9}]
    assert (document["exit_code"], document["disk_bytes"], document["unknown"]) == (0, {"west": 6 * 10**12}, [])


def test_growth_is_what_came_and_unknown_where_records_expired() -> None:
    assert growth(100, 1_100, 10.0, "flow f") == 100.0
    assert growth(5, 5, 10.0, "flow f") == 0.0
    for before, after in ((100, 90), (None, 5), (5, None)):
        assert isinstance(growth(before, after, 10.0, "flow f"), Unknown)
