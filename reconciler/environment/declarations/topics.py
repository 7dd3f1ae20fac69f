"""``topics``, their ``deletions`` (tombstones), and the rules beside them: classes, protections, audit, shrink limit.

The schema has checked the shapes; an entry with a problem in one of its values is left out.
"""

import re
from collections.abc import Iterator
from datetime import date

from reconciler.environment.declarations.clusters import build_defaults, read_undeclared
from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.expressions import barren
from reconciler.environment.declarations.values import Wrong, label, retention_step, topic_config
from reconciler.environment.yaml.characters import named
from reconciler.environment.yaml.locations import Places, unknown_clusters, unknown_name
from reconciler.errors import Problem
from reconciler.kafka.address import without_login
from reconciler.model.environment.topology import (
    AuditTopic,
    Protection,
    ShrinkLimit,
    Tombstone,
    Topic,
    TopicDefaults,
    Topology,
)
from reconciler.replication.expressions.unfit import flags_of_a_part, unfit
from reconciler.replication.names import is_own_topic
from reconciler.resources.protected_names import protection_of
from reconciler.text import sentence, suggestion

MAX_TOPIC_NAME = 249
KAFKA_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)


def build_topic(reading: Reading) -> Topic:
    return Topic(
        name=reading.name,
        clusters=reading.texts("clusters"),
        partitions=reading.value("partitions", default=None),
        replication_factor=reading.value("replication_factor", default=None),
        configs=reading.mapping("configs", each=topic_config),
        labels=reading.mapping("labels", each=label),
        class_name=reading.value("class", default=""),
        lower_retention_by=reading.mapping("lower_retention_by", each=retention_step),
        undeclared=read_undeclared(reading),
        where=reading.place.where,
    )


def build_tombstone(reading: Reading) -> Tombstone:
    expires = str(reading.value("expires", default=""))
    try:
        expires = date.fromisoformat(expires).isoformat()
    except ValueError:
        why = "No calendar has this day"
        wrong = Wrong("bad-date", f"expires is {expires}", why, "Write a day such as 2026-01-31")
        reading.wrong(("expires",), wrong)
    # Clients of other languages print an id in the other alphabet of base64; Kafka's own tools print this one.
    topic_id = reading.value("topic_id", default="").rstrip("=").replace("+", "-").replace("/", "_")
    return Tombstone(
        cluster=reading.value("cluster", default=""),
        topic=reading.value("topic", default=""),
        topic_id=topic_id,
        reason=reading.value("reason", default=""),
        expires=expires,
        where=reading.place.where,
    )


def build_class(reading: Reading) -> tuple[str, TopicDefaults]:
    return reading.name, build_defaults(reading)


def build_protection(reading: Reading) -> Protection:
    return Protection(flags_of_a_part(reading.name), reading.place.where)


def build_audit(reading: Reading) -> AuditTopic:
    topic, cluster = (reading.value(field, default="") for field in ("topic", "cluster"))
    return AuditTopic(topic, cluster, where=reading.place.where)


def build_shrink_limit(reading: Reading) -> ShrinkLimit:
    standard = ShrinkLimit()
    percent = reading.value("percent", default=standard.percent)
    return ShrinkLimit(percent, reading.value("least", default=standard.least))


def build_docs_url(reading: Reading) -> str:
    url = str(reading.value(default=""))
    if "@" in url.partition("://")[2].partition("/")[0]:
        why = "Every page, alert and metric with a runbook would show it"
        reading.wrong((), Wrong("bad-value", f"{without_login(url)} has a login", why, "Write the address without it"))
    return url


def check_topics(topology: Topology, places: Places) -> Iterator[Problem]:
    """Names that Kafka does not allow, and topics that Kafka or the mirror makes itself."""
    for topic in topology.topics.values():
        name = topic.name
        if not topology.clusters.keys() >= {*topic.clusters}:
            yield from unknown_clusters(places, topology.clusters, topic, f"topic {name}")
        wrong = ""
        if name in ("", ".", ".."):
            wrong = "is not allowed"
        elif len(name) > MAX_TOPIC_NAME:
            wrong = f"has {len(name)} characters"
        elif bad := sorted(set(re.sub(r"[A-Za-z0-9._-]", "", name))):
            wrong = f"holds {', '.join(repr(char) if char.isascii() else named(char) for char in bad)}"
        if wrong:
            allowed = f"letters, digits, '.', '_' and '-', at most {MAX_TOPIC_NAME} of them"
            why = f"Kafka allows {allowed}; . and .. are taken"
            problem = f'the topic name "{name[:80]}" {wrong}'
            yield Problem("bad-topic-name", places.of(topic), problem, why, "Rename the topic")
        elif name in KAFKA_TOPICS or is_own_topic(name):
            owner = "Kafka" if name in KAFKA_TOPICS else "the mirror job"
            why = f"{sentence(owner)} manages it itself"
            yield Problem(
                "internal-topic", places.of(topic), f"the internal topic {name} is declared", why, "Remove it"
            )


