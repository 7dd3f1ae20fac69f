"""What the steps of a cut-over see and do, as a port: ``live`` implements it on clusters, tests in memory."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from reconciler.errors import ReconcilerError
from reconciler.kafka.protocol.producers.describe_producers import Producers
from reconciler.model.acls import AclBinding
from reconciler.model.reports.failover import FailoverStep, GroupMove, Key, PartitionState, StepResult
from reconciler.model.reports.health import Fault
from reconciler.model.state.cutover_journal import CutoverJournal
from reconciler.text import counted, one_line

StepNotes = tuple[bool, str]
"""Whether something was done, and what is worth a word."""
StepEnd = tuple[StepResult, str]
"""How a step ended, and in which words."""


class StepWorld(Protocol):
    """What the loop over steps needs."""

    def now(self) -> float:
        """Seconds."""
        ...

    def say(self, text: str) -> None: ...


class CutoverWorld(StepWorld, Protocol):
    """All raise ReconcilerError, ClusterError among it; what cannot be read is never an empty answer."""

    # the origin

    def rules(self) -> tuple[frozenset[AclBinding], frozenset[AclBinding]]:
        """Access rules that stand now, and those of the plan's topics that a fence of this flow made."""
        ...

    def fence(self, rules: Collection[AclBinding]) -> None: ...

    def unfence(self, rules: Collection[AclBinding]) -> None: ...

    def topics(self) -> Mapping[str, str]:
        """Topics that the plan's choice takes in now -> words of their id and partitions."""
        ...

    def partitions(self) -> Mapping[Key, PartitionState]:
        """Of the plan's topics, by partition of the origin."""
        ...

    def producers(self) -> Mapping[Key, Producers] | None:
        """None: the brokers do not tell."""
        ...

    def names(self, producer_ids: Collection[int]) -> Mapping[int, str]:
        """Transactional ids, as far as they can be seen."""
        ...

    def abort(self, transactional_id: str) -> None: ...

    def let_through(self) -> Collection[Key]:
        """Partitions of the origin that the plan's probe may write; none without a probe."""
        ...

    def unread(self, spans: Mapping[Key, tuple[int, int]]) -> frozenset[Key]:
        """Partitions of the origin with a record in their span."""
        ...

    # the flow

    def is_paused(self) -> bool: ...

    def pause(self) -> StepNotes: ...

    def resume(self) -> StepNotes: ...

    def start_back(self) -> StepNotes: ...

    def hold_back(self) -> StepNotes: ...

    # groups

    def groups(self, *, settled: bool) -> tuple[GroupMove, ...]:
        """To the destination. ``settled``: waits until every offset is exact, for some seconds."""
        ...

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        """Sets what is due at the destination. Gives the groups as they are then."""
        ...

    def groups_back(self) -> tuple[GroupMove, ...]:
        """Sets the groups' positions on the origin by those on the destination."""
        ...

    # the destination

    def lift(self) -> StepEnd:
        """Clients may write the copies, which rules kept to the mirror."""
        ...

    def restore(self) -> StepEnd:
        """Takes ``lift`` back."""
        ...

    def ends(self, drained: Mapping[Key, int]) -> Mapping[Key, int]:
        """Of all topics there that clients of the plan's topics may write, once the origin is copied up to
        ``drained``: what lies beyond is of clients."""
        ...

    def own_records(self, since: Mapping[Key, int], enough: int | None = None) -> Mapping[Key, int]:
        """Partitions of the destination that have records from these offsets on -> how many, at least ``enough``."""
        ...

    def members(self) -> Mapping[str, int]:
        """Of the plan's groups at the destination."""
        ...

    def tail(self, ends: Mapping[Key, int], there: Mapping[Key, int]) -> StepNotes:
        """Compares the last records before ``ends`` with the last ones before ``there``. Raises ReconcilerError for a
        difference."""
        ...

    # everything else

    def gate_faults(self) -> tuple[Fault, ...]:
        """Gates of the plan that do not hold."""
        ...

    def hook(self, name: str) -> StepNotes | None:
        """None: there is none of this name."""
        ...

    def keep(self, journal: CutoverJournal) -> None:
        """While the lock is ours."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        """In the audit record, while the lock is ours."""
        ...


def step_end(done: bool, text: str, note: str = "") -> StepEnd:
    return (StepResult.DONE if done else StepResult.ALREADY), f"{text}; {note}" if note else text


def unfenced(world: CutoverWorld, none: str, then: str) -> StepEnd:
    """Takes the fence back. ``none``: what to say where no rule of it stands; ``then``: what follows from it."""
    _, ours = world.rules()
    if not ours:
        return StepResult.ALREADY, none
    world.unfence(ours)
    return StepResult.DONE, f"{counted(len(ours), 'deny rule')} taken back{then}"


def unkept(error: ReconcilerError, again: str) -> str:
    """What is to know when the last word of a run did not come into its journal."""
    return f"all of it is done, but the journal still says that it is under way: {error.what}. Run it again: it {again}"


StepName = TypeVar("StepName", bound=str)


def in_order(
    world: StepWorld,
    acts: Iterable[tuple[StepName, Callable[[], StepEnd]]],
    ended: Callable[[StepName, Callable[[], StepEnd]], StepEnd],
) -> tuple[FailoverStep, ...]:
    """Takes the steps, and tells each as it ends. One that fails is the last. ``ended`` takes one step."""
    steps: list[FailoverStep] = []
    for name, act in acts:
        at = world.now()
        try:
            end = ended(name, act)
        except ReconcilerError as error:
            end = (StepResult.FAILED, str(error))
        step = FailoverStep(name, *end, world.now() - at)
        world.say(f"{step.name:12} {step.result.value:8} {one_line(step.text)}")
        steps.append(step)
        if step.result is StepResult.FAILED:
            break
    return tuple(steps)
