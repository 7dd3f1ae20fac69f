"""Causes of drift: edited outside, half-finished apply, broker default changed, normalised by the vendor, unknown; and
its remedies.

Never a guess: where two causes fit the same facts, the cause is ``not-told`` and both are named.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.engine.kinds import kind_of
from reconciler.errors import ExitCode, Unknown
from reconciler.model import changes
from reconciler.model.changes import COUNTED, About, ConfigChange, Outside, OutsideChange, Risk
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan, Planned
from reconciler.model.principals import Permission, ResourceType
from reconciler.model.reports.drift import Cause, Deviation, Difference, FoundCause, History, Line
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.topics.kind import grown_outside
from reconciler.resources.topics.limits import KeptLess, kept_less
from reconciler.text import ANY_FOLDER, BRIEF, counted, first_of, grouped

NOTHING = History()


def differences(plan: Plan, earlier_runs: History = NOTHING) -> tuple[Difference, ...]:
    """``earlier_runs``: known changes by earlier runs."""
    drift, record = list[Difference](), _Record(plan.outside)

    def note(it: Deviation, cause: FoundCause, risk: str = Risk.LOW, mended_by: str = "") -> None:
        sides = it.wished, it.found
        drift.append(Difference(it.subject, it.kind, *sides, risk, mended_by, cause.cause, cause.why, it.origin))

    for planned in plan.changes:
        for deviation in kind_of(planned.change).deviations(planned.change):
            cause = cause_of(planned, earlier_runs, deviation.config)
            note(deviation, record.cause(cause, deviation), planned.risk, planned.id)

    # Differences that no change can revert, such as added partitions.
    for refused in plan.refused:
        if refused.found and refused.subject.about is About.TOPIC:
            grown = Deviation(str(refused.subject.whole), "partitions", refused.wished, refused.found)
            note(grown, record.cause(grown_outside(grown.subject, earlier_runs), grown))

    # Differences without a planned change, which only the record of the last apply shows.
    for change in plan.outside:
        if change.kind is Outside.RECREATED and change.kind in COUNTED:
            wished, why, origin = change.before, _why(change), "as the last apply left it"
        elif change.kind in COUNTED:
            earlier = f"; {change.before} after {change.since}" if change.since else ""
            wished, why, origin = "no override", f"{change.why}{earlier}", ""
        else:
            continue
        outside = Deviation(change.name, change.kind.value, wished, change.after, origin)
        note(outside, FoundCause(Cause.EDITED_OUTSIDE, why))
    return tuple(drift)


def drift_exit_code(plan: Plan) -> ExitCode:
    """The plan's exit code; a difference without a change is drift, too."""
    code = plan.exit_code
    return ExitCode.CHANGES if code is ExitCode.DONE and any(it.kind in COUNTED for it in plan.outside) else code


def _why(change: OutsideChange) -> str:
    since = f" since {change.since}" if change.since else ""
    match change.kind:
        case Outside.DELETED:
            return f"deleted{since}: it was {change.before}"
        case Outside.RECREATED:
            return f"the topic was deleted and recreated{since}: {change.before} -> {change.after}"
        case _:
            return f"changed{since}: {change.before} -> {change.after}"


class _Record:
    """Differences between the live state and the record of the last apply."""

    def __init__(self, outside: Iterable[OutsideChange]) -> None:
        self._by_name = {change.name: change for change in outside if change.since and change.key}
        self._topics = grouped((str(change.subject), change) for change in outside if change.since and not change.key)

    def cause(self, cause: FoundCause, deviation: Deviation) -> FoundCause:
        """Replaces a vague cause by the record's. A killed apply, or a cluster that resets a value each time, explains
        more than the record and stays."""
        if cause.cause in (Cause.HALF_FINISHED, Cause.NORMALISED):
            return cause
        topic, _, key = deviation.subject.partition(" ")
        for whole in self._topics.get(topic, ()):
            if whole.kind is not Outside.PARTITIONS or deviation.kind == "partitions":
                return FoundCause(Cause.EDITED_OUTSIDE, _why(whole))
        if (own := self._by_name.get(deviation.subject)) is not None:
            return FoundCause(Cause.EDITED_OUTSIDE, _why(own))
        source = deviation.config.source if deviation.config is not None else ""
        if source and (its := self._by_name.get(f"{source} {key}")) is not None:
            return FoundCause(Cause.EDITED_OUTSIDE, f"its source {source} was {_why(its)}")
        default = self._by_name.get(f"cluster {topic.partition('/')[0]} {key}")
        if default is not None and cause.cause is Cause.DEFAULT_CHANGED:
            return FoundCause(Cause.DEFAULT_CHANGED, f"the cluster's default was {_why(default)}")
        return cause


