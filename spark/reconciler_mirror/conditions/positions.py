"""Conditions of a position that contradicts its source, its copy or its owner, so that its partition stops."""

from dataclasses import replace
from shlex import quote

from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.position_metadata import PositionMark
from reconciler_mirror.model.lane import Ahead, Condition, PartitionSpec, TargetLoss

_OR_FURTHER = " or a little further"
_COMPARE = "Compare the last records of both topics: a copy that went further would get some twice. "


def seek_to(spec: PartitionSpec, place: int | str) -> str:
    """The command that moves a position. Kafka's own tool would keep it within the offsets of the target."""
    seek = "" if spec.partition < 0 else f" --partition {spec.partition}"
    return f"reconciler mirror seek ENV FLOW --topic {quote(spec.topic)}{seek} --to {place}"


def position_lost(spec: PartitionSpec, position: int, low: int, high: int, top: int) -> Condition:
    """The source no longer has, or never had, the next record to copy. ``low`` and ``top``: the source's log start and
    end; ``high``: end of the part that equals the copy."""
    if position < low:
        return Condition.of_partition(
            "source_retention_passed",
            spec,
            f"is not copied further: the next record is offset {position} but the source begins at {low}: "
            f"{low - position} offsets were deleted by retention before they were copied",
            f"Accept it: {seek_to(spec, 'earliest')}. And give the source topic more retention.",
        )
    others = min(position, top) - high
    grown = f", and lacks others: up to {others} at offsets {high} to {high + others - 1} of the source"
    return Condition.of_partition(
        "source_truncated",
        spec,
        f"is not copied further: the next record is offset {position}, but the source has what was copied "
        f"only up to {high}: its log was truncated (unclean leader election, restored from a backup) or the topic was "
        f"recreated. The target holds records that the source has lost{grown if others else ''}",
        f"Compare both topics, then continue at an offset from {low} to {high}: {seek_to(spec, high)}.",
    )


def source_replaced(spec: PartitionSpec, position: int, low: int) -> Condition:
    """The source has replaced copied records, from an unknown offset on: its batch at the last copied offset is another
    one (``fetch.last_batch``), and no copy could be compared. ``low``: the source's log start offset."""
    return Condition.of_partition(
        "source_truncated",
        spec,
        f"is not copied further: the next record is offset {position}, but offset {position - 1} of the source is "
        "another record than the one that was copied: its log was truncated (restored from a backup, unclean leader "
        f"election) and has grown since. From which offset on is not known: of {low} to {position - 1}, records may be "
        "missing in the target",
        f"Find the first record that differs, reconciler verify ENV names it, and copy from there: "
        f"{seek_to(spec, 'OFFSET')}. To continue without them: {seek_to(spec, position)}.",
    )


def position_missing(spec: PartitionSpec, flow: str, before: tuple[str, int], ended: int | None = None) -> Condition:
    """The group has no position, and the offset map has copies: a coordinator that lost its offsets answers as for a
    group that never was. ``before``: the flow that copied the partition, and a lower bound of its position; ``ended``:
    the position itself, if both logs prove it."""
    other, least = before
    offset = least if ended is None else ended
    who = f"flow {other}" if other != flow else "it"
    place = f"--from-flow {other}" if other != flow else f"--to {offset}"
    seek = f"reconciler mirror seek ENV {flow} --topic {quote(spec.topic)}"
    return Condition.of_partition(
        "position_missing",
        spec,
        f"is not copied: flow {flow} has no position for it, but {who} has copied it to {spec.target_topic} up "
        f"to source offset {offset}{_OR_FURTHER if ended is None else ''}; from the start its records would be there "
        "twice",
        f"{_COMPARE if ended is None and other == flow else ''}Continue where that ended: {seek} "
        f"{'' if other != flow else f'--partition {spec.partition} '}{place}. "
        "To copy all of it again: --to earliest.",
    )


