"""Rights that a user of a running cluster has for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from reconciler_sandbox.handles import ClusterHandle


@contextmanager
def granted_on_cluster(cluster: ClusterHandle, user: str, operation: AclOperation) -> Iterator[None]:
    """``operation`` on the cluster itself."""
    rule = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, f"User:{user}", "*", operation)
    allow = AclPermissionType.ALLOW
    admin = AdminClient(cluster.super_client())
    for created in admin.create_acls([AclBinding(*rule, allow)]).values():
        created.result(20)
    try:
        yield
    finally:
        for deleted in admin.delete_acls([AclBindingFilter(*rule, allow)]).values():
            deleted.result(20)
