"""``status --watch``: every flow in a row, silence never taken for rest, Ctrl-C an ordinary end."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group

from reconciler.backends.mirror_jobs.status.records import MalformedStatusError, mirror_from_record
from reconciler.engine.rollout.waves import RolloutStatus, rollout_now
from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.rollout import Course, CourseWave, Gates
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LAG_LATE_MS, JobState, LiveMirror, LiveState
from reconciler.model.schemas import schema as schema_of
from reconciler.model.state.lock import Holder, LockRecord, Steal
from reconciler.model.state.rollout_progress import ClusterRollout, Promotion, SoakState
from reconciler.render.live.pages import live_html, regions
from reconciler.render.live.view import JobsSeen, LivePage, LiveReading, PageKind
from reconciler.render.reports.status import Lock, StatusInputs, status_code, status_json, status_text
from reconciler.render.reports.watch import NO_TIME_LEFT, REFRESH_SECONDS, LagTrend, watch, watch_frame
from reconciler.replication.names import with_former_names
from reconciler.replication.status import ConditionCount, FlowStatus, PartitionLag, PathCount, PauseCounts
from tests.support.builders import flow, topology
from tests.support.documents.live import seen_view
from tests.support.documents.live_values import condition, live_cluster, live_mirror, live_topic, pause
from tests.support.jobs.status_records import FLOW, record

STOP = condition("record_refused")
HINT = condition("quota_throttled", stops=False)
BUSY = FlowStatus(
    "orders", "f" * 16, "degraded", 1, 3, 9, 12_345.6, 7_890_000.0, 1_234, 5.25,
    8, 2, conditions=(STOP, HINT, STOP), paths=(PathCount("batch", "", 3),),
    worst_partitions=(PartitionLag("orders", 1, 1_000, 5.25),),
)  # fmt: skip
NEW = FlowStatus("new", "f" * 16, "starting")


def live(state: JobState = JobState.RUNNING, *flows: FlowStatus) -> LiveState:
    return LiveState({}, {"west": live_mirror("west", flows, state)})


def declared(state: LiveState) -> Topology:
    """An environment of the flows that the job reports."""
    job = state.mirrors.get("west")
    names = list(job.flows) if isinstance(job, LiveMirror) else []
    return topology(*(flow("east", "west", "t", name=name) for name in names or ["orders"]))


def text_of(state: LiveState, now_ms: int, affairs: StatusInputs | None = None) -> str:
    return status_text(declared(state), state, now_ms, affairs)


def json_of(state: LiveState, now_ms: int, affairs: StatusInputs | None = None) -> str:
    return status_json(declared(state), state, now_ms, affairs)


def frame_of(state: LiveState, now: str, left: Mapping[tuple[str, str], str] = NO_TIME_LEFT, width: int = 160) -> Group:
    return watch_frame(declared(state), state, now, left, width)


def shown(state: LiveState) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(frame_of(state, "12:00:00"))
    return out.getvalue()


def test_a_pause_is_in_the_row_and_the_json_and_the_text_with_who_and_why() -> None:
    paused = live(JobState.RUNNING, FlowStatus("calm", "f" * 16, "paused", pauses=(pause(4, 3),)))
    assert row(paused, "calm")[1] == "paused"
    assert "paused (1 request, 3 partitions)" in row(paused, "calm")[-1]
    assert "flow calm is paused since 1970-01-01 00:00:00 UTC by ann@host: why; 3 of 4 partitions" in text_of(paused, 5)
    told = json.loads(json_of(paused, 5))["mirrors"]["west"]["flows"]["calm"]
    assert told["pauses"] == [
        {"since_ms": 1, "by": "ann@host", "reason": "why", "partitions": 4, "paused_partitions": 3}
    ]


def row(state: LiveState, first: str) -> list[str]:
    [line] = [line for line in shown(state).splitlines() if line.startswith(first)]
    return line.split(maxsplit=7)


def test_a_flow_is_one_row_of_figures() -> None:
    state = live(JobState.RUNNING, BUSY, NEW)
    assert row(state, "orders") == [
        "orders", "degraded", "12,346", "7.9", "1,234", "5.2", "unknown", "! record_refused x2, quota_throttled"
    ]  # fmt: skip
    assert row(state, "new") == ["new", "starting", "0", "0.0", "unknown", "unknown", "unknown"]
    first = shown(state).splitlines()[0]
    assert first.startswith(
        "12:00:00  STOPPED: flow orders: record_refused in 2 places, and 2 more; 1 of 1 mirror running; "
    )
    assert "lag unknown, at least 1,234 records behind; 3 conditions" in " ".join(shown(state).split())


def test_a_terminal_of_80_columns_has_whole_words_and_conditions_below_the_table() -> None:
    state = live(JobState.RUNNING, replace(BUSY, name="orders-east-to-west"), replace(BUSY, name="x", conditions=()))
    out = io.StringIO()
    Console(file=out, width=80).print(frame_of(state, "12:00:00", {("west", "x"): "3.2 h"}, 80))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "orders-east-to-west: ! record_refused x2, quota_throttled" in lines
    assert next(line for line in lines if line.startswith("x ")).endswith("5.2    3.2 h")


def test_the_verdict_breaks_at_the_edge_of_the_terminal_and_not_of_a_narrow_table() -> None:
    calm = FlowStatus("x", "f" * 16, "running", 1, 3, 9, 0.0, 0.0, 0, 0.0)
    out = io.StringIO()
    Console(file=out, width=80).print(frame_of(live(JobState.RUNNING, calm), "12:00:00", width=80))
    first, heads, *_ = (line.rstrip() for line in out.getvalue().splitlines())
    assert first == "12:00:00  OK: 1 of 1 mirror running; 0 records behind; 0 conditions"
    assert heads.startswith("flow ")
    assert len(heads) < len(first)


def test_the_time_left_comes_from_how_the_lag_falls_and_is_unknown_where_the_lag_is() -> None:
    catch_up = LagTrend()

    def left(now: float, lag: int | None, seconds: float | None = 60.0, state: JobState = JobState.RUNNING) -> str:
        flow = replace(BUSY, records_lag=lag, seconds_lag=seconds)
        return catch_up.look(now, live(state, flow))["west", "orders"]

    assert left(0, 1_000) == "unknown", "one look has no rate"
    assert left(10, 900) == "90 s"
    assert left(20, 1_000) == "not falling"
    assert left(30, None) == "unknown"
    assert left(32, 500) == "unknown", "what was before the gap counts no more"
    assert left(34, 400) == "8 s"
    assert left(36, 300, state=JobState.STALE) == "unknown"
    assert (left(38, 0), left(40, 7, 0.5)) == ("-", "-"), "at rest"
    for now, lag in ((100, 9_000), (130, 6_000), (160, 4_500)):
        words = left(now, lag)
    assert words == "90 s", "the last half minute counts"


def test_of_very_many_conditions_the_true_count_is_reported() -> None:
    counts = (ConditionCount("a", True, 9_999), ConditionCount("calm", False, 3))
    state = live(JobState.RUNNING, replace(BUSY, conditions=(STOP,) * 20, condition_counts=counts))
    assert row(state, "orders")[-1] == "! a x9,999, calm x3"
    text = text_of(state, 5)
    assert text.splitlines()[0].endswith("; 10,002 conditions")
    assert "  STOPPED  flow orders: and 9,982 more; all together: a x9,999, calm x3." in text.splitlines()
    told = json.loads(json_of(state, 5))
    jsonschema.validate(told, schema_of("status-report"))
    assert told["verdict"].endswith("; 10,002 conditions")
    assert told["mirrors"]["west"]["flows"]["orders"]["condition_counts"] == list(map(asdict, counts))


def test_of_very_many_pauses_the_true_count_is_reported() -> None:
    counts = PauseCounts(9_000, 9_500, 8_999)
    state = live(
        JobState.RUNNING, replace(BUSY, conditions=(), pauses=(pause(1, 1, topic="t"),) * 20, pause_counts=counts)
    )
    assert row(state, "orders")[-1] == "paused (9,000 requests, 8,999 partitions)"
    text = text_of(state, 5)
    assert "  PAUSED   flow orders: and 8,980 pauses more; all together hold 8,999 partitions." in text.splitlines()
    told = json.loads(json_of(state, 5))
    jsonschema.validate(told, schema_of("status-report"))
    assert told["mirrors"]["west"]["flows"]["orders"]["pause_counts"] == asdict(counts)


def test_a_dead_cluster_is_reported_once() -> None:
    error = "cluster west does not answer at w:9092. w:9092: Connect failed"
    silent = Unknown("cluster west", error, "Check that the brokers run.")
    mirror = Unknown("mirror west", "cluster west does not answer at w:9092", "Check that the brokers run.")
    dead = LiveState({"west": silent}, {"west": mirror})
    text = text_of(dead, 0, StatusInputs(mirror))
    assert text.count("does not answer") == text.count("Check that the brokers run.") == 1
    assert "mirror west: unknown, as cluster west is" in text
    assert "lock: unknown, as cluster west is" in text
    other = replace(mirror, error="its status record cannot be read")
    assert "unknown: its status record cannot be read" in text_of(LiveState({}, {"west": other}), 0)


@pytest.mark.parametrize("state", [JobState.STALE, JobState.FAILED, JobState.STOPPED])
def test_a_job_that_does_not_run_has_no_rate(state: JobState) -> None:
    assert row(live(state, BUSY), "orders")[1:4] == [state.value, "0", "0.0"]


@pytest.mark.parametrize("state", list(JobState))
def test_the_lag_of_a_job_that_does_not_run_is_unknown_whatever_it_reported_last(state: JobState) -> None:
    """Its source may have grown since, and nobody looked."""
    flow = replace(BUSY, records_lag=0, seconds_lag=0.0)
    runs = state is JobState.RUNNING
    text = text_of(live(state, flow), 0)
    assert ("; 0 records behind; " in text.splitlines()[0]) is runs
    assert ("lag unknown (0 when last reported)" in text.splitlines()[0]) is not runs
    assert ("unknown; 0 when last reported" in text) is not runs
    told = json.loads(json_of(live(state, flow), 0))["mirrors"]["west"]["flows"]["orders"]
    assert told["records_lag"] == (0 if runs else None)
    assert told.get("last_reported") == (None if runs else {"records_lag": 0, "seconds_lag": 0.0})


def test_the_lag_of_a_job_whose_record_is_overdue_is_unknown() -> None:
    mirror = LiveMirror("west", JobState.RUNNING, "app-1", flows={"orders": replace(BUSY, records_lag=0)})
    for late_ms, words in ((LAG_LATE_MS, "; 0 records behind"), (LAG_LATE_MS + 1, "; lag unknown (0 when last")):
        state = LiveState({}, {"west": replace(mirror, late_ms=late_ms)})
        assert words in text_of(state, 0).splitlines()[0]


def test_an_unknown_lag_is_shown_with_what_is_known_of_it() -> None:
    flow = replace(BUSY, records_lag=None, seconds_lag=None, records_lag_at_least=14_207)
    text = text_of(live(JobState.RUNNING, flow, replace(BUSY, name="other", records_lag=3)), 5)
    assert "; 1 of 1 mirror running; lag unknown, at least 14,210 records behind; " in text.splitlines()[0]
    assert "unknown; at least 14,207  unknown" in text


def test_a_job_that_no_one_can_see_is_unknown_and_says_why() -> None:
    unseen = Unknown(
        "mirror west", "its status topic __mirror_status does not exist at west", "Run reconciler apply ENV."
    )
    state = LiveState({}, {"west": LiveMirror("west", JobState.STARTING, unseen=unseen)})
    first, _, _, *rest = text_of(state, 0).splitlines()
    assert (
        first
        == "UNKNOWN: mirror west is unknown; 0 of 1 mirror known to run; lag unknown; 0 conditions known; 1 unknown"
    )
    assert f"mirror west: unknown: {unseen.error}. Run reconciler apply ENV." in "\n".join(rest)
    assert "__mirror_status" in shown(state)
    assert status_code(state) == ExitCode.ERROR
    assert json.loads(json_of(state, 0))["mirrors"]["west"]["state"] == "unknown"


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_job_that_runs_is_up_and_copies(state: JobState) -> None:
    """The figures of another one are as old as its last record, and so is what it called itself."""
    told = MappingProxyType({"orders": replace(BUSY, state="running")})
    now = LiveState({}, {"west": LiveMirror("west", state, "app-1", "f" * 16, 60_000, 120_000, 3, "", told)})
    text, runs = text_of(now, 300_000), state is JobState.RUNNING
    assert ("up 4m" in text) is runs
    assert ("last heard of 3m ago" in text) is not runs
    [cells] = [line.split() for line in text.splitlines() if line.startswith("  orders")]
    assert cells[1] == state.value
    assert cells[4] == ("12,346" if runs else "0")
    mirror = json.loads(json_of(now, 300_000))["mirrors"]["west"]
    assert mirror["uptime_seconds"] == (240 if runs else None)
    assert mirror["status_age_seconds"] == 180


def test_a_mirror_that_cannot_be_read_or_never_ran_is_a_row_too() -> None:
    nobody = LiveState({}, {"west": Unknown("mirror west", "no answer from west", "Check it.", ())})
    assert "(mirror west)" in shown(nobody)
    assert "no answer from west" in shown(nobody)
    assert "lag unknown; 0 conditions known; 1 unknown" in shown(nobody)
    assert "absent" in shown(live(JobState.ABSENT))
    first = text_of(live(JobState.ABSENT), 0).splitlines()[0]
    assert first == "STOPPED: mirror west has no job; 0 of 1 mirror running; lag unknown; 0 conditions"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def looks(count: int) -> tuple[list[float], Callable[[float], None]]:
    """A pause that is interrupted, as by Ctrl-C, once there were ``count`` looks."""
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == count:
            raise KeyboardInterrupt

    return waited, pause


def test_commands_name_the_folder_that_the_console_fills_in() -> None:
    unread = Unknown("mirror west", "cluster west does not answer", "Run reconciler doctor ENV")
    state = LiveState({}, {"west": unread})

    def folder(text: str) -> str:
        return text.replace(" ENV", " environments/prod")

    out = io.StringIO()
    Console(file=out, width=300).print(watch_frame(declared(state), state, "12:00:00", filled_in=folder))
    assert "Run reconciler doctor environments/prod" in out.getvalue()
    assert "ENV" not in out.getvalue()


def test_without_a_terminal_each_look_is_printed_plainly() -> None:
    out = io.StringIO()
    waited, pause = looks(3)
    watch(lambda: frame_of(live(JobState.RUNNING, BUSY), "12:00:00"), out, pause)
    assert waited == [REFRESH_SECONDS] * 3
    assert out.getvalue().count("\norders ") == 3
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_each_look_replaces_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    _, pause = looks(2)
    watch(lambda: frame_of(live(JobState.RUNNING, BUSY), "12:00:00"), out, pause)
    assert "\x1b[2K" in out.getvalue(), "the lines of the first look are cleared"
    assert out.getvalue().endswith("\x1b[?25h"), "the cursor is back"


def test_the_json_of_a_flow_holds_how_and_where_it_lags() -> None:
    told = json.loads(json_of(live(JobState.RUNNING, BUSY), 5))["mirrors"]["west"]["flows"]["orders"]
    assert (told["transactions"], told["retries"]) == (8, 2)
    assert told["paths"] == [{"path": "batch", "reason": "", "partitions": 3}]
    assert told["worst_partitions"][0]["records_lag"] == 1_000


@pytest.mark.parametrize(("age", "words"), [(90.0, "90 s old"), (None, "of unknown age")])
def test_of_a_flow_that_is_behind_the_age_of_its_oldest_record_is_reported(age: float | None, words: str) -> None:
    state = live(JobState.RUNNING, replace(BUSY, oldest_unread_seconds=age), replace(NEW, records_lag=0))
    assert f"    orders: the oldest record to copy is {words}" in text_of(state, 5).splitlines()
    assert "new: the oldest" not in text_of(state, 5)
    assert json.loads(json_of(state, 5))["mirrors"]["west"]["flows"]["orders"]["oldest_unread_seconds"] == age
    silent = live(JobState.STALE, replace(BUSY, oldest_unread_seconds=age))
    assert "the oldest record to copy" not in text_of(silent, 5)
    assert json.loads(json_of(silent, 5))["mirrors"]["west"]["flows"]["orders"]["oldest_unread_seconds"] is None


COURSE = Course((CourseWave("canary", ("east",), 60_000), CourseWave("rest", ("west",), 0)), Gates())
SHORT = live_topic("orders", replicas=(1, 2), leader=-1)
EAST = live_cluster("east", {"orders": SHORT})
SILENT = Unknown("cluster west", "no answer", "Check it.")
EVERYTHING = FLOW | {
    "lanes": 4, "transactions": 1, "retries": 0, "records_filtered": 1, "records_returning": 2,
    "paths": [{"path": "batch", "reason": "", "partitions": 3}],
    "worst_partitions": [{"topic": "orders", "partition": 1, "records_lag": 9, "seconds_lag": None}],
    "groups": {
        "groups": 2, "active": 0, "unsupported": 0, "inexact": 1, "written_total": 5, "checkpoints_total": 5,
        "read_ms": 7, "cpu_seconds": 0.1,
    },
    "pauses": [{"since_ms": 1, "by": "ann", "reason": "", "partitions": 3, "paused_partitions": 3, "topic": "orders"}],
    "lost": [{"code": "c", "partitions": 1, "offsets": 2, "records": 3, "batches": 0, "text": "t"}],
    "rate_limit": 9, "throttled_seconds": 0.5, "resuming_partitions": 1,
    "catch_up": {"partitions": 3, "done": 1, "offsets_left": None},
    "oldest_unread_seconds": 90.5,
    "same_offsets": {
        "holes": 2, "fillers": 5, "refusals": 1,
        "filling": {"partitions": 1, "offsets_left": 1_700_000_000, "offsets_per_second": 17_000_000.0},
    },
}  # fmt: skip


def standings() -> list[RolloutStatus | None]:
    stood = Promotion("test", halted="a gate", clusters={"east": ClusterRollout("canary", SoakState.SOAKING, 5)})
    state = LiveState({"east": EAST, "west": SILENT}, {})
    promotions = (None, stood, Unknown("rollout", "no answer", "Check it."))
    return [None, *(rollout_now(topology(), state, COURSE, one, None) for one in promotions)]


HELD = LockRecord(Holder("id", "ada", "build-7", 4711, "", "apply", 1_000), 41_000, 60_000)
STOLEN = replace(HELD, steal=Steal("bob", "pc", 1, "run", "he is away"))


@pytest.mark.parametrize("lock", [None, Unknown("lock", "no answer", "Look."), HELD, STOLEN])
@pytest.mark.parametrize("standing", standings())
@pytest.mark.parametrize(
    "mirror", [mirror_from_record(record(flows={"f": EVERYTHING}), 5), SILENT, LiveMirror("west", JobState.ABSENT)]
)
def test_the_json_follows_its_schema(mirror: LiveMirror | Unknown, standing: RolloutStatus | None, lock: Lock) -> None:
    schema = schema_of("status-report")
    state = LiveState({"east": EAST, "west": SILENT}, {"west": mirror})
    told = json.loads(json_of(state, 5, StatusInputs(lock, standing)))
    jsonschema.Draft202012Validator(schema).validate(told)
    assert told["exit_code"] == status_code(state) == 1
    assert told["clusters"]["east"]["under_replicated_partitions"] == 1


def test_what_the_record_says_of_a_flow_is_printed() -> None:
    known = {"records_lag_at_least": 9, "lag_unknown_partitions": 2, "stalled_partitions": 1}
    mirror = mirror_from_record(record(flows={"f": EVERYTHING}), 5, json.dumps({"flows": {"f": known}}).encode())
    printed = json.loads(json_of(LiveState({}, {"west": mirror}), 5))["mirrors"]["west"]["flows"]["f"]
    [told] = printed["conditions"]
    assert told.pop("runbook") == "docs/mirror/conditions.md#target_topic_missing"
    assert {**printed, "lanes": 4} == EVERYTHING | with_former_names(known)


def test_the_runbook_of_each_code_is_named_once_below_what_to_do() -> None:
    codes = ["source_truncated", "source_truncated", "quota_throttled", "of_a_later_release"]
    conditions = [{"code": code, "text": "t", "todo": "d", "since_ms": 1, "stops": True} for code in codes]
    mirror = mirror_from_record(record(flows={"f": {**EVERYTHING, "conditions": conditions}}), 5)
    lines = text_of(LiveState({}, {"west": mirror}), 5).splitlines()
    anchors = ("#source_truncated", "#quota_throttled", "")
    assert [line for line in lines if "runbook" in line] == [
        f"  runbook: docs/mirror/conditions.md{anchor} of the project; docs_url makes it a link" for anchor in anchors
    ]
    assert "runbook" not in text_of(LiveState({}, {"west": SILENT}), 5)


def test_same_offsets_are_said_of_each_flow_with_what_is_left_to_fill() -> None:
    mirror = mirror_from_record(record(flows={"f": EVERYTHING, "g": FLOW}), 5)
    lines = [line for line in text_of(LiveState({}, {"west": mirror}), 5).splitlines() if "same" in line]
    assert lines == [
        "    f: same offsets on both sides; 2 holes filled with 5 empty records; 1 refusal looked into; 1 new copy "
        "brought to the first offset: 1,700,000,000 empty offsets left, 100 s at 17,000,000 a second"
    ]


@pytest.mark.parametrize(
    ("lock", "now_ms", "said"),
    [
        (None, 0, "lock: no one holds it"),
        (HELD, 101_000, "lock: no one holds it"),
        (HELD, 43_000, "lock: held by ada on build-7, process 4711 (apply), for 42 s"),
        (
            HELD,
            75_500,
            "lock: held by ada on build-7, process 4711 (apply), for 74 s; not renewed for 34 s:"
            " it may have been killed, then its lock ends in 26 s",
        ),
        (
            STOLEN,
            43_000,
            "lock: held by ada on build-7, process 4711 (apply), for 42 s; taken from bob (he is away)",
        ),
        (Unknown("lock", "no answer", "Look."), 0, "lock: unknown: no answer. Look."),
    ],
)
def test_who_holds_the_lock_and_whether_he_may_be_dead(lock: Lock, now_ms: int, said: str) -> None:
    assert said in text_of(LiveState({}, {}), now_ms, StatusInputs(lock)).splitlines()


def places_in(document: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        if isinstance(document[key], dict | list):
            yield from places_in(document[key])


HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 0.0, 2.0, 2**31, 2**62, 2**63 - 1, 2**63, 10**400, 1e300, -1e300, "", "x" * 5_000, [], {},
    "\x1b[2J\u202e\n::error::x<script>x</script>", "\ud800",
)  # fmt: skip


@given(st.data())
def test_a_record_of_others_is_refused_or_shown(data: st.DataObject) -> None:
    """Whoever may write to the status topic ends no ``status`` and no page, and steers no terminal."""
    document = json.loads(record(flows={"f": copy.deepcopy(EVERYTHING)}))
    here, key = data.draw(st.sampled_from(list(places_in(document))))
    here[key] = data.draw(st.sampled_from(HOSTILE))
    lag = data.draw(st.sampled_from((b"", b'{"flows": {"f": {"records_lag": "x", "since_ms": []}}}', b"[" * 3_000)))
    mirror: LiveMirror | Unknown
    try:
        mirror = mirror_from_record(json.dumps(document).encode(), 5, lag)
    except MalformedStatusError as error:
        mirror = Unknown("west", str(error), "Look.")
    state = LiveState({"east": EAST}, {"west": mirror})
    frame = io.StringIO()
    Console(file=frame, width=160).print(frame_of(state, "12:00:00"))
    shown = [text_of(state, 5), json_of(state, 5), frame.getvalue()]
    jobs = LiveReading(JobsSeen(dict.fromkeys(("east", "west"), mirror)), 5)
    view = replace(seen_view(), jobs=jobs)
    for kind in (PageKind.OVERVIEW, PageKind.FLOWS, PageKind.AUDIT):
        page = LivePage(kind)
        shown.append(live_html(view, page, regions(view, page, 5, None), "", 5))
        assert "<script>x" not in shown[-1]
    assert not any(sign in text for text in shown for sign in ("\x1b[2J", "\u202e", "\n::error"))
