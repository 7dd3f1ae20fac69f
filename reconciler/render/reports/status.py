"""The output of ``status``, text or JSON: the verdict with its reasons and remedies, clusters, mirrors, the lag of each
flow, the lock and the rollout."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.rollout.waves import RolloutStatus
from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.model.state.last_drill import LastDrill
from reconciler.model.state.lock import LockRecord
from reconciler.render.drill import drill_lines, drill_values
from reconciler.render.markup import lines_of, report_json, table_lines
from reconciler.render.plan.outline import rollout_lines, rollout_value
from reconciler.replication.json_codec import sparse_fields
from reconciler.replication.names import WAITING, runbook_of, runbooks_of
from reconciler.replication.status import FlowStatus, flow_document
from reconciler.resources.flows.routes import left_out_by
from reconciler.resources.mirrors.pause_and_seek import reported_pauses, words
from reconciler.text import ANY_FOLDER, command_of, counted, time_words

Lock = LockRecord | Unknown | None
"""None: it was never held. Unknown: it could not be read."""
_ALWAYS = ("pauses", "resuming_partitions", "lost", "rate_limit", "throttled_seconds", "catch_up")
"""Figures of a flow that this document has even if the record lacks them."""
MOST_CAUSES = 40
"""In text; JSON has all."""
CLOCKS_AGREE_MS = 30_000
"""Difference of clocks up to which a record's age is trusted."""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """Other facts of the environment for a status."""

    lock: Lock
    rollout: RolloutStatus | None = None
    """Of its rollout; None if it has none."""
    verdict: Verdict | None = None
    """None: decided from the observed state alone."""
    check: bool = False
    """The verdict decides the exit code."""
    drills: Mapping[str, LastDrill] | Unknown = field(default_factory=dict)
    """The last drill of each flow with objectives."""


def verdict_in(topology: Topology, live: LiveState, affairs: StatusInputs | None) -> Verdict:
    known = affairs.verdict if affairs is not None else None
    return known if known is not None else verdict_of(topology, live)


def status_json(topology: Topology, live: LiveState, now_ms: int, affairs: StatusInputs | None = None) -> str:
    """As schemas/status-report.schema.json. ``affairs`` None: only clusters and mirrors were read."""
    more: dict[str, Any] = {}
    live = live.as_reported()
    verdict, docs_url = verdict_in(topology, live, affairs), topology.rules.docs_url
    checked = affairs is not None and affairs.check
    if affairs is not None:
        lock = affairs.lock
        if isinstance(lock, Unknown):
            more["lock"] = _unknown_value(lock)
        elif lock is None or lock.left_ms(now_ms) <= 0:
            more["lock"] = {"state": "free"}
        else:
            more["lock"] = {
                "state": "held",
                **{name: getattr(lock.holder, name) for name in ("who", "host", "pid", "purpose", "since_ms")},
                "renewed_ms": lock.renewed_ms,
                "lease_left_ms": lock.left_ms(now_ms),
                "taken_from": lock.steal.who if lock.steal else None,
                "taken_because": lock.steal.reason if lock.steal else None,
            }
        more |= {"drills": drills} if (drills := drill_values(topology, affairs.drills, now_ms)) else {}
        more |= {"rollout": rollout_value(affairs.rollout, now_ms)} if affairs.rollout is not None else {}
    return report_json(
        "status",
        topology.environment,
        verdict=headline(verdict, figures(live)),
        exit_code=check_code(verdict.health) if checked else status_code(live),
        health=verdict_value(verdict, docs_url),
        clusters={name: _cluster(cluster) for name, cluster in live.clusters.items()},
        mirrors={name: _mirror(mirror, now_ms, docs_url) for name, mirror in live.mirrors.items()},
        **more,
    )


def _unknown_value(unknown: Unknown) -> dict[str, Any]:
    """For JSON."""
    return {"state": "unknown", "error": unknown.error, "todo": unknown.todo}


def unknown_words(unknown: Unknown, live: LiveState) -> str:
    """The error of a silent cluster is in its own line alone."""
    silent = [name for name, cluster in live.clusters.items() if getattr(cluster, "what", "") == unknown.what]
    return f"unknown, as cluster {silent[0]} is" if silent else f"unknown: {unknown.with_todo}"


