"""Entries for what an existing cluster has: topics and values to declare, with reasons for omitted ones; and
principals.

It guesses nothing: unreadable values, and values that a declaration cannot express, are omitted and reported.
"""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Generic, TypeVar

from reconciler.environment.declarations.principals import MEANT_FOR, is_address, is_principal
from reconciler.environment.declarations.values import Wrong, topic_config
from reconciler.environment.yaml.nodes import CONTROL, Scalar
from reconciler.errors import Unknown
from reconciler.model.changes import Ignored, of_topic
from reconciler.model.config_values import THROTTLES, canonical, human, number, same, words_for
from reconciler.model.environment.topology import Cluster, Topic, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveTopic, LiveUsers, Source
from reconciler.model.principals import (
    AS_FOUND,
    BYTE_RATES,
    CLIENT_QUOTAS,
    CLUSTER_NAME,
    CONNECTION_RATE,
    LEAST_ITERATIONS,
    QUOTA_KINDS,
    WILDCARD,
    AccessRule,
    AclBinding,
    ExactRule,
    NamePattern,
    Operation,
    PatternType,
    Quota,
    QuotaEntity,
    QuotaLimits,
    ResourceType,
    ScramUser,
    limit_words,
    user_words,
)
from reconciler.replication.expressions.match import NO_EXPRESSIONS, Expressions
from reconciler.replication.names import is_own_topic
from reconciler.replication.policy import DefaultReplicationPolicy
from reconciler.resources.protected_names import owner_of
from reconciler.text import counted, first_of, grouped

# Adopts what principals have on a live cluster, as `access`, `quotas` and `users` entries; reports what no entry can
# hold.
#
# Roles are not guessed: a rule is written as Kafka stores it. Users keep the passwords they have.

Entry = TypeVar("Entry", AccessRule, Quota, ScramUser)
TODO = "TODO_PASSWORD_OF_"
_HAS_CONTROLS = "it contains characters that are not allowed in a topology"


@dataclass(frozen=True, slots=True)
class Adopted(Generic[Entry]):
    """``left_out``: live objects that no entry can express, with reasons."""

    entries: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()


def adopt_access(cluster: str, bindings: Iterable[AclBinding]) -> Adopted[AccessRule]:
    """Access entries; rules of one principal that differ only in name, operation or host are merged."""
    taken: list[AclBinding] = []
    left_out: list[str] = []
    for acl in sorted(bindings):
        at_cluster = acl.name == CLUSTER_NAME and acl.pattern is PatternType.LITERAL
        # Kafka stores rules that match no client, such as after a typo. Declared, they would look as if they did.
        if not is_principal(acl.principal):
            left_out.append(f"{acl}: its principal is none that a client can be")
        elif acl.host != WILDCARD and not is_address(acl.host):
            left_out.append(f"{acl}: its host is no address")
        elif not acl.name or CONTROL.search(f"{acl.name}{acl.principal}"):
            left_out.append(f"{acl}: {_HAS_CONTROLS}")
        elif acl.operation is not Operation.ALL and acl.operation not in MEANT_FOR[acl.resource]:
            left_out.append(f"{acl}: the operation does not exist on {acl.resource}")
        elif acl.resource is ResourceType.CLUSTER and not at_cluster:
            left_out.append(f"{acl}: a cluster is called {CLUSTER_NAME}")
        else:
            taken.append(acl)

    # First the operations on each name, then the names with the same operations, then the hosts with the same of both.
    operations = grouped(
        (
            ((acl.principal, acl.permission, acl.resource), acl.host, NamePattern(acl.name, acl.pattern)),
            acl.operation,
        )
        for acl in taken
    )
    names = grouped(((subject, host, tuple(each)), name) for (subject, host, name), each in operations.items())
    hosts = grouped(((subject, each, tuple(sorted(some))), host) for (subject, host, each), some in names.items())
    rules: list[AccessRule] = []
    for (subject, its_operations, its_names), its_hosts in sorted(
        hosts.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])
    ):
        principal, permission, resource = subject
        exact = ExactRule(resource, its_names, its_operations, permission)
        rules.append(AccessRule(len(rules) + 1, principal, (cluster,), exact=exact, hosts=tuple(sorted(its_hosts))))
    return Adopted(tuple(rules), tuple(left_out))


