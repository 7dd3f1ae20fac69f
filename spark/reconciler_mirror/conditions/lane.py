"""Conditions of a lane or partition: why it is stalled, and what a broker's answers to produce requests mean."""

from dataclasses import replace
from shlex import quote

from reconciler.kafka.client.errors import CORRUPT, DENIED, TOO_LARGE, UNKNOWN_TOPIC, name_of
from reconciler.kafka.client.transactions import TRANSACTION_TIMEOUT_MS
from reconciler.replication.names import OFFSETS_TOPIC, ConditionCode
from reconciler.replication.offsets.position_metadata import PositionMark
from reconciler_mirror.model.lane import GRANTS, Ahead, Claim, Condition, LaneSpec, PartitionSpec, TargetLoss

# The broker checked the batch and did not write it.
DEFINITE = frozenset({2, 17, 29, 32, 38, 42, 43, 44, 76, 87})
# Of those, and of the sizes: where it is one record that is refused, and the next may be taken.
OF_ONE_RECORD = TOO_LARGE | {32, 44, 87}

# The position belongs to a log that the source no longer has, to another client, or to a target that is gone: how much
# is left to copy is unknown.
WITHOUT_LAG = frozenset(
    {
        *("source_truncated", "source_topic_recreated", "source_topic_deleted", "position_foreign"),
        *("position_regressed", "offsets_diverged"),
        *("target_topic_missing", "target_topic_smaller", "target_truncated"),
    }
)


OPEN_TRANSACTION: ConditionCode = "source_transaction_open"
OPEN_AT_TARGET: ConditionCode = "target_transaction_open"


class SupersededError(Exception):
    """A later application owns the flow; nothing may be written any more."""

    def __init__(self, flow: str, claim: Claim) -> None:
        super().__init__(f"flow {flow}: {claim} has taken it")


def _seek(spec: PartitionSpec, place: int | str) -> str:
    """The command that moves a position; Kafka's own tool would keep it within the offsets of the target."""
    seek = "" if spec.partition < 0 else f" --partition {spec.partition}"
    return f"reconciler mirror seek ENV FLOW --topic {quote(spec.topic)}{seek} --to {place}"


def position_lost(spec: PartitionSpec, position: int, low: int, high: int, top: int) -> Condition:
    """The source no longer has, or never had, the next record to copy. ``low`` and ``top`` are its ends; ``high``: up
    to there it has what was copied."""
    if position < low:
        return Condition.of_partition(
            "source_retention_passed",
            spec,
            f"is not copied further: the next record is offset {position} but the source begins at {low}: "
            f"{low - position} offsets were deleted by retention before they were copied",
            f"Accept it: {_seek(spec, 'earliest')}. And give the source topic more retention.",
        )
    others = min(position, top) - high
    grown = f", and lacks others: up to {others} at offsets {high} to {high + others - 1} of the source"
    return Condition.of_partition(
        "source_truncated",
        spec,
        f"is not copied further: the next record is offset {position}, but the source has what was copied "
        f"only up to {high}: its log was truncated (unclean leader election, restored from a backup) or the topic was "
        f"recreated. The target holds records that the source has lost{grown if others else ''}",
        f"Compare both topics, then go on at an offset from {low} to {high}: {_seek(spec, high)}.",
    )


def source_replaced(spec: PartitionSpec, position: int, low: int) -> Condition:
    """Where the source's other records begin is not known. ``low``: where its log begins."""
    return Condition.of_partition(
        "source_truncated",
        spec,
        f"is not copied further: the next record is offset {position}, but offset {position - 1} of the source is "
        "another record than the one that was copied: its log was truncated (restored from a backup, unclean leader "
        f"election) and has grown since. From which offset on is not known: of {low} to {position - 1}, records may be "
        "missing in the target",
        f"Find the first record that differs, reconciler verify ENV names it, and copy from there: "
        f"{_seek(spec, 'OFFSET')}. To go on without them: {_seek(spec, position)}.",
    )


def position_missing(spec: PartitionSpec, flow: str, before: tuple[str, int]) -> Condition:
    """``before``: the flow that copied the partition, and the source offset up to which it did, at least."""
    other, offset = before
    who = f"flow {other}" if other != flow else "it"
    place = f"--from-flow {other}" if other != flow else f"--to {offset}"
    seek = f"reconciler mirror seek ENV {flow} --topic {quote(spec.topic)}"
    return Condition.of_partition(
        "position_missing",
        spec,
        f"is not copied: flow {flow} has no position for it, but {who} has copied it to {spec.target_topic} up "
        f"to source offset {offset} or a little further; from the start its records would be there twice",
        f"Go on where that ended: {seek} {'' if other != flow else f'--partition {spec.partition} '}{place}. To copy "
        "all of it again: --to earliest.",
    )