def lock_line(lock: Lock, live: LiveState, now_ms: int) -> str:
    if isinstance(lock, Unknown):
        return f"lock: {unknown_words(lock, live)}"
    if lock is None or lock.left_ms(now_ms) <= 0:
        return "lock: no one holds it"
    stolen = f"; taken from {lock.steal.who} ({lock.steal.reason})" if lock.steal else ""
    return f"lock: held by {lock.words(now_ms)}{stolen}"


def status_code(live: LiveState) -> ExitCode:
    """The exit code of ``status``: only a failed read is an error; conditions and lag are for people and alerts."""
    return ExitCode.ERROR if _unknown(live.as_reported()) else ExitCode.DONE


def _unknown(live: LiveState) -> int:
    return sum(isinstance(item, Unknown) for item in (*live.clusters.values(), *live.mirrors.values()))


def _cluster(cluster: LiveCluster | Unknown) -> dict[str, Any]:
    if isinstance(cluster, Unknown):
        return _unknown_value(cluster)
    leaderless, short = cluster.partitions_amiss
    return {
        "state": "answers",
        "cluster_id": cluster.cluster_id,
        "brokers": len(cluster.brokers),
        "topics": cluster.topic_count,
        "leaderless_partitions": leaderless,
        "under_replicated_partitions": short,
    }


def _mirror(mirror: LiveMirror | Unknown, now_ms: int, docs_url: str) -> dict[str, Any]:
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
        "flows": {name: _flow(flow, mirror.lag_is_current, docs_url) for name, flow in mirror.flows.items()},
    }


def _flow(flow: FlowStatus, current: bool, docs_url: str) -> dict[str, Any]:
    """As in the record, with figures that it leaves out if empty, and the runbook of each condition."""
    value = {name: sparse_fields(FlowStatus)[name] for name in _ALWAYS} | flow_document(flow)
    for condition in value["conditions"]:
        condition["todo"] = command_of(condition["todo"], ANY_FOLDER, flow.name)
        condition["runbook"] = runbook_of(condition["code"], docs_url)
    del value["lanes"]
    if flow.records_lag and not flow.records_lag_at_least:  # jobs of the release before say 0 where it is known
        value["records_lag_at_least"] = flow.records_lag
    if not current:  # its lag is as old as the job's last record, and no bound of the present one
        last = {"records_lag": flow.records_lag, "seconds_lag": flow.seconds_lag}
        value |= dict.fromkeys(("records_lag", "seconds_lag", "oldest_unread_seconds"))
        value |= {"records_lag_at_least": 0, "last_reported": last}
    return value


