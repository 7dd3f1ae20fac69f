"""Checks before a partition without a position starts: another environment's flow may copy into the same remote topic,
the position may be lost, or the target may have the records already.

An empty remote topic may still belong to another environment. The plan of a new flow checks that; this module checks
topics that appear in both sources later.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from reconciler.kafka.client.cluster import LATEST, ClusterClient, Key, printed_id
from reconciler.kafka.client.errors import DENIED, RETRIABLE, BrokerError, UnsupportedBrokerError, check, name_of
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.handover import AGAIN
from reconciler.replication.names import position_group
from reconciler.replication.offsets.map_topic import copied_before, former_sources
from reconciler.replication.offsets.position_metadata import Owner, PositionMark, is_of, mark_of
from reconciler_mirror.conditions import positions as faults
from reconciler_mirror.conditions.lane import refused
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.target_tails import ended_at, only_aborted

MOST_GROUPS = 200


async def copied_by_others(
    target: ClusterClient, group: str, owner: Owner, keys: Collection[Key]
) -> Mapping[Key, tuple[str, PositionMark]]:
    """By target partition of ``keys``: position group and mark of another environment's flow that copies into it.
    ``group``, ``owner``: this flow's. Leaves out groups that the mirror may not describe. Raises ConnectionLostError
    and BrokerError, also for a group whose coordinator does not answer yet: it may hold such a position."""
    if not keys or not owner.environment:
        return {}
    groups, wanted = GroupClient(target), frozenset(keys)
    try:
        # All position groups share a prefix, so listing groups finds other environments' flows without their names. A
        # principal without Describe on those groups finds none; then only the claims in this flow's positions count.
        listed = await groups.listed()
        named = sorted(name for name in listed if name.startswith(position_group("")) and name != group)
        answers = await groups.offsets(named[:MOST_GROUPS]) if named else {}
    except BrokerError as error:
        if error.code not in DENIED:
            raise
        return {}
    except UnsupportedBrokerError:
        return {}
    others: dict[Key, tuple[str, PositionMark]] = {}
    for name, answer in answers.items():
        if answer.error in RETRIABLE:
            check(answer.error, f"positions of group {name} on {target.name}")
        for key in answer.offsets.keys() & wanted:
            at = answer.offsets[key]
            mark = mark_of(key, at.offset, at.metadata or "")
            if mark.owner.environment and not is_of(mark.owner, owner):
                others.setdefault(key, (name, mark))
    return others


async def not_of_others(lane: Lane, fresh: Sequence[Partition]) -> Sequence[Partition]:
    """Stops partitions if another environment's flow copies into their remote topic: while the topic is empty, no
    record shows its owner. Flows with provenance share their remote topics."""
    if lane.spec.work.provenance is not None:
        return fresh
    by_target = {p.target: p for p in fresh}
    others = await copied_by_others(lane.target, lane.spec.group, lane.spec.claim.owner, by_target.keys())
    for key, other in others.items():
        partition = by_target[key]
        lane.stop(partition, faults.remote_topic_not_ours(partition.spec, lane.spec.flow, *other))
    return [p for p in fresh if p.hold.phase is Phase.STARTING]


async def not_begun_before(lane: Lane, given: Sequence[Partition]) -> Sequence[Partition]:
    """Stops partitions that the flow has copied past their explicit offset: they have lost their position, and a second
    start would copy the same records twice. Explicit offsets stay in a flow's files for good."""
    by_source = {p.source: p for p in given}
    ids = {key: lane.ids(partition) for key, partition in by_source.items()}
    copied = await copied_before(lane.target, ids)
    before = {
        by_source[key]: at
        for key, at in copied.items()
        if at[0] == lane.spec.state and at[1] > lane.spec.start_offsets[key]
    }
    await _stop_without_position(lane, before)
    # If source and remote topic were both recreated, the explicit offsets were meant for the former source topic.
    for key, former in (await former_sources(lane.target, lane.spec.state, ids)).items():
        partition = by_source[key]
        if partition.hold.phase is Phase.STARTING:
            lane.stop(partition, faults.topic_recreated(partition.spec, printed_id(former.bytes)))
    return [p for p in given if p.hold.phase is Phase.STARTING]


async def _stop_without_position(lane: Lane, before: Mapping[Partition, tuple[str, int]]) -> None:
    """``before``: the flow that copied a partition by the offset map, and the source offset up to which it did."""
    ours = [partition for partition, (state, _) in before.items() if state == lane.spec.state]
    ended = await ended_at(lane, ours) if ours else {}
    for partition, (state, copied_to) in before.items():
        flow = lane.spec.flow if state == lane.spec.state else state
        condition = faults.position_missing(
            partition.spec, lane.spec.flow, (flow, copied_to), ended.get(partition.source)
        )
        lane.stop(partition, condition)


async def never_copied(
    lane: Lane, fresh: Sequence[Partition], waits: Callable[[Partition, str], None]
) -> Sequence[Partition]:
    """Stops partitions if the target may have their records already, which a start would duplicate: by the offset map a
    flow has copied them, or the remote topic holds records of other writers. Flows with provenance share their remote
    topics with local producers, so records alone prove nothing there. ``waits`` gets those without an answer of their
    target's leader, and why."""
    target = lane.target
    # Only a remote partition with records is looked up in the offset map: an empty one holds no copies.
    answers = await target.list_offsets({p.target: LATEST for p in fresh}, committed=False) if fresh else {}
    ends: dict[Partition, int] = {}
    for partition in fresh:
        end = answers[partition.target]
        if not isinstance(end, BrokerError):
            ends[partition] = end
        elif end.retriable:
            waits(partition, name_of(end.code))
        else:
            lane.stop(partition, refused(partition.spec, end.code, ""))
    begun = {p.source: p for p, end in ends.items() if end != 0}
    ids = {key: lane.ids(partition) for key, partition in begun.items()}
    await _stop_without_position(lane, {begun[key]: at for key, at in (await copied_before(target, ids)).items()})
    if lane.spec.start_kind != AGAIN and lane.spec.work.provenance is None:
        written: dict[Key, tuple[Partition, int]] = {}
        for partition, end in ends.items():
            partition.outbox.expects(end)
            if end > 0 and partition.hold.phase is Phase.STARTING:
                written[partition.target] = (partition, end)
        # A lane that died in its first transaction leaves aborted records and no position: that is still a beginning.
        aborted = await only_aborted(target, {key: end for key, (_, end) in written.items()})
        for key in written.keys() - aborted:
            partition, end = written[key]
            lane.stop(partition, faults.remote_topic_not_empty(partition.spec, lane.spec.flow, end))
    return [p for p in ends if p.hold.phase is Phase.STARTING]
