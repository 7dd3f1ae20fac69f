"""Compares source and target records by Spark: ordered partitions piece by piece, surviving records by key.

The only module of the comparison that imports Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everyone writes it
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from reconciler_mirror.leases.worker_stderr import stderr_while_at_work
from reconciler_mirror.verify.first_difference import KeyEntry
from reconciler_mirror.verify.in_order.compare import Continued, compared
from reconciler_mirror.verify.model import SOURCE, TARGET, PartitionRange, PartitionReading
from reconciler_mirror.verify.resuming import ReadSoFar, offsets_of
from reconciler_mirror.verify.tasks import KeyCounts, Located, Suspect, after, bundled, each, entries_of, locate

_TASKS_A_CORE = 8
_PIECES_A_CORE = 2
"""Bundles of pieces for each core. A piece ends by the clock, so more of them would not even out the load."""
_BEGINNING = 5_000.0
"""Offsets that cost as much to read as the start of a partition: connections, metadata, the first fetch."""
PIECE_S = 15.0
"""Seconds for which a task reads; after each piece the proved part is kept, and progress reported."""

SUSPECTS = 100
_TYPES = {"int": IntegerType, "long": LongType, "string": StringType, "binary": BinaryType, "boolean": BooleanType}
_OLDER = {"older at the source": "older_source", "older at the target": "older_target"}
_COUNTED = {"equal": "equal", "differs": "differing", "changing": "changing", **_OLDER}
"""Verdict -> field of ``KeyCounts``."""


def struct(fields: str) -> StructType:
    """A schema from ``name type, name type``, without nulls."""
    pairs = (field.split() for field in fields.split(", "))
    return StructType([StructField(name, _TYPES[kind](), nullable=False) for name, kind in pairs])


ENTRIES = struct("index int, side string, key binary, offset long, digest binary, tombstone boolean, late boolean")
CUTS = struct("index int, source_cut boolean, target_cut boolean")


def state_counts(entries: Any, cuts: Any, plans: Mapping[int, PartitionRange]) -> Mapping[int, KeyCounts]:
    """Compares the last record of each key, by partition. ``entries``: a DataFrame with schema ENTRIES, ``cuts``: CUTS.
    Leaves out partitions without entries. Suspects have digests of the first different keys, at most ``SUSPECTS``."""
    # The last record of a key is the state that compaction must keep; it may have removed any earlier one.
    last = entries.groupBy("index", "side", "key").agg(
        F.max_by(F.struct("offset", "digest", "tombstone", "late"), "offset").alias("last")
    )
    # Columns: index, key, ours, theirs (offset, digest, tombstone, late; null for a missing key), equal.
    ours, theirs = (
        last.where(F.col("side") == side).select("index", "key", F.col("last").alias(name))
        for side, name in ((SOURCE, "ours"), (TARGET, "theirs"))
    )
    # A missing side makes the comparison null, which is no equality.
    equal = F.coalesce(F.col("ours.digest") == F.col("theirs.digest"), F.lit(False))
    both = ours.join(theirs, ["index", "key"], "full_outer").withColumn("equal", equal)
    # Cached twice, because three queries follow, and each would read the entries and join them again.
    judged = _judged(both.cache(), cuts).cache()
    counted = judged.groupBy("index").pivot("verdict", list(_COUNTED)).count().collect()
    sides = {
        row["index"]: row
        for row in judged.groupBy("index")
        .agg(F.count("source_offset").alias(SOURCE), F.count("target_offset").alias(TARGET))
        .collect()
    }
    order = Window.partitionBy("index").orderBy(F.coalesce("source_offset", "target_offset"))
    ranked = judged.where(F.col("verdict") == "differs").withColumn("rank", F.row_number().over(order))
    suspects: dict[int, tuple[bytes, ...]] = {}
    for row in ranked.where(F.col("rank") <= SUSPECTS).orderBy("index", "rank").collect():
        suspects[row["index"]] = (*suspects.get(row["index"], ()), bytes(row["key"]))
    judged.unpersist()
    return {
        row["index"]: KeyCounts(
            sides[row["index"]][SOURCE],
            sides[row["index"]][TARGET],
            suspect=Suspect(plans[row["index"]], keys=suspects[row["index"]]) if row["index"] in suspects else None,
            **{field: row[verdict] or 0 for verdict, field in _COUNTED.items()},
        )
        for row in counted
    }


def _judged(both: Any, cuts: Any) -> Any:
    """Columns: index, key, source_offset, target_offset, verdict.

    ``gone``: a tombstone that one side has removed already. ``older``: a record before the first common one, where the
    other side has lost its oldest records to retention.
    """
    common = (
        both.where("equal")
        .groupBy("index")
        .agg(F.min("ours.offset").alias("first_source"), F.min("theirs.offset").alias("first_target"))
    )
    placed = both.join(F.broadcast(cuts), "index").join(F.broadcast(common), "index", "left")
    ours, theirs = F.col("ours"), F.col("theirs")
    only_ours, only_theirs = theirs.isNull(), ours.isNull()
    older_source = only_ours & F.col("target_cut") & (ours["offset"] < F.col("first_source"))
    older_target = only_theirs & F.col("source_cut") & (theirs["offset"] < F.col("first_target"))
    # The first match counts: a deviation that compaction, retention or the running copy explains is no difference.
    verdict = (
        F.when(F.col("equal"), "equal")
        .when((only_ours & ours["tombstone"]) | (only_theirs & theirs["tombstone"]), "gone")
        .when(ours["late"] | theirs["late"], "changing")
        .when(older_source, "older at the source")
        .when(older_target, "older at the target")
        .otherwise("differs")
    )
    return placed.select(
        "index",
        "key",
        ours["offset"].alias("source_offset"),
        theirs["offset"].alias("target_offset"),
        verdict.alias("verdict"),
    )


_PLACE = "flow string, source_topic string, target_topic string, partition int"
CHUNKS = struct(f"{_PLACE}, chunk int, equal boolean, source_records long, target_records long")
CHUNKS = CHUNKS.add("first_source", LongType()).add("first_target", LongType())


class DataFrameComparison:
    """Reads the rest of ``so_far`` once, several partitions per Spark task, the biggest first. ``kept`` is called every
    few seconds. ``close`` frees the cache."""

    def __init__(self, session: Any, so_far: ReadSoFar, kept: Callable[[], None] = lambda: None) -> None:
        self._session, self._so_far, self._kept = session, so_far, kept
        self._read = so_far.readings
        # Surviving records are read from Kafka once, and spilled to disk where memory ends.
        loads = [(plan, _BEGINNING + offsets_of(plan)) for plan in so_far.plans.values() if plan.compacted]
        states = self._spread(loads, _TASKS_A_CORE, partial(_in_worker, entries_of))
        self._states = states.persist(StorageLevel.MEMORY_AND_DISK)

    def read(self) -> None:
        """Reads everything once."""
        context = self._session.sparkContext
        context.setJobDescription("verify: comparing both sides")
        while left := self._so_far.unfinished():
            loads = [(self._so_far.continued(plan), _BEGINNING + self._so_far.left(plan)) for plan in left]
            pieces = self._spread(loads, _PIECES_A_CORE, _piece_in_worker).collect()
            for row in pieces:
                self._so_far.take(row)
            self._kept()
            if not pieces:  # no task gave anything back, and another round would not, either: no endless loop
                break
        context.setJobDescription("verify: reading both sides into surviving records")
        for reading in self._states.filter(lambda row: isinstance(row, PartitionReading)).collect():
            self._read[reading.index] = reading

    def counts(self) -> Mapping[int, KeyCounts]:
        """Counts of compacted partitions with any record, by index."""
        self._session.sparkContext.setJobDescription("verify: comparing keys")
        compacted = {index: plan for index, plan in self._so_far.plans.items() if plan.compacted}
        if not compacted:
            return {}
        rows = self._states.filter(lambda row: isinstance(row, KeyEntry)).map(astuple)
        # Retention may have cut a side between the reading of its bounds and of its records.
        read = {index: self._read.get(index, PartitionReading(index)) for index in compacted}
        cuts = [
            (
                index,
                plan.source.cut or read[index].source_start > plan.source.start,
                plan.target.cut or read[index].target_start > plan.target.start,
            )
            for index, plan in compacted.items()
        ]
        entries, cut = self._session.createDataFrame(rows, ENTRIES), self._session.createDataFrame(cuts, CUTS)
        return state_counts(entries, cut, compacted)

    def locate(self, suspects: Sequence[Suspect]) -> Mapping[int, Located]:
        """Reads the suspects again, to name the first difference of each."""
        if not suspects:
            return {}
        self._session.sparkContext.setJobDescription("verify: looking for the first difference")
        loads = [(suspect, float(suspect.plan.source.end + suspect.plan.target.end)) for suspect in suspects]
        return {row.index: row for row in self._spread(loads, _TASKS_A_CORE, partial(_in_worker, locate)).collect()}

    def write_chunks(self, folder: str) -> None:
        """Writes ``chunks`` in ``folder``: one row per partition for its equal part, and one per different stretch."""
        self._session.sparkContext.setJobDescription("verify: writing the chunk table")
        rows = [
            (p.flow, p.source.topic, p.target.topic, p.source.partition, number, *astuple(stretch))
            for p in self._so_far.plans.values()
            if (reading := self._read.get(p.index)) is not None
            for number, stretch in enumerate(reading.stretches)
        ]
        table = self._session.createDataFrame(rows, CHUNKS).orderBy("flow", "source_topic", "partition", "chunk")
        table.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/chunks")

    def close(self) -> None:
        self._states.unpersist()

    def _spread(self, loads: Sequence[tuple[Any, float]], tasks_a_core: int, work: Callable[[Any], Any]) -> Any:
        """An RDD with what ``work`` gives, in tasks of about the same load: so many that all cores are busy beside a
        long task, and so few that Spark's overhead stays small."""
        context = self._session.sparkContext
        bundles = bundled(loads, tasks_a_core * int(context.defaultParallelism))
        return context.parallelize(bundles, max(1, len(bundles))).flatMap(work)


def _in_worker(read: Any, bundle: Any) -> Any:
    with stderr_while_at_work():
        yield from each(read, bundle)


def _piece_in_worker(bundle: Sequence[Continued]) -> Any:
    with stderr_while_at_work():
        over = after(PIECE_S)
        yield from each(lambda given, readers: compared(given, readers, over), bundle, over)