def _seconds_since(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else max(0, (now_ms - then_ms) // 1000)


def status_text(
    topology: Topology, live: LiveState, now_ms: int, affairs: StatusInputs | None = None, width: int | None = None
) -> str:
    """``width``: of the terminal, in columns; None where lines stay whole."""
    live = live.as_reported()
    verdict = verdict_in(topology, live, affairs)
    # Work for a person comes first: on a terminal the rest may scroll away.
    lines = [headline(verdict, figures(live)), "", *cause_lines(verdict, topology.rules.docs_url)]
    lines += [""] if verdict.causes else []
    for name, cluster in live.clusters.items():  # the causes above have the reason
        lines.append(f"cluster {name}: {'unknown' if isinstance(cluster, Unknown) else cluster_words(cluster)}")
    if affairs is not None:
        lines += [lock_line(affairs.lock, live, now_ms)]
        lines += drill_lines(topology, affairs.drills, now_ms)
        lines += ["", *rollout_lines(affairs.rollout, now_ms)] if affairs.rollout is not None else []
    for name, mirror in live.mirrors.items():
        if isinstance(mirror, Unknown):
            lines += ["", f"mirror {name}: unknown"]
        else:
            lines += ["", *_mirror_lines(mirror, now_ms, width)]
            flows = topology.flows_of(topology.mirrors[name]) if name in topology.mirrors else ()
            lines += [f"  {words}" for flow in flows if (words := left_out_by(flow, topology, live))]
    if topology.clusters_alone:
        seen = "its mirrors are declared in another one, FOLDER in a command" if live.mirrors else "no job has reported"
        lines += ["", f"this folder of environment {topology.environment} declares clusters alone; {seen}"]
    elif not live.mirrors:
        lines += ["", f"environment {topology.environment} declares no flows, so there is no mirror"]
    return lines_of(lines)


def figures(live: LiveState) -> str:
    """Mirrors, lag and conditions in one line. A mirror that could not be asked is neither "not running" nor
    without conditions."""
    mirrors = [m for m in live.mirrors.values() if isinstance(m, LiveMirror)]
    unknown = _unknown(live)
    running = sum(mirror.state.value == "running" for mirror in mirrors)
    counts = [(m, sum(sum(flow.counted_conditions.values()) for flow in m.flows.values())) for m in mirrors]
    conditions = sum(count for _, count in counts)
    runs, known = ("running", "") if len(mirrors) == len(live.mirrors) else ("known to run", " known")
    if any(count for mirror, count in counts if not mirror.lag_is_current):
        known = " when last reported"
    head = f"{running} of {counted(len(live.mirrors), 'mirror')} {runs}"
    words = [head, lag_of_all(live), counted(conditions, "condition") + known]
    return "; ".join([*words, f"{unknown} unknown"] if unknown else words)


def lag_of_all(live: LiveState) -> str:
    """Unknown if a job does not report now: its mirror never ran, is unknown, or last reported long ago."""
    # "0 records behind" needs a present report of every job, with a known lag of every flow.
    mirrors = [mirror for mirror in live.mirrors.values() if isinstance(mirror, LiveMirror)]
    current = [flow for mirror in mirrors if mirror.lag_is_current for flow in mirror.flows.values()]
    known = sum(flow.records_lag_at_least if flow.records_lag is None else flow.records_lag for flow in current)
    all_report = all(isinstance(m, LiveMirror) and m.lag_is_current and m.flows for m in live.mirrors.values())
    if all_report and all(flow.records_lag is not None for flow in current):
        return f"{counted(known, 'record')} behind"
    last = [f.records_lag for m in mirrors if not m.lag_is_current for f in m.flows.values()]
    at_least = f", at least {counted(known, 'record')} behind" if known else ""
    reported = sum(lag for lag in last if lag is not None)
    before = f" ({reported:,} when last reported)" if last and None not in last else ""
    return f"lag unknown{at_least}{before}"


def cluster_words(cluster: LiveCluster | Unknown) -> str:
    if isinstance(cluster, Unknown):
        return f"unknown: {cluster.with_todo}"
    value = _cluster(cluster)
    words = f"{counted(value['brokers'], 'broker')}, {counted(value['topics'], 'topic')}, id {cluster.cluster_id}"
    bad = {key: value[key] for key in ("leaderless_partitions", "under_replicated_partitions") if value[key]}
    return words + "".join(f", {count} {key.replace('_', ' ')}" for key, count in bad.items())


def _mirror_lines(mirror: LiveMirror, now_ms: int, width: int | None) -> list[str]:
    head = f"mirror {mirror.name}: {mirror.state.value}"
    if mirror.application_id:
        when = since_when(mirror, now_ms)
        head += f", application {mirror.application_id}, {when}, fingerprint {mirror.fingerprint}"
    lines = [head + (f" ({mirror.detail})" if mirror.detail else "")]
    rows = [["  flow", "state", "topics", "partitions", "records/s", "records lag", "seconds lag"]]
    for flow in mirror.flows.values():
        state, rate, lag, seconds = flow_cells(flow, mirror)
        rows.append([f"  {flow.name}", state, f"{flow.topics:,}", f"{flow.partitions:,}", rate, lag, seconds])
    lines += table_lines(rows, width) if mirror.flows else ()
    for flow in mirror.flows.values():
        lines += [*work_lines(flow), *_same_lines(flow)]
        lines += limit_lines(flow)
        lines += [f"    {flow.name}: {words}" for words in unread_words(flow) if mirror.lag_is_current]
        lines += [f"  - {line}" for line in lost_lines(flow)]
    return lines


def since_when(mirror: LiveMirror, now_ms: int) -> str:
    """Only a running job is up. Figures of any other are as old as its last record."""
    if mirror.state is JobState.RUNNING:
        return f"up {_duration(_seconds_since(mirror.started_at_ms, now_ms))}"
    # The record has the time of the job's machine; an age from the future would read as "0s ago".
    if mirror.updated_at_ms is not None and mirror.updated_at_ms > now_ms + CLOCKS_AGREE_MS:
        return "last heard of at a time that its clock had wrong"
    return f"last heard of {_duration(_seconds_since(mirror.updated_at_ms, now_ms))} ago"


def flow_cells(flow: FlowStatus, job: LiveMirror) -> tuple[str, str, str, str]:
    """State, records a second, lag in records and in seconds. A job that does not run copies nothing, whatever its last
    record says, and its lag of now is unknown."""
    # The best known lag: the present one, the last reported one, a bound from some partitions, none.
    runs = job.state is JobState.RUNNING
    lag, seconds = "unknown", "unknown"
    if not job.lag_is_current:
        lag += "" if flow.records_lag is None else f"; {flow.records_lag:,} when last reported"
    elif flow.records_lag is not None:
        lag, seconds = f"{flow.records_lag:,}", "unknown" if flow.seconds_lag is None else f"{flow.seconds_lag:,.1f}"
    elif flow.records_lag_at_least:
        lag += f"; at least {flow.records_lag_at_least:,}"
    state = flow.state if runs else job.state.value
    return "waiting" if runs and waits(flow) else state, f"{flow.records_per_second if runs else 0:,.0f}", lag, seconds


def waits(flow: FlowStatus) -> bool:
    """Whether it runs, and a condition that ends by itself delays records."""
    silent = flow.records_lag is None or flow.stalled_partitions > 0
    return flow.state == "running" and silent and any(code in WAITING for code, _ in flow.counted_conditions)


def work_lines(flow: FlowStatus) -> list[str]:
    """Lines for flows with record work: why batches are decompressed, and the number of omitted records."""
    asked = {path.reason for path in flow.paths if path.reason.startswith("record work")}
    counts = {"filtered": flow.filtered, "not carried because of where they have been": flow.returning}
    parts = [f"{count:,} {words}" for words, count in counts.items() if count is not None]
    return [f"    {flow.name}: {', '.join([*sorted(asked), *parts])}"] if asked or parts else []


def _same_lines(flow: FlowStatus) -> list[str]:
    if (same := flow.same_offsets) is None:
        return []
    parts = [f"{counted(same.holes, 'hole')} filled with {counted(same.fillers, 'empty record')}"] if same.holes else []
    parts += [f"{counted(same.refusals, 'refusal')} looked into"] if same.refusals else []
    if (filling := same.filling) is not None:
        left, rate = filling.offsets_left, filling.offsets_per_second
        ends = f"{time_words(left / rate)} at {rate:,.0f} a second" if rate else "how long that takes is not known yet"
        copies = counted(filling.partitions, "new copy", "new copies")
        parts.append(f"{copies} brought to the first offset: {left:,} empty offsets left, {ends}")
    return [f"    {flow.name}: same offsets on both sides{'; ' if parts else ''}{'; '.join(parts)}"]


def pause_lines(flow: FlowStatus) -> Iterator[str]:
    """``flow orders is paused since ... by ann@host: maintenance; 6 of 6 partitions``."""
    for pause, reported in reported_pauses(flow.name, flow):
        every = counted(reported.partitions, "partition")
        yield f"{pause.scope} is paused {words(pause)}; {reported.paused_partitions} of {every}"
    requests, paused = flow.counted_pauses
    if more := requests - len(flow.pauses):
        yield f"flow {flow.name}: and {counted(more, 'pause')} more; all together hold {counted(paused, 'partition')}"
    if flow.resuming_partitions:
        yield f"flow {flow.name} is resuming; not copied yet: {counted(flow.resuming_partitions, 'partition')}"


def unread_words(flow: FlowStatus) -> Iterator[str]:
    """For a flow with records to copy."""
    if flow.records_lag:
        age = flow.oldest_unread_seconds
        yield f"the oldest record to copy is {'of unknown age' if age is None else time_words(age) + ' old'}"


def limit_lines(flow: FlowStatus) -> list[str]:
    if flow.rate_limit is None:
        return []
    now = f"now {flow.bytes_per_second / (1 << 20):,.1f}"
    held = f"held back for {flow.throttled_seconds or 0:,.0f} s so far"
    return [f"    {flow.name}: limited to {flow.rate_limit / (1 << 20):,.1f} MiB/s, {now}, {held}"]


def lost_lines(flow: FlowStatus) -> Iterator[str]:
    for loss in flow.lost:
        parts = [counted(loss.offsets, "offset"), counted(loss.records, "record")]
        parts += [counted(loss.batches, "batch", "batches")] if loss.batches else []
        lost = f"{', '.join(parts)} lost in {counted(loss.partitions, 'partition')}"
        yield f"flow {flow.name} continued after {loss.code}: {lost}; last: {loss.text}"


def _duration(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    shown = [f"{count}{unit}" for count, unit in parts if count][:2]
    return " ".join(shown) or "0s"


# the verdict in words: its headline, reasons and remedies, here and on the live page


def check_code(health: Health) -> ExitCode:
    """The exit code of ``status --check``: 2 needs a look, 3 is a requested pause."""
    match health:
        case Health.OK:
            return ExitCode.DONE
        case Health.UNKNOWN:
            return ExitCode.ERROR
        case Health.STOPPED | Health.DEGRADED:
            return ExitCode.CHANGES
        case Health.PAUSED:
            return ExitCode.BLOCKED
        case _:
            assert_never(health)


def headline(verdict: Verdict, figures: str) -> str:
    """``STOPPED: flow orders: record_refused on orders-0, and 2 more; 1 of 1 mirror running; ...``."""
    if not verdict.causes:
        return f"{Health.OK}: {figures}"
    return f"{verdict.health}: {brief_words(verdict)}; {figures}"


def brief_words(verdict: Verdict) -> str:
    """The worst cause, which may be in several places, and the number of the others."""
    # A condition of many partitions is one cause for a reader: counted, so that it does not hide the other causes.
    first = verdict.causes[0]
    alike = Counter(map(_kind, verdict.causes))
    same = alike[_kind(first)]
    words = first.brief
    if same > 1:
        words = f"{first.subject}: {_kind(first)[2]} in {same:,} places"
    others = len(alike) - 1
    return f"{words}, and {others:,} more" if others else words


def _kind(cause: VerdictCause) -> tuple[Health, str, str]:
    paused = "paused" if cause.health is Health.PAUSED else ""
    return cause.health, cause.subject, cause.code or paused or cause.brief


def cause_lines(verdict: Verdict, docs_url: str) -> Iterator[str]:
    """Each reason with its remedy, then the runbooks of their conditions, each once."""
    if not verdict.causes:
        return
    yield "what to do"
    for cause in verdict.causes[:MOST_CAUSES]:
        yield f"  {cause.health:<9}{cause_words(cause)}"
    if (more := len(verdict.causes) - MOST_CAUSES) > 0:
        yield f"  and {counted(more, 'more reason')}: reconciler status ENV --format json"
    for page in runbooks_of((cause.code for cause in verdict.causes if cause.code), docs_url):
        yield f"  runbook: {page if docs_url else f'{page} of the project; docs_url makes it a link'}"


def cause_words(cause: VerdictCause) -> str:
    place = f" {cause.place}" if cause.place else ""
    # A pause names its subject first.
    head = "" if cause.text.startswith(cause.subject) else f"{cause.subject}{place}: "
    return f"{head}{cause.text}." + (f" {cause.todo}" if cause.todo else "")


def verdict_value(verdict: Verdict, docs_url: str) -> Mapping[str, Any]:
    """For JSON: ``health`` of schemas/status-report.schema.json."""
    causes = []
    for cause in verdict.causes:
        value = {"state": cause.health.value, "subject": cause.subject, "text": cause.text, "todo": cause.todo}
        place = {"topic": cause.topic or None, "partition": cause.partition, "code": cause.code or None}
        causes.append(
            {**value, "heals": cause.heals}
            | {name: known for name, known in place.items() if known is not None}
            | ({"runbook": runbook_of(cause.code, docs_url)} if cause.code else {})
        )
    return {"state": verdict.health.value, "causes": causes}
