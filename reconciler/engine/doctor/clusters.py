"""Doctor checks of one cluster: reachable, the right cluster id, certificates, features, clock, broker settings."""

from collections.abc import Iterator
from dataclasses import replace

from reconciler.engine.doctor.flows import brokers_agree
from reconciler.errors import Unknown
from reconciler.model.config_values import human
from reconciler.model.environment.services import NO_SERVICE, ServiceOffer, offer_of, service_words
from reconciler.model.environment.topology import Cluster
from reconciler.model.reports.doctor import Check, ClusterFacts, DoctorVerdict, Finding
from reconciler.resources.topics.limits import min_insync_above
from reconciler.text import counted, moment

DAY_S = 86_400
EXPIRES_SOON_DAYS = 30
SKEW_WARNING_MS = 2_000
SKEW_PROBLEM_MS = 300_000
TRANSACTION_TIMEOUT_MS = 60_000
"""The mirror job's transaction timeout; brokers refuse one above transaction.max.timeout.ms."""

TRANSACTIONS_2_PRODUCE = 12
"""Version of Produce for transaction.version 2 (KIP-890), since Kafka 4.0."""

LEAST_OFFSETS_RETENTION_MIN = 3 * 24 * 60
"""A mirror stopped on Friday evening must find its positions on Monday morning."""

CHECKS = "addresses, certificates, cluster id, features, authorizer, clock, mutation quota, broker settings"


def cluster_findings(declared: Cluster, facts: ClusterFacts, target: bool, now_s: int) -> Iterator[Finding]:
    """``target``: a flow writes to it. ``now_s``: seconds since 1970."""
    subject = f"cluster {declared.name}"
    identity = Check(subject, "cluster id")
    if facts.late is not None:
        yield identity.unread(facts.late, f"not looked at: {CHECKS}")
        return

    # Each bootstrap server is checked: clients start with the first one that answers, which hides faults of the others.
    for address in facts.addresses:
        check = Check(subject, "address")
        if address.error:
            todo = "Check the address, security.protocol, ssl.ca.location, and the network between here and there"
            text = f"{address.server}: {address.error}"
            yield check.problem(text, "a client that asks this one first waits or fails", todo)
            continue
        yield check.ok(f"{address.server} answers")
        if (shown := address.certificate) is None:
            continue
        check = Check(subject, "certificate")
        days, day = (shown.not_after - now_s) // DAY_S, moment(shown.not_after * 1000, "%Y-%m-%d")
        text = f"{address.server}: valid until {day} ({days} days), for {', '.join(shown.names) or 'no name'}"
        if days < EXPIRES_SOON_DAYS:
            yield check.warning(
                text, "then no client can connect any more", "Renew the broker's certificate before that day"
            )
        else:
            yield check.ok(text)

    # Without an answer there is nothing else to check. A wrong id is reported beside the rest, which may show the
    # cause.
    if facts.cluster_id is None:
        why = "none of its bootstrap servers answered as a Kafka broker that accepts us"
        yield identity.unknown("the cluster did not answer", why, "Fix the login or address above")
        return
    if declared.cluster_id is None:
        why = "without it a wrong address or tunnel would not be noticed"
        todo = f"Write cluster_id: {facts.cluster_id} under it"
        yield identity.warning(f"{facts.cluster_id} answers, none is declared", why, todo)
    elif declared.cluster_id != facts.cluster_id:
        text = f"declared is {declared.cluster_id}, {facts.cluster_id} answers"
        todo = "Correct bootstrap_servers or cluster_id; look for a tunnel or an old address"
        yield identity.problem(text, "this may be another cluster, so every command refuses", todo)
    else:
        yield identity.ok(f"{facts.cluster_id}, as declared")
    yield from _tickets(Check(subject, "tickets"), facts)
    offer = offer_of(declared)
    if offer is not NO_SERVICE:
        limits = offer.limits or "plans count with what it does not offer"
        guessed = "" if declared.service else "; write service: apache under it where that is wrong"
        yield Check(subject, "service").ok(f"{service_words(declared)}{guessed}", limits)
    # On a managed service, users cannot change releases and broker settings, so the remedy is the service's.
    yield _by_service(_features(Check(subject, "features"), facts), offer.upgrades)
    yield from _access_and_time(subject, facts, offer)
    yield from (_by_service(finding, offer.settings) for finding in _settings(subject, declared, facts, target))


