"""Performs topic changes batch by batch: check, send, wait out quotas, and see that reads agree, then report.

An outcome is "done" only when the cluster shows it. A batch that was cut off half way can be performed again: what
is already as wanted counts as done.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.changes import AlterConfigs, CreateTopic, DeleteTopic
from reconciler.edges.kafka.agreement import disagreement, obstacle
from reconciler.edges.kafka.batches import Item, cut, topic_items
from reconciler.edges.kafka.connection import Connection
from reconciler.edges.kafka.reading import read_cluster
from reconciler.edges.kafka.requests import send
from reconciler.edges.kafka.settling import Failures, await_agreement
from reconciler.errors import ClusterError
from reconciler.live import LiveTopic
from reconciler.plans import Outcome, Planned, Result

QUOTA_PATIENCE_SECONDS = 300.0
"""How long a request may be throttled without a single item getting through."""
QUOTA_PATIENCE_VALIDATING_SECONDS = 20.0

ASKED_AGAIN = 50
"""Refused topics whose every config is asked alone."""

_log = logging.getLogger("reconciler.kafka")


def perform(
    connection: Connection, changes: Sequence[Planned], progress: Callable[[Outcome], None]
) -> tuple[Outcome, ...]:
    """Creates, then grows, then configures; one outcome an item, in the order of ``changes``. Never raises for one."""
    outcomes: dict[str, Outcome] = {}
    for batch in cut(topic_items(changes)):
        began = time.monotonic()
        failures = _perform_batch(connection, batch)
        seconds = (time.monotonic() - began) / len(batch)
        for item in batch:
            error = failures.get(item.id)
            outcome = Outcome(item.id, Result.FAILED if error else Result.DONE, error or "", seconds)
            outcomes[item.id] = outcome
            progress(outcome)
    return tuple(outcomes[planned.id] for planned in changes)


def validate(connection: Connection, items: Sequence[Item]) -> Mapping[str, str]:
    """str(ref) -> the broker's refusal, by validate-only requests.

    Raises ClusterError when no refusal was found but something could not be asked (no permission, no answer).
    """
    refusals: dict[str, str] = {}
    refused_items: list[Item] = []
    not_asked: list[ClusterError] = []
    for batch in cut(items):
        answers = _send_patiently(connection, batch, validate_only=True)
        for item in batch:
            match answers[item.id]:
                case None:
                    pass
                case ClusterError(kind="exists"):
                    refusals[str(item.change.ref)] = NOT_LISTED
                case ClusterError(kind="invalid" | "missing" | "other") as refused:
                    refusals[str(item.change.ref)] = f"{refused.what}. {refused.todo}"
                    refused_items.append(item)
                case ClusterError() as error:
                    not_asked.append(error)
    if not_asked and not refusals:
        raise not_asked[0]
    return refusals | _all_that_is_wrong(connection, refused_items[:ASKED_AGAIN])


def _all_that_is_wrong(connection: Connection, refused: Sequence[Item]) -> dict[str, str]:
    """A broker names the first bad config of a topic only; each one alone tells them all. str(ref) -> what is wrong."""
    alone = [
        Item(f"{item.id} {number}", replace(item.change, configs=(config,)))
        for item in refused
        if isinstance(item.change, CreateTopic | AlterConfigs) and len(item.change.configs) > 1
        for number, config in enumerate(item.change.configs)
    ]
    turns = sorted(alone, key=lambda item: int(item.id.rpartition(" ")[2]))  # a request names each topic once
    answers = {
        id_: told
        for batch in cut(turns)
        for id_, told in _send_patiently(connection, batch, validate_only=True).items()
    }
    found: dict[str, dict[str, str]] = {}
    for item in alone:
        error = answers.get(item.id)
        if error is not None and error.kind == "invalid":
            found.setdefault(str(item.change.ref), {})[error.what] = error.todo
    return {ref: f"{'; '.join(whats)}. {next(iter(whats.values()))}" for ref, whats in found.items()}


def _perform_batch(connection: Connection, batch: Sequence[Item]) -> Failures:
    """What failed; all others are done."""
    try:
        return _send_and_agree(connection, batch)
    except ClusterError as error:
        return {item.id: f"{item.change.ref}: {error}" for item in batch}


def _send_and_agree(connection: Connection, items: Sequence[Item]) -> Failures:
    failures, waiting = _before(connection, items)
    answers = _send_patiently(connection, waiting, validate_only=False)
    deleted = {item.id for item in waiting if isinstance(item.change, DeleteTopic)}
    doubtful = {
        item_id: error
        for item_id, error in answers.items()
        if error and (error.kind in _DOUBTFUL or (error.kind == "missing" and item_id in deleted))
    }
    failures |= {item_id: str(error) for item_id, error in answers.items() if error and item_id not in doubtful}
    sent = [item for item in waiting if item.id not in failures]
    existed = frozenset(item_id for item_id, error in doubtful.items() if error.kind == "exists")
    for item_id, difference in await_agreement(connection, sent, existed).items():
        error = doubtful.get(item_id)
        failures[item_id] = difference if error is None else f"{error}\n{difference}"
    return failures


# The answer does not tell whether the cluster is as wanted: the request may have been done all the same, or earlier.
NOT_LISTED = (
    "it exists already, although the broker that was asked does not list it. That broker is behind the controller, as"
    " after many changes at once, or the principal may not Describe this topic: plan again in a moment, or grant it"
)
_DOUBTFUL = ("exists", "unreachable")


def _before(connection: Connection, items: Sequence[Item]) -> tuple[Failures, list[Item]]:
    """What must not be sent, with the reason, and what is to be sent. What is already as wanted is in neither."""
    failures: Failures = {}
    waiting: list[Item] = []
    existing = [item for item in items if not isinstance(item.change, CreateTopic)]
    live = _read(connection, existing) if existing else {}
    for item in items:
        if isinstance(item.change, CreateTopic):
            waiting.append(item)
            continue
        topic = live.get(item.change.ref.name)
        if reason := obstacle(item.change, topic):
            failures[item.id] = f"{item.change.ref} {reason}\nNothing was changed on it\nRun plan again."
        elif disagreement(item.change, topic):
            waiting.append(item)
    return failures, waiting


def _send_patiently(
    connection: Connection, items: Sequence[Item], validate_only: bool
) -> dict[str, ClusterError | None]:
    """Sends again what the controller's mutation quota held back (KIP-599), for as long as something moves."""
    answers: dict[str, ClusterError | None] = {}
    patience = QUOTA_PATIENCE_VALIDATING_SECONDS if validate_only else QUOTA_PATIENCE_SECONDS
    rest, pause, moved = list(items), 0.5, time.monotonic()
    while rest:
        told = send(connection, rest, validate_only)
        throttled = [item for item in rest if (error := told[item.id]) is not None and error.kind == "quota"]
        answers |= told
        if len(throttled) < len(rest):
            pause, moved = 0.5, time.monotonic()
        if not throttled or time.monotonic() - moved > patience:
            break
        _log.info("cluster %s throttles: %d changes wait", connection.speaker.cluster, len(throttled))
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret
        rest, pause = throttled, min(pause * 2, 5.0)
    return answers


def _read(connection: Connection, items: Iterable[Item]) -> Mapping[str, LiveTopic]:
    return read_cluster(connection, [item.change.ref.name for item in items]).topics
