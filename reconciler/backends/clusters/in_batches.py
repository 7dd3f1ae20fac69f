"""What all kinds of resource on a cluster have in common: changes go out in batches, one request each, and count once
every broker shows them; what may not be read is Unknown."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.clusters.topics.name_batches import batched
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.plan import Outcome, Planned, Result

SHOWN_SECONDS = 30.0

Subject = TypeVar("Subject", bound=Hashable)
Change = TypeVar("Change", Planned, PlannedTopicChange)
Made = TypeVar("Made")
Answer = TypeVar("Answer")


class KindControl(Generic[Made]):
    """One kind of resource on one cluster, as one principal. Opens a connection for each call and keeps none.

    ``classes``: of its changes, of which one request takes ``most``.
    """

    classes: tuple[type[Made], ...]
    most = 1_000

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.cluster = cluster
        self.principal = principal

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
        """One outcome a change, in order; never raises for one. ``changes`` are all of this kind, each subject once."""

        def failures(batch: Sequence[Planned]) -> Sequence[str]:
            return self.failures([self._narrowed(planned) for planned in batch])

        return perform_in_batches(batched(changes, self.most), failures, progress)

    def failures(self, changes: Sequence[Made]) -> Sequence[str]:
        """Carries them out. Why each is not done, or empty."""
        raise NotImplementedError

    def _narrowed(self, planned: Planned) -> Made:
        change: object = planned.change
        if not isinstance(change, self.classes):
            raise ValueError(f"{planned.id} is no change of {' or '.join(change.__name__ for change in self.classes)}")
        return change


def perform_in_batches(
    batches: Iterable[Sequence[Change]],
    failures: Callable[[Sequence[Change]], Sequence[str]],
    progress: Callable[[Outcome], None],
) -> tuple[Outcome, ...]:
    """``failures``: carries some out and says of each, in order, why it is not done, or empty. It never raises."""
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
    """Asks each broker until it shows what was done: each acts by its own copy. ``differing``: what a broker shows
    otherwise now. Gives what still differs after ``seconds``, and on which broker; the brokers after it are not asked.
    """
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
    """Of whose change a broker shows nothing, in words. ``requests``: with ``brokers`` and ``described``, whose answers
    ``shows`` looks at."""

    def differing(broker: int) -> list[Subject]:
        shown = requests.described(broker)
        return [subject for subject, change in done.items() if not shows(change, shown)]

    late = until_shown(requests.brokers() if done else (), differing)
    return {subject: f"broker {broker} does not show it yet\nRun plan again." for subject, broker in late.items()}


def unless_refused(subject: str, ask: Callable[[], Answer], *raised: str) -> Answer | Unknown:
    """What may not be asked is Unknown, with the rule to add. Raises ClusterError of the kinds in ``raised``."""
    try:
        return ask()
    except ClusterError as error:
        if error.kind in raised:
            raise
        return Unknown.of(subject, error)
