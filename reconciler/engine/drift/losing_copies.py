"""Copies that delete or compact what their source keeps, because someone changed a config outside of git."""

from collections.abc import Iterable, Iterator

from reconciler.errors import Unknown
from reconciler.model.changes import AlterConfigs, Change
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.topics.limits import KeptLess, kept_less
from reconciler.text import ANY_FOLDER, counted, first_of, grouped

_SHOWN = 3


def losing_copies(topology: Topology, live: LiveState) -> Iterator[tuple[str, KeptLess]]:
    """Each config by which a copy keeps less than its source now, with its flow; whether git declares it is not looked
    at."""
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
    changes: Iterable[Change],
    folder: str = ANY_FOLDER,
) -> Verdict:
    """``changes``: those that `apply` would make now. A copy that none of them sets back is as git declares it."""
    planned = {
        (change.ref, config.key): config.undeclared
        for change in changes
        if isinstance(change, AlterConfigs)
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
        text = f"{copies} ({first_of([str(each.remote) for each in some], _SHOWN)}): {words}"
        todo = f"{todo}. Find what is gone: reconciler verify {folder} {flow}"
        causes.append(VerdictCause(Health.DEGRADED, subject, brief, text, todo))
    return Verdict.of_all(causes)
