"""Conditions of a lane or partition: reasons for a stall, and the meaning of a broker's Produce error codes.

A partition with a condition that stops it starts again after 5 s, and after up to a minute once that has failed several
times; each start asks the clusters for everything again, so no condition outlasts its cause by more than that.
"""

from shlex import quote

from reconciler.kafka.client.errors import CORRUPT, DENIED, TOO_LARGE, UNKNOWN_TOPIC, name_of
from reconciler.kafka.client.transactions import TRANSACTION_TIMEOUT_MS
from reconciler.replication.names import ConditionCode
from reconciler_mirror.conditions.positions import seek_to
from reconciler_mirror.model.lane import GRANTS, Claim, Condition, LaneSpec, PartitionSpec

# The broker has checked the batch and refused it, so it is not in the log. After another error it may be, and only the
# same batch with the same sequence may be sent.
DEFINITE = frozenset({2, 17, 29, 32, 38, 42, 43, 44, 76, 87})
# The broker refused the batch for a single record (or its size), so it may take the other records.
OF_ONE_RECORD = TOO_LARGE | {32, 44, 87}

# The position belongs to a log that the source no longer has, to another client, or to a missing target, so the number
# of records left to copy is unknown.
WITHOUT_LAG = frozenset(
    {
        *("source_truncated", "source_topic_recreated", "source_topic_deleted", "position_foreign"),
        *("position_regressed", "offsets_diverged"),
        *("target_topic_missing", "target_topic_smaller", "target_truncated"),
    }
)


class SupersededError(Exception):
    """A later application owns the flow; this one must not write any more."""

    def __init__(self, flow: str, claim: Claim) -> None:
        super().__init__(f"flow {flow}: {claim} has taken it")


