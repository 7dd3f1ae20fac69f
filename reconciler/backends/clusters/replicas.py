"""KafkaReplicas: implements the port ReplicaAdmin for one cluster: reassignments, throttles, elections."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from reconciler.backends.clusters import configs
from reconciler.backends.clusters.configs import ConfigEdit
from reconciler.backends.clusters.in_batches import until_shown
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import CONTROLLER, Requests
from reconciler.backends.state.environment_records import JournalLog
from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import name_of
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import log_dirs
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster
from reconciler.model.replicas import RATES, Journal, Partition, ReassignmentInFlight, ReplicaFacts, ThrottleEdit
from reconciler.text import batched, grouped

PREFERRED = 0
NOTHING_IN_FLIGHT = 85
TIMEOUT_MS = 30_000
PARTITIONS_PER_REQUEST = 1_000

SEEN_SECONDS = 15.0
_OPERATIONS = {
    "set": configs.SET,
    "delete": configs.DELETE,
    "append": configs.APPEND,
    "subtract": configs.SUBTRACT,
}
_LIST = errors.Asked("list reassignments", "Describe", "--cluster")
_ALTER = errors.Asked("move replicas", "Alter", "--cluster")
_SIZES = errors.Asked("see the sizes of replicas", "Describe", "--cluster")
_ELECT = errors.Asked("elect preferred leaders", "Alter", "--cluster")


class ReplicaRequests(Requests):
    """Reassignments (KIP-455), log dirs, elections. Raises ClusterError."""

    def moves(self) -> tuple[ReassignmentInFlight, ...]:
        """Reassignments in progress, from the controller, including those of other tools."""
        answer = self.send(
            _LIST, protocol.ListPartitionReassignmentsRequest, CONTROLLER, timeout_ms=TIMEOUT_MS, topics=None
        )
        self.check(answer.error_code, _LIST)
        return tuple(
            ReassignmentInFlight(
                topic.name,
                part.partition_index,
                tuple(part.replicas),
                tuple(part.adding_replicas),
                tuple(part.removing_replicas),
            )
            for topic in answer.topics or ()
            for part in topic.partitions
        )

    def sizes_on(
        self, brokers: Iterable[int], topics: Mapping[str, Collection[int]] | None
    ) -> dict[tuple[str, int, int], int]:
        """Bytes by topic, partition and broker. ``topics``: None for all. A silent broker is left out; the future
        replica of a move between disks does not count."""
        sizes: dict[tuple[str, int, int], int] = {}
        kind = protocol.DescribeLogDirsRequest.DescribableLogDirTopic
        wanted = None if topics is None else [kind(topic=name, partitions=list(ps)) for name, ps in topics.items()]
        for broker in brokers:
            try:
                answer = self.send(_SIZES, protocol.DescribeLogDirsRequest, broker, topics=wanted)
            except ClusterError:
                continue
            self.check(log_dirs.refusal(answer), _SIZES)
            for folder in answer.results:
                for topic in folder.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            sizes[topic.name, part.partition_index, broker] = int(part.partition_size)
        return sizes

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        """Refused partition -> reason. None as replicas cancels a reassignment; one that has ended meanwhile is no
        error."""
        refused: dict[Partition, str] = {}
        topic_type = protocol.AlterPartitionReassignmentsRequest.ReassignableTopic
        # The controller writes a request's reassignments as one record batch, so a request must not have too many.
        for batch in batched(targets.items(), PARTITIONS_PER_REQUEST):
            some = dict(batch)
            topics = []
            for name, indexes in grouped(some).items():
                wanted = [(index, some[name, index]) for index in indexes]
                partitions = [
                    topic_type.ReassignablePartition(partition_index=index, replicas=None if to is None else list(to))
                    for index, to in wanted
                ]
                topics.append(topic_type(name=name, partitions=partitions))
            answer = self.send(
                _ALTER,
                protocol.AlterPartitionReassignmentsRequest,
                CONTROLLER,
                timeout_ms=TIMEOUT_MS,
                allow_replication_factor_change=factor_changes,  # of version 1; not sent to older brokers
                topics=topics,
            )
            self.check(answer.error_code, _ALTER)
            for topic in answer.responses:
                for part in topic.partitions:
                    key = topic.name, part.partition_index
                    if part.error_code and not (some[key] is None and part.error_code == NOTHING_IN_FLIGHT):
                        refused[key] = f"{part.error_message or 'refused'} ({name_of(part.error_code)})"
        return refused

    def elect_preferred(self, partitions: Collection[Partition]) -> None:
        """Elects the preferred (first) replica of each partition, if it is in sync. Other partitions keep their leader,
        without an error: an election only improves the balance."""
        kind = protocol.ElectLeadersRequest
        answer = self.send(
            _ELECT,
            kind,
            CONTROLLER,
            election_type=PREFERRED,
            topic_partitions=[
                kind.TopicPartitions(topic=name, partitions=parts) for name, parts in grouped(partitions).items()
            ],
            timeout_ms=TIMEOUT_MS,
        )
        self.check(getattr(answer, "error_code", 0) or 0, _ELECT)


class KafkaReplicas(ReplicaRequests):
    """Connects when entered. Raises ClusterError; a context manager, for one thread."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        super().__init__(cluster, principal)
        self.cluster = cluster
        self._journal = JournalLog(cluster, environment, principal)

    @property
    def name(self) -> str:
        return self.cluster.name

    def __exit__(self, *error: object) -> None:
        self._journal.close()
        super().__exit__(*error)

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        return read_cluster(self, topics)

    def facts(self) -> ReplicaFacts:
        """Facts for placing and moving replicas, read from the controller and every broker."""
        brokers = self.brokers()
        return ReplicaFacts(
            moves=self.moves(),
            sizes=MappingProxyType(self.sizes_on(brokers, None)),
            rates=MappingProxyType(self._rates(brokers)),
            journal=self._journal.read(),
        )

    def sizes(self, topics: Collection[str]) -> Mapping[tuple[str, int, int], int]:
        if not topics:
            return {}
        live = self.read(topics)
        wanted = {name: [part.index for part in topic.partitions] for name, topic in live.topics.items()}
        return self.sizes_on([broker.id for broker in live.brokers], wanted)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def write_journal(self, journal: Journal | None) -> None:
        self._journal.write(journal)

    def throttle(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        """Sets or clears throttles; returns errors. Returns once every answering broker shows the successful edits."""
        if not edits:
            return ()
        altered: dict[configs.Key, list[ConfigEdit]] = {}
        for edit in edits:
            value = None if edit.operation == "delete" else edit.value
            altered.setdefault(_resource(edit), []).append(ConfigEdit(edit.key, _OPERATIONS[edit.operation], value))
        failed: list[ClusterError] = []
        for (kind, name), error in configs.alter_configs(self, altered).items():
            if error is not None and error.kind == "unreachable" and kind == configs.BROKER:
                # Configs of a broker go to this broker itself, so its silence says nothing about the cluster.
                problem = f"broker {name} of cluster {error.cluster} does not answer"
                todo = "Start it and apply again, or plan without it."
                error = ClusterError(error.cluster, error.kind, problem, error.why, todo)
            if error is not None:
                failed.append(error)
        if failed:
            return failed
        # The controller answers before brokers have replayed the change. A reassignment that starts before they apply
        # their rates runs without a limit; and a throttled list that another broker does not show yet would not be
        # cleared.
        late = until_shown(self.brokers(), lambda broker: self._late(edits, broker), SEEN_SECONDS)
        for edit, broker in late.items():
            whose = f" of topic {edit.topic}" if edit.topic else ""
            problem = f"broker {broker} does not show {edit.key}{whose} as it was set"
            why, todo = "A throttle counts on brokers that show it", "Check the broker, then run apply again."
            return (ClusterError(self.name, "unreachable", problem, why, todo),)
        return ()

    def _late(self, edits: Sequence[ThrottleEdit], broker: int) -> list[ThrottleEdit]:
        """Edits that the broker does not show yet: its own rates, and lists of throttled replicas, which every broker
        has."""
        here = [edit for edit in edits if edit.broker in (None, broker)]
        try:
            described = configs.described(self, {_resource(edit) for edit in here}, broker) if here else {}
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            return [edit for edit in here if edit.broker == broker]
        late = []
        for edit in here:
            shown = described[_resource(edit)]
            if isinstance(shown, ClusterError) and shown.kind == "missing":
                continue  # the topic was deleted meanwhile, and its list with it
            if isinstance(shown, ClusterError):
                raise shown
            value = configs.own_values(_resource(edit)[0], shown).get(edit.key)
            named, entries = set(edit.value.split(",")), set((value or "").split(","))
            match edit.operation:
                case "append":
                    done = named <= entries
                case "subtract":
                    done = named.isdisjoint(entries)
                case _:
                    done = value == (edit.value if edit.operation == "set" else None)
            if not done:
                late.append(edit)
        return late

    def _rates(self, brokers: Iterable[int]) -> dict[int, Mapping[str, str]]:
        """Broker -> its dynamic configs. A silent broker is left out."""
        rates: dict[int, Mapping[str, str]] = {}
        for broker in brokers:
            try:
                own = configs.own_values(configs.BROKER, configs.broker_configs(self, broker).values())
            except ClusterError as error:
                if error.kind != "unreachable":
                    raise
                continue
            rates[broker] = {key: value for key in RATES if (value := own.get(key)) is not None}
        return rates


def _resource(edit: ThrottleEdit) -> configs.Key:
    return (configs.TOPIC, edit.topic) if edit.broker is None else (configs.BROKER, str(edit.broker))