def adopt_quotas(cluster: str, live: Mapping[QuotaEntity, QuotaLimits]) -> Adopted[Quota]:
    """One quota entry for each entity, sorted."""
    quotas: list[Quota] = []
    left_out: list[str] = []
    for whom, limits in sorted(live.items(), key=lambda pair: str(pair[0])):
        # Kafka holds some entities and values that its own tools refuse; a plan could never set them again.
        kinds = {part.kind for part in whom.parts}
        if not kinds or not kinds <= set(QUOTA_KINDS) or ("ip" in kinds and len(whom.parts) > 1):
            left_out.append(f"{whom}: no entry can name this entity")
            continue
        if any(part.name is not None and (not part.name or CONTROL.search(part.name)) for part in whom.parts):
            left_out.append(f"{whom}: {_HAS_CONTROLS}")
            continue
        if any(part.kind == "user" and (part.name or "").startswith("User:") for part in whom.parts):
            left_out.append(f"{whom}: a user's name does not begin with User:")
            continue

        fitting = (CONNECTION_RATE,) if "ip" in kinds else CLIENT_QUOTAS
        taken: dict[str, float] = {}
        for key, value in sorted(limits.items()):
            # Exact as an entry of YAML: connections are 32 bits, and whole numbers fit a double up to 53 bits.
            most = (1 << 31) - 1 if key == CONNECTION_RATE else (1 << 53) - 1
            if (
                key in fitting
                and 0 < value <= most
                and (value == int(value) or key not in (*BYTE_RATES, CONNECTION_RATE))
            ):
                taken[key] = value
            else:
                left_out.append(f"{whom}: {key} {limit_words(key, value)} cannot be declared")
        if taken:
            quotas.append(Quota(len(quotas) + 1, (cluster,), whom, MappingProxyType(taken)))
    return Adopted(tuple(quotas), tuple(left_out))


def adopt_users(cluster: str, live: LiveUsers | None) -> Adopted[ScramUser]:
    """User entries, sorted by name; none if users or their record could not be read."""
    if live is None or not isinstance(live.credentials, Mapping) or isinstance(live.recorded, Unknown):
        return Adopted()
    users: list[ScramUser] = []
    left_out: list[str] = []
    for name, credentials in sorted(live.credentials.items()):
        record = live.recorded.get(name)
        if not credentials:
            left_out.append(f"{user_words(name)}: a mechanism that no entry can name")
        elif not name or CONTROL.search(name) or name.startswith("User:"):
            left_out.append(f"{user_words(name)}: a name that no entry can hold")
        elif record is not None and record.setting is not None:
            left_out.append(f"{user_words(name)}: {record}")
        else:
            # A hashed password cannot be read back, so the entry keeps the existing one (version 0) until the user sets
            # another.
            version = record.version if record is not None and record.version is not None else AS_FOUND
            # Another variable for each name, on whichever clusters of an environment: variables may only have capitals,
            # digits and underscores, so svc.a, svc_a and SVC-A get a checksum, and svc-a none.
            usual = re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name)
            checksum = "" if usual else f"_{zlib.crc32(name.encode()):08X}"
            variable = f"{TODO}{re.sub('[^A-Z0-9]', '_', name.upper())}{checksum}"
            counts = set(credentials.values())
            iterations = counts.pop() if len(counts) == 1 else None
            user = ScramUser(
                len(users) + 1,
                (cluster,),
                name,
                version,
                tuple(sorted(credentials)),
                None if iterations == LEAST_ITERATIONS else iterations,
                f"${{env:{variable}}}",
                take_over=version == AS_FOUND,
            )
            users.append(user)
    return Adopted(tuple(users), tuple(left_out))


INTERNAL = "internal topic"
REMOTE = "remote topic"
EXCLUDED = "excluded"
OWNED = "of an application"
NOT_CHOSEN = "not asked for"
ELSEWHERE = "declared already"
COLLIDES = "differs only in '.' and '_'"


@dataclass(frozen=True, slots=True)
class AdoptedTopic:
    """``topic.configs`` hold values as they are written, with units; ``comments`` name values that are not declared."""

    topic: Topic
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Adoption:
    """What ``adopt`` takes over of one cluster."""

    cluster: Cluster
    topics: tuple[AdoptedTopic, ...]
    left_out: tuple[Ignored, ...]
    """One entry for each topic that is not declared, its ``rule`` one of this module's words."""
    notes: tuple[str, ...] = ()
    """For readers: what could not be read."""
    access: Adopted[AccessRule] = field(default_factory=Adopted)
    quotas: Adopted[Quota] = field(default_factory=Adopted)
    users: Adopted[ScramUser] = field(default_factory=Adopted)

    @property
    def acls(self) -> int:
        """Number of Kafka's rules in the entries of ``access``."""
        rules = ((rule.exact, rule.hosts) for rule in self.access.entries if rule.exact)
        return sum(len(exact.names) * len(exact.operations) * len(hosts) for exact, hosts in rules)


