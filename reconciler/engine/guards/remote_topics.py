"""Guard on remote topics: no record is copied twice, and no flow of another environment is taken over.

If a flow's group belongs to another environment, two jobs would fence each other. The job checks this again before it
copies; ``second_copy`` judges each flow, here are the refusals and notes that follow.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.engine.guards.second_copy import Facts, Judged
from reconciler.errors import Unknown
from reconciler.model.changes import About, Refused, Subject, Why, of_topic
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.options import CONNECTOR
from reconciler.model.plan import FlowCopies, Key, Plan
from reconciler.model.state.last_apply import Applied
from reconciler.replication.handover import AGAIN, MOST_LANES
from reconciler.replication.mirrormaker_records import HEARTBEATS
from reconciler.replication.names import position_group, transactional_id
from reconciler.replication.offsets.position_metadata import Owner, PositionMark, is_of, stranger, ways_on, whose
from reconciler.resources.flows.renames import entry
from reconciler.resources.protected_names import MIRRORMAKER, owner_of
from reconciler.text import BRIEF, counted, first_of, in_shell, moment


def with_remote_topics(
    plan: Plan,
    topology: Topology,
    live: LiveState,
    judged_flows: Iterable[Judged],
    copies: Mapping[str, Sequence[FlowCopies]],
    facts: Facts,
    applied: Applied | Unknown | None,
) -> Plan:
    """``plan`` with refusals for records that would be copied twice, and for flows of another environment; failed reads
    are unknown, or noted if the flow is known to have run before."""
    refused, unknown, notes = list(plan.refused), list(plan.unknown), list(plan.notes)
    for judged in judged_flows:
        refusals = list(_refusals(topology, live, judged))
        refused += refusals
        notes += (*foreign_positions(judged), *copied_beside(judged), *left_out_before_marks(topology, judged, facts))
        # A refused flow begins nowhere.
        if not refusals and isinstance(applied, Applied) and judged.flow.name in applied.flows:
            notes += begins_late_again(judged)
    # Without its positions, a flow may continue only if it is known to have run before: its job checks them itself. A
    # new flow could copy records a second time.
    for target, target_facts in facts.items():
        for state, why in target_facts.unanswered.items():
            flow = next(f for f in topology.flows.values() if (f.target, f.state_name) == (target, state))
            subject = f"positions of flow {flow.name} on {target}"
            if _ran_before(live, applied, flow):
                notes.append(f"not checked whether {subject} are there and its own, its job looks for itself: {why}")
            elif any(flow_copies.state == state and flow_copies.partitions for flow_copies in copies[target]):
                todo = f"Give the principal Describe on group {position_group(state)}, then plan again"
                error = f"{why}; whether its remote topics would be copied into a second time is not known"
                unknown.append(Unknown(subject, error, todo))
        if target_facts.unknown:
            error = f"{target_facts.unknown}; whether it would be copied into a second time is not known"
            unknown.append(
                Unknown(f"remote topics on {target}", error, "Plan again when all of its partitions have a leader")
            )
    return replace(plan, refused=tuple(refused), unknown=tuple(unknown), notes=tuple(notes))


def with_heartbeats(
    plan: Plan,
    topology: Topology,
    live: LiveState,
    foreign: Mapping[str, str | Unknown],
    applied: Applied | Unknown | None,
) -> Plan:
    """``plan`` with refusals for topics ``heartbeats`` of applications. ``foreign``: cluster -> a record that is no
    heartbeat, or empty. An unreadable topic does not stop a flow that already writes there."""
    refused, unknown = list(plan.refused), list(plan.unknown)
    for cluster, record in foreign.items():
        beating = [flow for flow in topology.flows.values() if flow.mirrormaker_topics.heartbeats is not None]
        writers = [flow for flow in beating if cluster in (flow.source, flow.target)]
        # One record that is no heartbeat makes a topic ``heartbeats`` an application's.
        if isinstance(record, Unknown):
            if not all(_ran_before(live, applied, flow) for flow in writers):
                unknown.append(record)
        elif record:
            ref, names = TopicRef(cluster, HEARTBEATS), ", ".join(flow.name for flow in writers)
            text = (
                f"flow {names} would write heartbeats to {ref}, which an application uses: {record}. It would read"
                " records that are not its own"
            )
            todo = (
                "Switch heartbeats off: "
                + ", ".join(f"flows.{flow.name}.mirrormaker_topics.heartbeats: false" for flow in writers)
                + "; the topic is then mirrored as any other. Or move the application to a topic of another name"
            )
            refused.append(Refused.of(of_topic(ref), Why.HEARTBEATS_NOT_OURS, text, todo))
    return replace(plan, refused=tuple(refused), unknown=tuple(unknown))


def _ran_before(live: LiveState, applied: Applied | Unknown | None, flow: Flow) -> bool:
    if isinstance(applied, Applied) and flow.name in applied.flows:
        return True
    running = (mirror for mirror in live.mirrors.values() if isinstance(mirror, LiveMirror))
    return any(mirror.state is JobState.RUNNING and flow.name in mirror.flows for mirror in running)


def foreign_positions(judged: Judged) -> Iterator[str]:
    """Positions that another client committed. Flows with same offsets use both logs instead."""
    if judged.flow.keeps_offsets:
        return
    positions = judged.facts.positions[judged.copies.state]
    foreign = sorted(key for key in judged.copies.partitions.keys() & positions.keys() if positions[key].foreign)
    if foreign:
        names = first_of([f"{topic}-{number}" for topic, number in foreign])
        topic, number = judged.copies.partitions[foreign[0]]
        yield (
            f"another client than the mirror committed positions in group {position_group(judged.copies.state)} on "
            f"{judged.flow.target}: {names}. The job of flow {judged.flow.name} stops these partitions with "
            "position_foreign, which says where the copy ended; then, for the first: reconciler mirror seek ENV "
            f"{judged.flow.name} --topic {shlex.quote(topic)} --partition {number} --to OFFSET"
        )


def copied_beside(judged: Judged) -> Iterator[str]:
    """Notes for a flow with provenance, which cannot tell records of producers from copies by an unknown mirror."""
    if shared := judged.shared:
        flow = judged.flow
        yield (
            f"flow {flow.name} begins to copy {flow.source} into what {flow.target} shares with it and holds"
            f" already: {_listed(judged, shared)}. If these are copies from {flow.source}, and not of producers there,"
            f" they would be there twice: write flows.{flow.name}.start: latest"
        )


def left_out_before_marks(topology: Topology, judged: Judged, facts: Facts) -> Iterator[str]:
    """Notes for a flow with provenance that begins where another one has copied to already. The job notes how far the
    other had come when it began to mark its copies, and begins there."""
    flow, sources = judged.flow, {judged.copies.partitions[key] for key in judged.fresh}
    for other in topology.arriving(flow) if flow.source in facts else ():
        copied = sources & facts[flow.source].positions.get(other.state_name, {}).keys()
        if copied:
            yield (
                f"flow {flow.name} begins after what {flow.source} held of {first_of(sorted({t for t, _ in copied}))}"
                f" when flow {other.name} began to mark its copies there: of earlier records none is carried, also not"
                " those of producers, because nothing distinguishes them from copies"
            )


def begins_late_again(judged: Judged) -> Iterator[str]:
    """For a flow that was applied before. If it has copied nothing yet, nothing on the target shows that it ran."""
    flow = judged.flow
    if judged.first and judged.copies.partitions and flow.start.unnamed == "latest":
        yield (
            f"flow {flow.name} was applied before and has no position in group {position_group(judged.copies.state)} on"
            f" {flow.target}: if its job ran, they were deleted, or expired. start: latest then begins at the end once"
            f" more and leaves out what came since; flows.{flow.name}.start: {{timestamp: TIME}} copies it"
        )


def _refusals(topology: Topology, live: LiveState, judged: Judged) -> Iterator[Refused]:
    """Reasons why the flow must not begin or continue, the most basic first: its positions are another environment's,
    its topics are, its own positions are lost, or another program filled its copies."""
    flow, subject = judged.flow, Subject(About.FLOW, name=judged.flow.name)
    group, ids = position_group(judged.copies.state), {key: pair[0] for key, pair in judged.copies.ids.items()}

    # The flow's group, and so its transactional ids, may belong to another environment. Then its positions are not its
    # own, and no other check applies.
    source = live.known(flow.source)
    owner = Owner(topology.environment, source.cluster_id if source is not None else "")
    foreign = stranger(owner, topology.moved_from, judged.facts.positions[judged.copies.state], ids)
    if foreign is not None:
        text = f"flow {flow.name}: {whose(group, flow.target, owner, *foreign)}; each job would stop the other"
        todo = ways_on(flow.name, group, owner, foreign[1])
        yield Refused.of(subject, Why.FLOW_NOT_OURS, text, todo)
        return

    # Remote topics that a flow of another environment writes, even if they are still empty. A flow with provenance
    # shares its topics with other producers on purpose.
    shared: dict[str, tuple[str, PositionMark]] = {}
    for key in sorted(judged.fresh & judged.facts.others.keys()) if flow.provenance is None else ():
        other, at = judged.facts.others[key]
        if at.owner.environment and not is_of(at.owner, owner, topology.moved_from):
            shared.setdefault(key[0], (other, at))
    for topic, (other, at) in shared.items():
        ref = TopicRef(flow.target, topic)
        text = (
            f"flow {flow.name} would write to {ref}, into which environment {at.owner.environment} copies: group"
            f" {other} holds its positions (application {at.application or 'unknown'}); their records would be mixed"
        )
        todo = (
            f"Leave the topic to one of them: exclude_topics, or another alias of cluster {flow.source}, which"
            " gives the remote topics other names. If that flow is gone for good: kafka-consumer-groups.sh"
            f" --delete-offsets --group {in_shell(other)} --topic {in_shell(topic)}"
        )
        yield Refused.of(of_topic(ref), Why.REMOTE_TOPIC_NOT_OURS, text, todo)

    # The flow's own copies, by the offset map, with lost positions.
    if lost := judged.lost:
        text = (
            f"flow {flow.name} has no position for {_listed(judged, lost)}, although it copied them: its positions in"
            f" group {group} on {flow.target} were deleted, or expired; from the start all of it would be there twice"
        )
        # The offset map is a second behind a job that was killed; the job compares both logs.
        topic, number = judged.copies.partitions[lost[0]]
        todo = (
            f"Start its job: reconciler mirror start ENV {flow.name}. It copies none of them: its condition"
            " position_missing compares both logs and names the seek to where each ended, the first"
            f" ({shlex.quote(topic)}, partition {number}) at {judged.copied[lost[0]][1]} or a little further. To copy"
            f" a topic again: reconciler mirror seek ENV {flow.name} --topic {shlex.quote(topic)} --to earliest"
        )
        yield Refused.of(subject, Why.REMOTE_TOPIC_NOT_EMPTY, text, todo)

    # Copies by other programs, such as MirrorMaker 2.
    if strange := judged.strange:
        text = (
            f"flow {flow.name} would copy again what its remote topics on {flow.target} hold already: it has no"
            f" position for {_listed(judged, strange)}. Written by {_writers(live, judged)}"
        )
        yield Refused.of(subject, Why.REMOTE_TOPIC_NOT_EMPTY, text, _ways(judged))

    # The flow's start says where to begin beside copies of before, and not that two mirrors may copy from then on.
    for group, keys in judged.still_copied.items():
        text = (
            f"flow {flow.name} would copy beside MirrorMaker 2, which is running (group {group} on {flow.target} is"
            f" {judged.facts.workers[group]}) and has positions of {_listed(judged, keys)}: each new record would be"
            " there twice"
        )
        topic = shlex.quote(judged.copies.partitions[keys[0]][0])
        todo = (
            "Stop MirrorMaker 2, wait until its group has no members, and plan again. A topic that it no longer copies"
            f" begins by: reconciler mirror seek ENV {flow.name} --topic {topic} --to OFFSET"
        )
        yield Refused.of(subject, Why.REMOTE_TOPIC_NOT_EMPTY, text, todo)


def _listed(judged: Judged, keys: Sequence[Key]) -> str:
    """``23 topics with 46,000 records: east.orders 2,000, ...``."""
    there: dict[str, int] = defaultdict(int)
    for key in keys:
        begin, end = judged.facts.held[key]
        there[key[0]] += end - begin
    largest = sorted(there, key=lambda name: (-there[name], name))
    names = [f"{name} {there[name]:,}" + ("" if there[name] else " (deleted by retention)") for name in largest]
    records = counted(sum(there.values()), "record")
    return f"{counted(len(there), 'topic')} with {records} ({first_of(names)})"


def _writers(live: LiveState, judged: Judged) -> str:
    """Words for the writers, as far as groups, topics and producers of the target show them."""
    keys, facts = judged.strange, judged.facts
    writers = [f"a flow of group {group}" for group in sorted({facts.others[k][0] for k in keys if k in facts.others})]
    writers += [f"flow {state}" for state in sorted({judged.copied[key][0] for key in keys if key in judged.copied})]
    if _wrote_itself(judged):
        writers.append(f"flow {judged.flow.name} itself, whose positions were deleted, or expired")
    cluster = live.known(judged.flow.target)
    names = sorted(cluster.topics) if cluster is not None else []
    # No request shows that MirrorMaker 2 runs. Its groups, its topics and Connect's stored positions are signs, and the
    # message names them as signs.
    internal = [name for name in names if owner_of(name, names) == MIRRORMAKER or name.endswith("checkpoints.internal")]
    internal = [name for name in internal if name not in judged.own_topics]
    signs = [f"group {name}, {state or 'of unknown state'}" for name, state in sorted(facts.workers.items())]
    if internal:
        signs.append(f"topics {first_of(internal, BRIEF)}")
    for (topic, connector, alias), count in _stored(judged).most_common():
        of = f"of {count} of these {counted(len(keys), 'partition')}"
        signs.append(f"positions {of} in {topic}, by connector {connector} of source {alias or repr(alias)}")
    for topic, read in facts.connect.items():
        if isinstance(read, Unknown):
            signs.append(f"{topic} may have its positions: {read.error}")
    if signs:
        writers.append(f"perhaps MirrorMaker 2 ({'; '.join(signs)})")
    # DescribeProducers lists recent producers of any principal.
    last = max((facts.written_ms.get(topic, -1) for topic, _ in keys), default=-1)
    ids = sorted({name for topic, _ in keys for name in facts.writers.get(topic, ())})
    if last > 0 or ids:
        who = f"transactional id {first_of(ids, BRIEF)}" if ids else "an idempotent producer"
        writers.append(f"{who}, last at {moment(last) if last > 0 else 'an unknown time'}")
    return "; ".join(writers) or "an unknown producer: nothing on the target names it"


def _wrote_itself(judged: Judged) -> bool:
    """Whether the flow itself wrote last, by transactional ids of the last producers; the offset map was deleted with
    the positions."""
    lanes = {transactional_id(judged.copies.state, lane) for lane in range(MOST_LANES)}
    return any(lanes.intersection(judged.facts.writers.get(topic, ())) for topic, _ in judged.strange)


def _stored(judged: Judged) -> Counter[tuple[str, str, str]]:
    """(Connect topic, connector, source alias) -> number of ``strange`` partitions with a stored position of
    MirrorMaker 2."""
    wanted = {judged.copies.partitions[key] for key in judged.strange}
    return Counter(
        (topic, stored.connector, stored.alias)
        for topic, stored in judged.stored
        if (stored.topic, stored.partition) in wanted
    )


def _ways(judged: Judged) -> str:
    """Commands for copies with records that no position explains, the least harmful first, depending on their
    writer."""
    flow, keys = judged.flow, judged.strange
    take_over = f"reconciler mirror import-positions ENV {flow.name}"
    for (topic, connector, alias), _ in _stored(judged).most_common(1):
        expected = {
            "--offsets-topic": f"mm2-offsets.{flow.source}.internal",
            "--connector": CONNECTOR,
            "--alias": flow.source,
        }
        stored = {"--offsets-topic": topic, "--connector": connector, "--alias": alias}
        take_over += "".join(f" {name} {in_shell(it)}" for name, it in stored.items() if it != expected[name])
    ways = [f"continue where MirrorMaker 2 stopped: {take_over} --write"]
    if _wrote_itself(judged):
        topic, number = judged.copies.partitions[keys[0]]
        ways[0] = (
            "continue where its copy ended, by the last records of both topics, partition by partition; the first: "
            f"reconciler mirror seek ENV {flow.name} --topic {shlex.quote(topic)} --partition {number} --to OFFSET"
        )
    before = sorted({judged.copied[key][0] for key in keys if key in judged.copied})
    if before:
        ways.insert(0, f"continue as flow {before[0]}, if that is its earlier name: {entry(before[0], flow.name)}")
    # ``start`` only works for a flow that never ran, into what no other flow copied; else it takes a seek.
    if judged.first and not before:
        ways.append(f"copy only what comes from now on: flows.{flow.name}.start: latest")
        ways.append(f"copy all of it again: flows.{flow.name}.start: {AGAIN}")
    else:
        topic = shlex.quote(judged.copies.partitions[keys[0]][0])
        seek = f"reconciler mirror seek ENV {flow.name} --topic {topic} --to"
        ways.append(f"copy only what comes from now on, topic by topic: {seek} latest")
        ways.append(f"copy a topic again: {seek} earliest")
    listed = "; ".join(f"({number}) {way}" for number, way in enumerate(ways, 1))
    return f"{'Choose' if _wrote_itself(judged) else 'Stop the other writer, then choose'}: {listed}"