def remote_topic_not_empty(spec: PartitionSpec, flow: str, end: int) -> Condition:
    """``end``: the log end of the target partition, which has, or had, records that this flow did not copy."""
    seek = f"reconciler mirror seek ENV {flow} --topic {quote(spec.topic)} --partition {spec.partition} --to"
    return Condition.of_partition(
        "remote_topic_not_empty",
        spec,
        f"is not copied: flow {flow} has no position for it, and {spec.target_topic} ends at {end} with records that "
        "the flow did not copy (MirrorMaker 2, another flow or a producer wrote them); from the start they might be "
        "there twice",
        f"Stop the other writer. If MirrorMaker 2 copied them: reconciler mirror import-positions ENV {flow} --write. "
        f"To copy only what comes from now on: {seek} latest. To copy everything again: {seek} earliest.",
    )


def remote_topic_not_ours(spec: PartitionSpec, flow: str, group: str, at: PositionMark) -> Condition:
    """``group``: position group of another environment's flow, with position ``at`` of the target partition."""
    return Condition.of_partition(
        "remote_topic_not_ours",
        spec,
        f"is not copied: environment {at.owner.environment} copies into {spec.target_topic}: its group {group} holds a "
        f"position there (application {at.application or 'unknown'}), and flow {flow} has none; records of two sources "
        "would be mixed",
        "Leave the topic to one of them: exclude_topics, or another alias of the source's cluster, which gives its "
        "remote topics other names. If that flow is gone for good: kafka-consumer-groups.sh --delete-offsets --group "
        f"{quote(group)} --topic {quote(spec.target_topic)}.",
    )


def position_foreign(
    spec: PartitionSpec, group: str, position: int, least: int | None, ended: int | None = None
) -> Condition:
    """The position's metadata does not prove it (``position_metadata.is_ours``): a tool that sets offsets writes none,
    or that of another offset. ``least``: a lower bound of the flow's true position, from the offset map; ``ended``: the
    position itself, if both logs prove it."""
    known, copied_to = "how far it had copied is not known", least if ended is None else ended
    if copied_to is not None:
        known = f"it had copied to {copied_to}{_OR_FURTHER if ended is None else ''}"
    return Condition.of_partition(
        "position_foreign",
        spec,
        f"is not copied: its position in group {group}, {position}, was committed by another client or damaged on its "
        f"way; {known}. Copying from {position} on could double records or leave some out",
        f"Keep other consumers out of group {group}. {_COMPARE if ended is None else ''}Continue where the copy ended: "
        f"{seek_to(spec, 'OFFSET' if copied_to is None else copied_to)}.",
    )


def marks_unknown(spec: PartitionSpec, arriving: str) -> Condition:
    """The takeover found no floor for the partition (``ProvenanceSettings.unknown``). ``arriving``: the flow that
    copies records to the source."""
    return Condition.of_partition(
        "provenance_not_yet_marked",
        spec,
        f"is not copied: another client has committed the position of {arriving} for it, which says from where on its "
        "copies carry a provenance header; earlier ones would return as if they had been written there",
        f"Put the position of {arriving} right: see its position_foreign. Then restart this mirror.",
    )


def copies_would_return(spec: PartitionSpec, position: int, floor: int) -> Condition:
    """``floor``: the source offset before which a flow from the target has copied without marks, since this flow copied
    last. New records of producers lie between those copies."""
    return Condition.of_partition(
        "provenance_not_yet_marked",
        spec,
        f"is not copied: its position is {position}, and up to offset {floor} a flow from the target has copied to the "
        "source without provenance: these copies would return as if they had been written there",
        f"Continue after them: {seek_to(spec, floor)}. It leaves out what producers wrote to the source in between, "
        "which nothing distinguishes from these copies.",
    )


