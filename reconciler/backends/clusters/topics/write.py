"""Creates, alters and deletes topics in batches: sends, waits for quotas, confirms, reports.

An outcome is "done" only once the cluster shows it. An interrupted batch can be performed again: a change that the
cluster already shows counts as done.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from reconciler.backends.clusters.configs import DELETE, SET, TOPIC, ConfigEdit, alter_configs
from reconciler.backends.clusters.in_batches import perform_in_batches
from reconciler.backends.clusters.topics.batches import PlannedTopicChange, cut, steps
from reconciler.backends.clusters.topics.confirm import Failures, await_agreement, disagreement, obstacle
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import CONTROLLER, CONTROLLER_SECONDS, Requests
from reconciler.errors import ClusterError
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Subject, TopicChange
from reconciler.model.plan import Outcome

OPERATION_MS = 15_000
QUOTA_PATIENCE_SECONDS = 300.0
"""Seconds for which a request may be throttled without one item succeeding."""
QUOTA_PATIENCE_VALIDATING_SECONDS = 20.0

ASKED_AGAIN = 50
"""Number of refused topics for which each config is validated alone."""

NOT_LISTED = (
    "it exists already, although the broker that was asked does not list it. That broker is behind the controller, as"
    " after many changes at once, or the principal may not Describe this topic: plan again in a moment, or grant it"
)
_DOUBTFUL = ("exists", "unreachable")
"""Kinds of errors that leave the result open: this or an earlier request may have been carried out."""
_log = logging.getLogger("reconciler.kafka")


def send(
    requests: Requests, batch: Sequence[PlannedTopicChange], validate_only: bool
) -> Mapping[str, ClusterError | None]:
    """Item id -> the controller's error, None if accepted. ``batch``: of one kind, no topic twice."""
    if not batch:
        return {}
    try:
        answers = _sent(requests, [item.change for item in batch], validate_only)
    except ClusterError as error:
        return dict.fromkeys((item.id for item in batch), error)
    return {item.id: answers[item.change.ref.name] for item in batch}


def _sent(requests: Requests, changes: Sequence[TopicChange], validate_only: bool) -> dict[str, ClusterError | None]:
    """Topic -> error. Raises ClusterError without a response. ``changes``: all of one class, which has one request
    type; a replication factor of -1 means the cluster's default (KIP-464)."""
    limits = {"timeout_ms": OPERATION_MS, "validate_only": validate_only}
    # Kafka has a separate request for creations, partitions, configs and deletions, so a batch never mixes classes.
    match changes[0]:
        case CreateTopic():
            topic: Any = protocol.CreateTopicsRequest.CreatableTopic
            made = [
                topic(
                    name=change.ref.name,
                    num_partitions=change.partitions,
                    replication_factor=-1 if change.replication_factor is None else change.replication_factor,
                    assignments=[],
                    configs=[
                        topic.CreatableTopicConfig(name=each.key, value=each.after)
                        for each in change.configs
                        if each.after is not None
                    ],
                )
                for change in changes
                if isinstance(change, CreateTopic)
            ]
            return _answers(requests, errors.create_topic, protocol.CreateTopicsRequest, topics=made, **limits)
        case AddPartitions():
            grown: Any = protocol.CreatePartitionsRequest.CreatePartitionsTopic
            topics = [
                grown(name=change.ref.name, count=change.after, assignments=None)
                for change in changes
                if isinstance(change, AddPartitions)
            ]
            return _answers(requests, errors.add_partitions, protocol.CreatePartitionsRequest, topics=topics, **limits)
        case AlterConfigs():
            edits = {
                (TOPIC, change.ref.name): [
                    ConfigEdit(each.key, DELETE if each.after is None else SET, each.after) for each in change.configs
                ]
                for change in changes
                if isinstance(change, AlterConfigs)
            }
            altered = alter_configs(requests, edits, validate_only=validate_only)
            return {name: error for (_, name), error in altered.items()}
        case DeleteTopic():
            names = [change.ref.name for change in changes]
            return _answers(
                requests, errors.delete_topic, protocol.DeleteTopicsRequest, topic_names=names, timeout_ms=OPERATION_MS
            )
        case _:
            assert_never(changes[0])


def _answers(
    requests: Requests, asked: Callable[[str], errors.Asked], kind: Any, **fields: Any
) -> dict[str, ClusterError | None]:
    """Topic -> error. ``asked``: words for the request about one topic."""
    # The response's code is about one topic, and a refused request about all of them: the error names each topic.
    of_all = asked("NAME")
    answer = requests.send(of_all, kind, CONTROLLER, patience=CONTROLLER_SECONDS, **fields)
    items = next(getattr(answer, name) for name in ("topics", "results", "responses") if hasattr(answer, name))
    return {
        item.name: requests.failure(item.error_code, asked(item.name), getattr(item, "error_message", None))
        for item in items
    }


