"""Loads an environment from its YAML texts: parsed and validated, or every problem of all files at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import TypeVar

from reconciler.environment.load_clusters import NO_HEAD, Head
from reconciler.environment.parse.acls import build_access
from reconciler.environment.parse.clusters import build_cluster, build_defaults
from reconciler.environment.parse.flows import build_flow
from reconciler.environment.parse.mirrors import build_mirror
from reconciler.environment.parse.moved import build_rename, earlier_names, with_first_names
from reconciler.environment.parse.partial import judge_values
from reconciler.environment.parse.policies import (
    build_audit,
    build_class,
    build_docs_url,
    build_protection,
    build_shrink_limit,
)
from reconciler.environment.parse.quotas import build_quota
from reconciler.environment.parse.rollout import build_rollout, half_read_rollout
from reconciler.environment.parse.topics import build_tombstone, build_topic
from reconciler.environment.parse.users import build_user
from reconciler.environment.validate.acls import check_access
from reconciler.environment.validate.deletions import check_expiry, check_tombstones
from reconciler.environment.validate.environment import check
from reconciler.environment.validate.moved import check_moved
from reconciler.environment.validate.policies import check_rules
from reconciler.environment.validate.quotas import check_quotas
from reconciler.environment.validate.rollout import check_rollout
from reconciler.environment.validate.users import check_users
from reconciler.environment.yaml.entry import Reading
from reconciler.environment.yaml.locations import Place, Places
from reconciler.environment.yaml.nodes import Document
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.schema import check_shape
from reconciler.environment.yaml.sections import collect
from reconciler.errors import Problem, TopologyError, Where
from reconciler.model.environment.topology import Flow, Mirror, Rules, ShrinkLimit, TopicDefaults, Topology, by_name
from reconciler.text import grouped

Noun = TypeVar("Noun")


def load(
    texts: Mapping[str, str],
    environment: str,
    today: date | None = None,
    head: Head = NO_HEAD,
    *,
    expired_too: bool = False,
    unread: Sequence[Problem] = (),
) -> Topology:
    """The checked topology of one environment.

    ``texts`` holds the YAML text of each file under the name that problems are to print; the order does not matter.
    ``today`` decides which tombstones have expired; without it, it is this day (UTC). ``expired_too``: that is no
    problem, because live clusters tell what is left of them. ``head``: of the same texts. ``unread``: of
    files without a text, told with all others; what these may hold is held against nobody.
    Raises TopologyError, and nothing else, with all problems of shape, values and relations.
    """
    with no_collection():
        documents = [head.documents.get(file) or read(file, texts[file]) for file in sorted(texts)]
        documents += [Document(problem.where.file, None, (problem,)) for problem in unread]
        return _load(documents, environment, today or datetime.now(UTC).date(), expired_too=expired_too)


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


def _load(documents: list[Document], environment: str, today: date, *, expired_too: bool) -> Topology:
    problems = [problem for document in documents for problem in document.problems]
    if not documents:
        why = "An empty environment would mean that nothing is wanted any more"
        todo = "Check the folder's name"
        problems.append(Problem("no-files", Where(environment), "the environment has no *.yaml file", why, todo))
    problems += (problem for document in documents for problem in check_shape(document))
    places, doubled = collect(documents)
    problems += doubled
    builder = _Builder(places, {(p.where.file, p.where.line, p.where.column) for p in problems}, problems)
    clusters = builder.build("clusters", build_cluster)
    topics = builder.build("topics", build_topic)
    renames = builder.build("moved", build_rename)
    flows = with_first_names(builder.build("flows", build_flow), renames)
    mirrors = _with_flows(builder.build("mirrors", build_mirror), flows, places)
    stones = tuple(
        replace(tombstone, expired=date.fromisoformat(tombstone.expires) < today)
        for tombstone in builder.build("deletions", build_tombstone)
    )
    topology = Topology(
        environment,
        by_name(clusters),
        by_name(topics),
        by_name(flows),
        by_name(mirrors),
        stones,
        tuple(builder.build("access", build_access)),
        _written(documents, "access"),
        rules=_rules(builder),
        quotas=tuple(builder.build("quotas", build_quota)),
        quotas_declared=_written(documents, "quotas"),
        users=tuple(builder.build("users", build_user)),
        users_declared=_written(documents, "users"),
        rollout=next(iter(builder.build("rollout", build_rollout)), None),
        moved_from=earlier_names(environment, renames),
    )
    problems += check(topology, places)
    problems += check_rules(topology, places)
    problems += check_access(topology, places)
    problems += check_quotas(topology, places)
    problems += check_users(topology, places)
    problems += check_tombstones(topology, places)
    problems += check_moved(topology, renames, places)
    problems += () if expired_too else check_expiry(topology, places)
    problems += check_rollout(topology, topology.rollout or half_read_rollout(places), places)
    if problems:
        raise TopologyError(tuple(problems))
    return topology


def _written(documents: Iterable[Document], section: str) -> bool:
    return any(isinstance(document.root, YamlMapping) and section in document.root.entries for document in documents)


def _rules(builder: _Builder) -> Rules:
    return Rules(
        next(iter(builder.build("defaults", build_defaults)), TopicDefaults()),
        MappingProxyType(dict(builder.build("classes", build_class))),
        tuple(builder.build("protected", build_protection)),
        next(iter(builder.build("shrink_limit", build_shrink_limit)), ShrinkLimit()),
        next(iter(builder.build("audit", build_audit)), None),
        next(iter(builder.build("docs_url", build_docs_url)), ""),
    )


class _Builder:
    """Builds the nouns of entries that are free of problems so far and notes the problems of the others."""

    def __init__(self, places: Places, bad: set[tuple[str, int, int]], problems: list[Problem]) -> None:
        self.places = places
        self.bad = bad
        self.problems = problems

    def build(self, section: str, make: Callable[[Reading], Noun]) -> list[Noun]:
        nouns = []
        for (of, name), place in self.places.entries.items():
            if of != section:
                continue
            reading = Reading(section, name, place)
            if self._touched(place):
                judge_values(reading)
            else:
                noun = make(reading)
                if not reading.problems:
                    nouns.append(noun)
            self.problems += reading.problems
        return nouns

    def _touched(self, place: Place) -> bool:
        """Does a problem of YAML or shape lie in this entry?"""
        if not self.bad:
            return False
        return any((place.document.file, *mark) in self.bad for mark in _marks(place))


def _marks(place: Place) -> Iterable[tuple[int, int]]:
    entry = place.entry
    yield entry.line, entry.column
    waiting = [entry.value]
    while waiting:
        node = waiting.pop()
        yield node.line, node.column
        if isinstance(node, YamlMapping):
            for inner in node.entries.values():
                yield inner.line, inner.column
                waiting.append(inner.value)
        elif hasattr(node, "items"):
            waiting.extend(node.items)


def _with_flows(mirrors: list[Mirror], flows: list[Flow], places: Places) -> list[Mirror]:
    """Flows that no mirror names go to the mirror named as their target cluster; it is made when it is not written."""
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
            with_flows.append(Mirror(target, tuple(flow.name for flow in arriving), where=arriving[0].where))
    return with_flows
