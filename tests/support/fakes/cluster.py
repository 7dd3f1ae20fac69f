"""In-memory worlds with Kafka's rules: they keep state, count calls, and can be told to fail. No mocks.

``tests/conformance`` holds FakeCluster and a real broker to the same expectations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.errors import ClusterError, Unknown
from reconciler.model.changes import (
    AclChange,
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    Subject,
    TopicChange,
    UserChange,
)
from reconciler.model.live import Broker, ConfigValue, LiveCluster, LivePartition, LiveTopic, Source, shows_defaults
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.replicas import ReplicaFacts
from tests.support.fakes.principals import BrokerError, HeldPrincipals
from tests.support.fakes.replicas import FakeReplicas, MovingReplicas

NAME_LIMIT = 249
NAME = re.compile(r"[a-zA-Z0-9._-]+")
INT, LONG, DOUBLE, BOOL, LIST, TEXT = "int", "long", "double", "boolean", "list", "text"

# Topic configs of Kafka 4 that tests touch: built-in default and type.
TOPIC_CONFIGS: Mapping[str, tuple[str, str]] = {
    "cleanup.policy": ("delete", LIST),
    "compression.type": ("producer", TEXT),
    "delete.retention.ms": ("86400000", LONG),
    "follower.replication.throttled.replicas": ("", LIST),
    "leader.replication.throttled.replicas": ("", LIST),
    "max.compaction.lag.ms": ("9223372036854775807", LONG),
    "max.message.bytes": ("1048588", INT),
    "message.timestamp.type": ("CreateTime", TEXT),
    "min.cleanable.dirty.ratio": ("0.5", DOUBLE),
    "min.compaction.lag.ms": ("0", LONG),
    "min.insync.replicas": ("1", INT),
    "preallocate": ("false", BOOL),
    "retention.bytes": ("-1", LONG),
    "retention.ms": ("604800000", LONG),
    "segment.bytes": ("1073741824", INT),
    "segment.ms": ("604800000", LONG),
    "unclean.leader.election.enable": ("false", BOOL),
}


@dataclass(slots=True)
class FakeTopic:
    topic_id: str
    assignment: list[tuple[int, ...]]
    overrides: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)


class FakeCluster(MovingReplicas, HeldPrincipals):
    """A ``ClusterAdmin`` over a dict.

    ``FakeCluster("east")`` is one broker with built-in defaults. ``brokers``: how many; ``cluster_id``: else made of
    the name; ``broker_configs``: key -> (value, source) for static or dynamic broker values. Afterwards: ``put`` makes
    a topic as a stranger would, ``hide`` and ``deny`` make topics invisible to this principal, ``fail_on(n, error)``
    lets the n-th call from now on raise, ``kill_after(n)`` raises KeyboardInterrupt after n more single changes.
    """

    def __init__(
        self,
        name: str,
        brokers: int = 1,
        cluster_id: str | None = None,
        broker_configs: Mapping[str, tuple[str, Source]] | None = None,
    ) -> None:
        self._name = name
        self.cluster_id = cluster_id or f"id-of-{name}"
        self.brokers = tuple(Broker(i + 1, "127.0.0.1", 9092 + i, f"rack-{i % 3}") for i in range(brokers))
        self.broker_configs = dict(broker_configs or {})
        self.broker_configs_denied = False
        self.configs_unreadable: Unknown | None = None
        self.topics: dict[str, FakeTopic] = {}
        self.hidden: set[str] = set()
        self.denied: set[str] = set()
        self.calls = 0
        self._ids = itertools.count(1)
        self._failures: dict[int, BaseException] = {}
        self._acts: dict[int, Callable[[], None]] = {}
        self._left: int | None = None
        self._refuse: dict[str, str] = {}
        self.still()
        self.nobody()

    @property
    def name(self) -> str:
        return self._name

    # -- what a stranger or an accident does

    def put(self, name: str, partitions: int = 1, factor: int = 1, **overrides: str) -> FakeTopic:
        """Keyword names use ``_`` for ``.``: ``put("orders", 3, retention_ms="60000")``."""
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        made = FakeTopic(self._new_id(), self._assign(partitions, factor, start=0), configs)
        self.topics[name] = made
        return made

    def hide(self, *names: str) -> None:
        self.hidden.update(names)

    def deny(self, *names: str) -> None:
        """Hides them alone: this principal may describe every other topic, as where a Deny rule names a few."""
        self.denied.update(names)
        self.hidden.update(names)

    def fail_on(self, call: int, error: BaseException) -> None:
        self._failures[self.calls + call] = error

    def at_call(self, call: int, act: Callable[[], None]) -> None:
        """What a stranger does just before the n-th call from now is answered."""
        self._acts[self.calls + call] = act

    def refuse(self, topic: str, message: str) -> None:
        """Every change of this topic, or of the access rule with this text, is refused, as by a broker-side policy."""
        self._refuse[topic] = message

    def accept(self, topic: str) -> None:
        self._refuse.pop(topic, None)

    def kill_after(self, changes: int) -> None:
        self._left = changes

    # -- ClusterReader

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        self.call()
        names = [n for n in sorted(self.topics) if n not in self.hidden and (topics is None or n in topics)]
        live = {name: self._live(name, self.topics[name]) for name in names}
        brokers = tuple(broker for broker in self.brokers if broker.id not in self.away)
        hidden = {name: Unknown(f"{self.name}/{name}", "hidden") for name in self.hidden.intersection(topics or ())}
        sees_all = not (hidden or self.hidden - self.denied)
        seen = LiveCluster(self.name, self.cluster_id, brokers, live, sees_all=sees_all, hidden=hidden)
        if topics is not None or shows_defaults(seen):
            return seen
        if self.broker_configs_denied:
            return replace(seen, defaults=Unknown("configs of broker 1", "it may not ask"))
        usual = {key: value.value for key, value in self._configs(FakeTopic("", [])).items()}
        return replace(seen, defaults={key: value for key, value in usual.items() if value is not None})

    def seen(self) -> LiveCluster:
        """As ``read``, and no call."""
        live = {name: self._live(name, topic) for name, topic in sorted(self.topics.items())}
        return LiveCluster(self.name, self.cluster_id, self.brokers, live)

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[Subject, str]:
        self.call()
        refused: dict[Subject, str] = {}
        for change in changes:
            try:
                if isinstance(change, AlterQuota):
                    self._check_quota(change)
                else:
                    self._check(change)
            except BrokerError as refusal:
                refused[change.subject] = str(refusal)
        return refused

    def replica_facts(self, environment: str) -> ReplicaFacts:
        self.call()
        return self.facts(environment)

    # -- ClusterAdmin

    def replicas(self, environment: str) -> FakeReplicas:
        return FakeReplicas(self, environment)

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]:
        self.call()
        outcomes: list[Outcome] = []
        for planned in changes:
            self._one_more()
            try:
                if isinstance(planned.change, AclChange):
                    self._rule(planned.change)
                elif isinstance(planned.change, AlterQuota):
                    self._quota(planned.change)
                elif isinstance(planned.change, UserChange):
                    self._user(planned.change)
                elif isinstance(planned.change, TopicChange) and not self._is_already_so(planned.change):
                    self._check(planned.change)
                    self._do(planned.change)
                outcome = Outcome(planned.id, Result.DONE)
            except BrokerError as refusal:
                outcome = Outcome(planned.id, Result.FAILED, str(refusal))
            outcomes.append(outcome)
            progress(outcome)
        return outcomes

    # -- Kafka's rules

    def _one_more(self) -> None:
        """Counts single changes, and dies before the one it was told to."""
        if self._left == 0:
            self._left = None
            raise KeyboardInterrupt
        self._left = None if self._left is None else self._left - 1

    def call(self) -> None:
        self.calls += 1
        if act := self._acts.pop(self.calls, None):
            act()
        if error := self._failures.pop(self.calls, None):
            raise error

    def _new_id(self) -> str:
        return f"{self.name}-topic-{next(self._ids)}"

    def _is_already_so(self, change: TopicChange) -> bool:
        """A change that was done before, by a run that was cut off, is done."""
        found = self.topics.get(change.ref.name)
        if isinstance(change, DeleteTopic):
            return found is None
        if found is None or change.ref.name in self.hidden or change.ref.name in self._refuse:
            return False
        match change:
            case CreateTopic():
                factor = change.replication_factor
                return (
                    change.partitions in (-1, len(found.assignment))
                    and factor in (None, len(found.assignment[0]))
                    and all(found.overrides.get(one.key) == one.after for one in change.configs)
                )
            case AddPartitions():
                return found.topic_id == change.topic_id and len(found.assignment) == change.after
            case AlterConfigs() | DeleteTopic():
                return False

    def _check(self, change: TopicChange) -> None:
        name = change.ref.name
        if name in self._refuse:
            raise BrokerError(f"POLICY_VIOLATION: {self._refuse[name]}")
        match change:
            case CreateTopic():
                self._check_create(change)
            case AddPartitions():
                found = self._existing(change.ref.name, change.topic_id)
                if change.after <= len(found.assignment):
                    raise BrokerError(
                        f"INVALID_PARTITIONS: topic has {len(found.assignment)}, asked for {change.after}"
                    )
            case AlterConfigs():
                self._existing(change.ref.name, change.topic_id)
                self._check_configs(change.configs)
            case DeleteTopic():
                self._existing(change.ref.name, change.topic_id)

    def _check_create(self, change: CreateTopic) -> None:
        name = change.ref.name
        if name in self.topics:
            raise BrokerError(f"TOPIC_ALREADY_EXISTS: {name}")
        if len(name) > NAME_LIMIT or not NAME.fullmatch(name):
            raise BrokerError(f"INVALID_TOPIC_EXCEPTION: {name} is too long or has a forbidden character")
        metric = name.replace(".", "_")
        if clash := [other for other in self.topics if other.replace(".", "_") == metric]:
            raise BrokerError(f"INVALID_TOPIC_EXCEPTION: {name} collides with {clash[0]}")
        if change.replication_factor is not None and change.replication_factor > len(self.brokers):
            raise BrokerError(f"INVALID_REPLICATION_FACTOR: {change.replication_factor} of {len(self.brokers)} brokers")
        if change.partitions == 0:
            raise BrokerError("INVALID_PARTITIONS: 0")
        self._check_configs(change.configs)

    def _existing(self, name: str, topic_id: str) -> FakeTopic:
        found = self.topics.get(name)
        if found is None or name in self.hidden:
            raise BrokerError(f"UNKNOWN_TOPIC_OR_PARTITION: {name}")
        if found.topic_id != topic_id:
            raise BrokerError(f"UNKNOWN_TOPIC_ID: {name} is {found.topic_id}, planned was {topic_id}")
        return found

    def _check_configs(self, configs: Sequence[ConfigChange]) -> None:
        """A broker names the first bad one; our reader asks again for each alone."""
        wrong = []
        for one in configs:
            try:
                self._check_config(one.key, one.after)
            except BrokerError as refusal:
                wrong.append(str(refusal))
        if wrong:
            raise BrokerError("; ".join(wrong))

    def _check_config(self, key: str, value: str | None) -> None:
        if key not in TOPIC_CONFIGS:
            raise BrokerError(f"INVALID_CONFIG: Unknown topic config name: {key}")
        if value is None:
            return
        kind = TOPIC_CONFIGS[key][1]
        try:
            match kind:
                case "int" | "long":
                    int(value)
                case "double":
                    float(value)
                case "boolean" if value.lower() not in ("true", "false"):
                    raise ValueError(value)
        except ValueError:
            raise BrokerError(f"INVALID_CONFIG: Invalid value {value} for configuration {key}: not a {kind}") from None
        if key == "cleanup.policy" and not set(value.split(",")) <= {"delete", "compact"}:
            raise BrokerError(f"INVALID_CONFIG: Invalid value {value} for configuration {key}")
        if key == "min.insync.replicas" and int(value) < 1:
            raise BrokerError(f"INVALID_CONFIG: Invalid value {value} for configuration {key}: must be at least 1")

    def _do(self, change: TopicChange) -> None:
        match change:
            case CreateTopic():
                count = change.partitions if change.partitions > 0 else 1
                factor = change.replication_factor if change.replication_factor is not None else 1
                configs = {one.key: one.after for one in change.configs if one.after is not None}
                self.topics[change.ref.name] = FakeTopic(self._new_id(), self._assign(count, factor, 0), configs)
            case AddPartitions():
                found = self.topics[change.ref.name]
                factor = len(found.assignment[0])
                found.assignment += self._assign(change.after - len(found.assignment), factor, len(found.assignment))
            case AlterConfigs():
                overrides = self.topics[change.ref.name].overrides
                for one in change.configs:
                    if one.after is None:
                        overrides.pop(one.key, None)
                    else:
                        overrides[one.key] = one.after
            case DeleteTopic():
                del self.topics[change.ref.name]

    def _assign(self, partitions: int, factor: int, start: int) -> list[tuple[int, ...]]:
        ids = [broker.id for broker in self.brokers]
        return [tuple(ids[(start + p + r) % len(ids)] for r in range(factor)) for p in range(partitions)]

    def _live(self, name: str, topic: FakeTopic) -> LiveTopic:
        partitions = tuple(self._part(name, i, replicas, topic) for i, replicas in enumerate(topic.assignment))
        return LiveTopic(
            name,
            topic.topic_id,
            partitions,
            self.configs_unreadable or self._configs(topic),
            internal=name == "__consumer_offsets",
        )

    def _part(self, name: str, index: int, replicas: tuple[int, ...], topic: FakeTopic) -> LivePartition:
        move = self.moves.get((name, index))
        behind = self.away | (set(move.adding) if move else set())
        isr = tuple(broker for broker in replicas if broker not in behind)
        leader = topic.leaders.get(index, replicas[0])
        leader = leader if leader in isr else next(iter(isr), -1)
        return LivePartition(index, leader, replicas, isr)

    def _configs(self, topic: FakeTopic) -> dict[str, ConfigValue]:
        configs = {key: ConfigValue(value, Source.BUILT_IN) for key, (value, _) in TOPIC_CONFIGS.items()}
        configs |= {key: ConfigValue(value, source) for key, (value, source) in self.broker_configs.items()}
        return configs | {key: ConfigValue(value, Source.TOPIC) for key, value in topic.overrides.items()}


def unreachable(cluster: str) -> ClusterError:
    return ClusterError(cluster, "unreachable", f"cluster {cluster} does not answer", "", "Start it.")
