"""Managed Kafka services: features by their documentation. None: not documented, so unknown.

Read on 2026-11-27, and none of them was reached:

* MSK: docs.aws.amazon.com/msk/latest/developerguide, pages ``kafka-actions`` (WriteTxnMarkers by IAM since 3.8),
  ``serverless-config``, ``limits``, ``msk-configuration-express-read-only``.
* Confluent Cloud: docs.confluent.io/cloud/current, pages ``topics/manage``, ``clusters/cluster-types``,
  ``security/access-control/acls/operations``.
* Event Hubs: learn.microsoft.com/azure/event-hubs, pages ``azure-event-hubs-apache-kafka-overview``,
  ``apache-kafka-configurations``, ``use-log-compaction``, ``dynamically-add-partitions``.
* Aiven: aiven.io/docs/products/kafka, pages ``concepts/acl``, ``howto/manage-acls``.
* Google: cloud.google.com/managed-service-for-apache-kafka/docs, pages ``limitations``, ``create-topic``,
  ``kafka-acls/create-kafka-acls``.
* Redpanda: docs.redpanda.com, pages ``redpanda-cloud/get-started/create-topic``, ``develop/kafka-clients``.
* AutoMQ: github.com/AutoMQ/automq, ``ReplicationControlManager.createTopics``: it sets factor and
  ``min.insync.replicas`` of each new topic to 1, in silence. HDInsight: learn.microsoft.com/azure/hdinsight/kafka.

Not read there, but general knowledge: the sentences about logs, upgrades and settings of Aiven, Google and HDInsight,
and how MSK delivers logs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from reconciler.model.environment.topology import Cluster

AWS_ADDRESS = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2}(?:-[a-z]+)+-[0-9])(?:\.vpce)?\.amazonaws\.com")
APACHE = "apache"
"""Self-managed Apache Kafka; also the default if the service is unknown."""


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """What a managed service offers. ``log_access``, ``upgrades``, ``settings``: the ways of users to logs, other
    releases and other broker settings, as sentences; empty if users run the brokers."""

    title: str
    """Its name for people."""
    hosts: tuple[str, ...] = ()
    """Patterns of its bootstrap host names."""
    topic_configs: frozenset[str] | None = None
    """Configs that can be set at all (None: not documented)."""
    fixed_configs: frozenset[str] = frozenset()
    """Those that cannot."""
    at_creation: frozenset[str] = frozenset()
    """Those that cannot be changed afterwards."""
    values: frozenset[tuple[str, str]] = frozenset()
    """Keys with an unsupported value."""
    cluster_action: bool | None = None
    """Whether ClusterAction can be granted; None, here and below: not documented."""
    more_partitions: bool | None = None
    """Whether it supports CreatePartitions."""
    transactions: bool | None = None
    """False: not in each tier."""
    uncompressed: bool = False
    """Its brokers refuse compressed records, in some tier or of some codec."""
    request_bytes: int = 0
    """Its brokers hang up on a longer Produce request; 0: none is too long."""
    mechanisms: tuple[str, ...] = ()
    """Its SASL mechanisms, over TLS alone (empty: unknown)."""
    plain_user: str = ""
    """The only user name of PLAIN."""
    audience: str = ""
    """End of the scopes that name one of its namespaces."""
    least_factor: int = 1
    """The least replicas of each topic, whatever is requested."""
    own_factor: bool = False
    """It replicates in its own way, so a factor means nothing."""
    limits: str = ""
    """Other facts for users."""
    rights: str = ""
    """Where its users grant them instead of by Kafka's rules."""
    log_access: str = ""
    upgrades: str = ""
    settings: str = ""

    def why_not_set(self, key: str, value: str, new: bool) -> str:
        """Why a topic config cannot be given a value, after the service's name; empty if it can, or nothing is known.
        ``new``: by the creation of the topic."""
        if (key, value) in self.values:
            return f"does not support {key} {value}"
        if key in self.fixed_configs or (self.topic_configs is not None and key not in self.topic_configs):
            return f"does not let anyone set {key}"
        if not new and key in self.at_creation:
            return f"sets {key} only when a topic is created"
        return ""

    def factor(self, asked: int | None) -> int | None:
        """The effective replication factor, for requests and comparisons. None: the service decides."""
        if self.own_factor:
            return None
        return asked if asked is None else max(asked, self.least_factor)


