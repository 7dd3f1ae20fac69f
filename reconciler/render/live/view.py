"""Contents of the live page, frozen, with the reading time of each part.

Old readings count as unknown: a job's lag after ten seconds, as in ``status``; a job, a cluster or the lock after
``TOO_OLD_MS``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reconciler.engine.drift.causes import has_remedy, losing_copies, with_losing_copies, with_remedies
from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.plan.amounts import Amount
from reconciler.engine.topic_list import TopicRow
from reconciler.errors import Unknown
from reconciler.model.changes import AlterConfigs
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import History
from reconciler.model.reports.health import Health, Verdict
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.model.state.audit_chain import AuditVerification
from reconciler.render.markup import page as safe
from reconciler.render.reports.status import StatusInputs
from reconciler.text import ANY_FOLDER, moment

TOO_OLD_MS = 90_000
SILENCE_HOLDS_MS = 10_000
"""Age after which a cluster's observed silence no longer counts."""
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class LiveReading(Generic[Value]):
    value: Value | None = None
    """None: it was never read."""
    at_ms: int = 0
    failure: Unknown | None = None
    """Why the newest try gave nothing; the value is then that of an earlier one."""

    def age_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.at_ms)


@dataclass(frozen=True, slots=True)
class JobsSeen:
    """``left``: words for the time until a flow has caught up, by mirror and flow, as in ``status --watch``."""

    mirrors: Mapping[str, LiveMirror | Unknown]
    left: Mapping[tuple[str, str], str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class ClustersSeen:
    """``drawn``: the map at that time; newer job reports update its flows."""

    clusters: Mapping[str, LiveCluster | Unknown]
    drawn: TopologyMap
    topics: tuple[TopicRow, ...]


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The plan of ``apply``, drawn on the map of that time, with changes by earlier runs, and owners of topics by
    label."""

    plan: Plan
    drawn: TopologyMap
    history: History
    owners: Mapping[TopicRef, str] = field(default_factory=lambda: MappingProxyType({}))
    amounts: tuple[Amount, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditTrail:
    """``lines``: of all places together, oldest first. ``checked``: whether their chains are whole."""

    lines: tuple[Mapping[str, Any], ...]
    checked: AuditVerification


@dataclass(frozen=True, slots=True)
class LiveView:
    """Each part is read separately, so that a hanging one does not delay others."""

    topology: Topology
    """If the folder cannot be read now, its last good state."""
    jobs: LiveReading[JobsSeen] = LiveReading()
    clusters: LiveReading[ClustersSeen] = LiveReading()
    silent: LiveReading[Mapping[str, Unknown]] = LiveReading()
    """Silent clusters with reasons. They are checked far more often than ``clusters`` are read, so that a failed
    cluster does not look healthy until the next full reading."""
    lock: LiveReading[StatusInputs] = LiveReading()
    review: LiveReading[Reviewed] = LiveReading()
    audit: LiveReading[AuditTrail] = LiveReading()
    folder_problem: str = ""
    """Why the folder cannot be read now."""
    folder: str = ANY_FOLDER
    """The environment's folder, for commands."""


class PageKind(StrEnum):
    """The pages; also their addresses."""

    OVERVIEW = ""
    FLOWS = "flows"
    TOPICS = "topics"
    GROUPS = "groups"
    PLAN = "plan"
    DRIFT = "drift"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page, parsed from its URL."""

    kind: PageKind = PageKind.OVERVIEW
    flow: str = ""
    """The only one that is shown; empty: all."""
    cluster: str = ""
    search: str = ""
    number: int = 1
    """Page number of a long list, from 1."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a page that is replaced when it changes. ``html``: its elements. ``calm``: not replaced while a person
    reads it; the page only reports the change."""

    name: str
    html: str
    calm: bool = False


def live_now(view: LiveView, now_ms: int) -> LiveState:
    """Clusters and jobs, as far as their last reading holds now."""
    seen, jobs = view.clusters, view.jobs
    clusters: Mapping[str, LiveCluster | Unknown]
    if seen.value is None or seen.age_ms(now_ms) > TOO_OLD_MS:
        clusters = {name: _too_old(f"cluster {name}", seen, now_ms) for name in view.topology.clusters}
    else:
        silent = view.silent.value if view.silent.age_ms(now_ms) <= SILENCE_HOLDS_MS else None
        clusters = {**seen.value.clusters, **(silent or {})}
    if jobs.value is None or jobs.age_ms(now_ms) > TOO_OLD_MS:
        return LiveState(clusters, {name: _too_old(f"mirror {name}", jobs, now_ms) for name in view.topology.mirrors})
    # Reports age between readings, so an old lag becomes unknown, as in status.
    age = jobs.age_ms(now_ms)
    mirrors = {
        name: replace(mirror, late_ms=mirror.late_ms + age) if isinstance(mirror, LiveMirror) else mirror
        for name, mirror in jobs.value.mirrors.items()
    }
    return LiveState(clusters, mirrors)


def verdict_now(view: LiveView, live: LiveState) -> Verdict:
    """The verdict of ``live``, with remedies and losing copies from the newest plan."""
    verdict = verdict_of(view.topology, live, view.folder)
    if (review := view.review.value) is None:
        return verdict
    changes = [planned.change for planned in review.plan.changes]
    if any(isinstance(change, AlterConfigs) for change in changes):
        verdict = with_losing_copies(verdict, losing_copies(view.topology, live), changes, view.folder)
    if not has_remedy(verdict):
        return verdict
    return with_remedies(verdict, view.topology, live, changes, view.folder)


def affairs_now(view: LiveView, now_ms: int) -> StatusInputs:
    """Lock, rollout and verdict. An old reading of the lock counts as unknown, since another run may hold it now; the
    progress of a rollout stays valid until its next step."""
    value, reading = view.lock.value, view.lock
    verdict = verdict_now(view, live_now(view, now_ms))
    if value is None or reading.age_ms(now_ms) > TOO_OLD_MS:
        kept = StatusInputs(None) if value is None else value
        return replace(kept, lock=_too_old("lock", reading, now_ms), verdict=verdict)
    return replace(value, verdict=verdict)


def _too_old(subject: str, reading: LiveReading[Any], now_ms: int) -> Unknown:
    if reading.failure is not None:
        return Unknown(subject, reading.failure.error, reading.failure.todo)
    if reading.value is None:
        return Unknown(subject, "it was not read yet", "Wait for the first answer.")
    return Unknown(subject, f"it was last read {reading.age_ms(now_ms) // 1000} s ago", "It is asked again.")


STATES: Mapping[str, str] = MappingProxyType(
    {"ok": "answers", "problem": "problem", "unknown": "unknown", "idle": "idle", "busy": "busy"}
)
STATE_OF: Mapping[Health, str] = MappingProxyType(
    {
        Health.OK: "ok",
        Health.PAUSED: "idle",
        Health.DEGRADED: "busy",
        Health.UNKNOWN: "unknown",
        Health.STOPPED: "problem",
    }
)
"""How a verdict looks: green, amber, amber, grey and dashed, red."""


def pill(words: str, state: str) -> str:
    """``state``: a key of ``STATES``; a colour beside the words, never instead of them."""
    return f'<span class="pill {state}">{safe(words)}</span>'


def tile(title: str, words: str, state: str, link: str) -> str:
    return f'<a class="tile {state}" href="{safe(link)}"><small>{safe(title)}</small><span>{safe(words)}</span></a>'


def clock(at_ms: int) -> str:
    """A time, which the page's script shows as an age."""
    text = moment(at_ms, "%H:%M:%S UTC")
    return f'<time datetime="{moment(at_ms, "%Y-%m-%dT%H:%M:%SZ")}" data-at="{at_ms}">{text}</time>'


def ages(view: LiveView, now_ms: int) -> str:
    """When each part was read, and why it was not read since."""
    readings: dict[str, LiveReading[object]] = {
        "jobs and lag": view.jobs,
        "clusters": view.clusters,
        "lock": view.lock,
        "plan and drift": view.review,
    }
    return ages_of(readings, now_ms)


def age(title: str, reading: LiveReading[object], now_ms: int) -> str:
    return ages_of({title: reading}, now_ms)


def ages_of(readings: Mapping[str, LiveReading[object]], now_ms: int) -> str:
    words = []
    for title, reading in readings.items():
        failure = f" (the newest try failed: {safe(reading.failure.what)})" if reading.failure is not None else ""
        if reading.value is None:
            words.append(f"{title} not read yet{failure}")
        else:
            late = ' class="late"' if reading.age_ms(now_ms) > TOO_OLD_MS else ""
            words.append(f"<span{late}>{title} read {clock(reading.at_ms)}{failure}</span>")
    return f'<p class="faint">{"; ".join(words)}</p>'
