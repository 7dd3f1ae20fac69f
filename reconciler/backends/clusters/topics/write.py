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
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import CONTROLLER, CONTROLLER_SECONDS, Requests
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    Subject,
    TopicChange,
)
from reconciler.model.config_values import same
from reconciler.model.live import LiveTopic
from reconciler.model.plan import Outcome
from reconciler.text import counted

# Confirms topic changes: reads until every broker shows them, or reports remaining differences.

AGREE_SECONDS = 120.0
"""A broker that creates the log files of thousands of partitions shows no newer metadata until it has finished."""

Failures = dict[str, str]
"""Id of a planned change -> why it is not done."""


def disagreement(change: TopicChange, topic: LiveTopic | None) -> str | None:
    """None if ``topic`` is in the state that ``change`` requests, else the difference, in words that follow the topic's
    name."""
    # By topic id: a client with auto-creation may have recreated the deleted topic under the same name.
    if isinstance(change, DeleteTopic):
        if topic is None:
            return None
        if topic.topic_id == change.topic_id:
            return "still exists"
        return (
            f"was deleted, but a client recreated it at once, with topic id {topic.topic_id}: look for a client that"
            " still uses it and for auto.create.topics.enable"
        )
    if topic is None:
        return "does not exist"
    match change:
        case CreateTopic():
            factor, wanted = topic.replication_factor, change.replication_factor
            other_factor = None
            if wanted is not None and factor != wanted:
                other_factor = f"has replication factor {factor or 'mixed'}, not {wanted}"
            return _partitions(change.partitions, topic) or other_factor or _configs(change.configs, topic)
        case AddPartitions():
            return _identity(change.topic_id, topic) or _partitions(change.after, topic)
        case AlterConfigs():
            return _identity(change.topic_id, topic) or _configs(change.configs, topic)
        case _:
            assert_never(change)


def obstacle(change: AddPartitions | AlterConfigs | DeleteTopic, topic: LiveTopic | None) -> str | None:
    """Why the change must not be sent: the topic is deleted, recreated, or larger than requested."""
    if topic is None:
        return None if isinstance(change, DeleteTopic) else "no longer exists"
    if recreated := _identity(change.topic_id, topic):
        return recreated
    if isinstance(change, AddPartitions) and len(topic.partitions) > change.after:
        return f"has {counted(len(topic.partitions), 'partition')} by now, more than the {change.after} planned"
    return None


def leaderless(change: TopicChange, topic: LiveTopic) -> str | None:
    """Partitions of the change without a leader yet, in words that follow the topic's name."""
    match change:
        case CreateTopic():
            made = topic.partitions
        case AddPartitions():
            made = topic.partitions[change.before :]
        case AlterConfigs() | DeleteTopic():
            made = ()
        case _:
            assert_never(change)
    without = [str(part.index) for part in made if part.leader < 0]
    return f"has no leader for partition {', '.join(without[:10])}" if without else None


def _identity(topic_id: str, topic: LiveTopic) -> str | None:
    if topic.topic_id == topic_id:
        return None
    return f"was deleted and created again since the plan: topic id was {topic_id}, is {topic.topic_id}"


def _partitions(wanted: int, topic: LiveTopic) -> str | None:
    number = len(topic.partitions)
    return None if wanted in (-1, number) else f"has {counted(number, 'partition')}, not {wanted}"


def _configs(wanted: Sequence[ConfigChange], topic: LiveTopic) -> str | None:
    """Why the topic's overrides are not as sent, None if they are."""
    if not wanted:
        return None
    if isinstance(topic.configs, Unknown):
        return f"does not show its configs: {topic.configs.error}"
    overrides = topic.overrides
    for desired in wanted:
        entry = topic.configs.get(desired.key)
        if entry is not None and entry.sensitive:
            continue  # its value is hidden: nothing can be compared
        value = overrides.get(desired.key)
        if not same(desired.key, value, desired.after):
            return f"has {desired.key} = {_shown(value)}, not {_shown(desired.after)}"
    return None


def _shown(value: str | None) -> str:
    return "no override" if value is None else repr(value)


def await_agreement(requests: Requests, items: Sequence[PlannedTopicChange], existed: frozenset[str]) -> Failures:
    """Waits until brokers show all changes. They replay the metadata log in order, so the last item is watched first:
    one cheap read.

    Each broker in turn is asked for configs, which also proves that it knows the topic; partitions come from one
    broker. Items of ``existed`` existed before, so waiting will not change them.
    """
    if not items:
        return {}
    until = time.monotonic() + AGREE_SECONDS
    _await(requests, items[-1:], existed, until, None)
    differing = _await(requests, items, existed, until, None)
    brokers = read_cluster(requests, ()).brokers
    for broker in brokers[1:]:
        if differing:
            break
        try:
            differing = _await(requests, items, existed, until, broker.id)
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            # Clients cannot use a silent broker either, so it has nothing to confirm.
    return differing


def _await(
    requests: Requests,
    items: Sequence[PlannedTopicChange],
    existed: frozenset[str],
    until: float,
    broker: int | None,
) -> Failures:
    """Reads until no item differs, or none can change any more, or the time is up. Returns the remaining
    differences."""
    pause = 0.02
    while True:
        # Each broker answers from a copy of the metadata that follows the controller's, so a change may show late.
        live = read_cluster(requests, [item.change.ref.name for item in items], broker)
        differing: Failures = {}
        moving = False
        for item in items:
            ref, topic = item.change.ref, live.topics.get(item.change.ref.name)
            if (hidden := live.hidden.get(ref.name)) is not None:
                doubt = f"whether it is done is unknown: {hidden.error}"
                differing[item.id] = f"{ref} was sent, and {doubt}\n{hidden.todo}"
                continue
            text = disagreement(item.change, topic) or (leaderless(item.change, topic) if topic else None)
            if text:
                differing[item.id] = f"{ref} {text}\nThe cluster shows something else than was asked\nRun plan again."
                # Waiting does not help with a topic that existed before, or was recreated after its deletion.
                recreated = topic and isinstance(item.change, DeleteTopic) and topic.topic_id != item.change.topic_id
                moving |= topic is None or not (item.id in existed or recreated)
        if not moving or time.monotonic() > until:
            return differing
        time.sleep(pause)
        pause = min(pause * 2, 1.0)


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
