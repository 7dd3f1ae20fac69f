"""Finds the home of an environment's lock, takes the lock there, and records the home on the other clusters (decision
107)."""

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

from reconciler.backends.clusters.topics.write import NOT_LISTED
from reconciler.backends.state.environment_records import ANOTHER_VERSION
from reconciler.backends.state.lock import ATTEMPTS, KafkaLock
from reconciler.backends.state.records import LockLog, RecordLog, understood
from reconciler.errors import BlockedError, ClusterError, LockHeld, ReconcilerError
from reconciler.model.changes import ConfigChange, CreateTopic, Reason, Role, Subject, Why
from reconciler.model.environment.topology import Cluster, Principal, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.ports import ClusterReader
from reconciler.model.state.cutover_journal import cutovers_key
from reconciler.model.state.home import Answers, Home, LockPlace, Sighting, dumps, home_key, home_of, loads
from reconciler.model.state.last_apply import applied_key
from reconciler.model.state.last_drill import drill_key
from reconciler.model.state.left_by_apply import left_key
from reconciler.model.state.lock import Holder, lock_key, lock_topic_shapes
from reconciler.model.state.rollout_progress import promotion_key
from reconciler.replication.names import LOCK_TOPIC

Meet = Callable[[Cluster, bytes | None], None]
"""Raises BlockedError for a cluster whose id neither git nor the last apply's record, if any, confirms."""