def perform(
    requests: Requests, items: Sequence[PlannedTopicChange], progress: Callable[[Outcome], None]
) -> tuple[Outcome, ...]:
    """Creates, then grows, then configures; one outcome for each item, in order. A failed item raises nothing."""

    def failures(batch: Sequence[PlannedTopicChange]) -> list[str]:
        try:
            failed = _send_and_agree(requests, batch)
        except ClusterError as error:
            failed = {item.id: f"{item.change.ref}: {error}" for item in batch}
        return [failed.get(item.id, "") for item in batch]

    outcomes = {done.id: done for done in perform_in_batches(cut(items), failures, progress)}
    return tuple(outcomes[item.id] for item in items)


def validate(requests: Requests, items: Sequence[PlannedTopicChange]) -> Mapping[Subject, str]:
    """Subject -> the broker's refusal, by validate-only requests.

    Raises ClusterError if no change is refused but one could not be validated (no permission, no answer).
    """
    refusals: dict[Subject, str] = {}
    refused_items: list[PlannedTopicChange] = []
    not_asked: list[ClusterError] = []
    # Only the first step of a change can be validated: the broker judges later ones by a state that does not exist yet.
    for batch in cut([replace(item, change=next(steps(item.change))) for item in items]):
        answers = _send_patiently(requests, batch, validate_only=True)
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
    # A refusal decides the plan whatever else could not be asked, so it is reported first.
    if not_asked and not refusals:
        raise not_asked[0]
    # A broker names only the first invalid config of a topic, so each is validated alone, one per topic and request.
    alone = [
        (number, PlannedTopicChange(f"{item.id} {number}", replace(item.change, configs=(config,))))
        for item in refused_items[:ASKED_AGAIN]
        if isinstance(item.change, CreateTopic | AlterConfigs) and len(item.change.configs) > 1
        for number, config in enumerate(item.change.configs)
    ]
    errors_by_id: dict[str, ClusterError | None] = {}
    for batch in cut([item for _, item in sorted(alone, key=lambda pair: pair[0])]):
        errors_by_id |= _send_patiently(requests, batch, validate_only=True)
    wrong: dict[Subject, dict[str, str]] = {}
    for _, item in alone:
        error = errors_by_id.get(item.id)
        if error is not None and error.kind == "invalid":
            wrong.setdefault(item.change.subject, {})[error.what] = error.todo
    return refusals | {subject: f"{'; '.join(whats)}. {next(iter(whats.values()))}" for subject, whats in wrong.items()}


def _send_and_agree(requests: Requests, items: Sequence[PlannedTopicChange]) -> Failures:
    """Failures; all other items are done. Raises ClusterError."""
    failures: Failures = {}
    waiting: list[PlannedTopicChange] = []
    # Sorts out changes that must not be sent, and those that an interrupted run has already carried out.
    existing = [item for item in items if not isinstance(item.change, CreateTopic)]
    live = read_cluster(requests, [item.change.ref.name for item in existing]) if existing else None
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
    # A change that is too large for one request is sent as several, up to the first failure.
    answers: dict[str, ClusterError | None] = {}
    left = {item.id: list(steps(item.change)) for item in waiting}
    while left:
        now = [PlannedTopicChange(id_, parts.pop(0)) for id_, parts in left.items()]
        answers |= _send_patiently(requests, now, validate_only=False)
        left = {id_: parts for id_, parts in left.items() if parts and answers[id_] is None}
    # After a doubtful error, such as a missing topic to delete, the cluster's state decides; other refusals are final.
    deleted = {item.id for item in waiting if isinstance(item.change, DeleteTopic)}
    doubtful: dict[str, ClusterError] = {}
    for item_id, error in answers.items():
        if error is not None and (error.kind in _DOUBTFUL or (error.kind == "missing" and item_id in deleted)):
            doubtful[item_id] = error
        elif error is not None:
            failures[item_id] = str(error)
    sent = [item for item in waiting if item.id not in failures]
    existed = frozenset(item_id for item_id, error in doubtful.items() if error.kind == "exists")
    for item_id, difference in await_agreement(requests, sent, existed).items():
        failures[item_id] = f"{doubtful[item_id]}\n{difference}" if item_id in doubtful else difference
    return failures


def _send_patiently(
    requests: Requests, items: Sequence[PlannedTopicChange], validate_only: bool
) -> dict[str, ClusterError | None]:
    """Sends items again that the controller's mutation quota throttled (KIP-599), while any of them succeeds."""
    answers: dict[str, ClusterError | None] = {}
    patience = QUOTA_PATIENCE_VALIDATING_SECONDS if validate_only else QUOTA_PATIENCE_SECONDS
    rest, pause, moved = list(items), 0.5, time.monotonic()
    while rest:
        errors = send(requests, rest, validate_only)
        throttled = [item for item in rest if (error := errors[item.id]) is not None and error.kind == "quota"]
        answers |= errors
        if len(throttled) < len(rest):
            pause, moved = 0.5, time.monotonic()
        if not throttled or time.monotonic() - moved > patience:
            break
        _log.info("cluster %s throttles: %d changes wait", requests.speaker.cluster, len(throttled))
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, no secret
        rest, pause = throttled, min(pause * 2, 5.0)
    return answers
