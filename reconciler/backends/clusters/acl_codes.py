"""ACLs translated between our values and the protocol's numbers. Pure."""

from __future__ import annotations

from reconciler.kafka.protocol.acls import Acl
from reconciler.model.acls import AclBinding, Operation, PatternType, Permission, ResourceType

RESOURCES = {
    2: ResourceType.TOPIC,
    3: ResourceType.GROUP,
    4: ResourceType.CLUSTER,
    5: ResourceType.TRANSACTIONAL_ID,
    6: ResourceType.DELEGATION_TOKEN,
    7: ResourceType.USER,
}
OPERATIONS = {
    2: Operation.ALL,
    3: Operation.READ,
    4: Operation.WRITE,
    5: Operation.CREATE,
    6: Operation.DELETE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
    9: Operation.CLUSTER_ACTION,
    10: Operation.DESCRIBE_CONFIGS,
    11: Operation.ALTER_CONFIGS,
    12: Operation.IDEMPOTENT_WRITE,
    13: Operation.CREATE_TOKENS,
    14: Operation.DESCRIBE_TOKENS,
    15: Operation.TWO_PHASE_COMMIT,
}
PATTERNS = {3: PatternType.LITERAL, 4: PatternType.PREFIXED}
PERMISSIONS = {2: Permission.DENY, 3: Permission.ALLOW}

_RESOURCE_CODES = {word: code for code, word in RESOURCES.items()}
_OPERATION_CODES = {word: code for code, word in OPERATIONS.items()}
_PATTERN_CODES = {word: code for code, word in PATTERNS.items()}
_PERMISSION_CODES = {word: code for code, word in PERMISSIONS.items()}


def binding_of(acl: Acl) -> AclBinding | None:
    """None for a rule this version has no words for."""
    resource, operation = RESOURCES.get(acl.resource), OPERATIONS.get(acl.operation)
    pattern, permission = PATTERNS.get(acl.pattern), PERMISSIONS.get(acl.permission)
    if resource is None or operation is None or pattern is None or permission is None:
        return None
    return AclBinding(resource, acl.name, pattern, acl.principal, acl.host, operation, permission)


def acl_of(binding: AclBinding) -> Acl:
    return Acl(
        _RESOURCE_CODES[binding.resource],
        binding.name,
        _PATTERN_CODES[binding.pattern],
        binding.principal,
        binding.host,
        _OPERATION_CODES[binding.operation],
        _PERMISSION_CODES[binding.permission],
    )


def not_understood(acl: Acl) -> str:
    """Words for a rule without words."""
    return (
        f"{acl.principal} on {acl.name}: resource {acl.resource}, pattern {acl.pattern}, operation {acl.operation},"
        f" permission {acl.permission} (numbers of Kafka's protocol)"
    )