def look(
    topology: Topology,
    principal: Principal,
    names: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Answers:
    """Asks all clusters, or ``names``, in parallel. ``progress``: as for ``LockLog``. Never raises."""
    asked = list(topology.clusters if names is None else names)
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        clusters = [topology.clusters[name] for name in asked]
        logs = (LockLog(cluster, cluster.own_topics.lock, "", "", principal, progress) for cluster in clusters)
        return dict(zip(asked, pool.map(lambda log: _sighting(log, topology.environment), logs), strict=True))


def _sighting(log: LockLog, environment: str) -> Sighting | ClusterError:
    """What one cluster has of the environment, or why that is unknown. Never raises: all clusters are asked, and one
    that is silent must not hide the answers of others."""
    keys = (lock_key(environment), home_key(environment), applied_key(environment), promotion_key(environment))
    several, cluster = _several(environment), log.cluster
    try:
        cluster_id = log.identity()
        if cluster.cluster_id not in (None, cluster_id):  # another cluster than declared: take would refuse it
            return Sighting(cluster_id, {})
        newest = log.read_all() if log.exists() else {}
        records = {key: value for key, value in newest.items() if key in keys or key.startswith(several)}
        why = f"{ANOTHER_VERSION} it is not known where the lock is"
        subject, value = "the record of the lock's home", records.get(home_key(environment))
        home = understood(value, loads, cluster.name, subject, why, "Use that version.")
        return Sighting(cluster_id, records, home, "" if records else _elsewhere(log, keys))
    except ClusterError as error:
        return error
    except ReconcilerError as error:
        return ClusterError(cluster.name, "other", error.what, error.why, error.todo)
    finally:
        log.close()


def _elsewhere(log: LockLog, keys: Collection[str]) -> str:
    """The lock topic of another prefix that has records of the environment, as after a change of the prefix; empty if
    there is none that this principal may read."""
    for topic in sorted(log.topics(LOCK_TOPIC) - {log.topic}):
        other = LockLog(log.cluster, topic, "", "", log.principal)
        with closing(other), suppress(ClusterError):
            if other.read_all().keys() & set(keys):
                return topic
    return ""


def _several(environment: str) -> tuple[str, ...]:
    """Prefixes of keys with several records per environment."""
    return left_key(environment, ""), cutovers_key(environment), drill_key(environment, "")


class HomeLock:
    """The lock of an environment at its home, which ``take`` finds or moves, and records on the other clusters."""

    def __init__(
        self, topology: Topology, holder: Holder, meet: Meet, progress: Callable[[str], None] | None = None
    ) -> None:
        """``progress``: takes words about waits."""
        self.progress = progress
        self.topology = topology
        self.holder = holder
        self.meet = meet
        self.notes: dict[str, str] = {}
        """Cluster -> why the home could not be recorded there."""
        self._locks: dict[str, KafkaLock] = {}
        self._seen: Mapping[str, Sighting] = {}
        self._written: dict[str, Home] = {}
        """Homes that this run has written, since a topic that was just created may not be visible at once."""
        self._keys = tuple(key(topology.environment) for key in (applied_key, promotion_key, home_key))

    def take(self, reason: str = "", to: str = "") -> KafkaLock:
        """``reason``: take the lock from its holder. ``to``: move the home. Reads again after each write, until no
        record of another run contradicts the home. Raises LockHeld, ClusterError, BlockedError."""
        answers = look(self.topology, Principal.APPLY, progress=self.progress)
        with ExitStack() as stack:
            for _ in range(ATTEMPTS):
                place = home_of(self.topology, answers, bool(reason))
                target = to or place.home
                if isinstance(error := answers[target], ClusterError):
                    raise error
                self._seen = {name: answer for name, answer in answers.items() if isinstance(answer, Sighting)}
                if self._seen[target].cluster_id == self._seen[place.home].cluster_id:
                    target = place.home  # another name of the same cluster
                if missing := {*place.held, target} - self._locks.keys():
                    # The same order in every run, so that two runs cannot hold one lock each and wait for the other.
                    for name in sorted(missing, key=lambda name: self._seen[name].cluster_id):
                        cluster = self.topology.clusters[name]
                        if not self._seen[name].records:
                            self.meet(cluster, None)
                        lock = KafkaLock(cluster, self.topology.environment, self.holder, progress=self.progress)
                        lock.take(reason)
                        self._locks[name] = lock
                        stack.callback(lock.release)
                elif not self._wrote(place, target):
                    stack.pop_all()
                    for name in self._locks.keys() - {target}:
                        self._locks[name].release(moved=True)
                    return self._locks[target]
                answers = {**answers, **look(self.topology, Principal.APPLY, self._seen, self.progress)}
            raise LockHeld(
                f"the home of the lock of environment {self.topology.environment} changes again and again",
                "Several runs look for it at once.",
                "Wait a moment, then run the command again.",
            )

    def _wrote(self, place: LockPlace, target: str) -> bool:
        """Writes records of the home; returns whether any was missing.

        The environment's records are moved before the home is announced, and the announcement goes to the former home
        first: a newer one elsewhere might stay unread.
        """
        before, there = place.record, self._seen[target]
        moves = before.moves + (before.cluster_id != there.cluster_id) if before is not None else 0
        home = Home(target, there.cluster_id, self.topology.clusters[target].bootstrap_servers, moves)
        held = sorted(self._locks, key=lambda name: (name == target, name != place.home))
        kept = ChainMap(*(dict(self._seen[name].records) for name in (place.home, *held) if name in self._seen))
        applied, promotion, word = self._keys
        carried = (
            key for key in kept if key in (applied, promotion) or key.startswith(_several(self.topology.environment))
        )
        beside = (key for key in sorted(carried) if kept[key] != there.records.get(key))
        wanted = [(target, key, kept[key]) for key in beside]
        uninformed = [name for name, answer in self._seen.items() if home not in (answer.home, self._written.get(name))]
        wanted += [(name, word, dumps(home)) for name in held if name in uninformed]
        for name, key, value in wanted:
            if why := self._locks[name].keep(key, value):
                raise LockHeld(f"the home of the lock could not be written on {name}: {why}", "", "Run it again.")
        self._written |= {name: home for name, key, _ in wanted if key == word}
        wrote = bool(wanted)
        # Clusters without the lock only get the announcement. The record of the last apply confirms their ids.
        for name in (name for name in uninformed if name not in self._locks):
            cluster, cluster_id = self.topology.clusters[name], self._seen[name].cluster_id
            try:
                self.meet(cluster, kept.get(applied))
                if cluster_id != home.cluster_id and cluster.cluster_id in (None, cluster_id):
                    RecordLog(cluster, Principal.APPLY).write({word: dumps(home)})
                    self._written[name] = home
                    wrote = True
            except BlockedError:
                pass  # recorded there once its id is confirmed
            except ReconcilerError as error:
                self.notes[name] = f"{name} has no record that the lock is kept on {home.cluster}: {error.what}"
        return wrote


def lock_topic_refused(
    clusters: Mapping[str, ClusterReader], live: LiveState, home: Cluster | None, made: Plan
) -> Mapping[Subject, str]:
    """Why brokers would refuse to create the lock's topic (a policy may refuse its name), validated before an apply.
    Empty if the topic exists, ``made`` changes nothing, or the principal may not ask."""
    here = live.known(home.name) if home is not None else None
    if home is None or here is None or home.own_topics.lock in here.topics or not made.changes:
        return {}
    refusals: Mapping[Subject, str] = {}
    reason = Reason(Why.DECLARED, "apply keeps the lock of the environment there")
    # An apply creates the first accepted shape.
    for factor, wanted in lock_topic_shapes(len(here.brokers), home.own_configs):
        configs = tuple(ConfigChange(key, None, "", value, "") for key, value in wanted.items())
        change = CreateTopic(TopicRef(home.name, home.own_topics.lock), 1, factor, configs, Role.INTERNAL, reason)
        try:
            refusals = clusters[home.name].validate([change])
        except ClusterError:
            return {}
        if not refusals or NOT_LISTED in refusals.values():
            return {}
    return refusals