def position_regressed(
    spec: PartitionSpec,
    group: str,
    position: int,
    copied_to: int,
    source_end: int | None = None,
    restored: TargetLoss | None = None,
    offset_map: str = OFFSETS_TOPIC,
    ended: int | None = None,
) -> Condition:
    """``copied_to``: a lower bound of the last committed position, from topic ``offset_map``; ``source_end``: the
    source's log end, if known. ``restored``: the copy ends earlier, too. ``ended``: as in ``position_foreign``."""
    # Group and copy are both older: one backup may hold both, and then copying again from there duplicates nothing.
    if restored is not None:
        return Condition.of_partition(
            "position_regressed",
            spec,
            f"is not copied: the target went back to an earlier state. Its position in group {group} is {position} "
            f"after {copied_to} had been committed, and {spec.target_topic} ends at {restored.end} after "
            f"{restored.acknowledged}: copies of source offsets from about {position} on are gone",
            f"Where the group and {spec.target_topic} come from one backup, copy them again: "
            f"{seek_to(spec, position)}. If not, compare the last records of both topics, and continue after the last "
            "one present.",
        )
    if source_end is not None and copied_to > source_end:
        return Condition.of_partition(
            "position_regressed",
            spec,
            f"is not copied: by {offset_map} it was copied up to source offset {copied_to}, but its log ends at "
            f"{source_end}, and the position in group {group} is {position}. Another client than the mirror wrote to "
            f"{offset_map}, or the source lost records",
            f"Check which principals may write to it: kafka-acls.sh --list --topic {offset_map}. Compare the "
            f"last records of both topics. Where the copy ends at source offset {position}, continue there: "
            f"{seek_to(spec, position)}.",
        )
    return Condition.of_partition(
        "position_regressed",
        spec,
        f"is not copied: the target's group coordinator reports position {position} in group {group}, but {copied_to} "
        f"had been committed; copying from {position} on would double {copied_to - position} offsets",
        "It is read again automatically, since a broker that has just started may report an old one for a while. If it "
        f"stays, restart the broker that coordinates group {group}, or move the leader of its __consumer_offsets "
        "partition: then it reads its log again. If it still stays, the target has lost committed offsets. "
        f"{_COMPARE if ended is None else ''}Continue where the copy ended"
        f"{f', at {copied_to}{_OR_FURTHER}' if ended is None else ''}: "
        f"{seek_to(spec, copied_to if ended is None else ended)}.",
    )


def position_behind_copy(spec: PartitionSpec, group: str, position: int, ahead: Ahead) -> Condition:
    """``ahead.after``: the source offset after the last copy, if the target's log shows it. Then the command names the
    offset; otherwise the user has to find it with ``verify`` first."""
    seek = seek_to(spec, "OFFSET" if ahead.after is None else ahead.after)
    return Condition.of_partition(
        "position_regressed",
        spec,
        f"is not copied: its position in group {group} is {position}, but {spec.target_topic} has what follows: its "
        f"offset {ahead.target} is a copy of source offset {ahead.source}. The position is older than the copy "
        "(a crash while the flow copied at least once; brokers or disks restored from backups of different times); "
        "copying on would double records",
        f"Continue after the last copy: {seek}."
        if ahead.after is not None
        else f"Find the last copy, reconciler verify ENV names it, and continue after it: {seek}.",
    )


def copy_written_by_others(spec: PartitionSpec, first: int) -> Condition:
    """``first``: target offset of the first record that the flow did not copy. Found by reading offsets that the lane
    did not write: those of markers and aborted batches hold no record."""
    return Condition.of_partition(
        "remote_topic_not_empty",
        spec,
        f"is copied, and {spec.target_topic} also holds records that the flow did not copy, from its offset {first} "
        "on: another producer writes there. Consumers read them between the copies; in a compacted topic they replace "
        "copies with the same key",
        f"Find the producer: read {spec.target_topic} at offset {first}. Keep it out (copies: read_only of the flow "
        "does). reconciler verify ENV names what differs. This is said until the mirror starts again.",
        stops=False,
    )