NO_SERVICE = ServiceOffer("Apache Kafka")
IAM_RIGHTS = "in IAM, by actions of kafka-cluster for its role"
"""Of what logs in by IAM: Kafka's rules do not count for it."""
SERVICES: Mapping[str, ServiceOffer] = MappingProxyType(
    {
        "msk": ServiceOffer(
            "Amazon MSK",
            ("*.kafka.*.amazonaws.com", "*.kafka.*.amazonaws.com.cn"),
            limits="IAM grants transaction markers from Kafka 3.8 on; before, ACLs of SCRAM or TLS logins do",
            log_access="Broker logs go to CloudWatch, S3 or Firehose where the MSK cluster delivers them.",
            upgrades="Brokers of MSK get another release by an update of the cluster's Apache Kafka version there.",
            settings="Change it in the MSK configuration of the cluster.",
        ),
        "msk-serverless": ServiceOffer(
            "MSK Serverless",
            ("*.kafka-serverless.*.amazonaws.com", "*.kafka-serverless.*.amazonaws.com.cn"),
            mechanisms=("OAUTHBEARER",),
            topic_configs=frozenset(
                {
                    "cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.difference.max.ms",
                    "message.timestamp.type", "retention.bytes", "retention.ms",
                }
            ),
            at_creation=frozenset({"cleanup.policy"}),
            rights=IAM_RIGHTS,
            limits="IAM is the only login; partitions and compacted partitions are limited by quotas",
            log_access="AWS keeps its brokers: ask AWS support, with the time of the request.",
            upgrades="AWS upgrades its brokers.",
            settings="AWS sets it; topics may have values of their own.",
        ),
        "confluent-cloud": ServiceOffer(
            "Confluent Cloud",
            ("*.confluent.cloud",),
            mechanisms=("PLAIN", "OAUTHBEARER"),
            fixed_configs=frozenset({"compression.type"}),
            cluster_action=False,
            least_factor=3,
            limits="cleanup.policy goes from delete to compact,delete by way of compact only",
            log_access="Confluent keeps its brokers: ask Confluent support, with the time of the request.",
            upgrades="Confluent upgrades its brokers.",
            settings="Confluent sets it, a few settings of Dedicated clusters aside; topics may have their own.",
        ),
        "event-hubs": ServiceOffer(
            "Azure Event Hubs",
            ("*.servicebus.windows.net", "*.servicebus.chinacloudapi.cn", "*.servicebus.usgovcloudapi.net"),
            mechanisms=("PLAIN", "OAUTHBEARER"),
            plain_user="$ConnectionString",
            audience=".servicebus.windows.net/.default",
            fixed_configs=frozenset({"retention.ms"}),
            cluster_action=False,
            more_partitions=False,
            transactions=False,
            uncompressed=True,
            request_bytes=1_000_000,
            own_factor=True,
            rights="in Azure, by the role Azure Event Hubs Data Owner",
            limits=(
                "transactions (a preview) and compressed records need the tier Premium or Dedicated, and gzip is the "
                "only compression; partitions are added, and retention is set, in Azure"
            ),
            log_access="It has no brokers to check: see the namespace's logs and metrics in Azure Monitor.",
            upgrades="Microsoft upgrades it; some features depend on the namespace's tier.",
            settings="Microsoft sets it.",
        ),
        "aiven": ServiceOffer(
            "Aiven",
            ("*.aivencloud.com",),
            log_access="Aiven keeps its brokers: see the service's logs in the Aiven console, or ask Aiven support.",
            upgrades="Aiven upgrades its brokers, in the service's maintenance.",
            settings="Change it in the advanced configuration of the Aiven service.",
        ),
        "gcp": ServiceOffer(
            "Google Managed Kafka",
            ("*.managedkafka.*.cloud.goog",),
            mechanisms=("PLAIN", "OAUTHBEARER"),
            cluster_action=True,
            values=frozenset({("compression.type", "zstd")}),
            limits="the replication factor of a topic cannot be changed",
            log_access="Google keeps its brokers: see the project's Cloud Logging, or ask Google support.",
            upgrades="Google upgrades its brokers.",
            settings="Change it in the broker configuration of the Google cluster, as far as Google allows.",
        ),
        "redpanda": ServiceOffer(
            "Redpanda Cloud",
            ("*.cloud.redpanda.com",),
            fixed_configs=frozenset({"delete.retention.ms"}),
            least_factor=3,
            limits="a user has one SCRAM mechanism; tombstones of compacted topics stay, unless they are also deleted",
            log_access="Redpanda keeps its brokers: ask Redpanda support, with the time of the request.",
            upgrades="Redpanda upgrades its brokers.",
            settings="Redpanda sets it; topics may have values of their own.",
        ),
        "automq": ServiceOffer(
            "AutoMQ",
            fixed_configs=frozenset({"min.insync.replicas"}),
            own_factor=True,
            limits="records lie in object storage; each topic is created with one replica",
        ),
        "hdinsight": ServiceOffer(
            "Azure HDInsight",
            ("wn[0-9]*-*.internal.cloudapp.net",),
            limits="brokers advertise names of the virtual network, unless Ambari configures others",
            log_access="Broker logs are on the worker nodes, and in Ambari.",
            upgrades="Another release needs another HDInsight cluster.",
            settings="Change it in Ambari.",
        ),
    }
)  # fmt: skip


@lru_cache(maxsize=1024)
def guessed_service(bootstrap_servers: tuple[str, ...]) -> str:
    """The key of ``SERVICES`` that matches all bootstrap servers; else ``apache``. Cached, since it is called for each
    topic."""
    hosts = [server.rpartition(":")[0].lower() for server in bootstrap_servers]
    for name, offer in SERVICES.items():
        if hosts and all(any(fnmatchcase(host, form) for form in offer.hosts) for host in hosts):
            return name
    return APACHE


def offer_of(cluster: Cluster) -> ServiceOffer:
    """The offer of the cluster's service, from ``service`` or guessed from its addresses."""
    return SERVICES.get(cluster.service or guessed_service(cluster.bootstrap_servers), NO_SERVICE)


def service_words(cluster: Cluster) -> str:
    """``MSK Serverless``, and whether it was guessed."""
    return offer_of(cluster).title + ("" if cluster.service else ", by its address")
