"""Nouns with defaults, so that a test names only what matters to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.engine.apply.limits import ApplyLimits, Silent
from reconciler.engine.apply.run import apply
from reconciler.engine.observe.read_all import ReadScope, observe, unlisted, with_named
from reconciler.engine.plan.build import plan
from reconciler.model.changes import AlterConfigs, ConfigChange
from reconciler.model.environment.topology import (
    Cluster,
    Flow,
    Mirror,
    Topic,
    TopicDefaults,
    TopicRef,
    Topology,
    by_name,
)
from reconciler.model.live import LiveState
from reconciler.model.plan import Outcome, Plan
from reconciler.model.principals import AccessRule
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.quotas.diff import quota_clusters
from reconciler.resources.replicas.diff import with_replicas
from reconciler.resources.users.diff import user_clusters
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.prober import FakeProber
from tests.support.fakes.runner import FakeRunner


def cluster(name: str, *, defaults: TopicDefaults | None = None, **fields: Any) -> Cluster:
    servers = fields.pop("bootstrap_servers", (f"{name}.example:9092",))
    return Cluster(name, servers, defaults=defaults or TopicDefaults(), **fields)


def topic(name: str, *clusters: str, configs: Mapping[str, str] | None = None, **fields: Any) -> Topic:
    return Topic(name, clusters or ("east",), configs=configs or {}, **fields)


def flow(source: str, target: str, *topics: str, name: str | None = None, **fields: Any) -> Flow:
    return Flow(name or f"{source}-to-{target}", source, target, topics or (".*",), **fields)


def topology(
    *parts: Cluster | Topic | Flow | Mirror, environment: str = "test", access: tuple[AccessRule, ...] = ()
) -> Topology:
    """Clusters named by topics and flows are made where missing, and one mirror for each target without one."""
    flows = [part for part in parts if isinstance(part, Flow)]
    topics = [part for part in parts if isinstance(part, Topic)]
    clusters = [part for part in parts if isinstance(part, Cluster)]
    mirrors = [part for part in parts if isinstance(part, Mirror)]
    named = {c for t in topics for c in t.clusters} | {c for f in flows for c in (f.source, f.target)}
    clusters += [cluster(name) for name in sorted(named - {c.name for c in clusters})]
    covered = {name for mirror in mirrors for name in mirror.flows}
    for target in sorted({f.target for f in flows if f.name not in covered}):
        mine = tuple(f.name for f in flows if f.target == target and f.name not in covered)
        mirrors.append(Mirror(target, mine))
    parts_by_name = (by_name(clusters), by_name(topics), by_name(flows), by_name(mirrors))
    return Topology(environment, *parts_by_name, (), access, bool(access))


@dataclass
class World:
    """Fake clusters and a fake runner, with the journey of a run: look, plan, apply."""

    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    runner: FakeRunner = field(default_factory=FakeRunner)

    def look(self, wished: Topology, *asked: TopicRef) -> LiveState:
        quotas = quota_clusters(wished)
        wanted = ReadScope(access_clusters(wished), quotas, quotas, user_clusters(wished))
        listed = observe({name: self.clusters[name] for name in wished.clusters}, wanted=wanted)
        named = with_named(listed, unlisted(wished, listed, asked), self.clusters)
        live = LiveState(named.clusters, {name: self.runner.observe(name) for name in wished.mirrors})
        return with_replicas(wished, live, self.clusters)

    def plan(self, wished: Topology, **more: Any) -> Plan:
        return plan(wished, self.look(wished), **more)

    def apply(self, wished: Topology, planned: Plan | None = None) -> tuple[Outcome, ...]:
        """Waits for nobody, and asks the logins of ``wished`` after each wave of access changes."""
        caution = ApplyLimits(prober=FakeProber(wished, self.clusters), patience=0.0)
        return apply(planned or self.plan(wished), self.clusters, self.runner, handovers(wished), Silent(), caution)

    def state(self) -> dict[str, Any]:
        """Everything that a run may change, without ids."""
        return {
            name: {t: (len(found.assignment), dict(found.overrides)) for t, found in sorted(fake.topics.items())}
            for name, fake in sorted(self.clusters.items())
        } | {"jobs": {name: (job.state, job.fingerprint) for name, job in sorted(self.runner.jobs.items())}}


def world(*names: str, brokers: int = 1) -> World:
    return World({name: FakeCluster(name, brokers) for name in names or ("east", "west")})


def ids(planned: Plan) -> list[str]:
    return [one.id for one in planned.changes]


def codes(planned: Plan) -> set[str]:
    return {one.reason.code for one in planned.refused}


def rules(found: Iterable[Any]) -> set[str]:
    return {one.rule for one in found}


def changed(planned: Plan, kind: type[Any]) -> dict[str, Any]:
    return {str(one.change.ref): one.change for one in planned.changes if isinstance(one.change, kind)}


def altered(planned: Plan, ref: str) -> dict[str, ConfigChange]:
    found = changed(planned, AlterConfigs)
    return {one.key: one for one in found[ref].configs} if ref in found else {}
