"""One edit and its plan: relates subjects of the edit to changes of the plan."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from reconciler.engine.edits.fields import NOT_SET
from reconciler.engine.edits.flows import declared_routes
from reconciler.model.changes import About, Change, MirrorChange, Refused, Risk
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.edit import FieldChange, ItemChange, NoEffect, Sign
from reconciler.resources.flows.names.automata import reached
from reconciler.resources.flows.routes import Route
from reconciler.text import grouped


@dataclass(frozen=True)
class EditAndPlan:
    """Both sides of an edit, and the plan of the later one."""

    before: Topology
    """The topology before the edit."""
    after: Topology
    plan: Plan
    live: LiveState
    """The live state behind ``plan``."""

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        return tuple(planned.change for planned in self.plan.changes)

    @cached_property
    def by_ref(self) -> Mapping[TopicRef, list[Change]]:
        refs = ((getattr(change, "ref", None), change) for change in self.changes)
        return grouped((ref, change) for ref, change in refs if ref is not None)

    @cached_property
    def blocked(self) -> frozenset[TopicRef]:
        subjects = [refused.subject for refused in self.plan.refused]
        return frozenset(TopicRef(each.cluster, each.name) for each in subjects if each.about is About.TOPIC)

    def ignored(self, refs: Iterable[TopicRef], key: str) -> str:
        """The rule by which the plan ignores ``key`` of one of ``refs``, or empty."""
        names = {str(ref) for ref in refs}
        for each in self.plan.ignored:
            if str(each.subject.whole) in names and (key in each.text or each.subject.field.endswith(key)):
                return f"rule {each.rule} leaves it alone: {each.text}"
        return ""

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Routes of both sides of the edit."""
        return (*declared_routes(self.before), *declared_routes(self.after))

    @cached_property
    def remotes(self) -> Mapping[TopicRef, list[TopicRef]]:
        """Source -> its remote topics, on either side of the edit."""
        return grouped((route.source, route.remote) for route in self.routes)

    def family(self, refs: Iterable[TopicRef]) -> frozenset[TopicRef]:
        """The topics with their remote topics, over all hops."""
        first = frozenset(refs)
        return first.union(*(reached(ref, self.remotes) for ref in first))

    def unknown(self, clusters: Iterable[str]) -> bool:
        """Whether one of the clusters did not answer, or is no longer declared and so was not read."""
        return any(self.live.known(name) is None for name in clusters if name in self.after.clusters)

    def outside(self, clusters: Collection[str]) -> bool:
        """Whether the files declare none of these clusters any more."""
        return bool(clusters) and not any(name in self.after.clusters for name in clusters)

    def touched(self, refs: Iterable[TopicRef], wanted: Callable[[Change], bool] = lambda _: True) -> bool:
        return any(ref in self.blocked or any(map(wanted, self.by_ref.get(ref, ()))) for ref in refs)

    def ran(self, flow: str) -> bool:
        """Whether a job has copied the flow, as far as known, so that it has positions."""
        jobs = (job for job in self.live.mirrors.values() if isinstance(job, LiveMirror))
        return any(flow in job.flows for job in jobs)

    def refused(self, about: About, name: str) -> list[Refused]:
        return [each for each in self.plan.refused if each.subject.about is about and each.subject.name == name]

    def restarts(self, flows: Iterable[str]) -> bool:
        """Whether a mirror of one of these flows starts, restarts, stops, or is unknown."""
        wanted, sides = set(flows), (self.before, self.after)
        names = {mirror.name for side in sides for mirror in side.mirrors.values() if wanted & {*mirror.flows}}
        if any(unknown.subject in {f"mirror {name}" for name in names} for unknown in self.plan.unknown):
            return True
        return any(isinstance(change, MirrorChange) and change.mirror in names for change in self.changes)


OUTSIDE = "its cluster is no longer declared: nothing there is read or changed"
_GUARDS = ("cluster_id", "gates", "least", "lower_retention_by", "percent", "prune")
Judge = Callable[[ItemChange, EditAndPlan], Iterator[NoEffect]]


def quiet(item: ItemChange, why: str, field: FieldChange | None = None) -> NoEffect:
    """An edit without effect that no reader mistakes for a removal. One that loosens a guard leads the plan: later runs
    may do what they refused before."""
    if field is None:
        setting, loosens = "", item.sign is Sign.REMOVED and item.kind in ("protection", "rollout")
    else:
        section = field.path.removeprefix("defaults.").partition(".")[0]
        setting, loosens = edited(field), section in _GUARDS and field.risk is not Risk.LOW
    named = f"{item.kind} {item.name}{f' ({setting})' if setting else ''}"
    return NoEffect(item.kind, item.name, setting, why, headline=f"loosens {named}: {why}" if loosens else "")


def edited(field: FieldChange) -> str:
    return f"{field.path} {field.before or NOT_SET} -> {field.after}"
