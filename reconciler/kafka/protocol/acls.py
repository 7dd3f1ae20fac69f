"""Access rules of a cluster: read all in one request, made and deleted many in one, each with its own answer.

Numbers are the protocol's own (``AclOperation``, ``ResourceType``, ``PatternType``, ``AclPermissionType`` codes); what
they mean is for the caller to know. Any broker takes these requests and passes changes on to the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wire import protocol
from wire.connection import Connection
from wire.errors import BrokerError

LITERAL = 3
ANY = 1
STORED_PATTERNS = (3, 4)
"""LITERAL and PREFIXED: the only patterns a stored rule has. ANY and MATCH select more than one rule."""


class Acl(NamedTuple):
    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Answer(NamedTuple):
    """``code`` 0: done. ``matched``: how many rules a deletion met; -1 for a creation."""

    code: int
    message: str = ""
    matched: int = -1


async def described(
    connection: Connection, patience: float | None = None, *, resource: tuple[int, str] | None = None
) -> list[Acl]:
    """Every rule, or those of one ``resource`` (type, name), as this broker's authorizer knows it now.

    Raises BrokerError (54: no authorizer, 31: denied).
    """
    request = protocol.DescribeAclsRequest(
        resource_type_filter=ANY if resource is None else resource[0],
        resource_name_filter=None if resource is None else resource[1],
        pattern_type_filter=ANY if resource is None else LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
        version=connection.version(protocol.DescribeAclsRequest),
    )
    answer = await connection.call(request, patience)
    if answer.error_code:
        raise BrokerError(answer.error_code, answer.error_message or "the access rules cannot be read")
    return [
        Acl(
            place.resource_type,
            place.resource_name,
            place.pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for place in answer.resources
        for one in place.acls
    ]


async def created(connection: Connection, acls: Sequence[Acl], patience: float | None = None) -> list[Answer]:
    """One answer a rule, in order. A rule that exists already is no error."""
    creation = protocol.CreateAclsRequest.AclCreation
    request = protocol.CreateAclsRequest(
        creations=[
            creation(
                resource_type=acl.resource,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ],
        version=connection.version(protocol.CreateAclsRequest),
    )
    answer = await connection.call(request, patience)
    return [Answer(one.error_code, one.error_message or "") for one in answer.results]


async def deleted(connection: Connection, acls: Sequence[Acl], patience: float | None = None) -> list[Answer]:
    """One answer a rule, in order; each filter is a whole 7-tuple, so it meets that rule or none.

    Raises ValueError for a filter that could meet more: nothing is sent then.
    """
    for acl in acls:
        if acl.pattern not in STORED_PATTERNS or ANY in (acl.resource, acl.operation, acl.permission):
            raise ValueError(f"{acl} is no single rule")
    chosen = protocol.DeleteAclsRequest.DeleteAclsFilter
    request = protocol.DeleteAclsRequest(
        filters=[
            chosen(
                resource_type_filter=acl.resource,
                resource_name_filter=acl.name,
                pattern_type_filter=acl.pattern,
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ],
        version=connection.version(protocol.DeleteAclsRequest),
    )
    answer = await connection.call(request, patience)
    found = []
    for one in answer.filter_results:
        failed = next((met for met in one.matching_acls if met.error_code), one)
        found.append(Answer(failed.error_code, failed.error_message or "", len(one.matching_acls)))
    return found