def remote_topic_not_empty(spec: PartitionSpec, flow: str, end: int) -> Condition:
    """``end``: of the target partition, which holds, or held, records that this flow did not copy."""
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
    """``group``: of the flow of another environment that has position ``at`` of the target partition."""
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


def position_foreign(spec: PartitionSpec, group: str, position: int, copied_to: int | None) -> Condition:
    """``copied_to``: the source offset up to which the flow has copied, at least, as the offset map says."""
    known = "how far it had copied is not known"
    if copied_to is not None:
        known = f"it had copied to {copied_to}, or a little further"
    return Condition.of_partition(
        "position_foreign",
        spec,
        f"is not copied: its position in group {group}, {position}, was committed by another client or damaged on its "
        f"way; {known}. Copying from {position} on could double records or leave some out",
        f"Keep other consumers out of group {group}. Go on where the copy ended: "
        f"{_seek(spec, 'OFFSET' if copied_to is None else copied_to)}.",
    )


def marks_unknown(spec: PartitionSpec, arriving: str) -> Condition:
    """``arriving``: the flow that brings records to the source."""
    return Condition.of_partition(
        "provenance_not_yet_marked",
        spec,
        f"is not copied: another client has committed the position of {arriving} for it, which says from where on its "
        "copies carry a provenance header; earlier ones would return as if they had been written there",
        f"Put the position of {arriving} right: see its position_foreign. Then restart this mirror.",
    )


def position_regressed(
    spec: PartitionSpec,
    group: str,
    position: int,
    copied_to: int,
    source_end: int | None = None,
    restored: TargetLoss | None = None,
) -> Condition:
    """``copied_to``: the source offset up to which the flow has committed, at least, as the offset map says;
    ``source_end``: where the source's log ends, as far as that is known. ``restored``: the copy ends earlier, too."""
    if restored is not None:
        return Condition.of_partition(
            "position_regressed",
            spec,
            f"is not copied: the target went back to an earlier state. Its position in group {group} is {position} "
            f"after {copied_to} had been committed, and {spec.target_topic} ends at {restored.end} after "
            f"{restored.acknowledged}: copies of source offsets from about {position} on are gone",
            f"Where the group and {spec.target_topic} come from one backup, copy them again: {_seek(spec, position)}. "
            "If not, compare the last records of both topics, and go on behind the last one that is there.",
        )
    if source_end is not None and copied_to > source_end:
        return Condition.of_partition(
            "position_regressed",
            spec,
            f"is not copied: by {OFFSETS_TOPIC} it was copied up to source offset {copied_to}, but its log ends at "
            f"{source_end}, and the position in group {group} is {position}. Another client than the mirror wrote to "
            f"{OFFSETS_TOPIC}, or the source lost records",
            f"See who may write to it: kafka-acls.sh --list --topic {OFFSETS_TOPIC}. Compare the last records of both "
            f"topics. Where the copy ends at source offset {position}, go on there: {_seek(spec, position)}.",
        )
    return Condition.of_partition(
        "position_regressed",
        spec,
        f"is not copied: the target's group coordinator reports position {position} in group {group}, but {copied_to} "
        f"had been committed; copying from {position} on would double {copied_to - position} offsets",
        "It is read again automatically, since a broker that has just started may report an old one for a while. If it "
        f"stays, restart the broker that coordinates group {group}, or move the leader of its __consumer_offsets "
        "partition: then it reads its log again. If it still stays, the target has lost committed offsets. Go on where "
        f"the copy ended, at {copied_to} or a little further: compare the last records, then {_seek(spec, copied_to)}.",
    )


def position_behind_copy(spec: PartitionSpec, group: str, position: int, ahead: Ahead) -> Condition:
    """``ahead.after``: the source offset behind the last copy, where the target's log shows it. Then the command names
    the offset; else the user has to let ``verify`` look for it first."""
    seek = _seek(spec, "OFFSET" if ahead.after is None else ahead.after)
    return Condition.of_partition(
        "position_regressed",
        spec,
        f"is not copied: its position in group {group} is {position}, but {spec.target_topic} has what follows: its "
        f"offset {ahead.target} is a copy of source offset {ahead.source}. The position is older than the copy "
        "(brokers or disks restored from backups of different times); copying on would double records",
        f"Go on behind the last copy: {seek}."
        if ahead.after is not None
        else f"Find the last copy, reconciler verify ENV names it, and go on behind it: {seek}.",
    )


