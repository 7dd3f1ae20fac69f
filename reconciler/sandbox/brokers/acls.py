"""Who may do what on the secure clusters. The authorizer denies what is not listed here; ``admin`` is a super user.

- ``plan``: sees everything, reads only the mirror's status records and the ownership record, changes nothing.
- ``apply``: what ``plan`` may, and creates, alters and deletes topics, configs, assignments and ACLs; no records but
  the environment's lock, in transactions ``reconciler.``, and pauses of the mirror.
- ``mirror``: reads topics; writes remote topics and checkpoints (``<other cluster>.``), its status, its offset map and
  MirrorMaker 2's internal topics, in transactions ``mirror.``;
  reads and sets the offsets of groups.
- ``user``: an application with topics, groups and transactions whose names start with ``user.``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from reconciler.locks import LOCK_TOPIC
from replication.names import OFFSETS_TOPIC, STATUS_TOPIC
from replication.policy import HEARTBEATS
from sandbox.errors import SandboxError
from sandbox.profiles import CLUSTERS

PRINCIPALS = ("admin", "plan", "apply", "mirror", "user")
_SCRAM = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)


@dataclass(frozen=True, slots=True)
class Grant:
    """Operations allowed on one resource pattern. ``*`` as a literal name is Kafka's wildcard."""

    principal: str
    resource: ResourceType
    name: str
    operations: tuple[AclOperation, ...]
    prefixed: bool = False

    def bindings(self) -> list[AclBinding]:
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        user = f"User:{self.principal}"
        return [
            AclBinding(self.resource, self.name, pattern, user, "*", operation, AclPermissionType.ALLOW)
            for operation in self.operations
        ]


def _views(principal: str) -> list[Grant]:
    describe, configs = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    return [
        Grant(principal, ResourceType.BROKER, "kafka-cluster", (describe, configs)),
        Grant(principal, ResourceType.TOPIC, "*", (describe, configs)),
        Grant(principal, ResourceType.GROUP, "*", (describe,)),
        Grant(principal, ResourceType.TRANSACTIONAL_ID, "*", (describe,)),
        *(Grant(principal, ResourceType.TOPIC, name, (AclOperation.READ,)) for name in (STATUS_TOPIC, OFFSETS_TOPIC)),
        Grant(principal, ResourceType.TOPIC, LOCK_TOPIC, (AclOperation.READ,)),
    ]


def grants(cluster: str) -> tuple[Grant, ...]:
    """Everything allowed on ``cluster`` beyond the super user."""
    read, write, describe = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
    alter, configs = AclOperation.ALTER, AclOperation.ALTER_CONFIGS
    topic, group, transaction = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    others = [other for other in CLUSTERS if other != cluster]
    return (
        *_views("plan"),
        *_views("apply"),
        Grant("apply", topic, "*", (AclOperation.CREATE, AclOperation.DELETE, alter, configs)),
        Grant("apply", ResourceType.BROKER, "kafka-cluster", (alter, configs)),
        Grant("apply", topic, LOCK_TOPIC, (write,)),
        Grant("apply", topic, STATUS_TOPIC, (write,)),
        Grant("apply", transaction, "reconciler.", (write, describe), prefixed=True),
        Grant("mirror", topic, "*", (read, describe)),
        *(Grant("mirror", topic, f"{other}.", (write,), prefixed=True) for other in others),
        *(Grant("mirror", topic, name, (write,)) for name in (STATUS_TOPIC, OFFSETS_TOPIC, HEARTBEATS)),
        Grant("mirror", topic, "mm2-offset-syncs.", (write,), prefixed=True),
        Grant("mirror", group, "*", (read, describe)),  # positions of flows, and the offsets of the groups it syncs
        Grant("mirror", transaction, "mirror.", (write, describe), prefixed=True),
        Grant("user", topic, "user.", (read, write, describe), prefixed=True),
        Grant("user", group, "user.", (read, describe), prefixed=True),
        Grant("user", transaction, "user.", (write, describe), prefixed=True),
    )


def install(admin: AdminClient, cluster: str, passwords: Mapping[str, str]) -> None:
    """Creates SCRAM credentials and ACLs; doing it again changes nothing. Raises SandboxError."""
    users = [UserScramCredentialUpsertion(name, _SCRAM, password.encode()) for name, password in passwords.items()]
    bindings = [binding for grant in grants(cluster) for binding in grant.bindings()]
    try:
        _await(admin.alter_user_scram_credentials(users).values())
        _await(admin.create_acls(bindings).values())
    except KafkaException as error:
        raise SandboxError(
            f"access could not be set up on {cluster}: {error.args[0].str()}",
            "Without it every principal is denied.",
            "Run `reconciler sandbox down --clear`, then up again.",
        ) from None


def _await(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(30)
