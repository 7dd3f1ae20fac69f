"""Creates, alters and deletes topics in batches: send, wait out quotas, confirm, report.

An outcome is "done" only when the cluster shows it. A batch that was cut off half way can be performed again: what
is already as wanted counts as done.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, assert_never

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from reconciler.backends.clusters.in_batches import perform_in_batches
from reconciler.backends.clusters.topics.batches import PlannedTopicChange, cut, steps, topic_items
from reconciler.backends.clusters.topics.confirm import Failures, await_agreement, disagreement, obstacle
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import REQUEST_SECONDS, AdminConnection
from reconciler.errors import ClusterError
from reconciler.model.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Subject
from reconciler.model.plan import Outcome, Planned

OPERATION_SECONDS = 15.0
QUOTA_PATIENCE_SECONDS = 300.0
"""How long a request may be throttled without a single item getting through."""
QUOTA_PATIENCE_VALIDATING_SECONDS = 20.0

ASKED_AGAIN = 50
"""Refused topics whose every config is asked alone."""

NOT_LISTED = (
    "it exists already, although the broker that was asked does not list it. That broker is behind the controller, as"
    " after many changes at once, or the principal may not Describe this topic: plan again in a moment, or grant it"
)
_DOUBTFUL = ("exists", "unreachable")
"""Kinds of answers that do not show whether the cluster is as wanted: the request may have been done, now or before."""
_REMOVE, _SET = AlterConfigOpType.DELETE, AlterConfigOpType.SET
_log = logging.getLogger("reconciler.kafka")


_ASKED = {
    CreateTopic: errors.create_topic,
    AddPartitions: errors.add_partitions,
    AlterConfigs: errors.alter_configs,
    DeleteTopic: errors.delete_topic,
}


def send(
    connection: AdminConnection, batch: Sequence[PlannedTopicChange], validate_only: bool
) -> Mapping[str, ClusterError | None]:
    """The controller's answer by item id; None: accepted. ``batch`` is of one kind and names no topic twice."""
    if not batch:
        return {}
    connection.wait_out_throttle()
    limits: dict[str, Any] = {"request_timeout": REQUEST_SECONDS, "validate_only": validate_only}
    patient = {**limits, "operation_timeout": OPERATION_SECONDS}
    topics: list[NewTopic] = []
    parts: list[NewPartitions] = []
    resources: list[ConfigResource] = []
    deletes: list[str] = []
    futures: dict[str, Future[Any]] = {}
    try:
        for change in [item.change for item in batch]:
            match change:
                case CreateTopic():
                    factor = -1 if change.replication_factor is None else change.replication_factor
                    configs = {each.key: each.after for each in change.configs if each.after is not None}
                    topics.append(NewTopic(change.ref.name, change.partitions, factor, config=configs))
                case AddPartitions():
                    parts.append(NewPartitions(change.ref.name, change.after))
                case AlterConfigs():
                    entries = [
                        ConfigEntry(each.key, each.after, incremental_operation=_REMOVE if each.after is None else _SET)
                        for each in change.configs
                    ]
                    resources.append(ConfigResource(ResourceType.TOPIC, change.ref.name, incremental_configs=entries))
                case DeleteTopic():
                    deletes.append(change.ref.name)
                case _:
                    assert_never(change)
        if topics:
            futures |= connection.admin.create_topics(topics, **patient)
        if parts:
            futures |= connection.admin.create_partitions(parts, **patient)
        if resources:
            altered = connection.admin.incremental_alter_configs(resources, **limits)
            futures |= {resource.name: future for resource, future in altered.items()}
        if deletes:
            futures |= connection.admin.delete_topics(
                deletes, request_timeout=REQUEST_SECONDS, operation_timeout=OPERATION_SECONDS
            )
    except (KafkaException, TypeError, ValueError) as error:  # the client itself refuses the request
        refused = ClusterError(
            connection.speaker.cluster,
            "invalid",
            f"the client refused a request for {batch[0].change.ref}: {connection.clean(str(error))}",
            "Nothing of this request was sent",
            "Correct the topology.",
        )
        return {item.id: refused for item in batch}
    connection.settle(futures.values())
    named = [(item, item.change.ref.name) for item in batch]
    return {item.id: connection.failure(futures[name], _ASKED[type(item.change)](name)) for item, name in named}


def perform(
    connection: AdminConnection, changes: Sequence[Planned], progress: Callable[[Outcome], None]
) -> tuple[Outcome, ...]:
    """Creates, then grows, then configures; one outcome an item, in the order of ``changes``. Never raises for one."""

    def failures(batch: Sequence[PlannedTopicChange]) -> list[str]:
        try:
            failed = _send_and_agree(connection, batch)
        except ClusterError as error:
            failed = {item.id: f"{item.change.ref}: {error}" for item in batch}
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
                case ClusterError() as unasked:
                    not_asked.append(unasked)
    if not_asked and not refusals:
        raise not_asked[0]
    # A broker names the first bad config of a topic only, so each is sent alone: in turns, because a request names each
    # topic once.
    alone = [
        (number, PlannedTopicChange(f"{item.id} {number}", replace(item.change, configs=(config,))))
        for item in refused_items[:ASKED_AGAIN]
        if isinstance(item.change, CreateTopic | AlterConfigs) and len(item.change.configs) > 1
        for number, config in enumerate(item.change.configs)
    ]
    errors_by_id: dict[str, ClusterError | None] = {}
    for batch in cut([item for _, item in sorted(alone, key=lambda pair: pair[0])]):
        errors_by_id |= _send_patiently(connection, batch, validate_only=True)
    wrong: dict[Subject, dict[str, str]] = {}
    for _, item in alone:
        error = errors_by_id.get(item.id)
        if error is not None and error.kind == "invalid":
            wrong.setdefault(item.change.subject, {})[error.what] = error.todo
    return refusals | {subject: f"{'; '.join(whats)}. {next(iter(whats.values()))}" for subject, whats in wrong.items()}


def _send_and_agree(connection: AdminConnection, items: Sequence[PlannedTopicChange]) -> Failures:
    """What failed; all others are done. Raises ClusterError."""
    failures: Failures = {}
    waiting: list[PlannedTopicChange] = []
    # First what must not be sent, and what is already as wanted after a run that was cut off.
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
    # A change that is too large for one request is made by several, as far as they succeed.
    answers: dict[str, ClusterError | None] = {}
    left = {item.id: list(steps(item.change)) for item in waiting}
    while left:
        now = [PlannedTopicChange(id_, parts.pop(0)) for id_, parts in left.items()]
        answers |= _send_patiently(connection, now, validate_only=False)
        left = {id_: parts for id_, parts in left.items() if parts and answers[id_] is None}
    # The cluster decides about doubtful answers, such as that a topic to delete is missing; other refusals are final.
    deleted = {item.id for item in waiting if isinstance(item.change, DeleteTopic)}
    doubtful: dict[str, ClusterError] = {}
    for item_id, error in answers.items():
        if error is not None and (error.kind in _DOUBTFUL or (error.kind == "missing" and item_id in deleted)):
            doubtful[item_id] = error
        elif error is not None:
            failures[item_id] = str(error)
    sent = [item for item in waiting if item.id not in failures]
    existed = frozenset(item_id for item_id, error in doubtful.items() if error.kind == "exists")
    for item_id, difference in await_agreement(connection, sent, existed).items():
        failures[item_id] = f"{doubtful[item_id]}\n{difference}" if item_id in doubtful else difference
    return failures


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
