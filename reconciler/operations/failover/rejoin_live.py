"""``RejoinWorld`` on clusters: a mirror job on this machine fills the old source by the reversed flow."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.command_line import require_spark
from reconciler.backends.state.environment_records import read_rejoin
from reconciler.errors import ReconcilerError, RunnerError, known
from reconciler.model.changes import ConfigChange, CreateTopic, DeleteTopic, Reason, Role, TopicChange, Why
from reconciler.model.environment import flow_settings
from reconciler.model.environment import topology as declared
from reconciler.model.options import KeepDiverged
from reconciler.model.plan import Planned, Result
from reconciler.model.principals import ANYONE, AclBinding
from reconciler.model.reports import failover
from reconciler.model.reports.cutover import FenceChosen
from reconciler.model.reports.doctor import Ask
from reconciler.model.state.rejoin_journal import RejoinJournal, RejoinTopic, dumps, rejoin_key
from reconciler.operations.apply.execution import Execution
from reconciler.operations.apply.records import require_met_targets
from reconciler.operations.cutover.decide import fence_of
from reconciler.operations.failover.decide import DivergedChoice
from reconciler.operations.failover.diverged import (
    bounds_of_all,
    flow_that_uses,
    keep_in_file,
    keep_in_topic,
    parted,
    partitions_of,
    sides_of,
    topic_for,
)
from reconciler.operations.failover.fence import Fence
from reconciler.operations.failover.rejoin import RejoinPlan, place_words
from reconciler.operations.failover.rights import rights_missing
from reconciler.operations.mirror import foreground, seek
from reconciler.operations.session.session import Session, now_ms
from reconciler.replication.handover import Start
from reconciler.replication.names import position_group
from reconciler.replication.offsets.same import above_limit
from reconciler.resources.acls.derive_from_flows import mirror_principals, write_rules
from reconciler.resources.topics.desired import internal_factor
from reconciler.resources.topics.internal import internal_topics
from reconciler.text import BRIEF, counted, first_of

NAME_LIMIT = 249
CALM_S = 1.0
"""Seconds without lag, after which the old source counts as filled."""
ROOM = 1 << 20
"""Bytes that the four headers may add to a saved record."""
_FENCE_UNKNOWN = "Whether a fence is in force is unknown."
_UNREAD = "What cannot be read may have records that only one side has. Nothing more was done."


RightWanted = tuple[declared.Cluster, declared.Principal, Ask, str]


class LiveRejoin:
    """The rejoin of one flow. ``execute`` is None until the run holds the lock; until then only reads are allowed."""

    def __init__(self, session: Session, flow: str, choice: DivergedChoice, fence: Fence) -> None:
        self.session, self.choice, self.fence = session, choice, fence
        self.sides = sides_of(session.topology, flow)
        self.flow: declared.Flow = self.sides.flow
        self.execute: Execution | None = None

    # looks

    def parted(self) -> tuple[failover.PartedPartition, ...]:
        return parted(self.sides, partitions_of(self.sides))

    def topics(self, names: Collection[str]) -> Mapping[str, RejoinTopic]:
        """Configs, partitions and ends to recreate each topic as it was. Raises ReconcilerError, before anything is
        deleted, if they cannot be read; a missing topic is left out."""
        if not names:
            return {}
        live = self.session.clusters[self.flow.source].read(sorted(names))
        for hidden in live.hidden.values():
            known(hidden, "Whether it exists is not known. Nothing was deleted.")
        topics: dict[str, RejoinTopic] = {}
        for name, topic in live.topics.items():
            known(topic.configs, "Without its configs it could not be created again as it was. Nothing was deleted.")
            keys = [(name, number) for number in range(len(topic.partitions))]
            bounds = bounds_of_all(self.sides.source, keys, _UNREAD)
            ends = tuple(bounds[key].end for key in keys)
            topics[name] = RejoinTopic(name, topic.topic_id, topic.replication_factor, ends, dict(topic.overrides))
        return topics

    def undecided(self, names: Collection[str]) -> Sequence[str]:
        counts = self.sides.source.partitions() if names else {}
        keys = [(name, number) for name in sorted(names) for number in range(counts.get(name, 0))]
        bounds = bounds_of_all(self.sides.source, keys, _UNREAD)
        return [f"{key[0]}-{key[1]}" for key, at in bounds.items() if at.stable < at.end]

    def longer(self) -> frozenset[str]:
        pairs = partitions_of(self.sides)
        here = bounds_of_all(self.sides.source, [source for source, _ in pairs], _UNREAD)
        there = bounds_of_all(self.sides.target, [target for _, target in pairs], _UNREAD)
        return frozenset(source[0] for source, target in pairs if there[target].stable > here[source].end)

    def journal(self) -> RejoinJournal | None:
        home = self.session.find_home() if self.execute is None else self.execute.lock.cluster
        return read_rejoin(home, self.session.topology.environment, self.flow.name, declared.Principal.APPLY)

    def fenced(self, plan: RejoinPlan) -> tuple[str, ...]:
        """Topics to fill on which a fence for everyone binds the mirror, too."""
        pending = {topic.name for topic in plan.pending.topics} if plan.pending is not None else set[str]()
        names = {each.source[0] for each in plan.parted if each.target_records} | pending
        topics = sorted(rule.name for rule in self._wide(names))
        return tuple(topics) if topics and any(True for _ in rights_missing([self._writes(topics)])) else ()

    def _wide(self, topics: Collection[str]) -> frozenset[AclBinding]:
        made, standing = known(self.fence.made(), _FENCE_UNKNOWN), self._standing()
        return frozenset(rule for rule in made & standing if rule.principal == ANYONE and rule.name in topics)

    def _standing(self) -> frozenset[AclBinding]:
        rules = known(self.fence.rules(), _FENCE_UNKNOWN)
        return rules if isinstance(rules, frozenset) else frozenset()

    def _named(self, topics: Collection[str]) -> FenceChosen:
        """Deny rules for producers by name, which spare the mirror that fills these topics."""
        name, standing = self.flow.source, self._standing()
        mirrors = mirror_principals(self.session.topology, name)
        chosen = fence_of(topics, standing, name, dict.fromkeys(topics, f"{self.flow.name}-back"), mirrors)
        for topic in topics if not chosen.obstacle else ():
            if mirrors.isdisjoint(rule.principal for rule in write_rules(standing, topic)):
                who = " or ".join(sorted(mirrors))
                return FenceChosen(obstacle=f"no rule lets {who}, as which it is filled, write {topic} on {name}")
        return chosen

    def narrow(self, topics: Collection[str]) -> int:
        wide = self._wide(topics)
        chosen = self._named([rule.name for rule in wide])
        if chosen.obstacle:
            raise ReconcilerError(f"the fence cannot name its producers: {chosen.obstacle}", "Nothing was changed.", "")
        # Rules by name are made before the rule for everyone is deleted, so that no producer finds a gap.
        self.fence.put(chosen.rules - self._standing(), f"failback of {self.flow.name}")
        self.fence.strike(wide)
        return len(wide)

    def obstacles(self, plan: RejoinPlan, *, paused: bool) -> Iterator[failover.FailoverCheck]:
        """Obstacles of later steps. Raises ReconcilerError if a cluster's id differs from the declared one."""
        topology, source, target = self.session.topology, self.flow.source, self.flow.target
        # All obstacles are checked before the first step: once topics of the old source are deleted, a later obstacle
        # would leave a failback half done, with consumers unable to move either way.
        if not paused:
            todo = f"reconciler failover ENV {self.flow.name}; or reconciler mirror pause ENV {self.flow.name}"
            yield _stop(f"{self.flow.name} is not paused: it would copy the old source while that is replaced", todo)
        names = failover.diverged_topics(plan.parted)
        if plan.fenced and (why := self._named(plan.fenced).obstacle):
            server, topic = topology.clusters[source].bootstrap_servers[0], plan.fenced[0]
            text = f"a fence denies everyone to write {first_of(plan.fenced, BRIEF)} on {source}, and so its mirror"
            todo = "Keep producers off by other means, and take it back, topic by topic: kafka-acls.sh "
            todo += f"--bootstrap-server {server} --remove --force --deny-principal 'User:*' --operation Write "
            todo += f"--topic {topic}"
            yield _stop(f"{text}; it cannot name the producers instead: {why}", todo)
        renamed = sorted({each.source[0] for each in plan.parted if each.source[0] != each.target[0]})
        if renamed and plan.needed:
            text = (
                f"{self.flow.name} gives copies other names ({first_of(renamed, BRIEF)}), which no flow can turn round"
            )
            keep = f"Keep what only {source} has: reconciler diverged export ENV {self.flow.name}. Then move consumers "
            yield _stop(text, f"{keep}without it: reconciler failback ENV {self.flow.name} --accept-loss")
        # A recreated topic begins at the target's log start, up to which the mirror writes filler batches, and its
        # records are saved under a derived name: both can break limits that no broker reports before the deletion.
        here, there = self.sides.source.partitions(), self.sides.target.partitions()
        for name in sorted(names):
            if here.get(name) != there.get(name):
                text = f"{name} has {here.get(name)} partitions on {source} and {there.get(name)} on {target}"
                yield _stop(f"{text}: what the others hold cannot be compared", "Make them equal: reconciler apply ENV")
            keys = [(name, number) for number in range(there.get(name, 0))]
            begins = [at.begin for at in bounds_of_all(self.sides.target, keys, _UNREAD).values()]
            if above_limit(most := max(begins), self.flow.filler_limit):
                text = f"{name} begins at {most:,} on {target}, and a new copy is begun with so many empty offsets"
                yield _stop(f"{text}: more than filler_limit of {self.flow.name}", f"Raise it to {most} or more")
            if does := flow_that_uses(topology, source, name, besides=self.flow.name):
                yield _stop(f"flow {does} {name} on {source}, too, which is deleted there", "Take it out of that flow")
            if self.choice.keep is not KeepDiverged.TO_TOPIC:
                continue
            kept = topic_for(name, self.flow.name)
            if len(kept) > NAME_LIMIT or (does := flow_that_uses(topology, target, kept, besides=self.flow.name)):
                why = f"flow {does} it" if does else f"a name has at most {NAME_LIMIT} characters"
                yield _stop(f"{kept} on {target} cannot take the records: {why}", "Keep them with --diverged to-file")
        try:
            require_spark()
        except RunnerError as error:
            yield _stop(f"{error.what}: the job that fills {source} runs on this machine", error.todo)
        with closing(self._filler(sorted(names) or ["-"])) as filler:
            require_met_targets(filler, filler.topology.mirrors)
        yield from rights_missing(self._rights_wanted(sorted(names), plan.fenced))

    def _writes(self, topics: Sequence[str]) -> RightWanted:
        group = position_group(f"{self.flow.name}-back")
        asked = Ask(tuple(topics), groups=(group,), transactional_ids=(f"{group}.0",))
        return self.session.topology.clusters[self.flow.source], declared.Principal.MIRROR, asked, "WRITE"

    def _rights_wanted(self, names: Sequence[str], fenced: Collection[str]) -> Iterator[RightWanted]:
        """Rights for all steps, checked before the first one: a missing right must not leave a rejoin half done."""
        clusters = self.session.topology.clusters
        source, target = clusters[self.flow.source], clusters[self.flow.target]
        if not names:
            return
        yield source, declared.Principal.APPLY, Ask(tuple(names)), "DELETE"
        yield self._writes([name for name in names if name not in fenced])
        if self.choice.keep is KeepDiverged.TO_TOPIC:
            kept = tuple(topic_for(name, self.flow.name) for name in names)
            yield target, declared.Principal.APPLY, Ask(creates=kept), "CREATE"

    # acts

    def record(self, place: str, topics: Sequence[RejoinTopic], *, over: bool) -> None:
        """Writes the journal to the status cluster under the lock. Raises ReconcilerError if that fails: without the
        entry, the next run would not know of the step that follows."""
        assert self.execute is not None, "the lock is held"
        lock, environment = self.execute.lock, self.session.topology.environment
        entry = RejoinJournal(environment, self.flow.name, lock.holder.who, now_ms(), place, tuple(topics), over=over)
        self.execute.keep(rejoin_key(environment, self.flow.name), dumps(entry), "the journal of the failback")

    def keep(self, partitions: Sequence[failover.PartedPartition]) -> int:
        """Saves records in a file, or in one topic for each on the target. Returns the number of records read back."""
        if self.choice.keep is KeepDiverged.TO_FILE:
            return keep_in_file(self.sides, partitions, Path(self.choice.file))
        target, count = self.session.topology.clusters[self.flow.target], 0
        for name in sorted({each.source[0] for each in partitions}):
            kept, mine = topic_for(name, self.flow.name), [each for each in partitions if each.source[0] == name]
            there = self.session.clusters[target.name].read([kept])
            for hidden in there.hidden.values():
                known(hidden, "Nothing was deleted.")
            if kept not in there.topics:
                self._create_kept(name, kept)
            count += keep_in_topic(self.sides, mine, target, kept)
        return count

    def _create_kept(self, name: str, kept: str) -> None:
        """Creates the topic for saved records: without retention limits, since it holds the only copy, and with a
        message size that leaves room for the added headers."""
        old = self.session.clusters[self.flow.source].read([name]).topics[name]
        copy = self.session.clusters[self.flow.target].read([name]).topics[name]
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "message.timestamp.type": "CreateTime",
            "max.message.bytes": str(int(old.config("max.message.bytes") or ROOM) + ROOM),
        }
        ref = declared.TopicRef(self.flow.target, kept)
        self._perform(_creation(ref, len(old.partitions), copy.replication_factor, configs))

    def delete(self, topic: RejoinTopic) -> None:
        ref, reason = (
            declared.TopicRef(self.flow.source, topic.name),
            Reason(Why.TOMBSTONE, "both sides have records of their own"),
        )
        self._perform(DeleteTopic(ref, topic.topic_id, topic.partitions, "", reason))

    def create(self, topic: RejoinTopic) -> None:
        ref = declared.TopicRef(self.flow.source, topic.name)
        self._perform(_creation(ref, topic.partitions, topic.replication_factor, topic.configs))

    def fill(self, topics: Collection[str]) -> str:
        assert self.execute is not None, "the lock is held"
        with closing(self._filler(topics)) as filler:
            (mirror,) = filler.topology.mirrors
            # The job's internal topics: a cluster that was never a target has none of them.
            for kept in internal_topics(filler.topology):
                live = filler.clusters[kept.ref.cluster].read([kept.ref.name])
                if kept.ref.name not in live.topics:
                    self._perform(_creation(kept.ref, kept.partitions, internal_factor(live), kept.configs))
            run = Execution(self.execute.command, filler, self.execute.lock, self.execute.audit)
            foreground.catch_up(run, [mirror], None, CALM_S)
        return (
            f"{counted(len(topics), 'topic')} on {self.flow.source} filled from {self.flow.target} by mirror {mirror}"
        )

    def seek(self, topic: str) -> int:
        self._require_lock()
        return seek.begin_anew(self.session, self.flow.name, topic)

    def _filler(self, topics: Collection[str]) -> Session:
        return Session(
            self.session.folder, turned_round(self.session.topology, self.flow.name, topics), declared.Principal.APPLY
        )

    def _require_lock(self) -> None:
        """A step over many topics may outlast the lock's lease, so another run may hold the lock by now."""
        assert self.execute is not None, "the lock is held"
        self.execute.require_lock()

    def _perform(self, change: TopicChange) -> None:
        self._require_lock()
        item = Planned(change.id, change, str(change.stage), "", "", "")
        (outcome,) = self.session.clusters[change.ref.cluster].perform([item], lambda _: None)
        if outcome.result is not Result.DONE:
            problem, _, rest = outcome.error.partition("\n")
            raise ReconcilerError(problem, rest, "Fix it and run this again: it continues.")


