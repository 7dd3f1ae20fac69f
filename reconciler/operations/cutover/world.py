"""The port through which steps of a cut-over see and change clusters: ``live`` implements it, tests fake it."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from reconciler.errors import ReconcilerError
from reconciler.kafka.protocol.producers.describe_producers import Producers
from reconciler.model.principals import AclBinding
from reconciler.model.reports.failover import FailoverStep, GroupMove, Key, PartitionState, StepResult
from reconciler.model.reports.health import Fault
from reconciler.model.state.cutover_journal import CutoverJournal
from reconciler.text import counted, one_line

StepNotes = tuple[bool, str]
"""Whether something was changed, and a remark."""
StepEnd = tuple[StepResult, str]
"""The result of a step, and words for it."""


class StepWorld(Protocol):
    """Methods that the loop over steps needs."""

    def now(self) -> float:
        """Seconds."""
        ...

    def say(self, text: str) -> None: ...


class CutoverWorld(StepWorld, Protocol):
    """All methods raise ReconcilerError or its ClusterError; a failed read never returns an empty answer."""

    # the origin

    def rules(self) -> tuple[frozenset[AclBinding], frozenset[AclBinding]]:
        """All existing access rules, and among them the rules of this flow's fence on the plan's topics."""
        ...

    def fence(self, rules: Collection[AclBinding]) -> None: ...

    def unfence(self, rules: Collection[AclBinding]) -> None: ...

    def topics(self) -> Mapping[str, str]:
        """Topics that the plan's expression matches now -> words with their id and partitions."""
        ...

    def partitions(self) -> Mapping[Key, PartitionState]:
        """Positions and ends of the plan's topics, by partition of the origin."""
        ...

    def producers(self) -> Mapping[Key, Producers] | None:
        """Active producers by partition; None if the brokers do not support DescribeProducers."""
        ...

    def names(self, producer_ids: Collection[int]) -> Mapping[int, str]:
        """Producer id -> transactional id, as far as the principal may see it."""
        ...

    def abort(self, transactional_id: str) -> None: ...

    def let_through(self) -> Collection[Key]:
        """Partitions of the origin that the plan's probe may write; empty without a probe."""
        ...

    def unread(self, spans: Mapping[Key, tuple[int, int]]) -> frozenset[Key]:
        """Partitions of the origin with a record between the two offsets."""
        ...

    # the flow

    def is_paused(self) -> bool: ...

    def pause(self) -> StepNotes: ...

    def resume(self) -> StepNotes: ...

    def start_back(self) -> StepNotes: ...

    def hold_back(self) -> StepNotes: ...

    # groups

    def groups(self, *, settled: bool) -> tuple[GroupMove, ...]:
        """Moves of the plan's groups to the destination. ``settled``: wait some seconds until every offset is exact."""
        ...

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        """Sets due offsets at the destination, and returns the resulting groups."""
        ...

    def groups_back(self) -> tuple[GroupMove, ...]:
        """Sets positions on the origin, translated from those on the destination."""
        ...

    # the destination

    def lift(self) -> StepEnd:
        """Removes the deny rules that keep clients from writing the copies."""
        ...

    def restore(self) -> StepEnd:
        """Reverts ``lift``."""
        ...

    def ends(self, drained: Mapping[Key, int]) -> Mapping[Key, int]:
        """End offsets of all topics at the destination that clients of the plan's topics may write, once the origin is
        copied up to ``drained``: later records are from clients."""
        ...

    def own_records(self, since: Mapping[Key, int], enough: int | None = None) -> Mapping[Key, int]:
        """Partitions of the destination with records from these offsets on -> their number, counted up to
        ``enough``."""
        ...

    def early_records(
        self, before: Mapping[Key, int], drained: Mapping[Key, int], there: Mapping[Key, int]
    ) -> Mapping[Key, int]:
        """Partitions of the destination with records of clients between ``before`` and ``there``, its ends at the fence
        and at the pause, while the flow copied the origin up to ``drained`` -> their number."""
        ...

    def members(self) -> Mapping[str, int]:
        """Number of members of the plan's groups at the destination."""
        ...

    def tail(self, ends: Mapping[Key, int], there: Mapping[Key, int]) -> StepNotes:
        """Compares the last records before ``ends`` (origin) with those before ``there`` (destination). Raises
        ReconcilerError for a difference."""
        ...

    # everything else

    def gate_faults(self) -> tuple[Fault, ...]:
        """Failing gates of the plan."""
        ...

    def hook(self, name: str) -> StepNotes | None:
        """Runs a hook; None if the environment has none of this name."""
        ...

    def keep(self, journal: CutoverJournal) -> None:
        """Writes the journal, under the lock."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        """Runs a step under the lock, and records it in the audit record."""
        ...


def step_end(done: bool, text: str, note: str = "") -> StepEnd:
    return (StepResult.DONE if done else StepResult.ALREADY), f"{text}; {note}" if note else text


def unfenced(world: CutoverWorld, none: str, then: str) -> StepEnd:
    """Removes the fence. ``none``: words if it has no rules; ``then``: words for the effect."""
    _, ours = world.rules()
    if not ours:
        return StepResult.ALREADY, none
    world.unfence(ours)
    return StepResult.DONE, f"{counted(len(ours), 'deny rule')} taken back{then}"


def unkept(error: ReconcilerError, again: str) -> str:
    """The remark about a run that could not write its last entry into the journal."""
    return f"all of it is done, but the journal still says that it is under way: {error.what}. Run it again: it {again}"


StepName = TypeVar("StepName", bound=str)


def in_order(
    world: StepWorld,
    acts: Iterable[tuple[StepName, Callable[[], StepEnd]]],
    ended: Callable[[StepName, Callable[[], StepEnd]], StepEnd],
) -> tuple[FailoverStep, ...]:
    """Takes the steps in order, and reports each as it ends. A failed step is the last. ``ended`` runs one step."""
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
