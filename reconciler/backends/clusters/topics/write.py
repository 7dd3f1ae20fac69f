"""Creates, alters and deletes topics in batches: send, wait out quotas, confirm, report.

An outcome is "done" only when the cluster shows it. A batch that was cut off half way can be performed again: what
is already as wanted counts as done.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reconciler.backends.clusters.in_batches import perform_in_batches
from reconciler.backends.clusters.topics.agreement import disagreement, obstacle
from reconciler.backends.clusters.topics.batches import PlannedTopicChange, cut, steps, topic_items
from reconciler.backends.clusters.topics.confirm import Failures, await_agreement
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.clusters.topics.requests import send
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.errors import ClusterError
from reconciler.model.changes import AlterConfigs, CreateTopic, DeleteTopic, Subject
from reconciler.model.plan import Outcome, Planned

QUOTA_PATIENCE_SECONDS = 300.0
"""How long a request may be throttled without a single item getting through."""
QUOTA_PATIENCE_VALIDATING_SECONDS = 20.0

ASKED_AGAIN = 50
"""Refused topics whose every config is asked alone."""

_log = logging.getLogger("reconciler.kafka")


def perform(
    connection: AdminConnection, changes: Sequence[Planned], progress: Callable[[Outcome], None]
) -> tuple[Outcome, ...]:
    """Creates, then grows, then configures; one outcome an item, in the order of ``changes``. Never raises for one."""

    def failures(batch: Sequence[PlannedTopicChange]) -> list[str]:
        failed = _perform_batch(connection, batch)
        return [failed.get(item.id, "") for item in batch]

    outcomes = {done.id: done for done in perform_in_batches(cut(topic_items(changes)), failures, progress)}
    return tuple(outcomes[planned.id] for planned in changes)


def validate(connection: AdminConnection, items: Sequence[PlannedTopicChange]) -> Mapping[Subject, str]:
    """Subject -> the broker's refusal, by validate-only requests.

    Raises ClusterError when no refusal was found but something could not be asked (no permission, no answer).
    """
    refusals: dict[Subject, str] = {}
    refused_items: list[PlannedTopicChange] = []
    not_asked: list[ClusterError] = []
    for batch in cut([replace(item, change=next(steps(item.change))) for item in items]):
        answers = _send_patiently(connection, batch, validate_only=True)
        for item in batch:
            match answers[item.id]:
                case None:
                    pass
                case ClusterError(kind="exists"):
                    refusals[item.change.subject] = NOT_LISTED
                case ClusterError(kind="invalid" | "missing" | "other") as refused:
                    refusals[item.change.subject] = f"{refused.what}. {refused.todo}"
                    refused_items.append(item)
                case ClusterError() as error:
                    not_asked.append(error)
    if not_asked and not refusals:
        raise not_asked[0]
    return refusals | _all_that_is_wrong(connection, refused_items[:ASKED_AGAIN])


def _all_that_is_wrong(connection: AdminConnection, refused: Sequence[PlannedTopicChange]) -> dict[Subject, str]:
    """A broker names the first bad config of a topic only, so each is sent alone. Subject -> what is wrong."""
    alone = [
        PlannedTopicChange(f"{item.id} {number}", replace(item.change, configs=(config,)))
        for item in refused
        if isinstance(item.change, CreateTopic | AlterConfigs) and len(item.change.configs) > 1
        for number, config in enumerate(item.change.configs)
    ]
    turns = sorted(alone, key=lambda item: int(item.id.rpartition(" ")[2]))  # a request names each topic once
    answers = {
        id_: error
        for batch in cut(turns)
        for id_, error in _send_patiently(connection, batch, validate_only=True).items()
    }
    wrong: dict[Subject, dict[str, str]] = {}
    for item in alone:
        error = answers.get(item.id)
        if error is not None and error.kind == "invalid":
            wrong.setdefault(item.change.subject, {})[error.what] = error.todo
    return {subject: f"{'; '.join(whats)}. {next(iter(whats.values()))}" for subject, whats in wrong.items()}


def _perform_batch(connection: AdminConnection, batch: Sequence[PlannedTopicChange]) -> Failures:
    """What failed; all others are done."""
    try:
        return _send_and_agree(connection, batch)
    except ClusterError as error:
        return {item.id: f"{item.change.ref}: {error}" for item in batch}


def _send_and_agree(connection: AdminConnection, items: Sequence[PlannedTopicChange]) -> Failures:
    failures, waiting = _before(connection, items)
    answers = _send_in_steps(connection, waiting)
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


# The answer does not show whether the cluster is as wanted: the request may have been done all the same, or earlier.
NOT_LISTED = (
    "it exists already, although the broker that was asked does not list it. That broker is behind the controller, as"
    " after many changes at once, or the principal may not Describe this topic: plan again in a moment, or grant it"
)
_DOUBTFUL = ("exists", "unreachable")


def _before(
    connection: AdminConnection, items: Sequence[PlannedTopicChange]
) -> tuple[Failures, list[PlannedTopicChange]]:
    """What must not be sent, with the reason, and what is to be sent. What is already as wanted is in neither."""
    failures: Failures = {}
    waiting: list[PlannedTopicChange] = []
    existing = [item for item in items if not isinstance(item.change, CreateTopic)]
    live = read_cluster(connection, [item.change.ref.name for item in existing]) if existing else None
    for item in items:
        if isinstance(item.change, CreateTopic):
            waiting.append(item)
            continue
        topic = live.topics.get(item.change.ref.name) if live else None
        if live and (hidden := live.hidden.get(item.change.ref.name)) is not None:
            failures[item.id] = f"{item.change.ref}: {hidden.error}\nNothing was changed on it\n{hidden.todo}"
        elif reason := obstacle(item.change, topic):
            failures[item.id] = f"{item.change.ref} {reason}\nNothing was changed on it\nRun plan again."
        elif disagreement(item.change, topic):
            waiting.append(item)
    return failures, waiting


def _send_in_steps(connection: AdminConnection, items: Sequence[PlannedTopicChange]) -> dict[str, ClusterError | None]:
    """A change that is too large for one request is made by several, as far as they succeed."""
    answers: dict[str, ClusterError | None] = {}
    left = {item.id: list(steps(item.change)) for item in items}
    while left:
        now = [PlannedTopicChange(id_, parts.pop(0)) for id_, parts in left.items()]
        answers |= _send_patiently(connection, now, validate_only=False)
        left = {id_: parts for id_, parts in left.items() if parts and answers[id_] is None}
    return answers


def _send_patiently(
    connection: AdminConnection, items: Sequence[PlannedTopicChange], validate_only: bool
) -> dict[str, ClusterError | None]:
    """Sends again what the controller's mutation quota held back (KIP-599), for as long as something moves."""
    answers: dict[str, ClusterError | None] = {}
    patience = QUOTA_PATIENCE_VALIDATING_SECONDS if validate_only else QUOTA_PATIENCE_SECONDS
    rest, pause, moved = list(items), 0.5, time.monotonic()
    while rest:
        errors = send(connection, rest, validate_only)
        throttled = [item for item in rest if (error := errors[item.id]) is not None and error.kind == "quota"]
        answers |= errors
        if len(throttled) < len(rest):
            pause, moved = 0.5, time.monotonic()
        if not throttled or time.monotonic() - moved > patience:
            break
        _log.info("cluster %s throttles: %d changes wait", connection.speaker.cluster, len(throttled))
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret
        rest, pause = throttled, min(pause * 2, 5.0)
    return answers