def look_apart(
    session: Session, facts: failover.FailoverFacts, choice: DivergedChoice | None, fence: Fence, *, paused: bool
) -> tuple[tuple[LiveRejoin, RejoinPlan] | None, list[failover.FailoverCheck]]:
    """For a failback of a flow that keeps offsets: the rejoin that makes both sides the same, None if it is not needed,
    and its obstacles. Raises ReconcilerError."""
    move, flow = facts.move, session.topology.flows[facts.move.flow]
    if move.way is not failover.Way.FAILBACK or not flow.keeps_offsets:
        return None, []
    if not facts.reachable:
        text = f"{move.origin} does not answer, so what both sides have cannot be compared"
        return None, [] if choice is None else [_stop(text, "Wait until it answers, and run this again")]
    world = LiveRejoin(session, flow.name, choice or DivergedChoice(KeepDiverged.DISCARD), fence)
    journal = world.journal()
    # A run killed between the deletion and the refill of a topic leaves a journal. A later run with --diverged
    # continues it; a run without --diverged must not ignore it, or consumers would move to incomplete topics.
    pending = None if journal is None or journal.over else journal
    if choice is not None:
        place = place_words(choice.keep, flow.name, flow.target, choice.file)
        plan = RejoinPlan(flow.name, flow.source, flow.target, place, facts.parted, pending, choice.keep)
        if not plan.needed:
            return None, []
        if facts.fence.made:
            plan = replace(plan, fenced=world.fenced(plan))
        return (world, plan), [*world.obstacles(plan, paused=paused)]
    if pending is None:
        return None, []
    names = first_of([topic.name for topic in pending.topics])
    text = f"a failback with --diverged was begun by {pending.who} and not brought to its end: {names} may be missing "
    todo = f"End it: reconciler failback ENV {flow.name} --diverged to-topic"
    return None, [_stop(f"{text}on {flow.source}, or not filled yet", todo)]


