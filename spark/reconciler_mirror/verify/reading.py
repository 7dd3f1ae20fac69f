"""The progress of one partition's comparison; pieces add up."""

from dataclasses import dataclass, replace

from reconciler.replication.runs.verification import FirstDifference

MOST_NAMED = 20
"""Named differences per partition, at most; all are counted."""


@dataclass(frozen=True, slots=True)
class ComparedStretch:
    """A row of the chunk table: the equal part of a piece, or a stretch of different records. ``first_*``: None if that
    side has none."""

    equal: bool
    source_records: int
    target_records: int
    first_source: int | None
    first_target: int | None


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """``*_start``: first offsets of the comparison; ``*_next``: next offsets to compare; ``done``: nothing is left.
    ``older_*``: records on one side only, before the first common one. ``source_end``: the source offset after the
    last compared record. ``equal``, ``source_records``, ``target_records``, ``differing``: numbers of records.
    ``differences``: the first ones. ``error`` and ``todo``: why it could not be read, and the remedy. ``one_client``:
    clusters that librdkafka could not log in to, and why. ``by_bytes``: equal records in equal batches; ``sampled``:
    equal records that librdkafka read, too. ``unconfirmed``: a second reading did not find a difference. ``rest``: the
    source offset from which on nothing is compared, because both sides have nothing in common any more. ``unsure``:
    source offsets among which the first difference of a sample lies, if its part was placed by most of its records."""

    index: int
    source_start: int = 0
    target_start: int = 0
    older_source: int = 0
    older_target: int = 0
    source_end: int = 0
    error: str = ""
    todo: str = ""
    one_client: tuple[tuple[str, str], ...] = ()
    by_bytes: int = 0
    sampled: int = 0
    source_next: int = 0
    target_next: int = 0
    done: bool = True
    equal: int = 0
    source_records: int = 0
    target_records: int = 0
    differing: int = 0
    differences: tuple[FirstDifference, ...] = ()
    unconfirmed: bool = False
    rest: int | None = None
    unsure: tuple[int, int] | None = None
    stretches: tuple[ComparedStretch, ...] = ()


def together(first: PartitionReading | None, then: PartitionReading) -> PartitionReading:
    """Adds the next piece, ``then``, to ``first``; ``then`` numbers its records from its own first one."""
    if first is None:
        return then
    numbered = tuple(
        replace(difference, record=difference.record + first.source_records) for difference in then.differences
    )
    return replace(
        then,
        source_start=first.source_start,
        target_start=first.target_start,
        older_source=first.older_source,
        older_target=first.older_target,
        source_end=max(first.source_end, then.source_end),
        one_client=tuple(sorted({*first.one_client, *then.one_client})),
        by_bytes=first.by_bytes + then.by_bytes,
        sampled=first.sampled + then.sampled,
        equal=first.equal + then.equal,
        source_records=first.source_records + then.source_records,
        target_records=first.target_records + then.target_records,
        differing=first.differing + then.differing,
        differences=(*first.differences, *numbered)[:MOST_NAMED],
        unconfirmed=first.unconfirmed or then.unconfirmed,
        unsure=first.unsure if first.differences else then.unsure,
        stretches=(*first.stretches, *then.stretches),
    )
