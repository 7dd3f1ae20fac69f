"""Turns error codes of Kafka's protocol into a ClusterError with a remedy. Pure functions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import name_of
from reconciler.model.environment.services import NO_SERVICE, ServiceOffer
from reconciler.text import in_shell, sentence

# Kafka protocol error codes, and the word of ClusterError.KINDS they belong to
KINDS_BY_CODE: dict[int, str] = {
    3: "missing",  # UNKNOWN_TOPIC_OR_PARTITION
    100: "missing",  # UNKNOWN_TOPIC_ID
    36: "exists",  # TOPIC_ALREADY_EXISTS
    17: "invalid",  # INVALID_TOPIC_EXCEPTION
    37: "invalid",  # INVALID_PARTITIONS
    38: "invalid",  # INVALID_REPLICATION_FACTOR
    39: "invalid",  # INVALID_REPLICA_ASSIGNMENT
    40: "invalid",  # INVALID_CONFIG
    42: "invalid",  # INVALID_REQUEST
    44: "invalid",  # POLICY_VIOLATION
    29: "denied",  # TOPIC_AUTHORIZATION_FAILED
    30: "denied",  # GROUP_AUTHORIZATION_FAILED
    31: "denied",  # CLUSTER_AUTHORIZATION_FAILED
    53: "denied",  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    33: "authentication",  # UNSUPPORTED_SASL_MECHANISM
    34: "authentication",  # ILLEGAL_SASL_STATE
    58: "authentication",  # SASL_AUTHENTICATION_FAILED
    89: "quota",  # THROTTLING_QUOTA_EXCEEDED
    7: "unreachable",  # REQUEST_TIMED_OUT
    8: "unreachable",  # BROKER_NOT_AVAILABLE
    13: "unreachable",  # NETWORK_EXCEPTION
}
SECURITY_DISABLED = 54


@dataclass(frozen=True, slots=True)
class Speaker:
    """The asking principal and its cluster, without secrets: enough for an ACL command."""

    cluster: str
    """Its alias, for messages."""
    bootstrap_servers: tuple[str, ...]
    principal: str
    """Which of ours: plan, apply, mirror or probe."""
    kafka_principal: str
    """As brokers know it, ``User:name``."""
    offer: ServiceOffer = NO_SERVICE
    """The managed service."""
    as_plan: bool = False
    """It has no login of its own, and uses that of plan."""

    def allow(self, operation: str, resource: str) -> str:
        """The remedy for a missing right. It never suggests more rights for plan's login, which every pull request
        uses."""
        if not self.as_plan:
            return f"Allow it: {self.acl_command(operation, resource)}"
        own = replace(self, kafka_principal=f"User:{self.principal.upper()}")
        return (
            f"Declare principals: {self.principal} under cluster {self.cluster}, with a login of its own: it logs in as"
            f" {self.kafka_principal}, as plan does. Allow that login: {own.acl_command(operation, resource)}"
        )

    def acl_command(self, operation: str, resource: str) -> str:
        """``resource``: an option of kafka-acls.sh, such as ``--topic orders`` or ``--cluster``. Words where Kafka's
        rules do not count."""
        if self.offer.rights:
            return f"{self.offer.rights} ({operation} on {resource.removeprefix('--')})"
        return (
            f"kafka-acls.sh --bootstrap-server {self.bootstrap_servers[0]} --add"
            f" --allow-principal {in_shell(self.kafka_principal)} --operation {operation} {resource}"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """One request in words: ``verb`` fits "may not <verb>"; ``operation`` and ``resource`` fit kafka-acls."""

    verb: str
    operation: str
    resource: str


def _of_topic(verb: str, operation: str) -> Callable[[str], Asked]:
    return lambda topic: Asked(f"{verb} topic {topic}", operation, f"--topic {in_shell(topic)}")


describe_topic = _of_topic("describe", "Describe")
describe_configs = _of_topic("read the configs of", "DescribeConfigs")
create_topic = _of_topic("create", "Create")
add_partitions = _of_topic("add partitions to", "Alter")
alter_configs = _of_topic("alter the configs of", "AlterConfigs")
delete_topic = _of_topic("delete", "Delete")
read_topic = _of_topic("read the records of", "Read")
write_topic = _of_topic("write to", "Write")
DESCRIBE_CLUSTER = Asked("describe the cluster", "Describe", "--cluster")


def kind_of(code: int) -> str:
    return KINDS_BY_CODE.get(code, "other")


def translate(speaker: Speaker, code: int, asked: Asked, words: str = "") -> ClusterError:
    """``code``: the protocol's error code; ``words``: the broker's message, without secrets."""
    kind, error = kind_of(code), name_of(code).partition(" (")[0]
    name = speaker.cluster
    if kind == "denied":
        return denied(speaker, asked)
    if kind == "unreachable":
        return unreachable(speaker, (words or error,))
    if kind == "authentication":
        return authentication(speaker, words or error)
    # From here on the code alone decides. Errors of the kinds above have one cause each, whatever was asked.
    if code == SECURITY_DISABLED:
        problem = f"cluster {name} has no authorizer"
        todo = "Leave access out for it." if speaker.offer.upgrades else "Set authorizer.class.name on it."
        return ClusterError(name, "invalid", problem, "It keeps no access rules", todo)
    if code in _NO_LEADER:
        problem = f"cluster {name} cannot {asked.verb}: {_NO_LEADER[code]} ({error})"
        why = "It was just made, or the brokers that hold it are down, start, or change leaders"
        return ClusterError(name, kind, problem, why, _TODO_NO_LEADER.format(speaker.bootstrap_servers[0]))
    # The broker's message knows more than its code (the policy that refused, the limit), so it comes first.
    problem = f"cluster {name} refused to {asked.verb}: {f'{words} ({error})' if words else error}"
    if kind == "quota":
        why = "The controller mutation quota of this client is used up"
        todo = "Wait and run again, or raise controller_mutation_rate for this client id or user."
    elif kind == "missing":
        why = "The topic was deleted, or this broker does not know it yet"
        todo = "Run plan again."
    else:
        offer = speaker.offer
        why, todo = "", _TODO.get(code, offer.log_access or "See the broker's log for more.")
        if code == _UNSUPPORTED_VERSION and offer.upgrades:
            todo = f"{offer.title} does not offer this request. {offer.upgrades}"
        if code == _POLICY_VIOLATION and "excessively large" in problem:
            why, todo = "A controller makes 10,000 metadata records at most by one request", _TOO_LARGE
    return ClusterError(name, kind, problem, why, todo)


_POLICY_VIOLATION = 44
_UNSUPPORTED_VERSION = 35
_TOO_LARGE = "Declare fewer partitions and apply, then raise them, or declare fewer topics at once."
_NO_LEADER = {
    5: "its partition has no leader",
    6: "its partition has no leader that is known",
    14: "the broker that coordinates it is still loading",
    15: "the partition that coordinates it has no leader",
    16: "the broker that coordinates it has moved",
}
_TODO_NO_LEADER = (
    "Run the command again in a minute. If it stays: kafka-topics.sh --bootstrap-server {} --describe"
    " --unavailable-partitions names the brokers to start."
)
_TODO = {
    44: "A policy of the cluster (create.topic.policy.class.name, alter.config.policy.class.name) forbids this."
    " Change the topology, or ask the cluster's owner.",
    40: "Correct the key or value under configs in the topology.",
    38: "Set replication_factor to at most the number of brokers: of the topic or flow, or, for the topics that"
    " this program keeps its own records in, under defaults of the cluster.",
    37: "Partitions can only grow. Set a larger number, or make a new topic.",
    17: "Use letters, digits, '.', '_' and '-', at most 249 of them, and no '.'/'_' twin of another topic.",
    73: "The brokers have delete.topic.enable=false. Remove the tombstone, or ask the cluster's owner.",
    _UNSUPPORTED_VERSION: "The brokers are too old: Kafka 2.3 or newer is needed.",
}


def denied(speaker: Speaker, asked: Asked) -> ClusterError:
    """The error with the kafka-acls.sh command that grants the right."""
    return ClusterError(
        speaker.cluster,
        "denied",
        f"principal {speaker.principal} may not {asked.verb} on cluster {speaker.cluster}",
        f"It lacks operation {asked.operation} on {asked.resource.removeprefix('--')}",
        speaker.allow(asked.operation, asked.resource),
    )


def unreachable(speaker: Speaker, reasons: tuple[str, ...]) -> ClusterError:
    """``reasons``: one for each tried address; equal ones are named once."""
    addresses = ", ".join(speaker.bootstrap_servers)
    plain = (reason.removeprefix(f"cluster {speaker.cluster}: ") for reason in reasons)
    return ClusterError(
        speaker.cluster,
        "unreachable",
        f"cluster {speaker.cluster} does not answer at {addresses}",
        sentence("; ".join(dict.fromkeys(reason for reason in plain if reason)) or "no broker answered in time"),
        "Check that the brokers run, bootstrap_servers, security.protocol, and the network between here and there.",
    )


def authentication(speaker: Speaker, reason: str) -> ClusterError:
    """``reason``: the message of broker or TLS. It contains no secrets: brokers do not repeat them, and TLS names only
    files and hosts."""
    return ClusterError(
        speaker.cluster,
        "authentication",
        f"cluster {speaker.cluster} does not accept principal {speaker.principal}, or its certificate is not trusted",
        sentence(reason),
        f"Check security.protocol, sasl.* and ssl.* under client and principals.{speaker.principal}"
        f" of cluster {speaker.cluster}, and the secrets they refer to.",
    )


def bad_settings(speaker: Speaker, reason: str, unreadable: str = "") -> ClusterError:
    """``unreadable``: an unreadable file of a setting; the client's message has no path."""
    return ClusterError(
        speaker.cluster,
        "invalid",
        f"the client settings of cluster {speaker.cluster} (principal {speaker.principal}) cannot be used",
        sentence(unreadable or reason),
        "Correct the path under client and principals, or put the file there."
        if unreadable
        else "Use librdkafka's setting names and values under client and principals.",
    )


def too_old(speaker: Speaker, asked: Asked, reason: str) -> ClusterError:
    """The broker does not support the request, which ``reason`` names."""
    since = "Later releases of Kafka have it: leave it out here, or upgrade them."
    offer = speaker.offer
    return ClusterError(
        speaker.cluster,
        "invalid",
        f"cluster {speaker.cluster} cannot {asked.verb}",
        sentence(reason),
        f"{offer.title} may not offer it at all: leave it out here. {offer.upgrades}" if offer.upgrades else since,
    )
