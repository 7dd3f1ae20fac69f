"""One cluster: reachable, the right one, its certificates, features, clock, and broker settings that matter here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from reconciler.checkups import Address, ClusterFacts, Finding, Verdict
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.topic_configs import human
from reconciler.topology import Cluster

DAY_S = 86_400
EXPIRES_SOON_DAYS = 30
SKEW_WARNING_MS = 2_000
SKEW_PROBLEM_MS = 300_000
TRANSACTION_TIMEOUT_MS = 60_000
"""What the mirror job asks for; brokers refuse a producer that asks for more than transaction.max.timeout.ms."""

CHECKS = "addresses, certificates, cluster id, features, authorizer, clock, mutation quota, broker settings"
OK, WARNING, PROBLEM, UNKNOWN = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM, Verdict.UNKNOWN


def cluster_findings(wish: Cluster, facts: ClusterFacts, target: bool, now_s: int) -> Iterator[Finding]:
    """``target``: a flow writes to it. ``now_s``: seconds since 1970."""
    subject = f"cluster {wish.name}"
    if facts.late is not None:
        why = f"not looked at: {CHECKS}"
        yield Finding(subject, "cluster id", UNKNOWN, facts.late.error, why, _lines(facts.late))
        return
    for address in facts.addresses:
        yield from _address(subject, address, now_s)
    if facts.cluster_id is None:
        why = "none of its bootstrap servers answered as a Kafka broker that accepts us"
        yield Finding(
            subject, "cluster id", UNKNOWN, "the cluster did not answer", why, ("Mend the login or address above",)
        )
        return
    yield _identity(subject, wish, facts.cluster_id)
    yield _features(subject, facts)
    yield _authorizer(subject, facts.authorizer)
    yield _clock(subject, facts)
    yield _quotas(subject, facts)
    yield from _settings(subject, wish, facts, target)


def _address(subject: str, address: Address, now_s: int) -> Iterator[Finding]:
    if address.error:
        text = f"{address.server}: {address.error}"
        todo = ("Check the address, security.protocol, ssl.ca.location, and the network between here and there",)
        yield Finding(subject, "address", PROBLEM, text, "a client that asks this one first waits or fails", todo)
        return
    yield Finding(subject, "address", OK, f"{address.server} answers")
    if address.certificate is None:
        return
    left = (address.certificate.not_after - now_s) // DAY_S
    day = datetime.fromtimestamp(address.certificate.not_after, UTC).date().isoformat()
    text = f"{address.server}: valid until {day} ({left} days), for {', '.join(address.certificate.names) or 'no name'}"
    if left < EXPIRES_SOON_DAYS:
        todo = ("Renew the broker's certificate before that day",)
        yield Finding(subject, "certificate", WARNING, text, "then no client can connect any more", todo)
    else:
        yield Finding(subject, "certificate", OK, text)


def _identity(subject: str, wish: Cluster, found: str) -> Finding:
    if wish.cluster_id is None:
        todo = (f"Write cluster_id: {found} under it",)
        why = "without it a wrong address or tunnel would not be noticed"
        return Finding(subject, "cluster id", WARNING, f"{found} answers, none is declared", why, todo)
    if wish.cluster_id != found:
        text = f"declared is {wish.cluster_id}, {found} answers"
        todo = ("Correct bootstrap_servers or cluster_id; look for a tunnel or an old address",)
        return Finding(
            subject, "cluster id", PROBLEM, text, "this may be another cluster, so every command refuses", todo
        )
    return Finding(subject, "cluster id", OK, f"{found}, as declared")


def _features(subject: str, facts: ClusterFacts) -> Finding:
    if isinstance(facts.features, Unknown):
        return Finding(subject, "features", UNKNOWN, facts.features.error, "", _lines(facts.features))
    levels = ", ".join(f"{name} {level}" for name, level in facts.features.items()) or "none finalized"
    if facts.apis and "IncrementalAlterConfigs" not in facts.apis:
        text, why = f"{levels}; the brokers have no IncrementalAlterConfigs", "configs are only altered incrementally"
        return Finding(subject, "features", PROBLEM, text, why, ("Kafka 2.3 or newer is needed",))
    if facts.features.get("transaction.version", 0) < 2:
        why = (
            "the older transaction protocol is used, which has no defence against late requests of a producer (KIP-890)"
        )
        todo = ("kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature transaction.version=2",)
        return Finding(subject, "features", WARNING, levels, why, todo)
    return Finding(subject, "features", OK, levels)


def _authorizer(subject: str, found: bool | Unknown) -> Finding:
    if isinstance(found, Unknown):
        return Finding(subject, "authorizer", UNKNOWN, found.error, "", _lines(found))
    if not found:
        why = "whoever reaches a broker may do everything"
        todo = ("Set authorizer.class.name on the brokers where that is not meant",)
        return Finding(subject, "authorizer", WARNING, "none", why, todo)
    return Finding(subject, "authorizer", OK, "there is one; principals need the rights listed below")


def _clock(subject: str, facts: ClusterFacts) -> Finding:
    if isinstance(facts.skew_ms, Unknown):
        return Finding(
            subject,
            "clock",
            UNKNOWN,
            facts.skew_ms.error,
            "retention and lag are told by clocks",
            _lines(facts.skew_ms),
        )
    off, error = facts.skew_ms, facts.skew_error_ms
    side = "ahead of" if off > 0 else "behind"
    text = f"the active controller is {abs(off)} ms {side} this machine, give or take {error} ms"
    if abs(off) - error < SKEW_WARNING_MS:
        return Finding(subject, "clock", OK, text)
    why = "lag in seconds is wrong by that much, and start by timestamp begins elsewhere"
    verdict = PROBLEM if abs(off) - error >= SKEW_PROBLEM_MS else WARNING
    return Finding(subject, "clock", verdict, text, why, ("Let both follow the same time servers (NTP)",))


def _quotas(subject: str, facts: ClusterFacts) -> Finding:
    if isinstance(facts.quotas, Unknown):
        todo = ("kafka-configs.sh --describe --entity-type users --entity-default shows them",)
        return Finding(subject, "mutation quota", UNKNOWN, facts.quotas.error, "", todo)
    if not facts.quotas:
        return Finding(subject, "mutation quota", OK, "none")
    text = "; ".join(f"{who}: {rate:g} partitions a second" for who, rate in sorted(facts.quotas.items()))
    why = "a large apply is slowed down to it, and waits"
    return Finding(subject, "mutation quota", OK, text, why)


def _settings(subject: str, wish: Cluster, facts: ClusterFacts, target: bool) -> Iterator[Finding]:
    if isinstance(facts.brokers, Unknown):
        yield Finding(subject, "broker settings", UNKNOWN, facts.brokers.error, "", _lines(facts.brokers))
        return
    yield _auto_create(subject, facts)
    if target:
        yield _transactions(subject, facts)
        yield _positions(subject, facts)
    yield _replicas(subject, wish, facts)


def _values(facts: ClusterFacts, key: str) -> list[str]:
    assert not isinstance(facts.brokers, Unknown)
    return sorted({value for configs in facts.brokers.values() if (value := configs.get(key)) is not None})


def _numbers(facts: ClusterFacts, key: str) -> list[int]:
    return sorted(int(value) for value in _values(facts, key) if value.lstrip("-").isdigit())


def _auto_create(subject: str, facts: ClusterFacts) -> Finding:
    if _values(facts, "auto.create.topics.enable") != ["false"]:
        why = "a client that asks for a name makes the topic with default settings, even one that was just deleted"
        todo = ("Set auto.create.topics.enable=false on the brokers",)
        return Finding(subject, "auto-create", WARNING, "auto.create.topics.enable is true", why, todo)
    return Finding(subject, "auto-create", OK, "off")


def _transactions(subject: str, facts: ClusterFacts) -> Finding:
    longest = _numbers(facts, "transaction.max.timeout.ms")
    expires = _numbers(facts, "transactional.id.expiration.ms")
    if not longest:
        return Finding(subject, "transactions", UNKNOWN, "the brokers do not tell transaction.max.timeout.ms")
    text = f"transaction.max.timeout.ms {human('a.ms', str(longest[0]))}"
    if expires:
        text += f", transactional.id.expiration.ms {human('a.ms', str(expires[0]))}"
    if longest[0] < TRANSACTION_TIMEOUT_MS:
        why = f"the mirror job asks for {human('a.ms', str(TRANSACTION_TIMEOUT_MS))} and would be refused"
        todo = (f"Set transaction.max.timeout.ms to at least {TRANSACTION_TIMEOUT_MS} on the brokers",)
        return Finding(subject, "transactions", PROBLEM, text, why, todo)
    return Finding(subject, "transactions", OK, text)


def _positions(subject: str, facts: ClusterFacts) -> Finding:
    minutes = _numbers(facts, "offsets.retention.minutes")
    if not minutes:
        return Finding(subject, "positions", UNKNOWN, "the brokers do not tell offsets.retention.minutes")
    kept = human("a.ms", str(minutes[0] * 60_000))
    text = f"offsets.retention.minutes {minutes[0]} ({kept})"
    if minutes[0] < 3 * 24 * 60:
        why = f"a mirror that is stopped for longer than {kept} loses its positions and begins anew"
        return Finding(subject, "positions", WARNING, text, why, ("Raise it to 7 days (10080) or more",))
    return Finding(subject, "positions", OK, text, f"a mirror may be stopped for up to {kept}")


def _replicas(subject: str, wish: Cluster, facts: ClusterFacts) -> Finding:
    assert not isinstance(facts.brokers, Unknown)
    least, factors = _numbers(facts, "min.insync.replicas"), _numbers(facts, "default.replication.factor")
    factor = wish.defaults.replication_factor or (factors[0] if factors else None)
    if not least or factor is None:
        return Finding(subject, "replicas", UNKNOWN, "the brokers do not tell min.insync.replicas")
    brokers = counted(len(facts.brokers), "broker")
    text = f"new topics have replication factor {factor}, min.insync.replicas {least[-1]}, on {brokers}"
    if least[-1] > factor:
        todo = ("Raise default.replication.factor, or lower min.insync.replicas",)
        return Finding(subject, "replicas", PROBLEM, text, "producers with acks=all could never write", todo)
    if least[-1] == factor > 1:
        todo = ("Set min.insync.replicas to one less than the factor",)
        return Finding(subject, "replicas", WARNING, text, "when one broker is down, nothing can be written", todo)
    return Finding(subject, "replicas", OK, text)


def _lines(failed: Unknown) -> tuple[str, ...]:
    return (failed.todo,) if failed.todo else ()