@dataclass(frozen=True, slots=True)
class AdoptOptions:
    """``exclude``: expressions that match whole topic names. ``known``: the environment the cluster joins. ``only``:
    names or expressions of the topics to take, and nothing but topics; empty: everything."""

    exclude: Expressions = NO_EXPRESSIONS
    known: Topology | None = None
    only: Expressions = NO_EXPRESSIONS

    def names(self, topic: str) -> bool:
        """Names exactly this one, which is then meant beyond doubt."""
        return topic in self.only.texts

    def chooses(self, topic: str) -> bool:
        return not self.only or self.names(topic) or self.only.match(topic)


def adopt(cluster: Cluster, live: LiveCluster, taking: AdoptOptions) -> Adoption:
    """``cluster`` already carries the id that ``live`` reported. Topics come in the order of their names."""
    topics: list[AdoptedTopic] = []
    left_out: list[Ignored] = []
    known, inherited = taking.known, dict[str, str]()
    if known is not None:
        # Defaults of the environment for topics of the cluster.
        own = known.clusters[cluster.name].defaults.configs if cluster.name in known.clusters else {}
        inherited = {**known.rules.defaults.configs, **own}
    # Kafka creates two such topics by one request, and by none after it. Declared, each plan of the cluster would be
    # refused for names that cannot be changed.
    declared = known.topics.values() if known else ()
    by_metric = {topic.name.replace(".", "_"): topic.name for topic in declared if cluster.name in topic.clusters}
    for name in sorted(live.topics):
        topic = live.topics[name]
        why = _why_not(cluster.name, topic, taking, live.topics.keys())
        other = by_metric.get(name.replace(".", "_"), name)
        if why is None and other != name:
            words = f"{other} is declared; Kafka has one metric for both, and refuses to create the second again"
            why = (COLLIDES, words)
        if why is None:
            by_metric[name.replace(".", "_")] = name
            topics.append(_adopted(cluster.name, topic, inherited))
        else:
            left_out.append(Ignored(of_topic(TopicRef(cluster.name, name)), *why))
    if taking.only:
        return Adoption(cluster, tuple(topics), tuple(left_out), tuple(_notes(replace(live, access=None, users=None))))

    # A cluster that was adopted before this one could not know that this one's name makes remote topics.
    notes = [*_notes(live)]
    remotes = {f"{cluster.name}.{name}" for name in live.topics}
    names = [str(TopicRef(topic.clusters[0], topic.name)) for topic in declared if topic.name in remotes]
    if names:
        words = f"declared before, but named as remote topics of {cluster.name} ({len(names)}): {first_of(names, 8)}"
        notes.append(f"{words}. Where a flow makes them, take them out of the files")

    access: Adopted[AccessRule] = Adopted()
    seen = live.access
    # Without the ownership record, our own rules look like any other tool's.
    if seen is not None and isinstance(seen.acls, frozenset) and not isinstance(seen.owned, Unknown):
        access = adopt_access(cluster.name, seen.acls)
    quotas = adopt_quotas(cluster.name, live.quotas if isinstance(live.quotas, Mapping) else {})
    users = adopt_users(cluster.name, live.users)
    return Adoption(cluster, tuple(topics), tuple(left_out), tuple(notes), access, quotas, users)


def _notes(live: LiveCluster) -> Iterator[str]:
    """What of the cluster is not in the files, because it could not be seen or read: each of these may exist."""
    if not live.sees_all:
        yield "the principal may not describe every topic: topics it cannot see are not here, and may exist"
    if live.access is not None:
        yield from _unread("access rule", live.access.acls, live.access.owned)
        yield from (f"access rule not understood, left alone: {name}" for name in live.access.not_understood)
    if live.users is not None:
        yield from _unread("SCRAM user", live.users.credentials, live.users.recorded)
    yield from _unread("quota", live.quotas)
    silent = sorted(name for name, topic in live.topics.items() if isinstance(topic.configs, Unknown))
    if silent:
        yield f"the configs of {counted(len(silent), 'topic')} could not be read, so none is declared for them"


def _unread(kind: str, *answers: object) -> Iterator[str]:
    if unknown := next((answer for answer in answers if isinstance(answer, Unknown)), None):
        yield f"no {kind} is declared: {unknown.with_todo}"


