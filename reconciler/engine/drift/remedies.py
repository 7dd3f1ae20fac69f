"""Adds drift to a verdict: copies that retain less than their source after a change outside of git, and, for a
condition that drift causes, the change of `apply` that ends it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.engine.kinds import kind_of
from reconciler.errors import Unknown
from reconciler.model import changes
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.principals import WILDCARD, Permission, ResourceType
from reconciler.model.reports.drift import Deviation
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.topics.limits import KeptLess, kept_less
from reconciler.text import ANY_FOLDER, BRIEF, counted, first_of, grouped

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
        return place.is_here(change.cluster) and any(
            acl.name == WILDCARD or name.startswith(acl.name) for name in place.names
        )
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