def target_truncated(spec: PartitionSpec, loss: TargetLoss, position: int) -> Condition:
    """The copy's log ends before records whose transaction was committed. ``position``: the next source offset, by the
    flow's committed position. It stays in the position (``lost``), because later records would hide the loss."""
    gone = loss.acknowledged - loss.end
    if loss.source < 0:
        which, place = "which source offsets these are, the offset map does not say", "OFFSET"
        again = "Find the first record that is missing, reconciler verify ENV names it, and copy again from there"
    else:
        which, place = f"copies of source offsets {loss.source} to {position - 1}", str(loss.source)
        again = "Copy them again, after what the target still has"
    return Condition.of_partition(
        "target_truncated",
        spec,
        f"is not copied further: {spec.target_topic}-{spec.partition} ended at offset {loss.end} after the target had "
        f"acknowledged records up to {loss.acknowledged}: at most {gone} of them are gone, {which}. Its leader lost "
        "them (unclean leader election, a disk restored from a backup)",
        f"{again}: {seek_to(spec, place)}. To continue without them: {seek_to(spec, position)}. Set "
        f"unclean.leader.election.enable of {spec.target_topic} to false, with min.insync.replicas of 2 or more.",
    )


def offsets_diverged(spec: PartitionSpec, offset: int, why: str) -> Condition:
    """For a flow that keeps offsets. ``offset``: a source offset; before it both sides are equal, as far as known. Once
    noticed it stays in the position, so that no later holder writes after it: offsets cannot be corrected."""
    return Condition.of_partition(
        "offsets_diverged",
        spec,
        f"is not copied further: {spec.target_topic} and the source mean different records from offset {offset} on: "
        f"{why}. Something else than this mirror wrote to {spec.target_topic}, or its leader lost records, or wrote a "
        "transaction marker twice; existing records cannot be moved",
        f"Nothing is overwritten. See which records differ: reconciler verify ENV. Keep other producers out of "
        f"{spec.target_topic}, then copy into a new topic: delete {spec.target_topic} or change the naming, and run "
        "apply.",
    )


def filler_limit(spec: PartitionSpec, start: int, fillers: int) -> Condition:
    """For a flow that keeps offsets. ``start``: the source offset of its first record."""
    return Condition.of_partition(
        "filler_limit",
        spec,
        f"is not copied: it begins at source offset {start}, and {spec.target_topic} would first have to be filled "
        f"with {fillers:,} empty offsets, more than the flow's filler_limit",
        "Raise filler_limit of the flow, reconciler plan ENV says what it costs, or write offsets: translated, "
        "and run apply.",
    )


def start_out_of_range(spec: PartitionSpec, offset: int, low: int, end: int) -> Condition:
    """An explicit start outside of the source's log, which has offsets ``low`` to ``end``."""
    where = f"{spec.topic}-{spec.partition}"
    return Condition.of_partition(
        "start_offset_out_of_range",
        spec,
        f"is not copied: start.offsets says {offset}, but the source has offsets {low} to {end}",
        f"Correct start.offsets for {where} to an offset from {low} to {end}, or remove it, and run apply.",
    )


def topic_recreated(spec: PartitionSpec, known: str, *, same: bool = False) -> Condition:
    """``known``: the topic id of the position; ``spec`` has the new one. Offsets of the two topics are unrelated, so a
    person has to choose between continuing and beginning again. ``same``: the flow keeps offsets, so that the copy of
    the old topic has no place for the new one's records."""
    seek = f"copy the new topic from its beginning: {seek_to(replace(spec, partition=-1), 'earliest')}"
    remade = f"delete {spec.target_topic}, whose offsets the new topic needs, and run apply"
    return Condition.of_partition(
        "source_topic_recreated",
        spec,
        f"is not copied: the position belongs to a deleted topic of the same name (id {known}, now {spec.topic_id})",
        f"Decide about the old records in {spec.target_topic}, then {remade if same else seek}.",
    )
