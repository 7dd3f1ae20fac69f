"""Makes the old source of a flow with same offsets a copy of its target again, before a failback.

Kafka cannot truncate a log at its end. A topic with records of its own on both sides is therefore deleted on the old
source, recreated, and filled from the target, after the old source's own records were saved. Each step checks first
what is left to do, so the same command continues a killed run. A journal keeps what no check can find out: which topics
were deleted, with their configs.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from reconciler.errors import ReconcilerError
from reconciler.model.options import KeepDiverged
from reconciler.model.reports.failover import FailoverStep, PartedPartition, StepResult, diverged_topics, not_compared
from reconciler.model.state.rejoin_journal import RejoinJournal, RejoinTopic
from reconciler.operations.cutover.world import StepEnd
from reconciler.text import counted, first_of

DONE, ALREADY, PLANNED = StepResult.DONE, StepResult.ALREADY, StepResult.PLANNED


class RejoinWorld(Protocol):
    """All methods raise ReconcilerError or its ClusterError; a failed read never returns an empty answer."""

    def parted(self) -> tuple[PartedPartition, ...]:
        """Compares both sides now: partitions with more records on one of them."""
        ...

    def topics(self, names: Collection[str]) -> Mapping[str, RejoinTopic]:
        """Existing topics of the old source, by name."""
        ...

    def undecided(self, names: Collection[str]) -> Sequence[str]:
        """Partitions of these topics on the old source with an open transaction."""
        ...

    def longer(self) -> frozenset[str]:
        """Topics with a partition that ends later on the target than on the old source."""
        ...

    def journal(self) -> RejoinJournal | None: ...

    def record(self, place: str, topics: Sequence[RejoinTopic], *, over: bool) -> None:
        """Writes the journal, under the lock."""
        ...

    def keep(self, partitions: Sequence[PartedPartition]) -> int:
        """Saves the old source's own records of these partitions, and returns the number read back."""
        ...

    def delete(self, topic: RejoinTopic) -> None: ...

    def create(self, topic: RejoinTopic) -> None:
        """Creates a topic; does nothing if it exists like this."""
        ...

    def narrow(self, topics: Collection[str]) -> int:
        """Makes the fence deny producers by name in place of everyone; returns the number of topics that it changed."""
        ...

    def fill(self, topics: Collection[str]) -> str:
        """Copies these topics from the target until the old source has all records. Returns a remark."""
        ...

    def seek(self, topic: str) -> int:
        """Sets the flow's positions in a deleted topic of this name to the new one; returns their number."""
        ...


@dataclass(frozen=True, slots=True)
class RejoinPlan:
    """How both sides become the same, and what only the old source has."""

    flow: str
    source: str
    """The old source."""
    target: str
    """The cluster that it becomes a copy of."""
    place: str
    """Where records are saved, empty if they are discarded."""
    parted: tuple[PartedPartition, ...]
    """Differences that the user agreed to."""
    pending: RejoinJournal | None = None
    """Journal of an unfinished run."""
    choice: KeepDiverged = KeepDiverged.TO_TOPIC
    fenced: tuple[str, ...] = ()
    """Topics to fill on which a fence for everyone would stop the filling mirror, too."""

    @property
    def needed(self) -> bool:
        return self.pending is not None or any(each.target_records for each in self.parted)

    @property
    def own(self) -> tuple[PartedPartition, ...]:
        """Partitions with records that would be lost with their topic."""
        return own_records(self.parted)

    def steps(self) -> Iterator[FailoverStep]:
        """The planned steps."""
        if not self.needed:
            return
        own, old = self.own, self.pending
        if self.fenced:
            text = f"deny producers by name to write {first_of(self.fenced)} on {self.source}, in place of "
            yield FailoverStep("narrow", PLANNED, f"{text}everyone: the mirror that fills a topic has to write it")
        # ``missing``: topics of an unfinished run that no longer differ, because it deleted them or is filling them;
        # this run continues with them.
        topics = sorted(diverged_topics(self.parted))
        missing = [topic.name for topic in old.topics if topic.name not in topics] if old is not None else []
        if own:
            yield FailoverStep("keep", PLANNED, f"{'keep' if self.place else 'DISCARD'} {self.words(own)}")
        elif old is not None:
            did = f"kept in {old.place}" if old.place else "discarded"
            yield FailoverStep("keep", ALREADY, f"an earlier run {did} what only {self.source} had")
        else:
            yield FailoverStep("keep", ALREADY, f"no record is on {self.source} alone in a topic that goes")
        if topics:
            text = f"delete {counted(len(topics), 'topic')} on {self.source}, which cannot be cut, and create again: "
            yield FailoverStep("recreate", PLANNED, text + first_of(topics))
        elif missing:
            text = f"look whether {first_of(missing)} was created again on {self.source}"
            yield FailoverStep("recreate", PLANNED, text)
        yield FailoverStep(
            "fill", PLANNED, f"copy from {self.target} by a mirror job of this machine, until both sides are the same"
        )
        if topics or missing:
            text = f"set positions of {self.flow} in these topics to the new ones"
            yield FailoverStep("seek", PLANNED, text)
        yield FailoverStep("compare", PLANNED, f"compare both sides; nothing is moved unless {self.source} has it all")

    def words(self, own: Sequence[PartedPartition]) -> str:
        places = [f"{p.name} {p.at:,} to {p.source_end:,} ({p.source_records:,})" for p in own]
        count = counted(sum(each.source_records for each in own), "record")
        to = f" in {self.place}" if self.place else ""
        return f"{count} that only {self.source} has{to}: {first_of(places)}"


