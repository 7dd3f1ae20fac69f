"""ACLs of the secure sandbox clusters: what each principal may do. The authorizer denies all else.

- ``plan``: sees everything, reads only records of mirrors, of their hosts and the ownership record, changes nothing.
- ``apply``: what ``plan`` may, and creates, alters and deletes topics, configs, assignments and ACLs; no records but
  the environment's lock, in transactions ``reconciler.``, pauses of the mirror and what it asks of hosts.
- ``mirror``: reads topics; writes remote topics and checkpoints (``<other cluster>.``), its status, its offset map,
  leases of hosts and MirrorMaker 2's internal topics, in transactions ``mirror.`` and ``mirror-host.``;
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

from reconciler.replication.names import CONTROL_TOPIC, LOCK_TOPIC, OFFSETS_TOPIC, STATUS_TOPIC
from reconciler.replication.policy import HEARTBEATS
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.profiles import CLUSTERS

PRINCIPALS = ("admin", "plan", "apply", "mirror", "user")
_READ = (STATUS_TOPIC, CONTROL_TOPIC, OFFSETS_TOPIC, LOCK_TOPIC)
_KEPT = (STATUS_TOPIC, CONTROL_TOPIC, OFFSETS_TOPIC, HEARTBEATS)
"""The job and its hosts write them."""
_SCRAM = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)


@dataclass(frozen=True, slots=True)
class SandboxGrant:
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


def _views(principal: str) -> list[SandboxGrant]:
    describe, configs = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
    return [
        SandboxGrant(principal, ResourceType.BROKER, "kafka-cluster", (describe, configs)),
        SandboxGrant(principal, ResourceType.TOPIC, "*", (describe, configs)),
        SandboxGrant(principal, ResourceType.GROUP, "*", (describe,)),
        SandboxGrant(principal, ResourceType.TRANSACTIONAL_ID, "*", (describe,)),
        *(SandboxGrant(principal, ResourceType.TOPIC, name, (AclOperation.READ,)) for name in _READ),
    ]


def grants(cluster: str) -> tuple[SandboxGrant, ...]:
    """Everything allowed on ``cluster`` beyond the super user."""
    read, write, describe = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
    alter, configs = AclOperation.ALTER, AclOperation.ALTER_CONFIGS
    topic, group, transaction = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
    others = [other for other in CLUSTERS if other != cluster]
    return (
        *_views("plan"),
        *_views("apply"),
        SandboxGrant("apply", topic, "*", (AclOperation.CREATE, AclOperation.DELETE, alter, configs)),
        SandboxGrant("apply", ResourceType.BROKER, "kafka-cluster", (alter, configs)),
        *(SandboxGrant("apply", topic, name, (write,)) for name in (LOCK_TOPIC, STATUS_TOPIC, CONTROL_TOPIC)),
        SandboxGrant("apply", transaction, "reconciler.", (write, describe), prefixed=True),
        SandboxGrant("mirror", topic, "*", (read, describe)),
        *(SandboxGrant("mirror", topic, f"{other}.", (write,), prefixed=True) for other in others),
        *(SandboxGrant("mirror", topic, name, (write,)) for name in _KEPT),
        SandboxGrant("mirror", topic, "mm2-offset-syncs.", (write,), prefixed=True),
        # Positions of flows, and the offsets of the groups it syncs.
        SandboxGrant("mirror", group, "*", (read, describe)),
        SandboxGrant("mirror", transaction, "mirror.", (write, describe), prefixed=True),
        SandboxGrant("mirror", transaction, "mirror-host.", (write, describe), prefixed=True),
        SandboxGrant("user", topic, "user.", (read, write, describe), prefixed=True),
        SandboxGrant("user", group, "user.", (read, describe), prefixed=True),
        SandboxGrant("user", transaction, "user.", (write, describe), prefixed=True),
    )


def install(admin: AdminClient, cluster: str, passwords: Mapping[str, str]) -> None:
    """Creates SCRAM credentials and ACLs; doing it again changes nothing. Raises SandboxError."""
    users = [UserScramCredentialUpsertion(name, _SCRAM, password.encode()) for name, password in passwords.items()]
    bindings = [binding for grant in grants(cluster) for binding in grant.bindings()]
    try:
        _await(admin.alter_user_scram_credentials(users).values())
        _await(admin.create_acls(bindings).values())
    except KafkaException as error:
        why = "Without it every principal is denied."
        todo = "Run `reconciler sandbox down --clear`, then up again."
        raise SandboxError(f"access could not be set up on {cluster}: {error.args[0].str()}", why, todo) from None


def _await(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.result(30)