def copy_written_by_others(spec: PartitionSpec, first: int) -> Condition:
    """``first``: target offset of the first record that the flow did not copy."""
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
    """``position``: the next source offset, by the flow's committed position."""
    gone = loss.acknowledged - loss.end
    if loss.source < 0:
        which, place = "which source offsets these are, the offset map does not say", "OFFSET"
        again = "Find the first record that is missing, reconciler verify ENV names it, and copy again from there"
    else:
        which, place = f"copies of source offsets {loss.source} to {position - 1}", str(loss.source)
        again = "Copy them again, behind what the target still has"
    return Condition.of_partition(
        "target_truncated",
        spec,
        f"is not copied further: {spec.target_topic}-{spec.partition} ended at offset {loss.end} after the target had "
        f"acknowledged records up to {loss.acknowledged}: at most {gone} of them are gone, {which}. Its leader lost "
        "them (unclean leader election, a disk restored from a backup)",
        f"{again}: {_seek(spec, place)}. To go on without them: {_seek(spec, position)}. Set "
        f"unclean.leader.election.enable of {spec.target_topic} to false, with min.insync.replicas of 2 or more.",
    )


def offsets_diverged(spec: PartitionSpec, offset: int, why: str) -> Condition:
    """Of a flow that keeps offsets. ``offset``: of the source; below it both sides are alike, as far as is known."""
    return Condition.of_partition(
        "offsets_diverged",
        spec,
        f"is not copied further: {spec.target_topic} and the source mean different records from offset {offset} on: "
        f"{why}. Something else than this mirror wrote to {spec.target_topic}, or its leader lost records, or wrote a "
        "transaction marker twice; what is there cannot be moved",
        f"Nothing is overwritten. See which records differ: reconciler verify ENV. Keep other producers out of "
        f"{spec.target_topic}, then copy into a new topic: delete {spec.target_topic} or change the naming, and run "
        "apply.",
    )


def filler_limit(spec: PartitionSpec, start: int, fillers: int) -> Condition:
    """Of a flow that keeps offsets. ``start``: the source offset it would begin at."""
    return Condition.of_partition(
        "filler_limit",
        spec,
        f"is not copied: it begins at source offset {start}, and {spec.target_topic} would first have to be filled "
        f"with {fillers:,} empty offsets, more than the flow's filler_limit",
        "Raise filler_limit of the flow, reconciler plan ENV says what it costs, or write offsets: translated, "
        "and run apply.",
    )


def start_out_of_range(spec: PartitionSpec, offset: int, low: int, end: int) -> Condition:
    """An explicit start that the source does not have. ``low`` and ``end`` are its bounds."""
    where = f"{spec.topic}-{spec.partition}"
    return Condition.of_partition(
        "start_offset_out_of_range",
        spec,
        f"is not copied: start.offsets says {offset}, but the source has offsets {low} to {end}",
        f"Correct start.offsets for {where} to an offset from {low} to {end}, or remove it, and run apply.",
    )


def topic_recreated(spec: PartitionSpec, known: str) -> Condition:
    """``known``: the topic id that the position belongs to; ``spec`` has the new one. Offsets of the two have nothing
    to do with each other, so neither going on nor beginning again may be chosen without a person."""
    return Condition.of_partition(
        "source_topic_recreated",
        spec,
        f"is not copied: the position belongs to a deleted topic of the same name (id {known}, now {spec.topic_id})",
        f"Decide about the old records in {spec.target_topic}, then copy the new topic from its beginning: "
        f"{_seek(replace(spec, partition=-1), 'earliest')}.",
    )


def lane_failed(lane: LaneSpec, code: ConditionCode, text: str) -> Condition:
    """For failures that end the lane's attempt as a whole. Each is tried again by the driver, so the words say what has
    to be repaired and that nothing has to be started afterwards."""
    todo = {
        "permission_denied": f"Give the mirror's principal its rights at {lane.target.cluster} and "
        f"{lane.source.cluster}: {GRANTS}. The lane is retried automatically.",
        "hanging_transaction": "Compare the last records of both partitions (reconciler verify ENV), then end the "
        "transaction with Kafka's own kafka-transactions (find-hanging, abort). The lane is retried automatically.",
        "transaction_timeout_refused": f"Set transaction.max.timeout.ms of {lane.target.cluster} to at least "
        f"{TRANSACTION_TIMEOUT_MS} on its brokers. The lane is retried automatically.",
        "authentication_failed": f"Check sasl.* and ssl.* of {lane.source.cluster} and {lane.target.cluster}, under "
        "client and principals.mirror, and their secrets where the Spark tasks run; reconciler doctor ENV tries them. "
        "The lane is retried automatically.",
        "secret_missing": "Set it where the Spark tasks run. The lane is retried automatically.",
    }
    return Condition(
        code,
        f"lane {lane.lane} of {lane.flow} failed: {text}",
        todo.get(code, "The lane is retried automatically; if this stays, look into the task's log."),
        stops=True,
    )