def _by_service(finding: Finding, way: str) -> Finding:
    """``way``: the service's way to change a setting; empty to keep the finding's remedy."""
    wrong = finding.verdict in (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING)
    return replace(finding, todo=(way,)) if wrong and way else finding


def _tickets(check: Check, facts: ClusterFacts) -> Iterator[Finding]:
    """Checks Kerberos tickets for every broker: from the first broker, clients go to the advertised names of the
    others."""
    missing = {broker: why for broker, why in facts.tickets.items() if why}
    for broker, problem in missing.items():
        text = f"no ticket for broker {broker}: {problem}"
        yield check.problem(
            text, "partitions that it leads cannot be read or written", "Correct its name, or add it to the KDC"
        )
    if facts.tickets and not missing:
        yield check.ok(f"Kerberos has one for each of {counted(len(facts.tickets), 'broker')}")


def _features(check: Check, facts: ClusterFacts) -> Finding:
    """Finalized features (KIP-584), and their effect on this program: how configs are altered, and the mirror's
    transaction protocol."""
    if isinstance(facts.features, Unknown):
        return check.unread(facts.features)
    levels = ", ".join(f"{name} {level}" for name, level in facts.features.items()) or "none finalized"
    if facts.zookeeper:
        levels = "none: its brokers keep their metadata in ZooKeeper"
    if facts.apis and "IncrementalAlterConfigs" not in facts.apis:
        text = f"{levels}; the brokers have no IncrementalAlterConfigs"
        why = "AlterConfigs writes all of a topic's own configs at once: what another sets meanwhile is lost"
        return check.warning(text, why, "Have its configs changed by one tool at a time; Kafka has it since 2.3")
    if facts.features.get("transaction.version", 0) < 2:
        why = (
            "the older transaction protocol is used, which has no defence against late requests of a producer (KIP-890)"
        )
        todo = "kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature transaction.version=2"
        if facts.apis and facts.apis.get("Produce", 0) < TRANSACTIONS_2_PRODUCE:
            todo = "Upgrade the brokers to Kafka 4.0 or newer, which have the feature transaction.version"
        return check.warning(levels, why, todo)
    return check.ok(levels)


def _access_and_time(subject: str, facts: ClusterFacts, offer: ServiceOffer) -> Iterator[Finding]:
    """Checks of authorizer, clock and mutation quota, which do not depend on broker configs."""
    check = Check(subject, "authorizer")
    if isinstance(facts.authorizer, Unknown):
        yield check.unread(facts.authorizer)
    elif facts.authorizer:
        yield check.ok("there is one; principals need the rights listed below")
    else:
        why = "anyone who reaches a broker may do everything"
        todo = "Set authorizer.class.name on the brokers where that is not meant"
        if offer.settings:
            why, todo = f"only roles of {offer.title} can limit who may do what", "Compare them with the rights below"
        yield check.warning("none", why, todo)

    check = Check(subject, "clock")
    if isinstance(facts.skew_ms, Unknown):
        unread = facts.skew_ms
        if facts.zookeeper:
            todo = "Compare the clocks of the brokers' machines yourself (NTP)"
            unread = Unknown(unread.subject, "brokers with ZooKeeper do not report their time", todo)
        yield check.unread(unread, "retention and lag are measured by clocks")
    else:
        # The measured difference is uncertain by half the round trip; only more than that is a real difference.
        sure_ms = abs(facts.skew_ms) - facts.skew_error_ms
        side = "ahead of" if facts.skew_ms > 0 else "behind"
        text = f"the active controller is {abs(facts.skew_ms)} ms {side} this machine, "
        text += f"give or take {facts.skew_error_ms} ms"
        if sure_ms < SKEW_WARNING_MS:
            yield check.ok(text)
        else:
            why = "lag in seconds is wrong by that much, and start by timestamp begins elsewhere"
            judged = check.problem if sure_ms >= SKEW_PROBLEM_MS else check.warning
            yield judged(text, why, "Let both follow the same time servers (NTP)")

    # Brokers answer a request beyond this quota with the time to wait (KIP-599); apply waits and asks again.
    check = Check(subject, "mutation quota")
    if isinstance(facts.quotas, Unknown):
        todo = "kafka-configs.sh --describe --entity-type users --entity-default shows them"
        yield check.unknown(facts.quotas.error, "", todo)
    elif not facts.quotas:
        yield check.ok("none")
    else:
        text = "; ".join(f"{who}: {rate:g} partitions a second" for who, rate in sorted(facts.quotas.items()))
        yield check.ok(text, "a large apply is slowed down to it, and waits")


