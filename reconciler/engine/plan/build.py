"""Builds the plan: the changes of all clusters in one order, with risk, impact and basis."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.engine.diff import Previous, diff
from reconciler.engine.drift.causes import deviations_behind
from reconciler.engine.observe.verdict import not_copying
from reconciler.engine.plan.file import observe_again, shown, subjects, topology_digest
from reconciler.engine.plan.order import after_replicas, place_of, planned
from reconciler.engine.rollout.waves import course_of, in_waves
from reconciler.errors import Moved, Unknown
from reconciler.model.changes import About, CreateTopic, Reason, ReassignReplicas, Refused, Subject, TopicChange, Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import NO_EDITION, Basis, Edition, Findings, Plan, SeenCluster
from reconciler.replication.names import OWN_TOPICS, is_own_topic
from reconciler.resources.acls.authorizer.after_plan import judged, outlook
from reconciler.resources.flows.routes import Routing, kept_less_by
from reconciler.resources.replicas.placement import loads_of
from reconciler.resources.topics.limits import kept_less_words
from reconciler.resources.topics.outside import NOTHING_LEFT, Left, once
from reconciler.text import grouped


def plan(
    topology: Topology,
    live: LiveState,
    previous: Previous | None = None,
    edition: Edition = NO_EDITION,
    prune: bool = False,
    left: Left = NOTHING_LEFT,
) -> Plan:
    """``previous``: mirror -> the hand-over of its running job, by which the plan names fields and topics. ``prune``:
    delete unmanaged topics that a prune list owns. ``left``: the state that the last apply left."""
    findings, routing = diff(topology, live, previous, prune, left)
    # min.insync.replicas above a partition's replicas would stop its acks=all producers (NOT_ENOUGH_REPLICAS), so such
    # configs wait for the reassignment.
    later = after_replicas(findings.changes)
    ordered = sorted(findings.changes, key=lambda change: place_of(change, later))
    access = outlook(topology, live, routing.routes, ordered)

    # Exactly what the changes rest on, so that apply refuses a stale plan, and only a stale one.
    rests_on = sorted({*subjects(ordered, routing.routes), *access.rests_on}, key=str)
    basis = Basis(
        environment=topology.environment,
        topology_digest=edition.digest or topology_digest(topology),
        revision=edition.revision,
        dirty=edition.dirty,
        clusters=_seen_clusters(topology, live),
        observed=observe_again(rests_on, live),
    )

    # A subject may be settled in one respect and change in another: then it counts as changed.
    changed = {change.subject for change in findings.changes} | {refused.subject.whole for refused in findings.refused}
    same = {subject for subject in findings.settled if subject.about is not About.CLUSTER}
    return Plan(
        basis=basis,
        changes=in_waves(judged(planned(ordered, later, routing, topology, live), access), topology, routing.routes),
        refused=(*findings.refused, *access.refused),
        unknown=findings.unknown,
        unmanaged=findings.unmanaged,
        unmanaged_acls=findings.unmanaged_acls,
        ignored=findings.ignored,
        notes=(*findings.notes, *_notes(topology, live, findings, routing), *access.notes),
        unchanged=len(same.union(findings.as_desired) - changed),
        loads=loads_of(ordered, live),
        shifts=access.shifts,
        rollout=course_of(topology),
        outside=once(findings.outside),
        adopted_acls=findings.adopted_acls,
    )


def basis_now(planned: Plan, topology: Topology, live: LiveState) -> Basis:
    """The present state of the basis of ``planned``: the same subjects, nothing else."""
    return replace(
        planned.basis,
        environment=topology.environment,
        topology_digest=topology_digest(topology),
        clusters=_seen_clusters(topology, live),
        observed=observe_again((observation.subject for observation in planned.basis.observed), live),
    )


def still_true(planned: Plan, now: Basis) -> tuple[Moved, ...]:
    """Differences since the plan was made; empty if it may be applied. ``now``: of ``basis_now``."""
    before = planned.basis
    moved: list[Moved] = []
    if before.environment != now.environment:  # then nothing else can be compared
        return (Moved("environment", before.environment, now.environment),)
    if before.topology_digest != now.topology_digest:
        moved.append(
            Moved("topology files", f"digest {before.topology_digest[:16]}", f"digest {now.topology_digest[:16]}")
        )
    current = {observation.subject: observation for observation in now.observed}
    for observation in before.observed:
        found = current.get(observation.subject)
        if found is None:
            moved.append(Moved(str(observation.subject), shown(observation.text), "not looked at"))
        elif found.fingerprint != observation.fingerprint:
            moved.append(Moved(str(observation.subject), shown(observation.text), shown(found.text)))
    return tuple(moved)


_OUR_NAMES = (
    f"Let the cluster's policy allow {', '.join(OWN_TOPICS)}, in which this program and its mirrors keep their records,"
    " or choose other names by clusters.NAME.internal_topics.prefix: what it refuses, it refuses kafka-topics.sh, too."
    " Nothing was changed"
)


def with_broker_refusals(planned: Plan, refusals: Mapping[Subject, str], unasked: Mapping[str, str]) -> Plan:
    """Adds answers of brokers to validate-only requests (``ClusterReader.validate``): subject -> refusal. ``unasked``:
    cluster -> why its brokers could not be asked, which becomes a note and blocks nothing."""
    refused = tuple(
        Refused(
            subject,
            Reason(Why.BROKER_REFUSES, f"the brokers refuse the change of {subject}: {answer}"),
            _OUR_NAMES
            if is_own_topic(subject.name)
            else "Correct what it names; this is the brokers' own check, nothing was changed",
        )
        for subject, answer in sorted(refusals.items(), key=lambda refusal: str(refusal[0]))
    )
    alike = grouped((why, name) for name, why in sorted(unasked.items()))
    notes = tuple(f"not checked beforehand by the brokers of {', '.join(names)}: {why}" for why, names in alike.items())
    return replace(planned, refused=planned.refused + refused, notes=planned.notes + notes)


def _seen_clusters(topology: Topology, live: LiveState) -> tuple[SeenCluster, ...]:
    clusters: list[SeenCluster] = []
    for name in sorted(topology.clusters):
        cluster = live.clusters.get(name)
        if isinstance(cluster, LiveCluster):
            brokers, topics, rules = len(cluster.brokers), cluster.topic_count, _count(cluster.acls)
            seen_cluster = SeenCluster(name, cluster.cluster_id, brokers, topics, rules, cluster.sees_all)
            users = _count(cluster.users.credentials) if cluster.users else None
            clusters.append(replace(seen_cluster, quotas=_count(cluster.quotas), users=users))
        else:
            clusters.append(SeenCluster(name, None, 0, 0))
    return tuple(clusters)


def _count(part: object) -> int | None:
    """None: unreadable, or not asked for."""
    return len(part) if isinstance(part, frozenset | Mapping) else None


def _notes(topology: Topology, live: LiveState, findings: Findings, routing: Routing) -> Iterator[str]:
    # Changes that a running job takes over without a restart.
    """Notes for readers: jobs that take topics' changes over without a restart, jobs that do not copy, and copies that
    keep less than their sources."""
    changed = {change.ref for change in findings.changes if isinstance(change, TopicChange | ReassignReplicas)}
    kept = {subject.name for subject in findings.settled if subject.about is About.MIRROR}
    for name, mirror in topology.mirrors.items():
        remotes = [route.remote for route in routing.routes if route.flow in mirror.flows and route.remote in changed]
        if name in kept and remotes:
            count = f"{len(remotes)} of its topics change" if len(remotes) > 1 else "one of its topics changes"
            yield f"mirror {name} keeps running: {count}, its definition does not"
        # Without this, "No changes" would look as if all went well.
        if name in kept and isinstance(running := live.mirrors.get(name), LiveMirror):
            yield from not_copying(
                running,
                lambda cause: [each.subject for each in deviations_behind(cause, topology, findings.changes)],
            )

    # Copies that keep less than their sources. For a copy that the plan creates, this is a risk of the change.
    made = {change.ref for change in findings.changes if isinstance(change, CreateTopic)}
    less = kept_less_words(each for each in kept_less_by(routing) if each.remote not in made)
    yield from (f"{words}. {todo}" for words, todo in less)
    for name in sorted({ref.cluster for ref in made if ref in {route.remote for route in routing.routes}}):
        cluster = live.known(name)
        if cluster is not None and isinstance(cluster.defaults, Unknown):
            yield f"whether new copies on {name} keep what their sources do is not known: {cluster.defaults.error}"