def group_has_members(lane: LaneSpec, why: str) -> Condition:
    """The group of the lane's positions takes commits of its members alone."""
    return Condition(
        "lane_failed",
        f"lane {lane.lane} of {lane.flow} failed: another consumer is a member of group {lane.group} on "
        f"{lane.target.cluster}, so the lane's positions are refused ({why}). What is copied without a position would "
        "come twice, so nothing is",
        f"Stop that consumer: kafka-consumer-groups.sh --describe --members --group {quote(lane.group)} names it. The "
        "lane is retried automatically.",
        stops=True,
    )


def fenced_by_stranger(lane: LaneSpec, why: str) -> Condition:
    """No later application of the mirror has written its claim."""
    mine = lane.transactional_id
    return Condition(
        "lane_failed",
        f"lane {lane.lane} of {lane.flow} failed: another client than the mirror has taken its transactional.id {mine} "
        f"on {lane.target.cluster} ({why}). What was not committed is copied again",
        "The lane is retried automatically, and takes the id back. If this comes again, find the other client while it "
        f"has the id (kafka-transactions.sh describe --transactional-id {quote(mine)}), and give it another one.",
        stops=True,
    )


def refused(
    spec: PartitionSpec, code: int, message: str, reached: int = -1, record: tuple[int, int] | None = None
) -> Condition:
    """The target takes nothing of the partition from source offset ``reached`` on. ``record``: offset and bytes of the
    one record that it does not take, where it is one."""
    why = f"{name_of(code)}{f' ({message})' if message else ''}"
    if code in DENIED:
        return Condition.of_partition(
            "permission_denied",
            spec,
            f"is not copied: the target refuses writing {spec.target_topic}: {why}",
            f"Give the mirror's principal WRITE on {spec.target_topic} at the target: {GRANTS}. Copying resumes "
            "automatically.",
        )
    problem = f"what begins at source offset {reached}"
    if record is not None:
        offset, size = record
        problem = f"the record at source offset {offset}{f', {size} bytes' if code in TOO_LARGE else ''}"
    if code == CORRUPT:
        return Condition.of_partition(
            "record_refused",
            spec,
            f"is not copied further: the target's broker found {problem} damaged, again and again: {why}. Its checksum "
            "was right when it was read, so it is damaged on the way to the broker or there",
            "It is read and sent again automatically. If this stays: look at the network and the disk of the broker "
            f"that leads {spec.target_topic}-{spec.partition}. Brokers before 2.4 also answer this to a record without "
            "a key in a compacted topic.",
        )
    return Condition.of_partition(
        "record_refused",
        spec,
        f"is not copied further: {spec.target_topic} refuses {problem}: {why}",
        f"Compare max.message.bytes, cleanup.policy and message.timestamp.* of {spec.target_topic} with the source; "
        "once the target takes the record, copying resumes automatically.",
    )


def corrupt(spec: PartitionSpec, covered: int, why: str) -> Condition:
    """``covered``: the source offset up to which its batches could be read."""
    return Condition.of_partition(
        "corrupt_source_batch",
        spec,
        f"is not copied further than source offset {covered}: {why}. The "
        "mirror does not pass on bytes whose checksum it cannot confirm, nor records that it has to open and cannot",
        "Check the disk of the source broker that leads the partition; another replica may be sound. Copying resumes "
        "automatically once the batch can be read. What a producer wrote that way stays so; to leave it out: "
        f"{_seek(spec, 'OFFSET')}, the first behind it.",
    )


def unavailable(spec: PartitionSpec, side: str, why: str) -> Condition:
    """``side``: source or target."""
    topic = spec.topic if side == "source" else spec.target_topic
    return Condition.of_partition(
        "source_unavailable" if side == "source" else "target_unavailable",
        spec,
        f"waits: {topic}-{spec.partition} at the {side} does not serve it: {why}",
        f"Check that the partition has a leader and enough in-sync replicas at the {side}; it is retried "
        "automatically.",
    )