def history(lines: Iterable[Line]) -> History:
    """Parses an audit record (schemas/audit.schema.json), oldest line first. Malformed lines are skipped.

    A run with an end supersedes unfinished earlier runs. A run without an end was killed, unless it carried out all its
    changes.
    """
    changes: dict[str, list[Line]] = defaultdict(list)
    open_runs: dict[str, str] = {}
    leftovers: dict[str, object] = {}
    known, overtaken = False, ""
    for line in lines:
        known = True
        run = str(line.get("run", ""))
        match line.get("kind"):
            case "begin" if line.get("plan_digest", "") is not None:  # null: a command that plans nothing
                open_runs[run], leftovers[run] = str(line.get("at", "")), line.get("changes")
            case "end" if run in open_runs:
                del open_runs[run]
                overtaken = max([overtaken, *_unfinished(open_runs, leftovers).values()])
                open_runs.clear()
            case "change" if isinstance(line.get("id"), str):
                changes[line["id"]].append(line)
                left = leftovers.get(run)
                leftovers[run] = left - 1 if isinstance(left, int) else None
    return History(
        {name: tuple(lines) for name, lines in changes.items()}, _unfinished(open_runs, leftovers), known, overtaken
    )


def _unfinished(open_runs: Mapping[str, str], leftovers: Mapping[str, object]) -> Mapping[str, str]:
    """Unfinished runs, without runs that were killed after their last change."""
    return {run: at for run, at in open_runs.items() if leftovers.get(run) != 0}


