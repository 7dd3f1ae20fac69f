"""Doctor checks of one cluster: reachable, the right cluster id, certificates, features, clock, broker settings."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.engine.doctor.broker_limits import brokers_agree
from reconciler.engine.doctor.check import Check
from reconciler.errors import Unknown
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Cluster
from reconciler.model.reports.doctor import Address, ClusterFacts, Finding
from reconciler.resources.topics.limits import min_insync_above
from reconciler.text import counted, moment

DAY_S = 86_400
EXPIRES_SOON_DAYS = 30
SKEW_WARNING_MS = 2_000
SKEW_PROBLEM_MS = 300_000
TRANSACTION_TIMEOUT_MS = 60_000
"""What the mirror job asks for; brokers refuse a producer that asks for more than transaction.max.timeout.ms."""

TRANSACTIONS_2_PRODUCE = 12
"""The version of Produce that came with transaction.version 2, in Kafka 4.0 (KIP-890)."""

CHECKS = "addresses, certificates, cluster id, features, authorizer, clock, mutation quota, broker settings"


def cluster_findings(declared: Cluster, facts: ClusterFacts, target: bool, now_s: int) -> Iterator[Finding]:
    """``target``: a flow writes to it. ``now_s``: seconds since 1970."""
    subject = f"cluster {declared.name}"
    identity = Check(subject, "cluster id")
    if facts.late is not None:
        yield identity.unread(facts.late, f"not looked at: {CHECKS}")
        return
    for address in facts.addresses:
        yield from _address(subject, address, now_s)
    if facts.cluster_id is None:
        why = "none of its bootstrap servers answered as a Kafka broker that accepts us"
        yield identity.unknown("the cluster did not answer", why, "Fix the login or address above")
        return
    yield _identity(identity, declared, facts.cluster_id)
    yield _features(Check(subject, "features"), facts)
    yield _authorizer(Check(subject, "authorizer"), facts.authorizer)
    yield _clock(Check(subject, "clock"), facts)
    yield _quotas(Check(subject, "mutation quota"), facts)
    yield from _settings(subject, declared, facts, target)


def _address(subject: str, address: Address, now_s: int) -> Iterator[Finding]:
    check = Check(subject, "address")
    if address.error:
        todo = "Check the address, security.protocol, ssl.ca.location, and the network between here and there"
        text = f"{address.server}: {address.error}"
        yield check.problem(text, "a client that asks this one first waits or fails", todo)
        return
    yield check.ok(f"{address.server} answers")
    if address.certificate is None:
        return
    check = Check(subject, "certificate")
    days = (address.certificate.not_after - now_s) // DAY_S
    day = moment(address.certificate.not_after * 1000, "%Y-%m-%d")
    text = f"{address.server}: valid until {day} ({days} days), for {', '.join(address.certificate.names) or 'no name'}"
    if days < EXPIRES_SOON_DAYS:
        todo = "Renew the broker's certificate before that day"
        yield check.warning(text, "then no client can connect any more", todo)
    else:
        yield check.ok(text)


def _identity(check: Check, declared: Cluster, name: str) -> Finding:
    if declared.cluster_id is None:
        why = "without it a wrong address or tunnel would not be noticed"
        return check.warning(f"{name} answers, none is declared", why, f"Write cluster_id: {name} under it")
    if declared.cluster_id != name:
        text, why = f"declared is {declared.cluster_id}, {name} answers", "this may be another cluster"
        todo = "Correct bootstrap_servers or cluster_id; look for a tunnel or an old address"
        return check.problem(text, f"{why}, so every command refuses", todo)
    return check.ok(f"{name}, as declared")


def _features(check: Check, facts: ClusterFacts) -> Finding:
    if isinstance(facts.features, Unknown):
        return check.unread(facts.features)
    levels = ", ".join(f"{name} {level}" for name, level in facts.features.items()) or "none finalized"
    if facts.zookeeper:
        levels = "none: its brokers keep their metadata in ZooKeeper"
    if facts.apis and "IncrementalAlterConfigs" not in facts.apis:
        text, why = f"{levels}; the brokers have no IncrementalAlterConfigs", "configs are only altered incrementally"
        return check.problem(text, why, "Kafka 2.3 or newer is needed")
    if facts.features.get("transaction.version", 0) < 2:
        why = (
            "the older transaction protocol is used, which has no defence against late requests of a producer (KIP-890)"
        )
        todo = "kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature transaction.version=2"
        if facts.apis and facts.apis.get("Produce", 0) < TRANSACTIONS_2_PRODUCE:
            todo = "Upgrade the brokers to Kafka 4.0 or newer, which have the feature transaction.version"
        return check.warning(levels, why, todo)
    return check.ok(levels)


def _authorizer(check: Check, value: bool | Unknown) -> Finding:
    if isinstance(value, Unknown):
        return check.unread(value)
    if not value:
        why = "anyone who reaches a broker may do everything"
        return check.warning("none", why, "Set authorizer.class.name on the brokers where that is not meant")
    return check.ok("there is one; principals need the rights listed below")


def _clock(check: Check, facts: ClusterFacts) -> Finding:
    if isinstance(facts.skew_ms, Unknown):
        unread = facts.skew_ms
        if facts.zookeeper:
            todo = "Compare the clocks of the brokers' machines by hand (NTP)"
            unread = Unknown(unread.subject, "brokers with ZooKeeper do not report their time", todo)
        return check.unread(unread, "retention and lag are measured by clocks")
    off, error = facts.skew_ms, facts.skew_error_ms
    side = "ahead of" if off > 0 else "behind"
    text = f"the active controller is {abs(off)} ms {side} this machine, give or take {error} ms"
    if abs(off) - error < SKEW_WARNING_MS:
        return check.ok(text)
    why = "lag in seconds is wrong by that much, and start by timestamp begins elsewhere"
    tell = check.problem if abs(off) - error >= SKEW_PROBLEM_MS else check.warning
    return tell(text, why, "Let both follow the same time servers (NTP)")


def _quotas(check: Check, facts: ClusterFacts) -> Finding:
    if isinstance(facts.quotas, Unknown):
        todo = "kafka-configs.sh --describe --entity-type users --entity-default shows them"
        return check.unknown(facts.quotas.error, "", todo)
    if not facts.quotas:
        return check.ok("none")
    text = "; ".join(f"{who}: {rate:g} partitions a second" for who, rate in sorted(facts.quotas.items()))
    return check.ok(text, "a large apply is slowed down to it, and waits")


def _settings(subject: str, declared: Cluster, facts: ClusterFacts, target: bool) -> Iterator[Finding]:
    if isinstance(facts.brokers, Unknown):
        yield Check(subject, "broker settings").unread(facts.brokers)
        return
    yield _auto_create(Check(subject, "auto-create"), facts)
    if target:
        yield _transactions(Check(subject, "transactions"), facts)
        yield _positions(Check(subject, "positions"), facts)
    yield _replicas(Check(subject, "replicas"), declared, facts)
    yield brokers_agree(Check(subject, "limits"), facts)


def _values(facts: ClusterFacts, key: str) -> list[str]:
    assert not isinstance(facts.brokers, Unknown)
    return sorted({value for configs in facts.brokers.values() if (value := configs.get(key)) is not None})


def _numbers(facts: ClusterFacts, key: str) -> list[int]:
    return sorted(int(value) for value in _values(facts, key) if value.lstrip("-").isdigit())


def _auto_create(check: Check, facts: ClusterFacts) -> Finding:
    if _values(facts, "auto.create.topics.enable") != ["false"]:
        why = "a client that asks for a name makes the topic with default settings, even one that was just deleted"
        todo = "Set auto.create.topics.enable=false on the brokers"
        return check.warning("auto.create.topics.enable is true", why, todo)
    return check.ok("off")


def _transactions(check: Check, facts: ClusterFacts) -> Finding:
    longest = _numbers(facts, "transaction.max.timeout.ms")
    expires = _numbers(facts, "transactional.id.expiration.ms")
    if not longest:
        return check.unknown("the brokers do not report transaction.max.timeout.ms")
    text = f"transaction.max.timeout.ms {human('a.ms', str(longest[0]))}"
    if expires:
        text += f", transactional.id.expiration.ms {human('a.ms', str(expires[0]))}"
    if longest[0] < TRANSACTION_TIMEOUT_MS:
        why = f"the mirror job asks for {human('a.ms', str(TRANSACTION_TIMEOUT_MS))} and would be refused"
        todo = f"Set transaction.max.timeout.ms to at least {TRANSACTION_TIMEOUT_MS} on the brokers"
        return check.problem(text, why, todo)
    return check.ok(text)


def _positions(check: Check, facts: ClusterFacts) -> Finding:
    minutes = _numbers(facts, "offsets.retention.minutes")
    if not minutes:
        return check.unknown("the brokers do not report offsets.retention.minutes")
    kept = human("a.ms", str(minutes[0] * 60_000))
    text = f"offsets.retention.minutes {minutes[0]} ({kept})"
    if minutes[0] < 3 * 24 * 60:
        why = f"a mirror that is stopped for longer than {kept} loses its positions and begins anew"
        return check.warning(text, why, "Raise it to 7 days (10080) or more")
    return check.ok(text, f"a mirror may be stopped for up to {kept}")


def _replicas(check: Check, declared: Cluster, facts: ClusterFacts) -> Finding:
    assert not isinstance(facts.brokers, Unknown)
    least, factors = _numbers(facts, "min.insync.replicas"), _numbers(facts, "default.replication.factor")
    factor = declared.defaults.replication_factor or (factors[0] if factors else None)
    if not least or factor is None:
        return check.unknown("the brokers do not report min.insync.replicas")
    brokers = counted(len(facts.brokers), "broker")
    text = f"new topics have replication factor {factor}, min.insync.replicas {least[-1]}, on {brokers}"
    if least[-1] > factor:
        todo = "Raise default.replication.factor, or lower min.insync.replicas"
        return check.problem(text, min_insync_above(factor), todo)
    if least[-1] == factor > 1:
        todo = "Set min.insync.replicas to one less than the factor"
        return check.warning(text, "when one broker is down, nothing can be written", todo)
    return check.ok(text)
