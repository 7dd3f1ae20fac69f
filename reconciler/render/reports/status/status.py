"""What ``status`` prints: clusters, mirrors, and the lag of each flow, as text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.exit_codes import ExitCode
from reconciler.live import FlowStatus, JobState, LiveCluster, LiveMirror, LiveState
from reconciler.pausing import told, words
from reconciler.rendering.lock import Lock, lock_line, lock_value
from reconciler.rendering.standing import standing_lines, standing_value
from reconciler.rollout.standing import Standing
from reconciler.topology import Topology
from replication.pauses import Pause

CLOCKS_AGREE_MS = 30_000
"""A record that is further in the future says nothing of its age."""


@dataclass(frozen=True, slots=True)
class Affairs:
    """What goes on in the environment besides. ``standing``: of its rollout; None where it has none."""

    lock: Lock
    standing: Standing | None = None


def status_json(topology: Topology, live: LiveState, now_ms: int, affairs: Affairs | None = None) -> str:
    """As schemas/status-report.schema.json. ``affairs`` None: nobody looked."""
    more: dict[str, Any] = {}
    if affairs is not None:
        more = {"lock": lock_value(affairs.lock, now_ms)}
        more |= {"rollout": standing_value(affairs.standing, now_ms)} if affairs.standing is not None else {}
    return json.dumps({**status_value(topology, live, now_ms), **more}, indent=2, ensure_ascii=False)


def status_value(topology: Topology, live: LiveState, now_ms: int) -> dict[str, Any]:
    return {
        "format_version": 1,
        "kind": "status",
        "environment": topology.environment,
        "verdict": verdict(live),
        "exit_code": int(status_code(live)),
        "clusters": {name: _cluster(found) for name, found in live.clusters.items()},
        "mirrors": {name: _mirror(found, now_ms) for name, found in live.mirrors.items()},
    }


def status_code(live: LiveState) -> ExitCode:
    """Conditions and lag are for people and for alerts: only what could not be looked at is an error."""
    return ExitCode.ERROR if _unknown(live) else ExitCode.DONE


def _unknown(live: LiveState) -> int:
    return sum(isinstance(one, Unknown) for one in (*live.clusters.values(), *live.mirrors.values()))


def _cluster(found: LiveCluster | Unknown) -> dict[str, Any]:
    if isinstance(found, Unknown):
        return {"state": "unknown", "error": found.error, "todo": found.todo}
    user_topics = sum(not topic.internal for topic in found.topics.values())
    return {
        "state": "answers",
        "cluster_id": found.cluster_id,
        "brokers": len(found.brokers),
        "topics": user_topics,
        "leaderless_partitions": sum(p.leader < 0 for t in found.topics.values() for p in t.partitions),
        "under_replicated_partitions": sum(
            len(p.isr) < len(p.replicas) for t in found.topics.values() for p in t.partitions
        ),
    }


def _mirror(found: LiveMirror | Unknown, now_ms: int) -> dict[str, Any]:
    if isinstance(found, Unknown):
        return {
            "application_id": None,
            "fingerprint": None,
            "state": "unknown",
            "error": found.error,
            "todo": found.todo,
            "flows": {},
        }
    return {
        "application_id": found.application_id,
        "fingerprint": found.fingerprint,
        "state": found.state.value,
        "detail": found.detail,
        "pid": found.pid,
        "started_at_ms": found.started_at_ms,
        "uptime_seconds": _seconds_since(found.started_at_ms, now_ms) if found.state is JobState.RUNNING else None,
        "status_age_seconds": _seconds_since(found.updated_at_ms, now_ms),
        "flows": {name: _flow(flow) for name, flow in found.flows.items()},
    }


def _flow(flow: FlowStatus) -> dict[str, Any]:
    return {
        "fingerprint": flow.fingerprint,
        "state": flow.state,
        "topics": flow.topics,
        "partitions": flow.partitions,
        "records_total": flow.records_total,
        "records_per_second": flow.records_per_second,
        "bytes_per_second": flow.bytes_per_second,
        "records_lag": flow.records_lag,
        "seconds_lag": flow.seconds_lag,
        "transactions": flow.transactions,
        "retries": flow.retries,
        **_left(flow),
        **({} if flow.groups is None else {"groups": dict(flow.groups)}),
        "paths": [dict(path) for path in flow.paths],
        "worst_partitions": [dict(one) for one in flow.worst_partitions],
        "conditions": [dict(condition) for condition in flow.conditions],
        "pauses": [dict(pause) for pause in flow.pauses],
        "resuming_partitions": flow.resuming_partitions,
        "lost": [dict(one) for one in flow.lost],
        "rate_limit": flow.rate_limit,
        "throttled_seconds": flow.throttled_seconds,
        "catch_up": None if flow.catch_up is None else dict(flow.catch_up),
    }


def _left(flow: FlowStatus) -> dict[str, int]:
    told = {"records_filtered": flow.filtered, "records_returning": flow.returning}
    return {name: count for name, count in told.items() if count is not None}


def _seconds_since(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else max(0, (now_ms - then_ms) // 1000)


def status_text(topology: Topology, live: LiveState, now_ms: int, affairs: Affairs | None = None) -> str:
    lines = [verdict(live), ""]
    lines += [f"cluster {name}: {_cluster_words(found)}" for name, found in live.clusters.items()]
    if affairs is not None:
        lines += [lock_line(affairs.lock, now_ms)]
        lines += ["", *standing_lines(affairs.standing, now_ms)] if affairs.standing is not None else []
    for name, found in live.mirrors.items():
        lines += ["", *_mirror_lines(name, found, now_ms)]
    if not live.mirrors:
        lines += ["", f"environment {topology.environment} declares no flows, so there is no mirror"]
    return "\n".join(lines) + "\n"


def verdict(live: LiveState) -> str:
    """Mirrors, lag and conditions in one line."""
    mirrors = [m for m in live.mirrors.values() if isinstance(m, LiveMirror)]
    unknown = _unknown(live)
    running = sum(mirror.state.value == "running" for mirror in mirrors)
    conditions = sum(len(flow.conditions) for mirror in mirrors for flow in mirror.flows.values())
    lags = [flow.records_lag for mirror in mirrors for flow in mirror.flows.values()]
    known = [lag for lag in lags if lag is not None]
    told = bool(lags) or not live.mirrors  # a mirror that never ran told nothing
    all_known = told and len(known) == len(lags) and len(mirrors) == len(live.mirrors)
    lag = f"{sum(known):,} records behind" if all_known else "lag not fully known"
    if all_known and known and any(mirror.flows and mirror.state.value != "running" for mirror in mirrors):
        lag += " when last told"  # the source may have grown since: nobody looks
    words = [f"{running} of {counted(len(live.mirrors), 'mirror')} running", lag, counted(conditions, "condition")]
    return "; ".join([*words, f"{unknown} unknown"] if unknown else words)


def _cluster_words(found: LiveCluster | Unknown) -> str:
    if isinstance(found, Unknown):
        return f"unknown: {found.error}. {found.todo}"
    value = _cluster(found)
    words = f"{counted(value['brokers'], 'broker')}, {counted(value['topics'], 'topic')}, id {found.cluster_id}"
    bad = {key: value[key] for key in ("leaderless_partitions", "under_replicated_partitions") if value[key]}
    return words + "".join(f", {count} {key.replace('_', ' ')}" for key, count in bad.items())


def _mirror_lines(name: str, found: LiveMirror | Unknown, now_ms: int) -> list[str]:
    if isinstance(found, Unknown):
        return [f"mirror {name}: unknown: {found.error}. {found.todo}"]
    head = f"mirror {name}: {found.state.value}"
    if found.application_id:
        head += f", application {found.application_id}, {_since_when(found, now_ms)}, fingerprint {found.fingerprint}"
    lines = [head + (f" ({found.detail})" if found.detail else "")]
    rows = [["  flow", "state", "topics", "partitions", "records/s", "records lag", "seconds lag"]]
    rows += [_flow_row(flow, found.state) for flow in found.flows.values()]
    if found.flows:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for flow in found.flows.values():
        lines += _work_lines(flow)
        lines += [f"  = {line}" for line in pause_lines(flow)]
        lines += _limit_lines(flow)
        lines += [f"  - {line}" for line in _lost_lines(flow)]
        lines += [_condition(flow.name, condition) for condition in flow.conditions]
    return lines


def _since_when(found: LiveMirror, now_ms: int) -> str:
    """Only a job that runs is up. What another one told last is as old as its record."""
    if found.state is JobState.RUNNING:
        return f"up {_duration(_seconds_since(found.started_at_ms, now_ms))}"
    if found.updated_at_ms is not None and found.updated_at_ms > now_ms + CLOCKS_AGREE_MS:
        return "last heard of at a time that its clock had wrong"
    return f"last heard of {_duration(_seconds_since(found.updated_at_ms, now_ms))} ago"


def _flow_row(flow: FlowStatus, job: JobState) -> list[str]:
    """A job that does not run copies nothing, whatever its last record says."""
    runs = job is JobState.RUNNING
    lag = "unknown" if flow.records_lag is None else f"{flow.records_lag:,}"
    seconds = "unknown" if flow.seconds_lag is None else f"{flow.seconds_lag:.1f}"
    rate = f"{flow.records_per_second:,.0f}" if runs else "0"
    return [
        f"  {flow.name}",
        flow.state if runs else job.value,
        f"{flow.topics:,}",
        f"{flow.partitions:,}",
        rate,
        lag,
        seconds,
    ]


def _work_lines(flow: FlowStatus) -> list[str]:
    """Of flows that ask for record work: why batches are opened, and what was kept from the target."""
    asked = {str(path["reason"]) for path in flow.paths if str(path["reason"]).startswith("record work")}
    left = [
        f"{count:,} {what}"
        for count, what in (
            (flow.filtered, "filtered"),
            (flow.returning, "not carried because of where they have been"),
        )
        if count is not None
    ]
    return [f"    {flow.name}: {', '.join([*sorted(asked), *left])}"] if asked or left else []


def pause_lines(flow: FlowStatus) -> Iterator[str]:
    """``flow orders is paused since ... by ann@host: maintenance; 6 of 6 partitions``."""
    for scope, one in told(flow.name, flow):
        pause = Pause(scope, int(str(one["since_ms"])), str(one["by"]), str(one["reason"]))
        every = counted(int(str(one["partitions"])), "partition")
        yield f"{scope} is paused {words(pause)}; {one['paused_partitions']} of {every}"
    if flow.resuming_partitions:
        yield f"flow {flow.name} is resuming; not copied yet: {counted(flow.resuming_partitions, 'partition')}"


def _limit_lines(flow: FlowStatus) -> list[str]:
    if flow.rate_limit is None:
        return []
    now = f"now {flow.bytes_per_second / (1 << 20):,.1f}"
    held = f"held back for {flow.throttled_seconds or 0:,.0f} s so far"
    return [f"    {flow.name}: limited to {flow.rate_limit / (1 << 20):,.1f} MiB/s, {now}, {held}"]


def _lost_lines(flow: FlowStatus) -> Iterator[str]:
    for one in flow.lost:
        parts = [counted(int(str(one[f"{noun}s"])), noun) for noun in ("offset", "record")]
        parts += [counted(int(str(one["batches"])), "batch", "batches")] if one["batches"] else []
        where = counted(int(str(one["partitions"])), "partition")
        yield f"flow {flow.name} went on behind {one['code']}: {', '.join(parts)} lost in {where}; last: {one['text']}"


def _condition(flow: str, condition: Mapping[str, object]) -> str:
    place = "".join(f" {condition[key]}" for key in ("topic", "partition") if condition.get(key) is not None)
    text = str(condition["text"]).rstrip(". ")  # what a broker says may end with a stop of its own
    return f"  ! {flow}{place}: {condition['code']}: {text}. {condition['todo']}"


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    shown = [f"{count}{unit}" for count, unit in parts if count][:2]
    return " ".join(shown) or "0s"
