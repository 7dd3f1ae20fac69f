"""Compares source and target records as Spark DataFrames: chunks by number, surviving records by key.

The only module of the comparison that imports Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everyone writes it
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from reconciler_mirror.leases.worker_stderr import heard_while_at_work
from reconciler_mirror.verify.chunks import CHUNK_RECORDS, PartitionReading, VerifiedChunk
from reconciler_mirror.verify.first_difference import KeyEntry
from reconciler_mirror.verify.model import SOURCE, TARGET, PartitionRange
from reconciler_mirror.verify.tasks import ChunkCounts, Located, Suspect, bundled, chunks_of, each, entries_of, locate

_TASKS_A_CORE = 8
_BEGINNING = 5_000.0

SUSPECTS = 100
_TYPES = {"int": IntegerType, "long": LongType, "string": StringType, "binary": BinaryType, "boolean": BooleanType}
_OLDER = {"older at the source": "older_source", "older at the target": "older_target"}
_COUNTED = {"equal": "equal", "differs": "differing", "changing": "changing", **_OLDER}
"""Verdict -> field of ``ChunkCounts``."""


def struct(fields: str) -> StructType:
    """``name type, name type``; nothing is null."""
    pairs = (field.split() for field in fields.split(", "))
    return StructType([StructField(name, _TYPES[kind](), nullable=False) for name, kind in pairs])


ENTRIES = struct("index int, side string, key binary, offset long, digest binary, tombstone boolean, late boolean")
CUTS = struct("index int, source_cut boolean, target_cut boolean")


def state_counts(entries: Any, cuts: Any, plans: Mapping[int, PartitionRange]) -> Mapping[int, ChunkCounts]:
    """``entries``: a DataFrame as ENTRIES; ``cuts``: as CUTS. Partitions without any entry are not in the answer.
    Suspects hold digests of the first keys that differ, at most ``SUSPECTS``."""
    last = entries.groupBy("index", "side", "key").agg(
        F.max_by(F.struct("offset", "digest", "tombstone", "late"), "offset").alias("last")
    )
    # index, key, ours, theirs (offset, digest, tombstone, late; null where a side has no such key), equal
    ours, theirs = (
        last.where(F.col("side") == side).select("index", "key", F.col("last").alias(name))
        for side, name in ((SOURCE, "ours"), (TARGET, "theirs"))
    )
    equal = F.coalesce(F.col("ours.digest") == F.col("theirs.digest"), F.lit(False))
    both = ours.join(theirs, ["index", "key"], "full_outer").withColumn("equal", equal)
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
        row["index"]: ChunkCounts(
            sides[row["index"]][SOURCE],
            sides[row["index"]][TARGET],
            suspect=Suspect(plans[row["index"]], keys=suspects[row["index"]]) if row["index"] in suspects else None,
            **{field: row[verdict] or 0 for verdict, field in _COUNTED.items()},
        )
        for row in counted
    }


def _judged(both: Any, cuts: Any) -> Any:
    """index, key, source_offset, target_offset, verdict.

    ``gone``: a tombstone that one side has removed already. ``older``: it lies before the first common record, and the
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


CHUNKS = struct("index int, side string, chunk long, records long, digest string, first_offset long, last_offset long")
PLACES = struct("index int, flow string, source_topic string, target_topic string, partition int")


