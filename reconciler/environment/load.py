"""Loads an environment from its YAML texts: parsed and validated, or every problem of all files at once."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import TypeVar

from reconciler.environment.declarations import clusters, hooks, moved, principals, rollout, topics, values
from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.flows import build_flow
from reconciler.environment.declarations.mirrors import build_mirror
from reconciler.environment.load_clusters import NO_HEAD, Head
from reconciler.environment.validate.environment import check
from reconciler.environment.yaml.locations import Place, Places
from reconciler.environment.yaml.nodes import Document, Entry, Node
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.schema import check_shape
from reconciler.environment.yaml.sections import collect
from reconciler.errors import Problem, TopologyError, Where
from reconciler.model.environment import topology as declared
from reconciler.text import grouped

Noun = TypeVar("Noun")
Judge = Callable[[str, Node], str | values.Wrong]

_LAYER: tuple[tuple[tuple[str, ...], Judge], ...] = (
    (("configs",), values.topic_config),
    (("lower_retention_by",), values.retention_step),
)
_VALUES: Mapping[str, tuple[tuple[tuple[str, ...], Judge], ...]] = {
    "clusters": (
        (("client",), values.client_setting),
        *((("principals", principal.value), values.client_setting) for principal in declared.Principal),
        *((("defaults", *path), judge) for path, judge in _LAYER),
    ),
    "topics": _LAYER,
    "defaults": _LAYER,
    "classes": _LAYER,
    "mirrors": ((("spark_conf",), values.spark_setting), (("verify_conf",), values.spark_setting)),
    "users": (((), principals.user_secret),),
    "webhooks": (((), hooks.webhook_secret),),
}
"""Mappings of single values, which are judged also where the entry around them has a wrong shape."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Hardly anything that loading or planning makes is garbage; the collector would walk all of it again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@no_collection()
def load(
    texts: Mapping[str, str],
    environment: str,
    today: date | None = None,
    head: Head = NO_HEAD,
    *,
    expired_too: bool = False,
    unread: Sequence[Problem] = (),
) -> declared.Topology:
    """The checked topology of one environment.

    ``texts`` holds the YAML text of each file under the name that problems are to print; the order does not matter.
    ``today`` decides which tombstones have expired; by default it is this day (UTC). ``expired_too``: an expired one is
    no problem, because live clusters show what is left of its topic. ``head``: of the same texts. ``unread``: problems
    of files without a text; names that these may declare are not reported as unknown.
    Raises TopologyError, and nothing else, with all problems of shape, values and relations.
    """
    documents = [head.documents.get(file) or read(file, texts[file]) for file in sorted(texts)]
    documents += [Document(problem.where.file, None, (problem,)) for problem in unread]
    problems = [problem for document in documents for problem in document.problems]
    if not documents:
        why = "An empty environment would mean that nothing is declared any more"
        todo = "Check the folder's name"
        problems.append(Problem("no-files", Where(environment), "the environment has no *.yaml file", why, todo))
    problems += (problem for document in documents for problem in check_shape(document))
    places, doubled = collect(documents)
    problems += doubled

    # Entries with a problem are left out, so that rules judge only correctly read values.
    builder = _Builder(places, {(p.where.file, p.where.line, p.where.column) for p in problems}, problems)
    expired_before = today or datetime.now(UTC).date()
    read_clusters = builder.build("clusters", clusters.build_cluster)
    read_topics = builder.build("topics", topics.build_topic)
    renames = builder.build("moved", moved.build_rename)
    flows = moved.with_first_names(builder.build("flows", build_flow), renames)
    topology = declared.Topology(
        environment,
        declared.by_name(read_clusters),
        declared.by_name(read_topics),
        declared.by_name(flows),
        declared.by_name(_with_flows(builder.build("mirrors", build_mirror), flows, places)),
        tuple(
            replace(stone, expired=date.fromisoformat(stone.expires) < expired_before)
            for stone in builder.build("deletions", topics.build_tombstone)
        ),
        tuple(builder.build("access", principals.build_access)),
        _written(documents, "access"),
        rules=declared.Rules(
            builder.single("defaults", clusters.build_defaults) or declared.TopicDefaults(),
            MappingProxyType(dict(builder.build("classes", topics.build_class))),
            tuple(builder.build("protected", topics.build_protection)),
            builder.single("shrink_limit", topics.build_shrink_limit) or declared.ShrinkLimit(),
            builder.single("audit", topics.build_audit),
            builder.single("docs_url", topics.build_docs_url) or "",
            tuple(builder.build("webhooks", hooks.build_webhook)),
        ),
        quotas=tuple(builder.build("quotas", principals.build_quota)),
        quotas_declared=_written(documents, "quotas"),
        users=tuple(builder.build("users", principals.build_user)),
        users_declared=_written(documents, "users"),
        rollout=builder.single("rollout", rollout.build_rollout),
        hooks=builder.single("cutover", hooks.build_hooks) or MappingProxyType({}),
        moved_from=moved.earlier_names(environment, renames),
    )

    # Of a cluster with a problem at least the logins are checked; a place gets no second problem.
    entries = [(name, place) for (of, name), place in places.entries.items() if of == "clusters"]
    half = [
        clusters.half_read_cluster(Reading("clusters", *each)) for each in entries if each[0] not in topology.clusters
    ]
    known = {problem.where for problem in problems}
    logins = clusters.check_connections(replace(topology, clusters=declared.by_name(half)), places)
    problems += [problem for problem in logins if problem.where not in known]
    problems += check(topology, places)
    problems += topics.check_rules(topology, places)
    problems += principals.check_access(topology, places)
    problems += principals.check_quotas(topology, places)
    problems += principals.check_users(topology, places)
    problems += topics.check_tombstones(topology, places)
    problems += moved.check_moved(topology, renames, places)
    problems += () if expired_too else topics.check_expiry(topology, places)
    problems += rollout.check_rollout(topology, topology.rollout or rollout.half_read_rollout(places), places)
    if problems:
        raise TopologyError(tuple(problems))
    return topology