def _why_not(cluster: str, topic: LiveTopic, taking: AdoptOptions, names: Collection[str]) -> tuple[str, str] | None:
    """Rule and words, or None for a topic that is taken. ``names``: all topics of the cluster."""
    name = topic.name
    if not taking.chooses(name):
        return NOT_CHOSEN, "no --topic matches it"
    if topic.internal or DefaultReplicationPolicy().is_internal_topic(name) or is_own_topic(name):
        return INTERNAL, "Kafka, Connect or a mirror manages it itself"
    if hit := taking.exclude.first(name):
        return EXCLUDED, f"matches --exclude {hit}"
    if (owner := owner_of(name, names)) and not taking.names(name):
        return OWNED, f"{owner} creates and manages it; --topic {name} declares it anyway"
    if taking.known is None:
        return None
    others = taking.known.clusters.keys() - {cluster}
    if origin := next((text for text in sorted(others) if name.startswith(f"{text}.") and name != f"{text}."), None):
        return REMOTE, f"named as the remote topic of {origin}/{name.removeprefix(f'{origin}.')}; a flow makes it"
    if (other := taking.known.topics.get(name)) is None:
        return None

    # Notes how a topic on two clusters differs from a single declaration.
    apart = []
    if other.partitions not in (None, len(topic.partitions)):
        apart.append(f"partitions are {len(topic.partitions)} here and {other.partitions} there")
    if other.replication_factor not in (None, topic.replication_factor):
        here = topic.replication_factor or "mixed"
        apart.append(f"the replication factor is {here} here and {other.replication_factor} there")
    if isinstance(topic.configs, Unknown):
        apart.append("its configs could not be read here")
    else:
        for key, value in sorted(other.configs.items()):
            config = topic.configs.get(key)
            if config is None or not same(key, config.value, value):
                here = human(key, config.value) if config else "unknown to the brokers"
                apart.append(f"{key} is {here} here and {human(key, value)} there")
    difference = "; ".join(apart) or f"equal here: add {cluster} to its clusters"
    return ELSEWHERE, f"{other.where} declares it; {difference}"


def _adopted(cluster: str, topic: LiveTopic, inherited: Mapping[str, str]) -> AdoptedTopic:
    """The topic with its overrides as YAML; undeclarable ones become ``comments``."""
    comments: list[str] = []
    configs: dict[str, str] = {}
    factor = topic.replication_factor
    if factor is None:
        by_factor = sorted(topic.partitions, key=lambda part: (len(part.replicas), part.index))
        each = (
            f"{factor} on partition {', '.join(str(part.index) for part in parts)}"
            for factor, parts in groupby(by_factor, key=lambda part: len(part.replicas))
        )
        comments.append(f"replication factor differs: {'; '.join(each)}; not declared")
    if isinstance(topic.configs, Unknown):
        comments.append(f"configs could not be read, none is declared: {topic.configs.error}")
    else:
        for key, config in sorted(topic.configs.items()):
            # Only overrides: a default that git declares would no longer follow its brokers.
            if config.source is not Source.TOPIC:
                continue
            if key in THROTTLES:
                comments.append(f"{key} is set: a throttle of a reassignment, not declared")
            elif config.sensitive or config.value is None:
                comments.append(f"{key} is set: the broker hides its value, not declared")
            elif wrong := undeclarable(topic, key, config.value):
                comments.append(f"{key} is {config.value}: {wrong}, not declared")
            else:
                configs[key] = written(key, config.value)
        # A default of the environment would change the topic, unless the broker's value is written against it.
        for key in sorted(inherited.keys() & topic.configs.keys() - configs.keys()):
            value = topic.configs[key].value
            if value is not None and not same(key, value, inherited[key]):
                configs[key] = written(key, value)
    return AdoptedTopic(Topic(topic.name, (cluster,), len(topic.partitions), factor, configs), tuple(comments))


def undeclarable(topic: LiveTopic, key: str, value: str) -> str:
    """Why git cannot declare this live value of ``topic``; empty if it can."""
    if CONTROL.search(value):
        return "it contains characters that are not allowed in a topology"
    judged = topic_config(key, Scalar(value, False, 0, 0))
    if isinstance(judged, Wrong):
        return judged.what
    least = number(value) if key == "min.insync.replicas" else None
    factor = min((len(part.replicas) for part in topic.partitions), default=None)
    if least is not None and factor is not None and least > factor:
        return (
            f"above the replication factor {factor}: brokers before Kafka 3.7 refuse every write with acks=all there, "
            f"later ones count it as {factor}; plan would refuse it"
        )
    return ""


def written(key: str, value: str) -> str:
    """A config value as a person would write it: ``7d``, ``1GiB``; unchanged if that is not exact, or a word."""
    short = human(key, value)
    if short in words_for(key):
        return value
    judged = topic_config(key, Scalar(short, False, 0, 0))
    exact = isinstance(judged, str) and canonical(key, judged) == canonical(key, value)
    return short if value and exact else value


def counts(left_out: Sequence[Ignored]) -> dict[str, list[str]]:
    """Names (without the cluster) by rule, in the order of the rules' words."""
    in_order = sorted(left_out, key=lambda ignored: (ignored.rule, ignored.subject))
    return grouped((ignored.rule, ignored.subject.name) for ignored in in_order)