class DataFrameComparison:
    """One reading of ``plans``, several partitions a Spark task, biggest first. ``close`` frees what is cached."""

    def __init__(self, session: Any, plans: Sequence[PartitionRange]) -> None:
        self._session = session
        self._plans = {plan.index: plan for plan in plans}
        self._read: Mapping[int, PartitionReading] = {}
        self.total_offsets = sum(map(_offsets, plans))
        self._offsets_read = session.sparkContext.accumulator(0)
        self._ordered = _rows(session, [p for p in plans if not p.compacted], chunks_of)
        self._states = _rows(session, [p for p in plans if p.compacted], entries_of)
        chunks = self._ordered.filter(lambda row: isinstance(row, VerifiedChunk)).map(astuple)
        self._chunks = session.createDataFrame(chunks, CHUNKS)

    def read(self) -> Mapping[int, PartitionReading]:
        """Reads everything once. What each partition came to, by index."""
        partition_readings: list[PartitionReading] = []
        for name, rows in (("chunks", self._ordered), ("surviving records", self._states)):
            self._session.sparkContext.setJobDescription(f"verify: reading both sides into {name}")
            is_reading = partial(_is_reading, self._offsets_read, {i: _offsets(p) for i, p in self._plans.items()})
            partition_readings += rows.filter(is_reading).collect()
        self._read = {partition_reading.index: partition_reading for partition_reading in partition_readings}
        return self._read

    @property
    def offsets_read(self) -> int:
        """Of ``total_offsets``, as far as tasks have ended. Spark may count a task twice that it tries again."""
        return min(int(self._offsets_read.value), self.total_offsets)

    def counts(self) -> Mapping[int, ChunkCounts]:
        """By index; a partition without any record is not among them."""
        self._session.sparkContext.setJobDescription("verify: comparing chunks and keys")
        return {**self._chunk_counts(), **self._state_counts()}

    def locate(self, suspects: Sequence[Suspect]) -> Mapping[int, Located]:
        if not suspects:
            return {}
        context = self._session.sparkContext
        context.setJobDescription("verify: looking for the first difference")
        bundles = bundled([(s, float(s.plan.source.end + s.plan.target.end)) for s in suspects], _most(context))
        document = context.parallelize(bundles, len(bundles)).flatMap(partial(_in_worker, locate)).collect()
        return {row.index: row for row in document}

    def write_chunks(self, folder: str) -> None:
        """``chunks`` below ``folder``: one row a chunk and side, with flow, topics and partition."""
        self._session.sparkContext.setJobDescription("verify: writing the chunk table")
        rows = [(p.index, p.flow, p.source.topic, p.target.topic, p.source.partition) for p in self._plans.values()]
        places = self._session.createDataFrame(rows, PLACES)
        table = places.join(self._chunks, "index").drop("index").orderBy("flow", "source_topic", "partition", "chunk")
        table.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/chunks")

    def close(self) -> None:
        self._ordered.unpersist()
        self._states.unpersist()

    def _chunk_counts(self) -> Mapping[int, ChunkCounts]:
        ours, theirs = (self._chunks.where(F.col("side") == side).drop("side").alias(side) for side in (SOURCE, TARGET))
        both = ours.join(theirs, ["index", "chunk"], "full_outer")
        same = F.col("source.digest").eqNullSafe(F.col("target.digest")) & F.col("source.records").eqNullSafe(
            F.col("target.records")
        )
        suspect = F.struct(
            "chunk", F.col("source.first_offset").alias("source"), F.col("target.first_offset").alias("target")
        )
        chunk_counts = both.groupBy("index").agg(
            F.coalesce(F.sum("source.records"), F.lit(0)).alias("source"),
            F.coalesce(F.sum("target.records"), F.lit(0)).alias("target"),
            F.coalesce(F.sum(F.when(same, F.col("source.records"))), F.lit(0)).alias("equal"),
            F.count(F.when(~same, 1)).alias("differing"),
            F.min(F.when(~same, F.col("chunk"))).alias("first"),
            F.min_by(suspect, F.when(~same, F.col("chunk"))).alias("suspect"),
        )
        counts: dict[int, ChunkCounts] = {}
        for row in chunk_counts.collect():
            first: Suspect | None = None
            if row["first"] is not None:
                begins = row["suspect"]
                proved = self._read.get(row["index"], PartitionReading(row["index"])).proved
                skipped = proved + (row["first"] - bool(proved)) * CHUNK_RECORDS
                first = Suspect(self._plans[row["index"]], skipped, begins["source"], begins["target"])
            figures = (row["source"], row["target"], row["equal"], row["differing"])
            counts[row["index"]] = ChunkCounts(*figures, suspect=first)
        return counts

    def _state_counts(self) -> Mapping[int, ChunkCounts]:
        compacted = {index: plan for index, plan in self._plans.items() if plan.compacted}
        if not compacted:
            return {}
        rows = self._states.filter(lambda row: isinstance(row, KeyEntry)).map(astuple)
        # A side is cut, too, where retention moved its beginning between the bounds and the reading.
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


def _rows(session: Any, plans: Sequence[PartitionRange], read: Any) -> Any:
    context = session.sparkContext
    if not plans:
        return context.emptyRDD()
    # A load is in offsets; to begin a partition costs as much as some thousand of them.
    bundles = bundled([(plan, _BEGINNING + _offsets(plan)) for plan in plans], _most(context))
    rows = context.parallelize(bundles, len(bundles)).flatMap(partial(_in_worker, read))
    return rows.persist(StorageLevel.MEMORY_AND_DISK)


def _in_worker(read: Any, bundle: Any) -> Any:
    with heard_while_at_work():
        yield from each(read, bundle)


def _is_reading(offsets_read: Any, offsets: Mapping[int, int], row: Any) -> bool:
    """What a partition came to; it is the last row of its partition."""
    if not isinstance(row, PartitionReading):
        return False
    offsets_read.add(offsets[row.index])
    return True


def _offsets(plan: PartitionRange) -> int:
    return sum(max(0, span.end - span.start) for span in (plan.source, plan.target))


def _most(context: Any) -> int:
    """Tasks: enough that one that takes long keeps no core waiting, few enough that Spark's share stays small."""
    return _TASKS_A_CORE * int(context.defaultParallelism)
