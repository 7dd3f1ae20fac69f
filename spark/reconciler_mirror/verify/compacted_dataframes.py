"""Compacted partitions as DataFrame operations: the last record of each key on both sides, joined and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everyone writes it
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from mirror.verify.ranges import SOURCE, TARGET

SUSPECTS = 100
_VERDICTS = ("equal", "gone", "changing", "older at the source", "older at the target", "differs")


def struct(*fields: tuple[str, Any]) -> StructType:
    return StructType([StructField(name, kind(), nullable=False) for name, kind in fields])


ENTRIES = struct(
    ("index", IntegerType),
    ("side", StringType),
    ("key", BinaryType),
    ("offset", LongType),
    ("digest", BinaryType),
    ("tombstone", BooleanType),
    ("late", BooleanType),
)
CUTS = struct(("index", IntegerType), ("source_cut", BooleanType), ("target_cut", BooleanType))


@dataclass(frozen=True, slots=True)
class StateCounts:
    """Keys of one partition. ``suspects``: digests of the first keys that differ, at most ``SUSPECTS``."""

    source: int
    target: int
    equal: int
    differing: int
    changing: int
    older_source: int
    older_target: int
    suspects: tuple[bytes, ...]


def state_counts(entries: Any, cuts: Any) -> Mapping[int, StateCounts]:
    """``entries``: a DataFrame as ENTRIES; ``cuts``: as CUTS. Partitions without any entry are not in the answer."""
    last = entries.groupBy("index", "side", "key").agg(
        F.max_by(F.struct("offset", "digest", "tombstone", "late"), "offset").alias("last")
    )
    judged = _judged(_both(last).cache(), cuts).cache()
    counted = judged.groupBy("index").pivot("verdict", list(_VERDICTS)).count().collect()
    sides = {
        row["index"]: row
        for row in judged.groupBy("index")
        .agg(F.count("source_offset").alias(SOURCE), F.count("target_offset").alias(TARGET))
        .collect()
    }
    suspects = _suspects(judged)
    judged.unpersist()
    return {row["index"]: _counts(row, sides[row["index"]], suspects.get(row["index"], ())) for row in counted}


def _counts(row: Any, sides: Any, suspects: tuple[bytes, ...]) -> StateCounts:
    number = {verdict: row[verdict] or 0 for verdict in _VERDICTS}
    return StateCounts(
        sides[SOURCE],
        sides[TARGET],
        number["equal"],
        number["differs"],
        number["changing"],
        number["older at the source"],
        number["older at the target"],
        suspects,
    )


def _suspects(judged: Any) -> Mapping[int, tuple[bytes, ...]]:
    order = Window.partitionBy("index").orderBy(F.coalesce("source_offset", "target_offset"))
    ranked = judged.where(F.col("verdict") == "differs").withColumn("rank", F.row_number().over(order))
    found: dict[int, tuple[bytes, ...]] = {}
    for row in ranked.where(F.col("rank") <= SUSPECTS).orderBy("index", "rank").collect():
        found[row["index"]] = (*found.get(row["index"], ()), bytes(row["key"]))
    return found


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
