"""Alters configs of topics and brokers key by key, and reads configs of brokers."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import CONTROLLER_SECONDS, Requests
from reconciler.errors import ClusterError
from reconciler.kafka.protocol import generated as protocol

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs (KIP-339)."""
_OWN_SOURCE = {TOPIC: 1, BROKER: 2}
"""ConfigSource of a resource's own values: DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG."""

Key = tuple[int, str]
"""Kind of a resource and its name."""


class ConfigEdit(NamedTuple):
    """``operation``: SET, DELETE, or APPEND and SUBTRACT for lists (KIP-339). ``value`` None: DELETE."""

    key: str
    operation: int
    value: str | None


def asked_of(key: Key) -> errors.Asked:
    kind, name = key
    if kind == TOPIC:
        return errors.alter_configs(name)
    return errors.Asked(f"set the replication throttle of broker {name}", "AlterConfigs", "--cluster")


def alter_configs(
    requests: Requests, edits: Mapping[Key, Collection[ConfigEdit]], *, validate_only: bool = False
) -> dict[Key, ClusterError | None]:
    """The error of each resource; None if it was altered. Topics share one request; configs of a broker need a request
    to this broker."""
    topics = {key: some for key, some in edits.items() if key[0] == TOPIC}
    answers: dict[Key, ClusterError | None] = {}
    for some in [topics, *({key: edits[key]} for key in edits if key[0] == BROKER)]:
        if some:
            try:
                answers |= _altered(requests, some, validate_only)
            except ClusterError as error:
                answers |= dict.fromkeys(some, error)
    return answers


def _altered(
    requests: Requests, edits: Mapping[Key, Collection[ConfigEdit]], validate_only: bool
) -> dict[Key, ClusterError | None]:
    """One request: for topics, or for the one broker that alone knows its configs."""
    (of, named), *_ = edits
    broker = int(named) if of == BROKER else None
    kind: Any = protocol.IncrementalAlterConfigsRequest
    answers: dict[Key, ClusterError | None] = {}
    rows: list[Any] = []
    if kind.API_KEY in requests.versions():
        resource = kind.AlterConfigsResource
        for (of, name), some in edits.items():
            configs = [resource.AlterableConfig(name=k, config_operation=op, value=value) for k, op, value in some]
            rows.append(resource(resource_type=of, resource_name=name, configs=configs))
    else:
        # AlterConfigs removes each config that it does not name, so all values to keep are read and sent.
        kind = protocol.AlterConfigsRequest
        resource = kind.AlterConfigsResource
        for key, entries in described(requests, edits, broker).items():
            values = entries if isinstance(entries, ClusterError) else _edited(requests, key, entries, edits[key])
            if isinstance(values, ClusterError):
                answers[key] = values
                continue
            configs = [resource.AlterableConfig(name=name, value=value) for name, value in values.items()]
            rows.append(resource(resource_type=key[0], resource_name=key[1], configs=configs))
    if not rows:
        return answers
    asked, patience = asked_of((of, named)), CONTROLLER_SECONDS
    answer = requests.send(asked, kind, broker, patience=patience, resources=rows, validate_only=validate_only)
    for item in answer.responses:
        key = item.resource_type, item.resource_name
        answers[key] = requests.failure(item.error_code, asked_of(key), item.error_message)
    return answers


def _edited(
    requests: Requests, key: Key, entries: Iterable[Any], edits: Iterable[ConfigEdit]
) -> dict[str, str | None] | ClusterError:
    """All configs for AlterConfigs, on a cluster without IncrementalAlterConfigs (KIP-339). It replaces all configs of
    a resource, so it would remove a sensitive value, which brokers do not return; then this returns a ClusterError
    instead."""
    values = own_values(key[0], entries)
    for name, operation, value in edits:
        items = [item for item in (values.pop(name, None) or "").split(",") if item]
        named = (value or "").split(",")
        if operation == SET:
            values[name] = value
        elif operation != DELETE:
            kept = [item for item in items if item not in named]
            values[name] = ",".join([*kept, *named] if operation == APPEND else kept)
    # Refused rather than warned: the value that would go cannot be read, so no later run could set it again.
    hidden = ", ".join(name for name, value in values.items() if value is None)
    if not hidden:
        return values
    problem = f"cluster {requests.speaker.cluster} cannot {asked_of(key).verb}: it has no IncrementalAlterConfigs"
    why = f"AlterConfigs would remove {hidden}, because brokers do not show the value"
    return ClusterError(requests.speaker.cluster, "invalid", problem, why, "Change it with the cluster's own tools.")


def own_values(kind: int, entries: Iterable[Any]) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in entries if entry.config_source == _OWN_SOURCE[kind]}


def broker_configs(requests: Requests, broker: int) -> Mapping[str, Any]:
    """Config name -> entry with ``value`` and ``config_source`` of the protocol. Raises ClusterError."""
    [entries] = described(requests, ((BROKER, str(broker)),), broker).values()
    if isinstance(entries, ClusterError):
        raise entries
    return {entry.name: entry for entry in entries}


def described(requests: Requests, keys: Collection[Key], broker: int | None) -> dict[Key, Any]:
    """Key -> entries from one broker, or a ClusterError. Only a broker itself knows its configs and loggers; configs of
    topics any broker has."""
    kind: Any = protocol.DescribeConfigsRequest
    resource = kind.DescribeConfigsResource
    rows = [resource(resource_type=of, resource_name=name, configuration_keys=None) for of, name in keys]
    whose, rule = ("topics", "--topic '*'") if {TOPIC} == {of for of, _ in keys} else (f"broker {broker}", "--cluster")
    asked = errors.Asked(f"read the configs of {whose}", "DescribeConfigs", rule)
    answer = requests.send(asked, kind, broker, resources=rows, include_synonyms=False, include_documentation=False)
    return {
        (item.resource_type, item.resource_name): requests.failure(item.error_code, asked, item.error_message)
        or item.configs
        for item in answer.results
    }
