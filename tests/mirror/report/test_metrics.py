"""The metrics: exact values from a board, nothing for what is unknown, a cap on series, a page that lists them all."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from reconciler_mirror.board.board import Board
from reconciler_mirror.board.flow_state import SILENT_S
from reconciler_mirror.model.counters import BOUNDS_MS, LatencyCounter
from reconciler_mirror.model.lane import Condition, Discovered, LaneProgress, PartitionProgress, PartitionSpec, lane_of
from reconciler_mirror.model.views import FlowView
from reconciler_mirror.report import metrics
from reconciler_mirror.report.metrics import MOST_SERIES, SERIES_OF_ONE, MetricsEndpoint, MetricsSnapshot, families
from reconciler_mirror.report.status import Application, record

from reconciler.model.schemas import schema as schema_of
from reconciler.replication.handover_reader import parse
from reconciler.replication.names import CONDITION_CODES, FORMER_NAMES, ConditionCode
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.replication.status import Filling, SameOffsetsStatus, document
from tests.support.lanes.handover import handover
from tests.support.paths import ROOT
from tests.support.waiting import until

DOCS = ROOT / "docs"
SETTINGS = parse(json.dumps(handover()))
FLOW = SETTINGS.flows[0]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def board_of(*specs: PartitionSpec) -> Board:
    board = Board(SETTINGS.flows)
    board.discovered(FLOW.name, Discovered(specs, (), len({spec.topic for spec in specs}), complete=True))
    board.taken_over(FLOW.name)
    return board


def specs(topics: int, partitions: int) -> tuple[PartitionSpec, ...]:
    return tuple(PartitionSpec(f"t{t}", p, f"east.t{t}", "id") for t in range(topics) for p in range(partitions))


def progress(partition: PartitionProgress) -> LaneProgress:
    return LaneProgress(FLOW.name, lane_of(partition.topic, partition.partition, FLOW.lanes), (partition,))


def seen(board: Board) -> MetricsSnapshot:
    return MetricsSnapshot(SETTINGS, Application("app-1", 1, "host", 2), "running", board.view(), 2, 3)


def alert_rules() -> list[dict[str, str]]:
    [group] = yaml.safe_load((DOCS / "grafana" / "alerts.yml").read_text("utf-8"))["groups"]
    return list(group["rules"])


def samples(metrics: Iterator[Metric]) -> Samples:
    return {(one.name, frozenset(one.labels.items())): one.value for metric in metrics for one in metric.samples}


def of(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


@pytest.fixture
def busy() -> Board:
    """Two topics of two partitions; t0/0 is behind, t1/1 is stopped, the others are caught up."""
    board = board_of(*specs(2, 2))
    counted = LatencyCounter()
    for age in (7, 60, 10**9):
        counted.committed(10**9, 10**9 + age)
    first = progress(PartitionProgress("t0", 0, 60, 100, 60, 6_000, 1_000, "batch", "whole batches"))
    told = [replace(first, transactions=4, retries=1, latency=counted.snapshot())]
    told += [progress(PartitionProgress(topic, number, 9, 9, 9, 90)) for topic, number in (("t0", 1), ("t1", 0))]
    stop = Condition("source_topic_recreated", "text", "todo", "t1", 1, stops=True)
    told.append(replace(progress(PartitionProgress("t1", 1, None, None)), conditions=(stop,)))
    merged: dict[int, LaneProgress] = {}
    for one in told:
        before = merged.get(one.lane, replace(one, partitions=(), conditions=(), transactions=0, retries=0))
        merged[one.lane] = replace(
            one,
            partitions=(*before.partitions, *one.partitions),
            conditions=(*before.conditions, *one.conditions),
            transactions=before.transactions + one.transactions,
            retries=before.retries + one.retries,
            latency=one.latency if one.latency.count else before.latency,
        )
    for one in merged.values():
        board.progress(one)
    return board


def test_a_flow_is_reported_in_figures(busy: Board) -> None:
    found = samples(families(seen(busy)))
    for name, value in {
        "records_total": 78, "bytes_total": 6_180, "transactions_total": 4, "retries_total": 1,
        "lag_known": 0, "lag_records_at_least": 40, "lag_unknown_partitions": 1, "stalled_partitions": 1,
        "topics": 2, "partitions": 4, "lanes": 4,
    }.items():  # fmt: skip
        assert of(found, f"mirror_flow_{name}", flow=FLOW.name) == value, name
    assert of(found, "mirror_flow_lag_records", flow=FLOW.name) is None, (
        "of a partition that is stopped it is not known"
    )
    stopped = replace(progress(PartitionProgress("t1", 1, 5, 9)), transactions=4)
    busy.progress(stopped)
    found = samples(families(seen(busy)))
    assert of(found, "mirror_flow_lag_records", flow=FLOW.name) == 44
    assert of(found, "mirror_flow_lag_known", flow=FLOW.name) == 1
    assert (of(found, "mirror_flow_lag_seconds", flow=FLOW.name) or 0) > 10**9
    assert (of(found, "mirror_flow_last_commit_timestamp_seconds", flow=FLOW.name) or 0) > 10**9
    assert of(found, "mirror_leases") == 2
    assert of(found, "mirror_leases_lost_total") == 3


def test_state_conditions_and_paths_are_reported_by_label(busy: Board) -> None:
    found = samples(families(seen(busy)))
    states = {s: of(found, "mirror_flow_state", flow=FLOW.name, state=s) for s in ("running", "degraded", "stopped")}
    assert states == {"running": 0, "degraded": 1, "stopped": 0}
    code = "source_topic_recreated"
    more = {"runbook": f"docs/mirror/conditions.md#{code}", "renamed_to": ""}
    assert of(found, "mirror_flow_conditions", flow=FLOW.name, code=code, stops="true", **more) == 1
    assert of(found, "mirror_flow_path_partitions", flow=FLOW.name, path="batch", reason="whole batches") == 1
    assert of(found, "mirror_flow_path_partitions", flow=FLOW.name, path="batch", reason="") == 3


@pytest.mark.parametrize("code", CONDITION_CODES)
def test_a_condition_leads_to_its_runbook_and_one_that_was_renamed_has_its_former_code_too(code: ConditionCode) -> None:
    board = board_of(*specs(1, 1))
    board.set_condition(FLOW.name, "x", Condition(code, "text", "todo", stops=True))
    snapshot = replace(seen(board), settings=replace(SETTINGS, docs_url="https://docs.example.net/r"))
    [family] = [family for family in families(snapshot) if family.name == "mirror_flow_conditions"]
    same = {"flow": FLOW.name, "stops": "true", "runbook": f"https://docs.example.net/r/mirror/conditions.html#{code}"}
    former = [{**same, "code": old, "renamed_to": code} for old, now in FORMER_NAMES.items() if now == code]
    assert [sample.labels for sample in family.samples] == [{**same, "code": code, "renamed_to": ""}, *former]


def test_a_figure_that_was_renamed_is_exported_under_both_names(busy: Board) -> None:
    found = samples(families(seen(busy)))
    [former] = [old for old, now in FORMER_NAMES.items() if now == "stalled_partitions"]
    assert of(found, f"mirror_flow_{former}", flow=FLOW.name) == 1
    assert of(found, "mirror_flow_stalled_partitions", flow=FLOW.name) == 1


def test_topics_and_partitions_are_reported_and_what_is_unknown_has_no_sample(busy: Board) -> None:
    found = samples(families(seen(busy)))
    assert of(found, "mirror_partition_lag_records", flow=FLOW.name, topic="t0", partition="0") == 40
    assert of(found, "mirror_partition_lag_records", flow=FLOW.name, topic="t1", partition="1") is None
    assert of(found, "mirror_partition_records_total", flow=FLOW.name, topic="t0", partition="0") == 60
    assert of(found, "mirror_topic_records_total", flow=FLOW.name, topic="t0") == 69
    assert of(found, "mirror_topic_lag_records", flow=FLOW.name, topic="t0") == 40
    unknown = samples(families(seen(board_of(*specs(1, 1)))))
    assert of(unknown, "mirror_flow_lag_records", flow=FLOW.name) is None
    assert of(unknown, "mirror_flow_last_commit_timestamp_seconds", flow=FLOW.name) is None
    assert of(unknown, "mirror_flow_records_total", flow=FLOW.name) == 0


def _all_copied() -> Board:
    board = board_of(*specs(1, 2))
    for number in range(2):
        board.progress(progress(PartitionProgress("t0", number, 9, 9, 9, 90)))
    return board


def _source_cut(board: Board) -> None:
    board.progress(progress(PartitionProgress("t0", 0, 9, 9, silent_since_ms=1)))


def _topic_made_anew(board: Board) -> None:
    stop = Condition("source_topic_recreated", "text", "todo", "t0", 0, stops=True)
    board.progress(replace(progress(PartitionProgress("t0", 0, None, 9)), conditions=(stop,)))


def _target_topic_missing(board: Board) -> None:
    missing = Condition("target_topic_missing", "text", "todo", "t9", stops=True)
    board.discovered(FLOW.name, Discovered(specs(1, 2), (missing,), 2, complete=True, uncopied={"t9": 4}))


def _lost_executor(board: Board) -> None:
    board.lost([(FLOW.name, lane) for lane in range(FLOW.lanes)])


def _frozen_worker(board: Board) -> None:
    for lane in board._flows[FLOW.name].lanes.values():
        lane.heard_at -= SILENT_S + 1


@pytest.mark.parametrize(
    "fault", [_source_cut, _topic_made_anew, _target_topic_missing, _lost_executor, _frozen_worker]
)
def test_no_fault_makes_an_alert_on_lag_blind(fault: Callable[[Board], None]) -> None:
    """Each makes the alert fire that the page recommends beside the one on the lag itself."""
    board = _all_copied()
    before = samples(families(seen(board)))
    assert (
        of(before, "mirror_flow_lag_known", flow=FLOW.name),
        of(before, "mirror_flow_lag_records", flow=FLOW.name),
    ) == (1, 0)
    fault(board)
    found = samples(families(seen(board)))
    assert of(found, "mirror_flow_lag_known", flow=FLOW.name) == 0
    assert of(found, "mirror_flow_lag_records", flow=FLOW.name) is None
    assert of(found, "mirror_flow_lag_seconds", flow=FLOW.name) is None
    assert of(found, "mirror_flow_lag_records_at_least", flow=FLOW.name) == 0
    assert (of(found, "mirror_flow_lag_unknown_partitions", flow=FLOW.name) or 0) >= 1
    [unknown] = [rule["expr"] for rule in alert_rules() if rule["alert"] == "MirrorLagUnknown"]
    assert unknown.startswith("mirror_flow_lag_known == 0 unless")


@pytest.mark.parametrize("odd", ['a"b', "a\\b\nc", 'a{b="c"} 1\n# EOF', "é\u2028}", "."])
def test_odd_names_come_back_from_the_exposition_as_they_are(odd: str) -> None:
    """Kafka takes letters, digits, dots, hyphens and underscores; ids and names of others may hold anything."""
    spec = PartitionSpec("A.b_c-D.0", 0, "east.A.b_c-D.0", "id")
    snapshot = replace(seen(board_of(spec)), who=Application(odd, 1, odd, 2))
    text = generate_latest(SimpleNamespace(collect=lambda: families(snapshot))).decode()
    labels = [one.labels for family in text_string_to_metric_families(text) for one in family.samples]
    assert odd in {one.get("application_id") for one in labels}
    assert "A.b_c-D.0" in {one.get("topic") for one in labels}


def test_latency_is_a_cumulative_histogram(busy: Board) -> None:
    found = samples(families(seen(busy)))
    buckets = [of(found, "mirror_replication_latency_seconds_bucket", flow=FLOW.name, le=f"{bound / 1000:g}")
               for bound in BOUNDS_MS]  # fmt: skip
    assert buckets == [1, 1, 1, 2, *[2] * (len(BOUNDS_MS) - 4)]
    assert of(found, "mirror_replication_latency_seconds_bucket", flow=FLOW.name, le="+Inf") == 3
    assert of(found, "mirror_replication_latency_seconds_count", flow=FLOW.name) == 3
    assert of(found, "mirror_replication_latency_seconds_sum", flow=FLOW.name) == pytest.approx(10**6 + 0.067)


@pytest.mark.parametrize(("topics", "partitions", "told"), [(1, 500, "both"), (1, 501, "topics"), (501, 1, "neither")])
def test_a_level_with_too_many_series_is_left_out_as_a_whole_and_says_so(
    topics: int, partitions: int, told: str
) -> None:
    board = board_of(*specs(topics, partitions))
    found = samples(families(seen(board)))
    levels = {
        level: sum(name == f"mirror_{level}_records_total" for name, _ in found) for level in ("topic", "partition")
    }
    shown = {"both": (1, 500), "topics": (1, 0), "neither": (0, 0)}[told]
    assert (levels["topic"], levels["partition"]) == shown
    for level, count in (("topic", topics), ("partition", topics * partitions)):
        missing = 0 if levels[level] else count * SERIES_OF_ONE
        assert of(found, "mirror_series_left_out", level=level) == missing
    assert all(count * SERIES_OF_ONE <= MOST_SERIES for count in levels.values())
    assert of(found, "mirror_flow_partitions", flow=FLOW.name) == topics * partitions


def with_same(view: FlowView, same: SameOffsetsStatus) -> FlowView:
    return replace(view, figures=replace(view.figures, same_offsets=same))


def test_what_same_offsets_cost_is_served_of_such_flows_alone() -> None:
    plain = seen(board_of(*specs(1, 1)))
    names = ("same_offsets", "holes_total", "fillers_total", "sequence_refusals_total", "filling_offsets_left")
    assert not [name for name, _ in samples(families(plain)) if name.removeprefix("mirror_flow_") in names]
    same = with_same(plain.flows[0], SameOffsetsStatus(3, 7, 2, Filling(1, 90, 5.0)))
    served = samples(families(replace(plain, flows=(same,))))
    assert [of(served, f"mirror_flow_{name}", flow=FLOW.name) for name in names] == [1, 3, 7, 2, 90]
    empty = samples(families(replace(plain, flows=(with_same(same, SameOffsetsStatus()),))))
    assert of(empty, "mirror_flow_holes_total", flow=FLOW.name) == 0
    written = document(record(SETTINGS, Application("app-1", 1, "host", 2), "running", (same,), 1))
    jsonschema.Draft202012Validator(schema_of("status")).validate(written)
    assert written["flows"][FLOW.name]["same_offsets"]["filling"]["offsets_left"] == 90


def exported() -> dict[str, Metric]:
    """By the name under which Prometheus keeps it."""
    found = families(seen(board_of(*specs(1, 1))))
    return {metric.name + ("_total" if metric.type == "counter" else ""): metric for metric in found}


def test_the_reference_is_what_is_exported() -> None:
    """To accept other metrics: ``UPDATE_GOLDEN=1 pytest`` of this file."""
    rows = [
        f"| `{name}` | {metric.type} | {' '.join(f'`{label}`' for label in getattr(metric, '_labelnames', ()))} "
        f"| {metric.documentation} |"
        for name, metric in sorted(exported().items())
    ]
    head = "# Metrics of the mirror job", "", "As the job exports them; written by the tests.", ""
    page = "\n".join((*head, "| metric | type | labels | means |", "|---|---|---|---|", *rows, ""))
    path = ROOT / "tests" / "golden" / "metrics.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(page, "utf-8")
    assert path.read_text("utf-8") == page


def test_every_metric_of_the_dashboard_and_of_the_alerts_is_exported() -> None:
    board = json.loads((DOCS / "grafana" / "mirror.json").read_text("utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [variable.get("definition", "") for variable in board["templating"]["list"]]
    named = {name.removesuffix("_bucket") for name in re.findall(r"\bmirror_\w+", "\n".join(expressions))}
    assert named <= exported().keys()
    titles = " ".join(panel["title"].lower() for panel in board["panels"])
    subjects = ("lag", "records a second", "latency", "conditions", "transactions", "paused", "rate limit", "throttled")
    for subject in (*subjects, "lost", "filtered", "returning"):
        assert subject in titles
    assert [panel["title"] for panel in board["panels"] if panel["type"] == "heatmap"] == ["Replication latency"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_every_legend_of_the_dashboard_uses_labels_its_metric_has() -> None:
    board = json.loads((DOCS / "grafana" / "mirror.json").read_text("utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            names = {name.removesuffix("_bucket") for name in re.findall(r"\bmirror_\w+", target["expr"])}
            held = [set(getattr(exported()[name], "_labelnames", ())) | {"job"} for name in names]
            used = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target.get("legendFormat", "")))
            assert used - {"job", "instance", "le"} <= set.intersection(*held), (panel["title"], target["expr"])


def test_dashboard_panels_do_not_cover_each_other() -> None:
    board = json.loads((DOCS / "grafana" / "mirror.json").read_text("utf-8"))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_endpoint_waits_for_its_port_and_is_read_by_prometheus(
    busy: Board, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        endpoint = MetricsEndpoint("127.0.0.1", port, lambda: seen(busy))
        endpoint.open()
        endpoint.open()
        assert endpoint.port is None
        assert endpoint.refused == "", "the former application may be leaving"
        monkeypatch.setattr(metrics, "_PORT_PATIENCE_S", 0.0)
        assert endpoint.refused == "Address already in use"
    endpoint.open()
    try:
        assert endpoint.port == port
        assert endpoint.refused == ""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        endpoint.close()
    read = {metric.name: metric for metric in text_string_to_metric_families(text)}
    [info] = read["mirror_info"].samples
    assert info.labels["mirror"] == SETTINGS.mirror
    assert read["mirror_replication_latency_seconds"].type == "histogram"
    told = capsys.readouterr()
    assert (told.out + told.err).count("metrics cannot be served yet") == 1
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again


def test_who_sends_nothing_keeps_no_thread_and_no_descriptor(
    busy: Board, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scanner or a health check that only connects, of which the port takes thousands."""
    monkeypatch.setattr(metrics, "SCRAPE_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    endpoint = MetricsEndpoint("127.0.0.1", port, lambda: seen(busy))
    endpoint.open()
    try:
        before = threading.active_count()
        silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(20)]
        assert all(one.recv(1) == b"" for one in silent)
        until(lambda: threading.active_count() <= before, 10)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"mirror_info" in answer.read()
    finally:
        endpoint.close()
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_port_nothing_is_served(busy: Board) -> None:
    endpoint = MetricsEndpoint("127.0.0.1", 0, lambda: seen(busy))
    endpoint.open()
    assert endpoint.port is None