def _settings(subject: str, declared: Cluster, facts: ClusterFacts, target: bool) -> Iterator[Finding]:
    """Checks broker configs. If brokers differ in a config, the most harmful value counts."""
    brokers = facts.brokers
    if isinstance(brokers, Unknown):
        yield Check(subject, "broker settings").unread(brokers)
        return

    def values(key: str) -> set[str]:
        return {value for configs in brokers.values() if (value := configs.get(key)) is not None}

    def numbers(key: str) -> list[int]:
        return sorted(int(value) for value in values(key) if value.removeprefix("-").isdecimal())

    check = Check(subject, "auto-create")
    if not (reported := values("auto.create.topics.enable")):
        yield check.unknown("the brokers do not report auto.create.topics.enable")
    elif reported == {"false"}:
        yield check.ok("off")
    else:
        why = "a client that asks for a name makes the topic with default settings, even one that was just deleted"
        todo = "Set auto.create.topics.enable=false on the brokers"
        yield check.warning("auto.create.topics.enable is true", why, todo)

    # The mirror's transactions and its flows' positions are only on targets.
    if target:
        check = Check(subject, "transactions")
        longest, expires = numbers("transaction.max.timeout.ms"), numbers("transactional.id.expiration.ms")
        text = f"transaction.max.timeout.ms {human('a.ms', str(longest[0]))}" if longest else ""
        if expires:
            text += f", transactional.id.expiration.ms {human('a.ms', str(expires[0]))}"
        if not longest:
            yield check.unknown("the brokers do not report transaction.max.timeout.ms")
        elif longest[0] < TRANSACTION_TIMEOUT_MS:
            why = f"the mirror job asks for {human('a.ms', str(TRANSACTION_TIMEOUT_MS))} and would be refused"
            todo = f"Set transaction.max.timeout.ms to at least {TRANSACTION_TIMEOUT_MS} on the brokers"
            yield check.problem(text, why, todo)
        else:
            yield check.ok(text)

        # Offsets of a group without members expire after offsets.retention.minutes (KIP-211), so a mirror that is
        # stopped for longer loses its positions.
        check = Check(subject, "positions")
        if minutes := numbers("offsets.retention.minutes"):
            kept = human("a.ms", str(minutes[0] * 60_000))
            text = f"offsets.retention.minutes {minutes[0]} ({kept})"
            if minutes[0] < LEAST_OFFSETS_RETENTION_MIN:
                why = f"a mirror that is stopped for longer than {kept} loses its positions and starts again"
                yield check.warning(text, why, "Raise it to 7 days (10080) or more")
            else:
                yield check.ok(text, f"a mirror may be stopped for up to {kept}")
        else:
            yield check.unknown("the brokers do not report offsets.retention.minutes")

    # The mirror writes with acks=all: with min.insync.replicas equal to the factor, one broker that is down stops
    # writes.
    check = Check(subject, "replicas")
    least, factors = numbers("min.insync.replicas"), numbers("default.replication.factor")
    factor = declared.defaults.replication_factor or (factors[0] if factors else None)
    if not least or factor is None:
        yield check.unknown("the brokers do not report min.insync.replicas")
    else:
        text = f"new topics have replication factor {factor}, min.insync.replicas {least[-1]}, "
        text += f"on {counted(len(brokers), 'broker')}"
        if least[-1] > factor:
            todo = "Raise default.replication.factor, or lower min.insync.replicas"
            yield check.problem(text, min_insync_above(factor), todo)
        elif least[-1] == factor > 1:
            todo = "Set min.insync.replicas to one less than the factor"
            yield check.warning(text, "when one broker is down, nothing can be written", todo)
        else:
            yield check.ok(text)
    yield brokers_agree(Check(subject, "limits"), brokers)
