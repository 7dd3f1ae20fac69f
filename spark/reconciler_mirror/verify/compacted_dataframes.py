"""Compares compacted partitions as DataFrame operations: last records by key, joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everyone writes it
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from reconciler_mirror.verify.model import SOURCE, TARGET, PartitionRange
from reconciler_mirror.verify.tasks import ChunkCounts, Suspect

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
    judged = _judged(_both(last).cache(), cuts).cache()
    counted = judged.groupBy("index").pivot("verdict", list(_COUNTED)).count().collect()
    sides = {
        row["index"]: row
        for row in judged.groupBy("index")
        .agg(F.count("source_offset").alias(SOURCE), F.count("target_offset").alias(TARGET))
        .collect()
    }
    suspects = _suspects(judged)
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


def _suspects(judged: Any) -> Mapping[int, tuple[bytes, ...]]:
    order = Window.partitionBy("index").orderBy(F.coalesce("source_offset", "target_offset"))
    ranked = judged.where(F.col("verdict") == "differs").withColumn("rank", F.row_number().over(order))
    suspects: dict[int, tuple[bytes, ...]] = {}
    for row in ranked.where(F.col("rank") <= SUSPECTS).orderBy("index", "rank").collect():
        suspects[row["index"]] = (*suspects.get(row["index"], ()), bytes(row["key"]))
    return suspects


def _both(last: Any) -> Any:
    """index, key, ours, theirs (offset, digest, tombstone, late; null where a side has no such key), equal."""
    ours = last.where(F.col("side") == SOURCE).select("index", "key", F.col("last").alias("ours"))
    theirs = last.where(F.col("side") == TARGET).select("index", "key", F.col("last").alias("theirs"))
    equal = F.coalesce(F.col("ours.digest") == F.col("theirs.digest"), F.lit(False))
    return ours.join(theirs, ["index", "key"], "full_outer").withColumn("equal", equal)


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
