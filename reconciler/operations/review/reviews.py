"""Makes a plan, and passes it through reviews: each takes a plan and returns it with its findings."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reconciler.backends.clusters.impact import ask_stakes, read_nature
from reconciler.backends.git import Revision, revision
from reconciler.backends.state.home import lock_topic_refused
from reconciler.engine.guards import from_here, guarded, remote_topics, second_copy
from reconciler.engine.plan import build, file, impact, wishes
from reconciler.engine.plan.amounts import amounts, beginning_to_travel, in_sight
from reconciler.environment.load import no_collection
from reconciler.errors import ClusterError
from reconciler.model.changes import AlterQuota, RestartMirror, StartMirror, Subject, TopicChange
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Edition, Plan, Stakes
from reconciler.model.state.last_apply import Consent
from reconciler.operations.review.copy_facts import heartbeats_found, remote_facts, with_copy_facts
from reconciler.operations.session.session import NOTHING_AGREED, Session
from reconciler.resources.acls.authorizer.after_plan import lost_to_readers, with_readers
from reconciler.resources.mirrors.handover import mirror_handover
from reconciler.resources.replicas.diff import with_replicas
from reconciler.text import grouped

LOOKS_ONLY = "this principal may look and not change, as is recommended for plans; apply is checked"


@dataclass(frozen=True, slots=True)
class Ground:
    """Input of the reviews of one plan."""

    session: Session
    live: LiveState
    consent: Consent
    unread: bool
    """No person reads the plan, so questions for readers are skipped."""
    stakes: Callable[[], Mapping[TopicRef, Stakes]]
    """Waits for answers about records and readers that a dangerous change affects."""


def _brokers_agree(made: Plan, on: Ground) -> Plan:
    """Adds the brokers' own validation (``validateOnly``) of topics and quotas, and of the lock's topic if an apply
    would create it. If brokers cannot be asked, the plan says so."""
    session = on.session
    # Topics and quotas of a cluster are asked apart, since brokers may deny the one and validate the other.
    asked: dict[tuple[str, bool], list[TopicChange | AlterQuota]] = {}
    for planned in made.changes:
        if isinstance(planned.change, TopicChange | AlterQuota):
            key = planned.change.cluster, isinstance(planned.change, AlterQuota)
            asked.setdefault(key, []).append(planned.change)
    refusals: dict[Subject, str] = {}
    unasked: dict[str, str] = {}
    with ThreadPoolExecutor(len(asked) + 1) as pool:
        home = session.topology.clusters.get(session.topology.lock_home)
        of_lock = pool.submit(lock_topic_refused, session.clusters, on.live, home, made)
        answers = {key: pool.submit(session.clusters[key[0]].validate, some) for key, some in asked.items()}
        for (name, _), answer in answers.items():
            try:
                refusals |= answer.result()
            except ClusterError as error:
                why = LOOKS_ONLY if error.kind == "denied" else error.what
                unasked[name] = "; ".join(dict.fromkeys(filter(None, (unasked.get(name), why))))
        refusals |= of_lock.result()

    # Brokers that refuse a creation may accept it without its wishes. They are asked again before that is promised.
    accepted: dict[str, wishes.Modest] = {}
    for name, some in grouped(
        (change.cluster, (id_, change)) for id_, change in wishes.modest(made, refusals).items()
    ).items():
        try:
            accepted |= wishes.accepted_changes(made, dict(some), session.clusters[name].validate)
        except ClusterError as error:
            unasked[name] = error.what
    for change in accepted.values():
        refusals.pop(change.subject, None)
    return build.with_broker_refusals(wishes.without_wishes(made, accepted), refusals, unasked)


def _with_moved_pauses(made: Plan, on: Ground) -> Plan:
    begun = (each.change for each in made.changes if isinstance(each.change, StartMirror | RestartMirror))
    notes = [note for change in begun for note in on.session.runner.pauses_moved(change.mirror)]
    return replace(made, notes=(*made.notes, *notes))


REVIEWS: tuple[Callable[[Plan, Ground], Plan], ...] = (
    # First, so that guards do not count a step that a broker refuses, since it leaves the plan.
    _brokers_agree,
    # Objects of another repository, before the guards, which let a consent release them.
    lambda made, on: from_here(made, on.session.last.applied, on.session.last.origin, newer=on.session.last.newer),
    # Guards count remaining deletions, and ask for consent.
    lambda made, on: guarded(made, on.session.topology, on.live, on.session.last.applied, on.consent),
    # Topics of heartbeats with other records. Adds only refusals, on which no later review depends.
    lambda made, on: remote_topics.with_heartbeats(
        made,
        on.session.topology,
        on.live,
        heartbeats_found(on.session.topology, on.session.principal, on.live),
        on.session.last.applied,
    ),
    # Same offsets: asks clusters and refuses copies, so it precedes the report of stakes.
    lambda made, on: with_copy_facts(made, on.session.topology, on.live, on.session.principal),
    # Records affected by each step: late, because these answers are the slowest.
    lambda made, on: made if on.unread else impact.weighed(made, on.session.topology, on.stakes()),
    # Readers: raises the risk of steps that the earlier reviews have left in the plan.
    lambda made, on: made if on.unread else with_readers(made, on.live, on.stakes()),
    lambda made, on: made if on.unread else _with_moved_pauses(made, on),
)


@no_collection()
def make_plan(
    session: Session,
    seen: Revision | None = None,
    consent: Consent = NOTHING_AGREED,
    unread: bool = False,
    base: Topology | None = None,
) -> Plan:
    """The plan of a session's topology against its live clusters; ``session.last`` keeps what it depends on.

    ``seen``: the planned commit, if it is not the one checked out. ``base``: the topology before the edit. Raises
    ClusterError if the apply principal cannot read the record of the last apply.
    """
    here = revision(session.folder)
    seen = seen or here

    # All reads start at once, because the slowest cluster decides how long a plan takes: record of the last apply,
    # features, contents. Git runs while they answer.
    declared = session.topology
    with ThreadPoolExecutor(len(declared.clusters) + 2) as aside:
        applied = aside.submit(session.read_last_apply, consent)
        joined = {name for flow in declared.flows.values() for name in (flow.source, flow.target)}
        asked = {name: declared.clusters[name] for name in sorted(joined)} if unread else declared.clusters
        natures = {name: aside.submit(read_nature, cluster, session.principal) for name, cluster in asked.items()}
        observed = aside.submit(session.observe)
        edition = Edition(seen.commit, seen.dirty, file.topology_digest(declared))
        live = observed.result()
        session.keep_last_apply(applied.result(), here)
        cluster_features = {name: future.result() for name, future in natures.items()}
    topology = session.topology  # with the lock's home, which a read has found meanwhile
    live = with_replicas(topology, live, session.clusters)

    # The hand-over of a running job explains why it must restart. Only the machine of the job has it; elsewhere,
    # ``base`` from git stands in if its fingerprint is the one that the job reports.
    handovers: dict[str, Mapping[str, object]] = {}
    for name, mirror in topology.mirrors.items():
        handovers[name] = session.runner.handover_before(mirror)
        before = mirror_handover(base, base.mirrors[name]) if base is not None and name in base.mirrors else None
        running = live.mirrors.get(name)
        if before is not None and isinstance(running, LiveMirror) and running.fingerprint == before["fingerprint"]:
            handovers[name] = before
    made = build.plan(topology, live, handovers, edition, consent.prune, session.last.left)
    made = impact.described(made, topology, cluster_features)

    # A flow that would write topics of others is refused first, and its steps leave the plan: they need no stakes.
    copies = second_copy.copies_of(topology, live)
    facts = remote_facts(topology, session.principal, copies)
    judged = second_copy.judge(topology, copies, facts)
    made = remote_topics.with_remote_topics(made, topology, live, judged, copies, facts, session.last.applied)

    # Counting records is slow, so it runs while the reviews ask brokers to validate the steps.
    again = () if unread else in_sight(second_copy.copied_again(judged), live)
    late = second_copy.begin_at_the_end(judged)
    words = "begins at the end of its topics (start: latest): what they hold now is not copied"
    made = replace(made, notes=(*made.notes, *(f"flow {name} {words}" for name in sorted(late))))
    begins = [hop for hop in beginning_to_travel(made, topology, live) if hop.flow not in late]
    travelling = () if unread else in_sight({*begins, *second_copy.copied_first(judged), *again}, live)
    # A topic that several parts of the plan ask about is asked about once, with the retention that it is to have.
    sources = [hop.source for hop in travelling[: impact.MOST]]
    beside = impact.about((*sources, *lost_to_readers(made, live)), live)
    wanted = {} if unread else beside | impact.questions(made, live)
    with ThreadPoolExecutor(max(1, len(topology.clusters))) as pool:
        stakes = ask_stakes(pool, topology.clusters, session.principal, wanted)
        ground = Ground(session, live, consent, unread, stakes)
        for review in REVIEWS:
            made = review(made, ground)
        figures = () if unread else amounts(made, travelling, stakes(), live, again)
    session.last = replace(session.last, amounts=figures)
    return made