def _written(documents: Iterable[Document], section: str) -> bool:
    return any(isinstance(document.root, YamlMapping) and section in document.root.entries for document in documents)


class _Builder:
    """Builds the values of entries that are free of problems so far, and judges single values of the others.

    ``bad``: file, line and column of each problem of YAML or shape. ``problems`` grows."""

    def __init__(self, places: Places, bad: set[tuple[str, int, int]], problems: list[Problem]) -> None:
        self.places = places
        self.bad = bad
        self.problems = problems

    def build(self, section: str, make: Callable[[Reading], Noun]) -> list[Noun]:
        """Entries of one section. An entry that the schema refuses is not built, but its values are still checked, so
        that the user sees every problem at once."""
        nouns = []
        for (of, name), place in self.places.entries.items():
            if of != section:
                continue
            reading = Reading(section, name, place)
            if self.bad and self._touched(place):
                for path, judge in _VALUES.get(section, ()):
                    reading.mapping(*path, each=judge)
            else:
                noun = make(reading)
                if not reading.problems:
                    nouns.append(noun)
            self.problems += reading.problems
        return nouns

    def single(self, section: str, make: Callable[[Reading], Noun]) -> Noun | None:
        """The value of a section that is one thing."""
        return next(iter(self.build(section, make)), None)

    def _touched(self, place: Place) -> bool:
        """Whether a problem lies anywhere in this entry."""
        file = place.document.file
        waiting: list[Entry | Node] = [place.entry]
        while waiting:
            here = waiting.pop()
            if (file, here.line, here.column) in self.bad:
                return True
            match here:
                case Entry():
                    waiting.append(here.value)
                case YamlMapping():
                    waiting += here.entries.values()
                case YamlSequence():
                    waiting += here.items
        return False


def _with_flows(mirrors: list[declared.Mirror], flows: list[declared.Flow], places: Places) -> list[declared.Mirror]:
    """Flows that no mirror names go to the mirror with the name of their target cluster, written or not."""
    claimed = {name for mirror in mirrors for name in mirror.flows}
    in_order = sorted(flows, key=lambda flow: flow.name)
    waiting = grouped((flow.target, flow) for flow in in_order if flow.name not in claimed)
    with_flows = [
        mirror if mirror.flows else replace(mirror, flows=tuple(flow.name for flow in waiting.pop(mirror.name, ())))
        for mirror in mirrors
    ]
    written = {mirror.name for mirror in mirrors}
    for target, arriving in waiting.items():
        if target not in written and not places.has("mirrors", target):
            with_flows.append(declared.Mirror(target, tuple(flow.name for flow in arriving), where=arriving[0].where))
    return with_flows
