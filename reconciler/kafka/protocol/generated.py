"""kafka-python's generated protocol classes, imported here only, with the versions we use.

Newest layouts used are fixed here, so that a newer library does not change what travels.
"""

import io
import struct
import sys
import threading
from importlib.util import find_spec, module_from_spec
from typing import Any

# kafka-python begins by importing its clients, 160 modules that nothing here uses: 70 ms of each command's start. What
# is used is imported below a package that has not run; who imports kafka itself gets all of it.
if _unused := None if "kafka" in sys.modules else find_spec("kafka"):
    sys.modules["kafka"] = module_from_spec(_unused)

from kafka.protocol.admin.acl import CreateAclsRequest as CreateAclsRequest
from kafka.protocol.admin.acl import DeleteAclsRequest as DeleteAclsRequest
from kafka.protocol.admin.acl import DescribeAclsRequest as DescribeAclsRequest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest as AlterClientQuotasRequest
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest as DescribeClientQuotasRequest
from kafka.protocol.admin.cluster import DescribeClusterRequest as DescribeClusterRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest as DescribeLogDirsRequest
from kafka.protocol.admin.cluster import DescribeQuorumRequest as DescribeQuorumRequest
from kafka.protocol.admin.configs import AlterConfigsRequest as AlterConfigsRequest
from kafka.protocol.admin.configs import DescribeConfigsRequest as DescribeConfigsRequest
from kafka.protocol.admin.configs import IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest as DescribeGroupsRequest
from kafka.protocol.admin.topics import AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest
from kafka.protocol.admin.topics import CreatePartitionsRequest as CreatePartitionsRequest
from kafka.protocol.admin.topics import CreateTopicsRequest as CreateTopicsRequest
from kafka.protocol.admin.topics import DeleteTopicsRequest as DeleteTopicsRequest
from kafka.protocol.admin.topics import ElectLeadersRequest as ElectLeadersRequest
from kafka.protocol.admin.topics import ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest
from kafka.protocol.admin.users import AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest
from kafka.protocol.admin.users import DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchRequest as FetchRequest
from kafka.protocol.consumer import ListOffsetsRequest as ListOffsetsRequest
from kafka.protocol.consumer import OffsetFetchRequest as OffsetFetchRequest
from kafka.protocol.consumer.group import HeartbeatRequest as HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest as FindCoordinatorRequest
from kafka.protocol.metadata import MetadataRequest as MetadataRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
from kafka.protocol.producer import EndTxnRequest as EndTxnRequest
from kafka.protocol.producer import InitProducerIdRequest as InitProducerIdRequest
from kafka.protocol.producer import ProduceRequest as ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest as SaslAuthenticateRequest
from kafka.protocol.sasl import SaslHandshakeRequest as SaslHandshakeRequest
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
from kafka.protocol.schemas.fields.struct import StructField

if _unused:
    del sys.modules["kafka"]

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.flexible import ResponseReader

PRODUCE, FETCH = 0, 1

NEWEST: dict[Any, int] = {  # DeleteTopics, Fetch, Produce: the last ones that name topics, which need not be there then
    AddOffsetsToTxnRequest: 3,
    AlterClientQuotasRequest: 1,
    AlterConfigsRequest: 2,
    AlterPartitionReassignmentsRequest: 1,
    AlterUserScramCredentialsRequest: 0,
    CreateAclsRequest: 3,
    CreatePartitionsRequest: 3,
    CreateTopicsRequest: 7,
    DeleteAclsRequest: 3,
    DeleteTopicsRequest: 5,
    DescribeAclsRequest: 3,
    DescribeClientQuotasRequest: 1,
    DescribeClusterRequest: 1,
    DescribeConfigsRequest: 4,
    DescribeGroupsRequest: 5,
    DescribeLogDirsRequest: 4,
    DescribeQuorumRequest: 2,
    DescribeUserScramCredentialsRequest: 0,
    ElectLeadersRequest: 2,
    EndTxnRequest: 5,
    FetchRequest: 11,
    FindCoordinatorRequest: 3,
    HeartbeatRequest: 4,
    IncrementalAlterConfigsRequest: 1,
    InitProducerIdRequest: 4,
    ListOffsetsRequest: 5,
    ListPartitionReassignmentsRequest: 0,
    MetadataRequest: 12,
    OffsetFetchRequest: 7,
    ProduceRequest: 8,
    SaslAuthenticateRequest: 2,
    SaslHandshakeRequest: 1,
}


def api_name(key: int) -> str:
    """Kafka's name of an API; the number if unknown here."""
    return ApiKey(key).name if key in ApiKey.__members__.values() else str(key)


def encode(request: Any, correlation_id: int, client_id: str) -> bytes:
    """One framed request, header included."""
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(framed=True, header=True))


_responses: dict[tuple[int, int], Any] = {}
_first_use = threading.Lock()


def _response_of(header: Any) -> Any:
    """The library makes a class for a version when it is first asked for, and keeps the last one weakly: of two threads
    that ask at once, one would leave a class behind that is gone, for each later answer."""
    asked = (header.request_api_key, header.request_api_version)
    if asked not in _responses:
        with _first_use:
            if asked not in _responses:
                _responses[asked] = header.get_response_class()
    return _responses[asked]


_emit_length = UnsignedVarInt32.emit_decode_from


def _emit_short_length(ctx: Any, name: str, indent: str) -> None:
    ctx.emit(indent, "if min(data[pos : pos + 5], default=0) > 127: raise ValueError('a length has too many bytes')")
    _emit_length(ctx, name, indent)


def _emit_skipped_tags(_struct: Any, ctx: Any, _name: str, indent: str, _version: int) -> None:
    ctx.globs["_Reader"] = ResponseReader
    ctx.emit(indent, "_reader = _Reader(data, at=pos, views=True)")  # whose tags are passed over
    ctx.emit(indent, "pos = _reader.at")


# Two loops of the library's decoders take the square of what arrives, before the login, too: 200,000 bytes of 0xff as
# one length half a minute, 400,000 with tagged fields in each entry ten seconds (decision 325). We use no tagged field.
UnsignedVarInt32.emit_decode_from = _emit_short_length
StructField._emit_tagged_decode = _emit_skipped_tags


def decode(request: Any, frame: memoryview) -> Any:
    """The response to ``request``; ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    response = _response_of(request.header)
    body = io.BytesIO(bytes(frame))
    try:
        response.parse_header(body)
        return response.decode(body)
    except (struct.error, ValueError, IndexError, TypeError, UnicodeDecodeError, EOFError) as error:
        raise MalformedResponseError(f"the answer to {type(request).__name__} cannot be read: {error}") from error