def own_records(parted: Sequence[PartedPartition]) -> tuple[PartedPartition, ...]:
    """Partitions of the old source with records of its own, in topics to recreate."""
    topics = diverged_topics(parted)
    return tuple(each for each in parted if each.source[0] in topics and each.source_records)


def place_words(choice: KeepDiverged, flow: str, target: str, file: str) -> str:
    """Words for the place of the saved records; empty if they are discarded."""
    match choice:
        case KeepDiverged.TO_FILE:
            return file
        case KeepDiverged.TO_TOPIC:
            return f"{target}:TOPIC.diverged.{flow}"
        case KeepDiverged.DISCARD:
            return ""


class Rejoin:
    """One run, which can be repeated."""

    def __init__(self, world: RejoinWorld, plan: RejoinPlan) -> None:
        self.world, self.plan = world, plan
        self._again = f"Run this again: reconciler failback ENV {plan.flow}" + f" --diverged {plan.choice}"

    def acts(self) -> dict[str, Callable[[], StepEnd]]:
        """Steps by name, in order. Records are saved before their topic is deleted, and positions are set only once
        topics are filled."""
        return {
            **({"narrow": self._narrow} if self.plan.fenced else {}),
            "keep": self._keep,
            "recreate": self._recreate,
            "fill": self._fill,
            "seek": self._seek,
            "compare": self._compare,
        }

    def _narrow(self) -> StepEnd:
        count = self.world.narrow(self.plan.fenced)
        text = f"the fence of {counted(len(self.plan.fenced), 'topic')} on {self.plan.source} names its producers"
        return (DONE if count else ALREADY), text

    def _keep(self) -> StepEnd:
        """Saves the old source's own records, if they are those that the user agreed to, and writes the journal.
        Everything is checked before the first record is saved."""
        plan, before = self.plan, self._journal()
        names = diverged_topics(plan.parted)
        # Reads ends first, then the records before them: a record written later moves an end, and the step that deletes
        # the topic compares ends again.
        live = self.world.topics(names)
        if undecided := self.world.undecided(names):
            raise ReconcilerError(
                f"{plan.source} has open transactions in {first_of(undecided)}",
                "Whether their records will count is not decided, so they cannot be kept. Nothing was deleted.",
                f"Wait until they end, or abort them (kafka-transactions.sh find-hanging). {self._again}",
            )
        parted = self._known()
        # The user consented to counts; with other counts the loss would be another one than agreed.
        alone = own_records(parted)
        if _own(alone) != _own(plan.own) or diverged_topics(parted) != names:
            raise ReconcilerError(
                f"{plan.source} has other records of its own than the plan says: {plan.words(plan.own)}; "
                f"now {plan.words(alone)}",
                "Something still writes there, or has lost records. Nothing was deleted.",
                f"Stop its producers, check with --dry-run, and agree to the new counts. {self._again}",
            )
        if not names:
            return (
                ALREADY,
                f"kept before in {before.place}" if before is not None and before.place else "nothing to keep",
            )
        if missing := sorted(names - live.keys()):
            raise ReconcilerError(
                f"{plan.source} does not describe {first_of(missing)} to the principal apply",
                "How to create it again is not known, so nothing was deleted.",
                "reconciler doctor ENV has the rights that are missing.",
            )
        expected = sum(each.source_records for each in alone)
        count = self.world.keep(alone) if plan.place else expected
        if count != expected:
            raise ReconcilerError(
                f"{count:,} of {expected:,} records of {plan.source} were found in {plan.place} again",
                "All of them have to be there before their topic is deleted. Nothing was deleted.",
                f"Check its retention and its configs. {self._again}",
            )
        # The journal comes last, right before the deletion: from then on it alone knows how the topics were configured.
        # It keeps topics of the unfinished run, which the comparison no longer finds.
        others = [topic for topic in before.topics if topic.name not in names] if before is not None else []
        places = dict.fromkeys(filter(None, (before.place if before is not None else "", plan.place)))
        self.world.record(", ".join(places), [*others, *(live[name] for name in sorted(names))], over=False)
        if not plan.place:
            return DONE, f"{counted(expected, 'record')} that only {plan.source} has are given up, as agreed"
        return DONE, f"{counted(expected, 'record')} kept in {plan.place}, and read back"

    def _recreate(self) -> StepEnd:
        """Deletes and recreates topics with records of their own, since Kafka cannot truncate a log at its end. Refuses
        if a topic was written after its records were saved: later ones would be lost. A topic with another id than in
        the journal is already recreated."""
        made = list[str]()
        for topic in self._recreated():
            live = self.world.topics([topic.name]).get(topic.name)
            if live is not None and live.topic_id == topic.topic_id:
                # Read again right before the deletion, as the fence binds no super users and no clients of a topic
                # without rules.
                if live.ends != topic.ends:
                    raise ReconcilerError(
                        f"{topic.name} on {self.plan.source} was written since its records were kept: "
                        f"it ended at {_ends(topic)}, and ends at {_ends(live)}",
                        "It was not deleted, as what was written since is kept nowhere else.",
                        f"Stop its producers. {self._again}",
                    )
                self.world.delete(topic)
                live = None
            if live is None:
                made.append(topic.name)
            self.world.create(topic)
        if not made:
            return ALREADY, "no topic has to be recreated"
        return DONE, f"{counted(len(made), 'topic')} deleted and created again on {self.plan.source}"

    def _fill(self) -> StepEnd:
        """Fills topics that lack records, by a mirror in the reverse direction."""
        parted, anew = self._without_own_records()
        behind = {each.source[0] for each in parted if each.target_records} | (self.world.longer() & anew)
        if not behind:
            return ALREADY, f"{self.plan.source} has all that {self.plan.target} has"
        return DONE, self.world.fill(behind)

    def _seek(self) -> StepEnd:
        """Positions of a deleted topic mean other records in the new one, so the flow would miss or repeat some."""
        count = sum(self.world.seek(topic.name) for topic in self._recreated())
        text = f"{counted(count, 'position')} of {self.plan.flow} set to the new topics"
        return (DONE, text) if count else (ALREADY, "all positions are of the topics as they are")

    def _compare(self) -> StepEnd:
        """Raises ReconcilerError unless the source has every record of the target: only then may consumers move
        back."""
        parted, anew = self._without_own_records()
        if gone := sorted(anew - self.world.topics(anew).keys()):
            why = "It was deleted here and created again, and is gone by now. Consumers were not moved."
            raise ReconcilerError(f"{self.plan.source} does not have {first_of(gone)}", why, self._again)
        # The fence binds no super users. Without this last look, what they wrote since would be missing where consumers
        # go.
        lacking = sum(each.target_records for each in parted)
        uneven = sorted(self.world.longer() & anew)
        if lacking or uneven:
            missing = counted(lacking, "record") if lacking else f"the last offsets of {first_of(uneven)}"
            raise ReconcilerError(
                f"{self.plan.source} lacks {missing} that {self.plan.target} has by now",
                f"Producers still write on {self.plan.target}. Consumers were not moved.",
                f"Stop them. {self._again}: what is left to copy is little",
            )
        if (journal := self._journal()) is not None:
            self.world.record(journal.place, journal.topics, over=True)
        waiting = sum(each.source_records for each in parted)
        note = (
            f"; {counted(waiting, 'record')} of other topics wait to be copied by {self.plan.flow}" if waiting else ""
        )
        return DONE, f"{self.plan.source} and {self.plan.target} are the same, offset by offset{note}"

    # what several steps need

    def _known(self) -> tuple[PartedPartition, ...]:
        parted = self.world.parted()
        if whys := not_compared(parted):
            why = "A partition that cannot be compared may have records of its own. Nothing more was done."
            raise ReconcilerError(f"whether both sides are the same is not known: {whys}", why, self._again)
        return parted

    def _journal(self) -> RejoinJournal | None:
        journal = self.world.journal()
        return None if journal is None or journal.over else journal

    def _recreated(self) -> tuple[RejoinTopic, ...]:
        """Topics that this rejoin deletes and recreates."""
        return () if (journal := self._journal()) is None else journal.topics

    def _without_own_records(self) -> tuple[tuple[PartedPartition, ...], set[str]]:
        """The source's partitions, and the names of recreated topics. Raises ReconcilerError if the source has records
        of its own."""
        parted = self._known()
        if mine := own_records(parted):
            raise ReconcilerError(
                f"{self.plan.source} has records of its own again: {self.plan.words(mine)}",
                "Something wrote there after the topic was created again. Consumers were not moved.",
                f"Stop its producers. {self._again}: they are kept, and the topic is created once more",
            )
        return parted, {topic.name for topic in self._recreated()}


def _own(parted: Sequence[PartedPartition]) -> set[tuple[object, ...]]:
    return {(each.source, each.source_end, each.source_records) for each in parted}


def _ends(topic: RejoinTopic) -> str:
    return first_of([f"{number}: {end:,}" for number, end in enumerate(topic.ends)])