def source_refuses(spec: PartitionSpec, code: int) -> Condition:
    """``code``: Kafka's error code for a read of the source. Whatever is not a missing right may pass by itself."""
    if code in DENIED:
        return Condition.of_partition(
            "permission_denied",
            spec,
            f"is not copied: the source refuses reading it: {name_of(code)}",
            f"Give the mirror's principal READ on {spec.topic} at the source: {GRANTS}. Copying resumes automatically.",
        )
    return unavailable(spec, "source", name_of(code))


def source_gone(spec: PartitionSpec) -> Condition:
    return Condition.of_partition(
        "source_topic_deleted",
        spec,
        "is not copied: it does not exist at the source any more",
        f"Remove it from the flow, or create it again; {spec.target_topic} keeps what was copied.",
    )


def target_missing(spec: PartitionSpec, partitions: int, code: int) -> Condition:
    """``partitions``: how many the target topic has, 0 when it does not exist."""
    if code in DENIED:
        return refused(spec, code, "")
    if partitions == 0 or code == UNKNOWN_TOPIC:
        return Condition.of_partition(
            "target_topic_missing",
            spec,
            f"is not copied: {spec.target_topic} does not exist at the target",
            "Run reconciler apply ENV, which creates it. Its positions went with it where it was deleted, so copying "
            "then begins where the flow starts: all that the source still has is copied again.",
        )
    return Condition.of_partition(
        "target_topic_smaller",
        spec,
        f"is not copied: {spec.target_topic} has only {partitions} partitions",
        "Run reconciler apply ENV, which adds the missing partitions; copying resumes automatically.",
    )


def unreachable(spec: LaneSpec, side: str, why: str) -> Condition:
    """``side``: source or target. The whole lane waits."""
    end = spec.source if side == "source" else spec.target
    return Condition(
        "source_unreachable" if side == "source" else "target_unreachable",
        f"lane {spec.lane} of {spec.flow} waits for {end.cluster}: {why}",
        f"Check {end.cluster} ({', '.join(end.bootstrap_servers)}); copying resumes automatically.",
    )


def positions_undecided(spec: LaneSpec, why: str) -> Condition:
    """A transaction that holds positions of the lane has neither been committed nor aborted (KIP-447)."""
    return Condition(
        "positions_undecided",
        f"lane {spec.lane} of {spec.flow} does not begin: a transaction on {spec.target.cluster} that holds positions "
        f"of group {spec.group} is not decided, and reading around it could double records: {why}",
        "It resumes automatically once the transaction has ended, or timed out after "
        f"{TRANSACTION_TIMEOUT_MS // 1000} s. If it stays, the coordinator of {spec.group}.* has no leader, or "
        "the transaction hangs: see kafka-transactions.sh find-hanging.",
    )


def quota_throttled(cluster: str, seconds: float) -> Condition:
    return Condition(
        "quota_throttled",
        f"{cluster} throttles the mirror: a client quota is used up, the next request waits {seconds:.1f} s",
        "Raise producer_byte_rate, consumer_byte_rate or request_percentage of the mirror's principal, or accept lag.",
    )


def open_transaction(spec: PartitionSpec, stable: int, high: int, seconds: float) -> Condition:
    """``stable``: where readers of committed records wait for more than ``seconds``; ``high``: where the log ends."""
    behind = high - stable
    return Condition.of_partition(
        OPEN_TRANSACTION,
        spec,
        f"is not copied further than source offset {stable}: a transaction that began there has been open for more "
        f"than {seconds:.0f} s, and until it ends, readers of committed records get nothing of what follows, "
        f"{behind:,} offset{'s' if behind > 1 else ''} so far; lag does not count them",
        "Wait, where the producer keeps transactions open for so long. Else end it with Kafka's own kafka-transactions "
        f"at the source: abort --topic {quote(spec.topic)} --partition {spec.partition} --start-offset {stable}.",
        stops=False,
    )


def open_at_target(spec: PartitionSpec, stable: int, high: int, seconds: float) -> Condition:
    """As ``open_transaction``, of the remote topic: its records are there, and most readers do not get them."""
    behind = high - stable
    return Condition.of_partition(
        OPEN_AT_TARGET,
        spec,
        f"is copied, and readers of committed records get nothing of {spec.target_topic} from offset {stable} on, "
        f"{behind:,} offset{'s' if behind > 1 else ''} so far: a transaction of another client that began there has "
        f"been open for more than {seconds:.0f} s",
        f"Keep other producers out of {spec.target_topic}. End the transaction with Kafka's own kafka-transactions at "
        f"the target: abort --topic {quote(spec.target_topic)} --partition {spec.partition} --start-offset {stable}.",
        stops=False,
    )
