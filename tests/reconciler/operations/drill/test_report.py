"""The report of a drill: text, page, JSON, figures for Prometheus, and how the audit record vouches for it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from reconciler.backends.metrics import drill_metrics
from reconciler.errors import BlockedError, ExitCode, ReconcilerError
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.reports.cutover import CutoverPlan, CutoverSettings, FenceChosen, GroupSeen, TopicSeen
from reconciler.model.reports.drill import (
    CanaryRecords,
    DrillPlaces,
    DrillReport,
    DrillVerdict,
    RecoveryPoint,
)
from reconciler.model.reports.failover import FailoverCheck, FailoverStep, Level, StepResult
from reconciler.model.state.audit_chain import AuditVerification, Record, check, digest, report_in
from reconciler.model.state.last_drill import LastDrill, dumps, loads
from reconciler.operations.drill import run
from reconciler.operations.drill.decide import objectives_seen, require_ready
from reconciler.render.cutover import page_in
from reconciler.render.drill import drill_json, drill_page
from reconciler.render.markup import Format
from reconciler.render.reports.checkups import audit_json, audit_text
from tests.support.builders import flow, topic, topology
from tests.support.paths import ROOT

POINT, GROUP = RecoveryPoint(24, 0.8), GroupSeen("drill.f", "classic", (), 3, 0, 0, True, 0)
MET = DrillReport(
    "prod", "f", "us", "eu", "drill.f", DrillPlaces("drill.f", "us.drill.f"), "4f1c", "ann", "ci-7", "abc123", False,
    1_795_000_000_000, 1_795_000_060_000, (FailoverStep("fence", StepResult.DONE, "1 deny rule made on us", 0.25),), (),
    12.5, 4.0, POINT, (GROUP,), CanaryRecords(240, 240, 0, 0, 0, 240, 0),
    objectives_seen(Objectives(300_000, 10_000), 12.5, POINT),
)  # fmt: skip
LATE = replace(MET, objectives=objectives_seen(Objectives(10_000, 500), 12.5, POINT))
LOST = replace(MET, records=CanaryRecords(240, 237, 1, 2, 0, 240, 3))
FAILED = replace(
    MET, failure="the failover ended at step drain: 3 left\nwhy", recovery_s=None, left=("no answer\ntodo",)
)
SCHEMA = json.loads((ROOT / "schemas/reports/drill.schema.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("report", "code", "words"),
    [
        (MET, 0, "from us to eu: recovery time 12.5 s (at most 300 s), recovery point 0.8 s (at most 10 s); every"),
        (LATE, 2, "Missed: drill of f from us to eu: recovery time 12.5 s (at most 10 s); recovery point"),
        (LOST, 2, "2 records missing, 1 doubled, 3 different of 240"),
        (replace(MET, positions=(replace(GROUP, again=1),)), 2, "positions of its group were not exact"),
        (FAILED, 5, "Failed: drill of f from us to eu: the failover ended at step drain: 3 left"),
        (replace(FAILED, left=()), 1, "Failed"),
        (replace(MET, objectives=objectives_seen(None, 12.5, POINT)), 0, "no rto is declared for the flow"),
        (replace(LATE, objectives=objectives_seen(Objectives(1), None, None)), 2, "recovery time not measured"),
    ],
)  # fmt: skip
def test_each_form_says_what_came_of_it(report: DrillReport, code: int, words: str) -> None:
    assert report.exit_code == code
    text, note = (page_in(form, drill_page(report), str) for form in (Format.TEXT, Format.MARKDOWN))
    page = page_in(Format.HTML, drill_page(report, "sha256:0b1f"), str)
    document = json.loads(drill_json(report))
    assert words in text
    Draft202012Validator(SCHEMA).validate(document)
    assert (document["exit_code"], document["verdict"]) == (code, report.verdict)
    for form in (text, note, page):
        assert "ann on ci-7" in form
        assert "commit abc123" in form
    assert "sha256:0b1f" in page
    assert report.verdict is not DrillVerdict.FAILED or "why" in text


def test_the_record_has_the_report_as_it_was_and_no_other() -> None:
    document = json.loads(drill_json(MET))
    seal = digest(document)
    begun = {"kind": "begin", "run": "r", "at": "2026-11-28T01:00:00Z", "who": "ann", "commit": "abc", "previous": None}
    changed = {
        "kind": "change", "run": "r", "at": "2026-11-28T01:00:01Z", "id": f"drill:f:report:{seal}",
        "previous": digest(begun),
    }  # fmt: skip
    records: dict[str, list[Record]] = {"this machine": [begun, changed], "eu/audit": [begun]}
    known = report_in(seal, records)
    assert (known.places, known.at, known.who, known.commit) == (("this machine",), changed["at"], "ann", "abc")
    whole = {place: check(lines) for place, lines in records.items()}
    good = AuditVerification("prod", whole, known)
    assert good.exit_code == ExitCode.DONE
    assert "the report is as it was recorded at 2026-11-28T01:00:01Z\n  by ann, commit abc" in audit_text(good)
    forged = digest({**document, "recovery_s": 1.0})
    bad = AuditVerification("prod", whole, report_in(forged, records))
    assert bad.exit_code == ExitCode.CHANGES
    assert "no record has this report" in audit_text(bad)
    schema = json.loads(Path(ROOT / "schemas/reports/audit-verification.schema.json").read_text("utf-8"))
    for each in (good, bad, AuditVerification("prod", whole)):
        Draft202012Validator(schema).validate(json.loads(audit_json(each)))


def test_a_figure_that_is_not_known_has_no_sample() -> None:
    last = LastDrill("prod", "f", 2_000, 1_000, "failed", None, 0.5, "sha256:0", "ann")
    assert loads(dumps(last)) == last
    samples = {
        sample.name.removeprefix("reconciler_drill_"): sample.value
        for family in text_string_to_metric_families(drill_metrics(last, Objectives(drill_every_ms=86_400_000)))
        for sample in family.samples
        if sample.labels == {"environment": "prod", "flow": "f"}
    }
    assert samples == {
        "last_timestamp_seconds": 2.0, "last_met_timestamp_seconds": 1.0, "met": 0.0, "point_seconds": 0.5,
        "every_seconds": 86_400.0,
    }  # fmt: skip
    assert "every_seconds" not in drill_metrics(replace(last, verdict="met"), None)
    assert "met{" in drill_metrics(last, None)


@pytest.mark.parametrize(("code", "stops"), [("job", True), ("lag", True), ("condition", True), ("hook", False)])
def test_a_mirror_that_does_not_copy_stops_it_and_a_hook_does_not(code: str, stops: bool) -> None:
    topic = TopicSeen("drill.f", "us.drill.f", "id", 1, 0, 0.0, 0.0)
    checks = (FailoverCheck(code, Level.STOPS, "the mirror of f is stopped", "Start it"),)
    plan = CutoverPlan(
        "prod", "f", "us", "eu", "x", "x", CutoverSettings(), 0, {}, "", (topic,), (), {}, FenceChosen(), "", checks,
        (), None,
    )  # fmt: skip
    if stops:
        with pytest.raises(BlockedError, match="the mirror of f is stopped"):
            require_ready(plan, "drill.f")
    else:
        require_ready(plan, "drill.f")
    with pytest.raises(BlockedError, match=r"us has no topic drill\.f that f copies"):
        require_ready(replace(plan, topics=()), "drill.f")


def test_the_result_of_a_drill_is_shown_also_where_its_files_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It has moved a canary there and back, and may have left something behind."""
    recorded: list[str] = []
    declared = topology(flow("us", "eu", "drill.f", name="f"), topic("drill.f", "us"))
    kept = SimpleNamespace(record=lambda step, _: recorded.append(step), require_kept=lambda: None)
    monkeypatch.setattr(run, "open_session", lambda *_: nullcontext(SimpleNamespace(topology=declared)))
    monkeypatch.setattr(run, "execution", lambda *_: nullcontext(kept))
    monkeypatch.setattr(run, "_rehearsed", lambda *_: FAILED)
    (tmp_path / "taken").write_text("a file, where a folder is wanted")
    out = tmp_path / "taken" / "drills"
    options = run.DrillOptions("", 0.0, CutoverSettings(), Format.TEXT, out, None, "")
    with pytest.raises(ReconcilerError, match=r"taken/drills/drill\.json cannot be written"):
        run.drill(tmp_path, "f", options)
    assert "Failed: drill of f from us to eu" in capsys.readouterr().out
    assert len(recorded) == 1
