"""A broker's configuration as text: ``server.properties`` and the log4j file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler_sandbox.brokers import kerberos
from reconciler_sandbox.profiles import HOST, KERBEROS_HOST, QUICK_START, Profile, SandboxBroker
from reconciler_sandbox.releases import NEWEST, Release

_KERBEROS_LOGIN = "com.sun.security.auth.module.Krb5LoginModule"
_SESSION_MS = 20_000
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n%throwable
"""


LOG4J_1 = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_ZOOKEEPER_KNOWS_NOT = ("process.roles", "node.id", "controller.quorum.voters", "controller.listener.names")


def text(settings: Mapping[str, str]) -> str:
    """Java's properties format; backslashes doubled, because it takes them for escapes."""
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())


def server(
    profile: Profile,
    broker: SandboxBroker,
    brokers: Sequence[SandboxBroker],
    folder: Path,
    release: Release = NEWEST,
) -> dict[str, str]:
    """Settings of one broker whose data and certificates lie under ``folder`` and its parent."""
    voters = ",".join(f"{other.node_id}@{HOST}:{other.controller_port}" for other in brokers)
    replication, min_insync = str(profile.replication), str(profile.min_insync)
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(broker.node_id),
        "broker.rack": broker.rack,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replication,
        "min.insync.replicas": min_insync,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": min_insync,
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": min_insync,
        "share.coordinator.state.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        # The default of 128 MiB would be half of a small heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 2**20),
    }
    if profile.jvm[: len(QUICK_START)] == QUICK_START:
        # With nothing to clean the cleaner sleeps 15 s by default: tests that wait for a compaction wait for that. Not
        # elsewhere: to look at ten thousand topics twice a second slows a broker's answers down.
        settings["log.cleaner.backoff.ms"] = "500"
        # A record that says nothing, twice a second: a third of what an idle broker costs.
        settings["metadata.max.idle.interval.ms"] = "0"
        # Threads that only wake up, and beans that nobody reads: a quarter of a broker's start, and of its rest.
        settings |= {"num.network.threads": "1", "num.io.threads": "2", "background.threads": "2"}
        settings["metric.reporters"] = ""
    if profile.brokers > 1:
        # A killed broker is noticed in seconds, so that fault tests need not wait long.
        settings |= {
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "1000",
            "replica.lag.time.max.ms": "10000",
            # A client that tells its rack may read from a follower there (KIP-392).
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
    settings |= _secure_listeners(broker, folder.parent) if profile.secure else _plain_listeners(broker)
    if profile.kerberos:
        settings |= _kerberos_listener(broker, folder.parent.parent, settings)
    return _with_zookeeper(settings, broker, brokers) if release.zookeeper else settings


def _with_zookeeper(
    settings: Mapping[str, str], broker: SandboxBroker, brokers: Sequence[SandboxBroker]
) -> dict[str, str]:
    """ZooKeeper has the first broker's controller port; a broker in this mode has no such listener."""
    kept = {key: value for key, value in settings.items() if key not in _ZOOKEEPER_KNOWS_NOT}
    for key in ("listeners", "listener.security.protocol.map"):
        kept[key] = ",".join(part for part in kept[key].split(",") if not part.startswith("CONTROLLER:"))
    kept["broker.id"] = str(broker.node_id)
    kept["zookeeper.connect"] = f"{HOST}:{brokers[0].controller_port}"
    kept["zookeeper.session.timeout.ms"] = "6000"
    if "authorizer.class.name" in kept:
        kept["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
    return {key: value for key, value in kept.items() if not key.startswith("listener.name.controller.")}


def _plain_listeners(broker: SandboxBroker) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},CONTROLLER://{HOST}:{broker.controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }


def _secure_listeners(broker: SandboxBroker, cluster_folder: Path) -> dict[str, str]:
    certificates = cluster_folder / "certificates"
    return {
        "listeners": f"SASL_SSL://{HOST}:{broker.port},MTLS://{HOST}:{broker.mtls_port},"
        f"CONTROLLER://{HOST}:{broker.controller_port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MTLS:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "MTLS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_SCRAM_LOGIN} required;",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+)$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:admin;User:broker",
    }


def _kerberos_listener(broker: SandboxBroker, home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """GSSAPI without TLS, on a listener whose sessions are short (KIP-368), and with TLS beside SCRAM."""
    by_host = {"kerberos": KERBEROS_HOST, "sasl_ssl": HOST}
    logins = {
        f"listener.name.{name}.gssapi.sasl.jaas.config": f"{_KERBEROS_LOGIN} required useKeyTab=true storeKey=true "
        f'keyTab="{kerberos.keytab(home, f"kafka/{host}")}" principal="kafka/{host}@{kerberos.REALM}";'
        for name, host in by_host.items()
    }
    names = {f"listener.name.{name}.sasl.kerberos.service.name": "kafka" for name in by_host}
    return {
        **logins,
        **names,
        "listeners": f"{settings['listeners']},KERBEROS://{KERBEROS_HOST}:{broker.kerberos_port}",
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},KERBEROS:SASL_PLAINTEXT",
        "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.kerberos.connections.max.reauth.ms": str(_SESSION_MS),
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512,GSSAPI",
    }
