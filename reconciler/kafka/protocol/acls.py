"""DescribeAcls, CreateAcls and DeleteAcls: all in one request, each with its own answer.

Numbers are the protocol's own (``AclOperation``, ``ResourceType``, ``PatternType``, ``AclPermissionType`` codes); what
they mean is for the caller to know. Any broker takes these requests and passes changes on to the controller.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import BrokerError, MalformedResponseError
from reconciler.kafka.protocol import generated as protocol

LITERAL = 3
ANY = 1
STORED_PATTERNS = (3, 4)
"""LITERAL and PREFIXED: the only patterns a stored rule has. ANY and MATCH select more than one rule."""
_PLACE = attrgetter("resource_type", "resource_name", "pattern_type")
_GRANT = attrgetter("principal", "host", "operation", "permission_type")
# In the order of ``Acl``.
_CREATION = (
    *("resource_type", "resource_name", "resource_pattern_type"),
    *("principal", "host", "operation", "permission_type"),
)
_FILTER = (
    *("resource_type_filter", "resource_name_filter", "pattern_type_filter", "principal_filter", "host_filter"),
    *("operation", "permission_type"),
)


class Acl(NamedTuple):
    """A rule in the protocol's numbers: Kafka's enums ResourceType, PatternType, AclOperation and AclPermissionType.
    Numbers that this program has no word for are kept as they are."""

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Answer(NamedTuple):
    """``code``: 0 for success. ``matched``: number of rules that a deletion matched; -1 for a creation."""

    code: int
    message: str = ""
    matched: int = -1


async def described(
    connection: Connection, patience: float | None = None, *, resource: tuple[int, str] | None = None
) -> list[Acl]:
    """All rules, or those of one ``resource`` (type, name), in this broker's authorizer.

    Raises BrokerError (54: no authorizer, 31: denied).
    """
    place = (ANY, None, ANY) if resource is None else (*resource, LITERAL)
    request = protocol.DescribeAclsRequest(
        **dict(zip(_FILTER, (*place, None, None, ANY, ANY), strict=True)),
        version=connection.version(protocol.DescribeAclsRequest),
    )
    answer = await connection.call(request, patience)
    if answer.error_code:
        raise BrokerError(answer.error_code, answer.error_message or "the access rules cannot be read")
    return [Acl(*_PLACE(place), *_GRANT(acl)) for place in answer.resources for acl in place.acls]


async def created(connection: Connection, acls: Sequence[Acl], patience: float | None = None) -> list[Answer]:
    """One answer a rule, in order. A rule that exists already is no error. Raises MalformedResponseError for another
    number of answers: whose is whose is then unknown."""
    creation = protocol.CreateAclsRequest.AclCreation
    request = protocol.CreateAclsRequest(
        creations=[creation(**dict(zip(_CREATION, acl, strict=True))) for acl in acls],
        version=connection.version(protocol.CreateAclsRequest),
    )
    answer = await connection.call(request, patience)
    return _one_each(acls, [Answer(item.error_code, item.error_message or "") for item in answer.results])


async def deleted(connection: Connection, acls: Sequence[Acl], patience: float | None = None) -> list[Answer]:
    """One answer a rule, in order; each filter is a whole 7-tuple, so it meets that rule or none.

    Raises ValueError for a filter that could meet more: nothing is sent then. Raises MalformedResponseError as
    ``created``.
    """
    for acl in acls:
        if acl.pattern not in STORED_PATTERNS or ANY in (acl.resource, acl.operation, acl.permission):
            raise ValueError(f"{acl} is no single rule")
    chosen = protocol.DeleteAclsRequest.DeleteAclsFilter
    request = protocol.DeleteAclsRequest(
        filters=[chosen(**dict(zip(_FILTER, acl, strict=True))) for acl in acls],
        version=connection.version(protocol.DeleteAclsRequest),
    )
    answer = await connection.call(request, patience)
    answers = []
    for filter_result in answer.filter_results:
        failed = next((met for met in filter_result.matching_acls if met.error_code), filter_result)
        answers.append(Answer(failed.error_code, failed.error_message or "", len(filter_result.matching_acls)))
    return _one_each(acls, answers)


def _one_each(acls: Sequence[Acl], answers: list[Answer]) -> list[Answer]:
    if len(answers) != len(acls):
        raise MalformedResponseError(f"{len(acls)} access rules were sent, and {len(answers)} answers came")
    return answers