def test_the_rules_for_alerts_are_those_of_the_page_and_ask_for_what_is_exported() -> None:
    sections = re.findall(r"^## (\w+)$", (DOCS / "mirror" / "alerts.md").read_text("utf-8"), re.MULTILINE)
    assert sections == sorted(rule["alert"] for rule in alert_rules())
    for rule in alert_rules():
        held = {name.removesuffix("_bucket") for name in re.findall(r"\bmirror_\w+", rule["expr"])}
        assert held <= exported().keys(), rule["alert"]


def test_work_that_is_paused_is_not_due() -> None:
    """After a failover producers may write to the origin for days: no alert on a backlog may fire for it."""
    board = board_of(*specs(1, 2))
    board.progress(progress(PartitionProgress("t0", 0, 3, 10, waiting_since_ms=1_000, paused=True)))
    board.progress(progress(PartitionProgress("t0", 1, 5, 9, waiting_since_ms=1_000)))
    found = samples(families(seen(board)))
    assert of(found, "mirror_flow_lag_records", flow=FLOW.name) == 11
    assert of(found, "mirror_flow_due_records", flow=FLOW.name) == 4
    assert (of(found, "mirror_flow_due_seconds", flow=FLOW.name) or 0) > 10**9
    assert of(found, "mirror_flow_paused_timestamp_seconds", flow=FLOW.name) is None
    board.progress(progress(PartitionProgress("t0", 1, 5, 9, waiting_since_ms=1_000, paused=True)))
    board.set_pauses([Pause(Scope(FLOW.name), 60_000, "ann"), Pause(Scope(FLOW.name, "t0"), 50_000, "bob")])
    found = samples(families(seen(board)))
    assert of(found, "mirror_flow_due_records", flow=FLOW.name) == 0
    assert of(found, "mirror_flow_due_seconds", flow=FLOW.name) == 0
    assert of(found, "mirror_flow_paused_timestamp_seconds", flow=FLOW.name) == 50
    assert of(found, "mirror_start_timestamp_seconds") == 0.001
