"""The only door to kafka-python's generated protocol classes: their module paths are not a promised interface.

Newest layouts used are fixed here, so that a newer library does not change what travels.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from kafka.protocol.admin.acl import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from wire.errors import MalformedResponseError

__all__ = [
    "FETCH",
    "NEWEST",
    "PRODUCE",
    "AddOffsetsToTxnRequest",
    "AddPartitionsToTxnRequest",
    "ApiVersionsRequest",
    "CreateAclsRequest",
    "DeleteAclsRequest",
    "DescribeAclsRequest",
    "DescribeLogDirsRequest",
    "EndTxnRequest",
    "FindCoordinatorRequest",
    "InitProducerIdRequest",
    "ListOffsetsRequest",
    "MetadataRequest",
    "OffsetCommitRequest",
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "TxnOffsetCommitRequest",
    "decode",
    "encode",
]

PRODUCE, FETCH = 0, 1

NEWEST: dict[Any, int] = {
    AddOffsetsToTxnRequest: 3,
    AddPartitionsToTxnRequest: 3,
    ApiVersionsRequest: 3,
    CreateAclsRequest: 3,
    DeleteAclsRequest: 3,
    DescribeAclsRequest: 3,
    DescribeLogDirsRequest: 4,
    EndTxnRequest: 5,
    FindCoordinatorRequest: 3,
    InitProducerIdRequest: 4,
    ListOffsetsRequest: 5,
    MetadataRequest: 12,
    OffsetCommitRequest: 8,
    OffsetFetchRequest: 7,
    OffsetForLeaderEpochRequest: 4,
    SaslAuthenticateRequest: 2,
    SaslHandshakeRequest: 1,
    TxnOffsetCommitRequest: 5,
}


def encode(request: Any, correlation_id: int, client_id: str) -> bytes:
    """One framed request, header included."""
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(framed=True, header=True))


def decode(request: Any, frame: memoryview) -> Any:
    """The answer to ``request``; ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    response = request.header.get_response_class()
    body = io.BytesIO(bytes(frame))
    try:
        response.parse_header(body)
        return response.decode(body)
    except (struct.error, ValueError, IndexError, TypeError, UnicodeDecodeError, EOFError) as error:
        raise MalformedResponseError(f"the answer to {type(request).__name__} cannot be read: {error}") from error