def check_rules(topology: Topology, places: Places) -> Iterator[Problem]:
    """Classes that topics name, the cluster of the audit, and expressions of prune lists and protections."""
    # A file with a syntax error may hold the class or the cluster (``complete`` is false then): its own problem is
    # reported, and none that follows from it.
    classes = topology.rules.classes
    for topic in topology.topics.values():
        name = topic.class_name
        if not name or name in classes or places.has("classes", name) or not places.complete:
            continue
        problem = f"topic {topic.name} names the unknown class {name}"
        why = "No file of the environment declares it, so its values are unknown"
        todo = suggestion(name, classes, "Declare it under classes")
        yield Problem("unknown-class", places.of(topic, "class"), problem, why, todo)

    audit = topology.rules.audit
    cluster = audit.cluster if audit is not None else ""
    if audit is not None and cluster and places.complete and not places.has("clusters", cluster):
        where = places.find("audit", "audit", "cluster", or_else=audit.where)
        todo = suggestion(cluster, topology.clusters, "Name one of the clusters")
        problem = f"audit names the unknown cluster {cluster}"
        yield Problem("unknown-cluster", where, problem, "There is no place for the audit record", todo)

    expressions = [
        (text, places.of(cluster, "prune", "topics", index), f"cluster {cluster.name}: prune.topics[{index}]")
        for cluster in topology.clusters.values()
        for index, text in enumerate(cluster.prune_topics)
    ]
    expressions += [(protection.pattern, protection.where, "protected") for protection in topology.rules.protected]
    for text, where, subject in expressions:
        if wrong := unfit(text):
            yield Problem(wrong.code, where, f'{subject} is "{text}", {wrong.what}', wrong.why, wrong.todo)
        elif hopeless := barren(text, where, subject):
            yield hopeless


def check_tombstones(topology: Topology, places: Places) -> Iterator[Problem]:
    # Matching an expression that ``check_rules`` refuses could raise, or take for ever.
    """Tombstones of topics that are declared, or that a protection keeps."""
    protections = [rule for rule in topology.rules.protected if not unfit(rule.pattern)] if topology.deletions else []
    for stone in topology.deletions:
        subject = f"the tombstone of {stone.topic}"
        yield from unknown_name(places, topology.clusters, stone.cluster, subject, places.of(stone, "cluster"))
        declared = topology.topics.get(stone.topic)
        if declared is not None and stone.cluster in declared.clusters:
            problem = f"{stone.ref} has a tombstone and is declared at {declared.where}"
            why = "One asks for the topic, the other removes it"
            todo = f"Remove {stone.cluster} from the topic's clusters, or remove the tombstone"
            yield Problem("tombstone-for-declared", places.of(stone), problem, why, todo)
        if rule := protection_of(stone.topic, protections):
            problem = f"{stone.ref} has a tombstone, but {rule} keeps it from being deleted"
            why = "Kafka or a program beside it keeps its own state in such topics"
            todo = "Remove the tombstone"
            if rule.place:
                why = "One asks for its removal, the other forbids it"
                todo = "Remove one of the two, in an edit that its owner reviews"
            yield Problem("tombstone-protected", places.of(stone, "topic"), problem, why, todo)


def check_expiry(topology: Topology, places: Places) -> Iterator[Problem]:
    """Expired tombstones, judged without clusters; with clusters, ``topics.diff_deletions`` knows whether the topic
    still exists."""
    for stone in topology.deletions:
        if stone.expired:
            problem = f"the tombstone of {stone.ref} counted until {stone.expires}"
            why = "What was agreed then may no longer be intended"
            todo = "Remove it when the topic is gone; otherwise confirm it again and write a new date"
            yield Problem("tombstone-expired", places.of(stone, "expires"), problem, why, todo)
