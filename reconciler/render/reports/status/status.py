"""What ``status`` prints: clusters, mirrors, and the lag of each flow, as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.engine.rollout.status import RolloutStatus
from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import FlowStatus, JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.state.lock import LockRecord
from reconciler.render.report_json import report_json
from reconciler.render.reports.status.rollout import standing_lines, standing_value
from reconciler.replication.json_codec import Codec
from reconciler.replication.pauses import Pause
from reconciler.resources.mirrors.pause import told, words
from reconciler.text import columns, counted

Lock = LockRecord | Unknown | None
"""None: nobody ever held it. Unknown: it could not be read."""
_CODEC = Codec()
CLOCKS_AGREE_MS = 30_000
"""A record that is further in the future says nothing of its age."""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """What goes on in the environment besides. ``standing``: of its rollout; None where it has none."""

    lock: Lock
    standing: RolloutStatus | None = None


def status_json(topology: Topology, live: LiveState, now_ms: int, affairs: StatusInputs | None = None) -> str:
    """As schemas/status-report.schema.json. ``affairs`` None: nobody looked."""
    more: dict[str, Any] = {}
    if affairs is not None:
        more = {"lock": _lock_value(affairs.lock, now_ms)}
        more |= {"rollout": standing_value(affairs.standing, now_ms)} if affairs.standing is not None else {}
    return report_json(
        "status",
        topology.environment,
        verdict=verdict(live),
        exit_code=status_code(live),
        clusters={name: _cluster(cluster) for name, cluster in live.clusters.items()},
        mirrors={name: _mirror(mirror, now_ms) for name, mirror in live.mirrors.items()},
        **more,
    )


def _unknown_value(unknown: Unknown) -> dict[str, Any]:
    """For JSON."""
    return {"state": "unknown", "error": unknown.error, "todo": unknown.todo}


def _lock_value(lock: Lock, now_ms: int) -> Mapping[str, Any]:
    """For JSON."""
    if isinstance(lock, Unknown):
        return _unknown_value(lock)
    if lock is None or lock.left_ms(now_ms) <= 0:
        return {"state": "free"}
    return {
        "state": "held",
        **{name: getattr(lock.holder, name) for name in ("who", "host", "pid", "purpose", "since_ms")},
        "renewed_ms": lock.renewed_ms,
        "lease_left_ms": lock.left_ms(now_ms),
        "taken_from": lock.steal.who if lock.steal else None,
        "taken_because": lock.steal.reason if lock.steal else None,
    }


def _lock_line(lock: Lock, now_ms: int) -> str:
    if isinstance(lock, Unknown):
        return f"lock: unknown: {lock.error}. {lock.todo}"
    if lock is None or lock.left_ms(now_ms) <= 0:
        return "lock: nobody holds it"
    stolen = f"; taken from {lock.steal.who} ({lock.steal.reason})" if lock.steal else ""
    return f"lock: held by {lock.words(now_ms)}{stolen}"


def status_code(live: LiveState) -> ExitCode:
    """Conditions and lag are for people and for alerts: only what could not be looked at is an error."""
    return ExitCode.ERROR if _unknown(live) else ExitCode.DONE


def _unknown(live: LiveState) -> int:
    return sum(isinstance(item, Unknown) for item in (*live.clusters.values(), *live.mirrors.values()))


def _cluster(cluster: LiveCluster | Unknown) -> dict[str, Any]:
    if isinstance(cluster, Unknown):
        return _unknown_value(cluster)
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions]
    return {
        "state": "answers",
        "cluster_id": cluster.cluster_id,
        "brokers": len(cluster.brokers),
        "topics": sum(not topic.internal for topic in cluster.topics.values()),
        "leaderless_partitions": sum(partition.leader < 0 for partition in partitions),
        "under_replicated_partitions": sum(len(partition.isr) < len(partition.replicas) for partition in partitions),
    }


def _mirror(mirror: LiveMirror | Unknown, now_ms: int) -> dict[str, Any]:
    if isinstance(mirror, Unknown):
        return {"application_id": None, "fingerprint": None, **_unknown_value(mirror), "flows": {}}
    return {
        "application_id": mirror.application_id,
        "fingerprint": mirror.fingerprint,
        "state": mirror.state.value,
        "detail": mirror.detail,
        "pid": mirror.pid,
        "started_at_ms": mirror.started_at_ms,
        "uptime_seconds": _seconds_since(mirror.started_at_ms, now_ms) if mirror.state is JobState.RUNNING else None,
        "status_age_seconds": _seconds_since(mirror.updated_at_ms, now_ms),
        "flows": {  # without its name, which is its key
            name: {key: value for key, value in _CODEC.encoded(flow).items() if key != "name"}
            for name, flow in mirror.flows.items()
        },
    }


def _seconds_since(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else max(0, (now_ms - then_ms) // 1000)


def status_text(topology: Topology, live: LiveState, now_ms: int, affairs: StatusInputs | None = None) -> str:
    lines = [verdict(live), ""]
    lines += [f"cluster {name}: {_cluster_words(cluster)}" for name, cluster in live.clusters.items()]
    if affairs is not None:
        lines += [_lock_line(affairs.lock, now_ms)]
        lines += ["", *standing_lines(affairs.standing, now_ms)] if affairs.standing is not None else []
    for name, mirror in live.mirrors.items():
        lines += ["", *_mirror_lines(name, mirror, now_ms)]
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
    flag = bool(lags) or not live.mirrors  # a mirror that never ran told nothing
    all_known = flag and len(known) == len(lags) and len(mirrors) == len(live.mirrors)
    lag = f"{sum(known):,} records behind" if all_known else "lag not fully known"
    if all_known and known and any(mirror.flows and mirror.state.value != "running" for mirror in mirrors):
        lag += " when last reported"  # the source may have grown since: nobody looks
    words = [f"{running} of {counted(len(live.mirrors), 'mirror')} running", lag, counted(conditions, "condition")]
    return "; ".join([*words, f"{unknown} unknown"] if unknown else words)


def _cluster_words(cluster: LiveCluster | Unknown) -> str:
    if isinstance(cluster, Unknown):
        return f"unknown: {cluster.error}. {cluster.todo}"
    value = _cluster(cluster)
    words = f"{counted(value['brokers'], 'broker')}, {counted(value['topics'], 'topic')}, id {cluster.cluster_id}"
    bad = {key: value[key] for key in ("leaderless_partitions", "under_replicated_partitions") if value[key]}
    return words + "".join(f", {count} {key.replace('_', ' ')}" for key, count in bad.items())


def _mirror_lines(name: str, mirror: LiveMirror | Unknown, now_ms: int) -> list[str]:
    if isinstance(mirror, Unknown):
        return [f"mirror {name}: unknown: {mirror.error}. {mirror.todo}"]
    head = f"mirror {name}: {mirror.state.value}"
    if mirror.application_id:
        when = _since_when(mirror, now_ms)
        head += f", application {mirror.application_id}, {when}, fingerprint {mirror.fingerprint}"
    lines = [head + (f" ({mirror.detail})" if mirror.detail else "")]
    rows = [["  flow", "state", "topics", "partitions", "records/s", "records lag", "seconds lag"]]
    rows += [_flow_row(flow, mirror.state) for flow in mirror.flows.values()]
    lines += columns(rows) if mirror.flows else ()
    for flow in mirror.flows.values():
        lines += _work_lines(flow)
        lines += [f"  = {line}" for line in pause_lines(flow)]
        lines += _limit_lines(flow)
        lines += [f"  - {line}" for line in _lost_lines(flow)]
        lines += [_condition(flow.name, condition) for condition in flow.conditions]
    return lines


def _since_when(mirror: LiveMirror, now_ms: int) -> str:
    """Only a job that runs is up. What another one told last is as old as its record."""
    if mirror.state is JobState.RUNNING:
        return f"up {_duration(_seconds_since(mirror.started_at_ms, now_ms))}"
    if mirror.updated_at_ms is not None and mirror.updated_at_ms > now_ms + CLOCKS_AGREE_MS:
        return "last heard of at a time that its clock had wrong"
    return f"last heard of {_duration(_seconds_since(mirror.updated_at_ms, now_ms))} ago"


def _flow_row(flow: FlowStatus, job: JobState) -> list[str]:
    seconds = "unknown" if flow.seconds_lag is None else f"{flow.seconds_lag:.1f}"
    state, rate, lag = flow_cells(flow, job)
    return [f"  {flow.name}", state, f"{flow.topics:,}", f"{flow.partitions:,}", rate, lag, seconds]


def flow_cells(flow: FlowStatus, job: JobState) -> tuple[str, str, str]:
    """State, records a second and lag. A job that does not run copies nothing, whatever its last record says."""
    lag = "unknown" if flow.records_lag is None else f"{flow.records_lag:,}"
    return (flow.state, f"{flow.records_per_second:,.0f}", lag) if job is JobState.RUNNING else (job.value, "0", lag)


def _work_lines(flow: FlowStatus) -> list[str]:
    """Of flows that ask for record work: why batches are opened, and what was kept from the target."""
    asked = {str(path["reason"]) for path in flow.paths if str(path["reason"]).startswith("record work")}
    counts = {"filtered": flow.filtered, "not carried because of where they have been": flow.returning}
    parts = [f"{count:,} {words}" for words, count in counts.items() if count is not None]
    return [f"    {flow.name}: {', '.join([*sorted(asked), *parts])}"] if asked or parts else []


def pause_lines(flow: FlowStatus) -> Iterator[str]:
    """``flow orders is paused since ... by ann@host: maintenance; 6 of 6 partitions``."""
    for scope, fields in told(flow.name, flow):
        pause = Pause(scope, int(str(fields["since_ms"])), str(fields["by"]), str(fields["reason"]))
        every = counted(int(str(fields["partitions"])), "partition")
        yield f"{scope} is paused {words(pause)}; {fields['paused_partitions']} of {every}"
    if flow.resuming_partitions:
        yield f"flow {flow.name} is resuming; not copied yet: {counted(flow.resuming_partitions, 'partition')}"


def _limit_lines(flow: FlowStatus) -> list[str]:
    if flow.rate_limit is None:
        return []
    now = f"now {flow.bytes_per_second / (1 << 20):,.1f}"
    held = f"held back for {flow.throttled_seconds or 0:,.0f} s so far"
    return [f"    {flow.name}: limited to {flow.rate_limit / (1 << 20):,.1f} MiB/s, {now}, {held}"]


def _lost_lines(flow: FlowStatus) -> Iterator[str]:
    for fields in flow.lost:
        parts = [counted(int(str(fields[f"{noun}s"])), noun) for noun in ("offset", "record")]
        parts += [counted(int(str(fields["batches"])), "batch", "batches")] if fields["batches"] else []
        where = counted(int(str(fields["partitions"])), "partition")
        lost = f"{', '.join(parts)} lost in {where}"
        yield f"flow {flow.name} went on behind {fields['code']}: {lost}; last: {fields['text']}"


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
