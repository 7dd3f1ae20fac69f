"""Common parts of all kinds of resource: changes are sent in batches of one request, and count as done once every
broker shows them; a refused read is Unknown."""

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.text import batched

SHOWN_SECONDS = 30.0
"""Brokers replay the metadata log independently; a broker that does not show a change after these seconds is
reported."""

Subject = TypeVar("Subject", bound=Hashable)
Change = TypeVar("Change", Planned, PlannedTopicChange)
Made = TypeVar("Made")
Answer = TypeVar("Answer")


class KindControl(Generic[Made]):
    """One kind of resource on one cluster, as one principal. Opens and closes a connection for each call.

    ``classes``: classes of changes of this kind. ``most``: changes of one request.
    """

    classes: tuple[type[Made], ...]
    most = 1_000

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.cluster = cluster
        self.principal = principal

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
        """One outcome for each change, in order; a failed change raises nothing. ``changes``: of this kind, each
        subject once."""

        def failures(batch: Sequence[Planned]) -> Sequence[str]:
            narrowed: list[Made] = []
            for planned in batch:
                change: object = planned.change
                if not isinstance(change, self.classes):
                    raise ValueError(
                        f"{planned.id} is no change of {' or '.join(each.__name__ for each in self.classes)}"
                    )
                narrowed.append(change)
            return self.failures(narrowed)

        return perform_in_batches(batched(changes, self.most), failures, progress)

    def failures(self, changes: Sequence[Made]) -> Sequence[str]:
        """Carries changes out. Returns an error for each, empty if it is done."""
        raise NotImplementedError


def perform_in_batches(
    batches: Iterable[Sequence[Change]],
    failures: Callable[[Sequence[Change]], Sequence[str]],
    progress: Callable[[Outcome], None],
) -> tuple[Outcome, ...]:
    """``failures``: carries out a batch and returns an error for each change, in order, empty if it is done. It never
    raises."""
    outcomes: list[Outcome] = []
    for batch in batches:
        began = time.monotonic()
        errors = failures(batch)
        seconds = (time.monotonic() - began) / len(batch)
        for planned, error in zip(batch, errors, strict=True):
            outcome = Outcome(planned.id, Result.FAILED if error else Result.DONE, error, seconds)
            outcomes.append(outcome)
            progress(outcome)
    return tuple(outcomes)


def until_shown(
    brokers: Iterable[int], differing: Callable[[int], Collection[Subject]], seconds: float = SHOWN_SECONDS
) -> dict[Subject, int]:
    """Asks each broker until it shows the changes, because each broker enforces its own copy. ``differing``: subjects
    that a broker does not show as requested yet. Returns subjects that still differ after ``seconds``, with their
    broker; later brokers are not asked."""
    until = time.monotonic() + seconds
    for broker in brokers:
        pause = 0.01
        while late := differing(broker):
            if time.monotonic() > until:
                return dict.fromkeys(late, broker)
            time.sleep(pause)
            pause = min(pause * 2, 1.0)
    return {}


def not_shown(requests: Any, done: Mapping[Subject, Made], shows: Callable[[Made, Any], bool]) -> Mapping[Subject, str]:
    """Subject -> words that name a broker which does not show its change. ``requests`` has ``brokers`` and
    ``described``; ``shows``: whether an answer of the latter contains the change."""

    def differing(broker: int) -> list[Subject]:
        shown = requests.described(broker)
        return [subject for subject, change in done.items() if not shows(change, shown)]

    late = until_shown(requests.brokers() if done else (), differing)
    return {subject: f"broker {broker} does not show it yet\nRun plan again." for subject, broker in late.items()}


def unless_refused(subject: str, ask: Callable[[], Answer], *raised: str) -> Answer | Unknown:
    """The answer; Unknown, with the rule to add, for a refusal. Raises ClusterError of the kinds in ``raised``."""
    try:
        return ask()
    except ClusterError as error:
        if error.kind in raised:
            raise
        return Unknown.of(subject, error)