def turned_round(topology: declared.Topology, name: str, topics: Collection[str]) -> declared.Topology:
    """An environment with only the reversed flow of ``topics``, in a mirror of its own."""
    flow = topology.flows[name]
    mirror = next(mirror for mirror in topology.mirrors.values() if name in mirror.flows)
    back, own = f"{name}-back", f"{mirror.name}-back"
    while back in topology.flows:
        back += "-back"
    while own in topology.mirrors:
        own += "-back"
    # Positions of groups, and MirrorMaker 2's topics, belong to the flow that is turned round: two flows would
    # overwrite each other's.
    turned = replace(
        flow,
        name=back,
        source=flow.target,
        target=flow.source,
        topics=tuple(map(re.escape, sorted(topics))),
        exclude_topics=(),
        start=Start(),
        groups=flow_settings.Groups(),
        mirrormaker_topics=flow_settings.MirrorMakerTopics(),
        on_condition={},
        moved_from="",
    )
    # On this machine, because the failback itself waits for this job.
    alone = replace(mirror, name=own, flows=(back,), metrics_port=0, hosted=False)
    return replace(topology, flows={back: turned}, mirrors={own: alone})


def _creation(ref: declared.TopicRef, partitions: int, factor: int | None, configs: Mapping[str, str]) -> CreateTopic:
    wanted = tuple(ConfigChange(key, None, "", value, "failback") for key, value in sorted(configs.items()))
    reason = Reason(Why.MIRROR_NEEDS, "a failback fills it, or keeps records there")
    return CreateTopic(ref, partitions, factor, wanted, Role.REMOTE, reason)


def _stop(text: str, todo: str) -> failover.FailoverCheck:
    return failover.FailoverCheck("rejoin", failover.Level.STOPS, text, todo)
