"""Which offsets of a partition a sample has: the same for the same seed and the same bounds."""

import random
from dataclasses import replace

from reconciler.replication.runs.verification import Sample
from reconciler_mirror.verify.model import PartitionRange

PART = 2_000
"""Offsets of one part, where the sample has several."""
MOST_PARTS = 20


def sampled(plan: PartitionRange, sample: Sample) -> PartitionRange:
    """Parts at random, one of each of as many stretches of the same length. Compacted topics are compared whole: what
    survives of them is one state."""
    start, end = plan.source.start, min(plan.position, plan.source.end)
    there = end - start
    wanted = sample.records or round(there * sample.fraction)
    wanted = max(1, wanted)
    if plan.compacted or there <= wanted:
        return plan
    # The name of the partition, so that not all begin at the same place.
    chosen = random.Random(f"{sample.seed} {plan.flow} {plan.source.topic} {plan.source.partition}")  # noqa: S311
    count = max(1, min(MOST_PARTS, wanted // PART))
    length, parts = wanted // count, []
    for number in range(count):
        low, high = start + there * number // count, start + there * (number + 1) // count
        begin = chosen.randint(low, max(low, high - length))
        parts.append((begin, min(begin + length, high)))
    return replace(plan, parts=tuple(parts))