def lane_failed(lane: LaneSpec, code: ConditionCode, text: str) -> Condition:
    """For failures that end the lane's whole attempt. The driver retries each, so the text names the repair, and says
    that no restart is needed afterwards."""
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
    """The group of the lane's positions has members, so the coordinator accepts only their commits (error 22 or 25 of a
    commit). Ends the attempt; the next one commits again before it copies."""
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
    """The lane was fenced, but for some seconds no later application has written its claim into the positions, as each
    takeover does before it fences. So a producer of another program uses the id."""
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
    """The target refuses the partition's records from source offset ``reached`` on, with a code of ``DEFINITE`` or
    ``TOO_LARGE``. ``record``: offset and size of the refused record, if it is a single one: the sender halves a refused
    batch until it has found it, and sends what lies before it."""
    why = f"{name_of(code)}{f' ({message})' if message else ''}"
    if code in DENIED:
        return Condition.of_partition(
            "permission_denied",
            spec,
            f"is not copied: the target refuses writing {spec.target_topic}: {why}",
            f"Give the mirror's principal READ and WRITE on {spec.target_topic} at the target: {GRANTS}. Copying "
            "resumes automatically.",
        )
    problem = f"what begins at source offset {reached}"
    if record is not None:
        offset, size = record
        problem = f"the record at source offset {offset}{f', {size} bytes' if code in TOO_LARGE else ''}"
    # The lane has verified the source's CRC just before it sent the batch, so the damage came later.
    if code == CORRUPT:
        return Condition.of_partition(
            "record_refused",
            spec,
            f"is not copied further: the target's broker found {problem} damaged, again and again: {why}. Its checksum "
            "was right when it was read, so it is damaged on the way to the broker or there",
            "It is read and sent again automatically. If this stays: check the network and the disk of the broker "
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
    """``covered``: the source offset of the first unreadable batch. Reported for a batch that was read twice: the
    network may have damaged it the first time."""
    return Condition.of_partition(
        "corrupt_source_batch",
        spec,
        f"is not copied further than source offset {covered}: {why}. The "
        "mirror does not pass on bytes whose checksum it cannot confirm, nor records that it has to open and cannot",
        "Check the disk of the source broker that leads the partition; another replica may be sound. Copying resumes "
        "automatically once the batch can be read. What a producer wrote that way stays so; to leave it out: "
        f"{seek_to(spec, 'OFFSET')}, the first after it.",
    )


def unavailable(spec: PartitionSpec, side: str, why: str) -> Condition:
    """``side``: source or target. Of the source after ``REPORT_AFTER`` seconds of a start, of the target after
    ``delivery_timeout``: elections and restarts of brokers take less."""
    topic = spec.topic if side == "source" else spec.target_topic
    return Condition.of_partition(
        "source_unavailable" if side == "source" else "target_unavailable",
        spec,
        f"waits: {topic}-{spec.partition} at the {side} does not serve it: {why}",
        f"Check that the partition has a leader and enough in-sync replicas at the {side}; it is retried "
        "automatically.",
    )


def source_refuses(spec: PartitionSpec, code: int) -> Condition:
    """``code``: Kafka's error code for a read of the source. Every error but a missing right may be transient."""
    if code in DENIED:
        return Condition.of_partition(
            "permission_denied",
            spec,
            f"is not copied: the source refuses reading it: {name_of(code)}",
            f"Give the mirror's principal READ on {spec.topic} at the source: {GRANTS}. Copying resumes automatically.",
        )
    return unavailable(spec, "source", name_of(code))


def source_gone(spec: PartitionSpec) -> Condition:
    """The source's metadata has the topic no longer, or fewer partitions of it. Its position stays: a topic that is
    created again has another id, and stops with ``topic_recreated``."""
    return Condition.of_partition(
        "source_topic_deleted",
        spec,
        "is not copied: it does not exist at the source any more",
        f"Remove it from the flow, or create it again; {spec.target_topic} keeps what was copied.",
    )


def target_missing(spec: PartitionSpec, partitions: int, code: int) -> Condition:
    """``partitions``: of the target topic, 0 if it does not exist. ``code``: of its metadata. The job creates no topic:
    only the plan knows the configs that a copy has to have."""
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
    """``side``: source or target. The whole lane waits: no session gets far enough to say something of a partition. Its
    last report stays valid meanwhile, but for the ends."""
    end = spec.source if side == "source" else spec.target
    return Condition(
        "source_unreachable" if side == "source" else "target_unreachable",
        f"lane {spec.lane} of {spec.flow} waits for {end.cluster}: {why}",
        f"Check {end.cluster} ({', '.join(end.bootstrap_servers)}); copying resumes automatically.",
    )


def positions_undecided(spec: LaneSpec, why: str) -> Condition:
    """A transaction that holds positions of the lane has neither been committed nor aborted (KIP-447). A takeover has
    one open for milliseconds; it becomes a condition after ``REPORT_AFTER`` seconds."""
    return Condition(
        "positions_undecided",
        f"lane {spec.lane} of {spec.flow} does not begin: a transaction on {spec.target.cluster} that holds positions "
        f"of group {spec.group} is not decided, and reading around it could double records: {why}",
        "It resumes automatically once the transaction has ended, or timed out after "
        f"{TRANSACTION_TIMEOUT_MS // 1000} s. If it stays, the coordinator of {spec.group}.* has no leader, or "
        "the transaction hangs: see kafka-transactions.sh find-hanging.",
    )


def quota_throttled(cluster: str, seconds: float) -> Condition:
    """In each report while a broker mutes a connection of the lane (KIP-219); ``seconds``: for how long from now on."""
    return Condition(
        "quota_throttled",
        f"{cluster} throttles the mirror: a client quota is used up, the next request waits {seconds:.1f} s",
        "Raise producer_byte_rate, consumer_byte_rate or request_percentage of the mirror's principal, or accept lag.",
    )


def open_transaction(spec: PartitionSpec, stable: int, high: int, seconds: float) -> Condition:
    """``stable``: the last stable offset, unchanged for more than ``seconds``; ``high``: the high watermark."""
    behind = high - stable
    return Condition.of_partition(
        "source_transaction_open",
        spec,
        f"is not copied further than source offset {stable}: a transaction that began there has been open for more "
        f"than {seconds:.0f} s, and until it ends, readers of committed records get nothing of what follows, "
        f"{behind:,} offset{'s' if behind > 1 else ''} so far; lag does not count them",
        "Wait, where the producer keeps transactions open for so long. Else end it with Kafka's own kafka-transactions "
        f"at the source: abort --topic {quote(spec.topic)} --partition {spec.partition} --start-offset {stable}.",
        stops=False,
    )


def open_at_target(spec: PartitionSpec, stable: int, high: int, seconds: float) -> Condition:
    """Like ``open_transaction``, for the remote topic: it has the copies, but most readers do not get them."""
    behind = high - stable
    return Condition.of_partition(
        "target_transaction_open",
        spec,
        f"is copied, and readers of committed records get nothing of {spec.target_topic} from offset {stable} on, "
        f"{behind:,} offset{'s' if behind > 1 else ''} so far: a transaction of another client that began there has "
        f"been open for more than {seconds:.0f} s",
        f"Keep other producers out of {spec.target_topic}. End the transaction with Kafka's own kafka-transactions at "
        f"the target: abort --topic {quote(spec.target_topic)} --partition {spec.partition} --start-offset {stable}.",
        stops=False,
    )