def cause_of(planned: Planned, earlier_runs: History, config: ConfigChange | None = None) -> FoundCause:
    """``config``: one config of an ``AlterConfigs``."""
    last = earlier_runs.last(planned.id)
    # The most specific cause first: audit lines about this change, then the kind's own classification, then unfinished
    # runs.
    if last is not None and last.get("result") in ("unproven", "left"):
        return FoundCause(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did it, and no probe confirmed it")
    if last is not None and last.get("result") in ("failed", "skipped", "undone"):
        error = str(last.get("error") or "no reason was recorded").partition("\n")[0]
        return FoundCause(Cause.HALF_FINISHED, f"the apply of {last.get('at')} did not do it: {error}")
    if (cause := kind_of(planned.change).cause(planned, earlier_runs, config)) is not None:
        return cause
    if earlier_runs.cut_off:
        at = max(earlier_runs.cut_off.values())
        return FoundCause(Cause.HALF_FINISHED, f"the run of {at} was cut off, and this is not among what it did")
    if earlier_runs.overtaken:
        either = f"new in git, changed outside, or left by the run of {earlier_runs.overtaken}, which was cut off"
        return FoundCause(Cause.UNDETERMINED, f"{earlier_runs.no_run}: {either}")
    return FoundCause(Cause.UNDETERMINED, f"{earlier_runs.no_run}: new in git, or changed outside")


# Adds drift to a verdict: copies that retain less than their source after a change outside of git, and, for a condition
# that drift causes, the change of `apply` that ends it.

_TOO_LARGE = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_LIMIT = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class _Place:
    """The subject of a condition. ``topics``: at source and target; empty for a lane or a flow."""

    flow: Flow
    topics: frozenset[TopicRef]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(ref.name for ref in self.topics)

    def is_here(self, cluster: str) -> bool:
        return cluster in (self.flow.source, self.flow.target)


_Concerns = Callable[[changes.Change, _Place], bool]


def _configs(*keys: str) -> _Concerns:
    """Changes of the topic's configs with these prefixes."""

    def concerns(change: changes.Change, place: _Place) -> bool:
        if not isinstance(change, changes.AlterConfigs) or change.ref not in place.topics:
            return False
        return any(config.key.startswith(keys) for config in change.configs)

    return concerns


def _topic(*kinds: type[changes.Change]) -> _Concerns:
    return lambda change, place: isinstance(change, kinds) and getattr(change, "ref", None) in place.topics


def _access(change: changes.Change, place: _Place) -> bool:
    """A missing allow rule, or an undeclared deny rule; on the topic, if the condition names one."""
    match change:
        case changes.CreateAcl(acl=acl) if acl.permission is Permission.ALLOW:
            pass
        case changes.DeleteAcl(acl=acl) if acl.permission is Permission.DENY:
            pass
        case _:
            return False
    if acl.resource is ResourceType.TOPIC and place.topics:
        return place.is_here(change.cluster) and any(map(acl.covers_name, place.names))
    return place.is_here(change.cluster)


REFUSED_BY = _configs(_LIMIT, "cleanup.policy", "message.timestamp", "message.format")
_CAUSES: Mapping[str, _Concerns] = {
    "authentication_failed": lambda change, place: (
        isinstance(change, changes.AlterUser) and place.is_here(change.cluster)
    ),
    "permission_denied": _access,
    "groups_refused": _access,
    "pauses_unreadable": _access,
    "quota_throttled": lambda change, place: isinstance(change, changes.AlterQuota) and place.is_here(change.cluster),
    "record_refused": REFUSED_BY,
    "source_retention_passed": _configs("retention.", "cleanup.policy", "segment.", "delete.retention"),
    "source_topic_deleted": _topic(changes.CreateTopic),
    "start_partition_missing": _topic(changes.CreateTopic, changes.AddPartitions),
    "target_topic_missing": _topic(changes.CreateTopic),
    "target_topic_smaller": _topic(changes.AddPartitions),
    "target_unavailable": lambda change, place: (
        _configs("min.insync.replicas")(change, place) or _topic(changes.ReassignReplicas)(change, place)
    ),
}
"""Condition that drift may cause -> changes that would end it."""


def has_remedy(verdict: Verdict) -> bool:
    """Whether drift may cause one of the conditions, so that a comparison with git is worth its time."""
    return any(cause.code in _CAUSES for cause in verdict.causes)


def deviations_behind(
    cause: VerdictCause, topology: Topology, pending: Iterable[changes.Change]
) -> Iterator[Deviation]:
    """What ``pending`` correct that causes this condition."""
    flow, concerns = topology.flows.get(cause.subject.removeprefix("flow ")), _CAUSES.get(cause.code)
    if concerns is None or flow is None:
        return
    remote = _copy_of(cause, topology)
    place = _Place(flow, frozenset({TopicRef(flow.source, cause.topic), remote}) if remote else frozenset())
    for change in (each for each in pending if concerns(each, place)):
        for deviation in kind_of(change).deviations(change):
            # Of a change of several configs, only the relevant ones.
            config, single = deviation.config, change
            if isinstance(change, changes.AlterConfigs) and config:
                single = replace(change, configs=(config,))
            if concerns(single, place):
                yield deviation


def _copy_of(cause: VerdictCause, topology: Topology) -> TopicRef | None:
    flow = topology.flows.get(cause.subject.removeprefix("flow "))
    return TopicRef(flow.target, selector_of(flow).remote_name(cause.topic)) if flow and cause.topic else None


def with_remedies(
    verdict: Verdict, topology: Topology, live: LiveState, pending: Iterable[changes.Change], folder: str = ANY_FOLDER
) -> Verdict:
    """``pending``: of the present plan. ``folder``: the environment's folder, for commands."""
    planned, causes = tuple(pending), []
    for cause in verdict.causes:
        if drift := [
            f"{each.subject}: live {each.found}, git declares {each.wished}"
            for each in deviations_behind(cause, topology, planned)
        ]:
            cause = replace(cause, todo=f"{first_of(drift, BRIEF)}: reconciler apply {folder}")
        elif cause.code == "record_refused" and any(word in cause.text for word in _TOO_LARGE):
            # The copy is as git declares, so git has to change.
            remote = _copy_of(cause, topology)
            topic = live.topic(remote) if remote else None
            if topic is not None and (limit := topic.config(_LIMIT)) is not None:
                todo = f"{remote} takes {int(limit):,} bytes ({_LIMIT}), as git has it: raise it there"
                cause = replace(cause, todo=f"{todo}, then reconciler apply {folder}")
        causes.append(cause)
    return Verdict(tuple(causes))


def losing_copies(topology: Topology, live: LiveState) -> Iterator[tuple[str, KeptLess]]:
    """(flow, config) by which a copy retains less than its source now, whether or not git declares it."""
    for flow in topology.flows.values():
        source, target = live.known(flow.source), live.known(flow.target)
        if source is None or target is None:
            continue
        selector = selector_of(flow)
        alike: set[tuple[int, int]] = set()  # many topics share one object of configs
        for name, topic in source.topics.items():
            copy = target.topics.get(selector.remote_name(name)) if selector.why_not(name) is None else None
            if copy is None or isinstance(topic.configs, Unknown) or isinstance(copy.configs, Unknown):
                continue
            both = id(topic.configs), id(copy.configs)
            if both in alike:
                continue
            remote = TopicRef(flow.target, copy.name)
            every = kept_less(TopicRef(flow.source, name), remote, topic.configs, copy.configs)
            losses = [each for each in every if each.loses]
            if not losses:
                alike.add(both)
            yield from ((flow.name, each) for each in losses)


def with_losing_copies(
    verdict: Verdict,
    losing: Iterable[tuple[str, KeptLess]],
    pending: Iterable[changes.Change],
    folder: str = ANY_FOLDER,
) -> Verdict:
    """``pending``: of the present plan. If none of them resets a copy's config, git declares it so."""
    planned = {
        (change.ref, config.key): config.undeclared
        for change in pending
        if isinstance(change, changes.AlterConfigs)
        for config in change.configs
    }
    # A copy that retains less because its file says so loses what it was meant to lose, and is no drift.
    drifted = [(flow, each) for flow, each in losing if (each.remote, each.key) in planned]
    causes = [*verdict.causes]
    for (flow, words), some in grouped(((flow, each.words), each) for flow, each in drifted).items():
        copies, subject = counted(len(some), "copy", "copies"), f"flow {flow}"
        todo = f"Set it back: reconciler apply {folder}"
        if any(planned[each.remote, each.key] for each in some):
            todo = f"Decide whether the source's value counts: reconciler plan {folder}"
        brief = f"{subject}: {copies} {'loses' if len(some) == 1 else 'lose'} records"
        text = f"{copies} ({first_of([str(each.remote) for each in some], BRIEF)}): {words}"
        todo = f"{todo}. Find what is gone: reconciler verify {folder} {flow}"
        causes.append(VerdictCause(Health.DEGRADED, subject, brief, text, todo))
    return Verdict.of_all(causes)
