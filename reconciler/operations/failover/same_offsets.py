"""What a move reports of a flow that keeps offsets: nothing is translated; at a failback, whether both sides differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, FailoverFacts, Level, PartedPartition
from reconciler.text import counted, first_of

SHOWN = 5
PAGE = "docs/mirror/same-offsets.md#failback"


def same_offsets_checks(facts: FailoverFacts, *, accept_loss: bool) -> Iterator[FailoverCheck]:
    """``accept_loss``: consumers move although the destination lacks records, or has others."""
    move = facts.move
    if not facts.same_offsets:
        return
    text = (
        f"offsets mean the same record on {move.origin} as on {move.destination}: nothing is translated, and positions "
        "that applications keep outside of Kafka (databases, checkpoints of Flink or Spark) hold there, too"
    )
    yield FailoverCheck("same-offsets", Level.FINE, text)
    unknown = [each for each in facts.parted if each.unknown]
    if unknown:
        whys = first_of([f"{each.source[0]}-{each.source[1]}: {each.unknown}" for each in unknown], SHOWN)
        text = f"whether {counted(len(unknown), 'partition')} are the same on both sides is not known: {whys}"
        todo = f"Compare them: reconciler verify ENV --flow {move.flow}"
        yield FailoverCheck("parted-unknown", Level.WARNS, text, todo)
    known = [each for each in facts.parted if not each.unknown]
    level = Level.WARNS if accept_loss else Level.STOPS
    if apart := [each for each in known if each.diverged]:
        yield _diverged(move, apart, level)
    if behind := [each for each in known if each.target_records and not each.diverged]:
        yield _not_filled(move, behind, level)
    if ahead := [each for each in known if each.source_records and not each.diverged]:
        text = f"{move.destination} has records that are not copied to {move.origin}: {_listed(ahead, move)}"
        yield FailoverCheck("not-copied", Level.WARNS, text)


def _diverged(move: ConsumerMove, partitions: Sequence[PartedPartition], level: Level) -> FailoverCheck:
    alone = sum(each.source_records for each in partitions)
    difference = (
        f"both sides have records of their own at the same offsets; {counted(alone, 'record')} of {move.destination} "
        "were never copied"
    )
    todo = (
        f"Keep them: reconciler diverged export ENV {move.flow} --to-file FILE. Then let a flow recreate the topic on "
        f"{move.destination}"
    )
    return _way_on("diverged", level, (difference, _listed(partitions, move)), (todo, "to move consumers all the same"))


def _not_filled(move: ConsumerMove, partitions: Sequence[PartedPartition], level: Level) -> FailoverCheck:
    lacking = sum(each.target_records for each in partitions)
    difference = (
        f"{move.destination} lacks {counted(lacking, 'record')} that were written on {move.origin} since; its logs are "
        "the beginning of those there, so they can be filled up"
    )
    todo = (
        f"Let a flow from {move.origin} to {move.destination} with offsets: same take the place of {move.flow} until "
        "it has caught up"
    )
    return _way_on(
        "not-filled", level, (difference, _listed(partitions, move)), (todo, "to move consumers without them")
    )


def _way_on(code: str, level: Level, finding: tuple[str, str], way: tuple[str, str]) -> FailoverCheck:
    """``finding``: what differs, and in which partitions; ``way``: what to do first, and what else a consent does."""
    (difference, partitions), (first, consent) = finding, way
    return FailoverCheck(
        code, level, f"{difference}: {partitions}", f"{first} ({PAGE}), or pass --accept-loss {consent}"
    )


def _listed(partitions: Sequence[PartedPartition], move: ConsumerMove) -> str:
    """At a failback the destination is the flow's source."""
    each_words = [
        f"{each.source[0]}-{each.source[1]} from {each.at:,} on ({each.source_records:,} on {move.destination} up to "
        f"{each.source_end:,}, {each.target_records:,} on {move.origin} up to {each.target_end:,})"
        for each in partitions
    ]
    return first_of(each_words, SHOWN)
