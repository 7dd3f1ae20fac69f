"""Errors between a client and a broker, classified by the caller's reaction."""

from collections.abc import Callable, Collection, Mapping

_FIRST = -1
_NAMES = """
    UNKNOWN_SERVER_ERROR NONE OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION INVALID_FETCH_SIZE
    LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE
    MESSAGE_TOO_LARGE STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION
    COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_TOPIC_EXCEPTION
    RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS
    ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT
    REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED
    CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
    UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR
    INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT
    POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH
    INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS
    TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED OPERATION_NOT_ATTEMPTED
    KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS
    DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED
    INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND
    INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND TOPIC_DELETION_DISABLED FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH
    UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED
    PREFERRED_LEADER_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID ELIGIBLE_LEADERS_NOT_AVAILABLE
    ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD UNSTABLE_OFFSET_COMMIT
    THROTTLING_QUOTA_EXCEEDED PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL
    INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED PRINCIPAL_DESERIALIZATION_FAILURE
    SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID DUPLICATE_BROKER_REGISTRATION
    BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID INCONSISTENT_CLUSTER_ID TRANSACTIONAL_ID_NOT_FOUND
    FETCH_SESSION_TOPIC_ID_ERROR INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE
    FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE
    UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE
    INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND
    INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND
    INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
    STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED GROUP_DELETION_FAILED
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED CONTROLLER_ID_NOT_REGISTERED
""".split()  # noqa: SIM905 - a name a line would be a page
"""Names of Kafka's error codes (``Errors`` of Kafka 4.4), in order; the first has the code ``_FIRST``."""

# Leader or coordinator moved, or not there yet: refresh metadata and try again.
RETRIABLE = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 27, 51, 56, 72, 74, 75, 76, 78, 88, 89, 100, 103})
MOVED = frozenset({3, 5, 6, 9, 56, 72, 74, 75, 76, 78, 100, 103})
COORDINATOR_MOVED = frozenset({14, 15, 16})
CONCURRENT_TRANSACTIONS = 51
FENCED = frozenset({47, 90})
DENIED = frozenset({29, 30, 31, 53, 65})
OUT_OF_RANGE = 1
CORRUPT = 2
UNKNOWN_TOPIC = 3
TOPIC_AUTHORIZATION_FAILED = 29
NOT_ATTEMPTED = 55
TRANSACTION_TIMEOUT_REFUSED = 50
UNSTABLE = 88
TOO_LARGE = frozenset({10, 18})
DUPLICATE_SEQUENCE = 46
LEFT_OUT = -1
"""UNKNOWN_SERVER_ERROR, of what an answer leaves out: it may have been done or not."""


def name_of(code: int) -> str:
    """Kafka's name of an error code, with the code: ``NOT_LEADER_OR_FOLLOWER (6)``; of a later one only the code."""
    at = code - _FIRST
    return f"{_NAMES[at]} ({code})" if 0 <= at < len(_NAMES) else f"error code {code}"


class WireError(Exception):
    """Base of all errors of this package."""


class ConnectionLostError(WireError):
    """The broker cannot be reached, closed the connection, or did not answer in time. Try again."""


class OtherClusterError(ConnectionLostError):
    """Another cluster answers at an address than the expected one. Tried again: the address may lead back."""


class CertificateRefusedError(ConnectionLostError):
    """The broker ended the connection with an alert about our certificate: from TLS 1.3 on it does so after the
    handshake. A lane tries again, since certificates are renewed in place; a command calls it a login that failed."""


def lost(words: str, error: OSError) -> ConnectionLostError:
    """The error for a failed socket."""
    reason = (getattr(error, "reason", "") or "").upper()
    refused = "_ALERT_" in reason and any(why in reason for why in ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE"))
    return (CertificateRefusedError if refused else ConnectionLostError)(f"{words}: {error}")


class MalformedResponseError(WireError):
    """A response that breaks the protocol: nothing in it may be used."""


class SettingError(WireError):
    """A client setting that is unknown where security depends on it, missing, or contradicts another."""


class AuthenticationFailedError(WireError):
    """TLS or SASL refused us, or we refused the broker. Never carries a secret."""


class StaleTokenError(AuthenticationFailedError):
    """The broker refused a token of some age, such as one that ended by its clock: the next login has another."""


class UnsupportedBrokerError(WireError):
    """The broker lacks a request version that the mirror needs."""


class BrokerError(WireError):
    """A broker answered with an error code."""

    def __init__(self, code: int, subject: str) -> None:
        super().__init__(f"{subject}: {name_of(code)}")
        self.code = code

    @property
    def retriable(self) -> bool:
        return self.code in RETRIABLE


class FencedError(BrokerError):
    """A newer holder of the transactional.id fenced us: stop, and do not fight back."""


class PartitionsDeniedError(BrokerError):
    """The principal may not use ``keys``. AddPartitionsToTxn then adds none of its partitions; OffsetCommit and
    TxnOffsetCommit take the positions of the others."""

    def __init__(self, keys: Collection[tuple[str, int]], subject: str) -> None:
        super().__init__(TOPIC_AUTHORIZATION_FAILED, subject)
        self.keys = frozenset(keys)


def check_each(codes: Mapping[tuple[str, int], int], subject: Callable[[str], str]) -> None:
    """For the partitions of one answer: raises as ``check``, or PartitionsDeniedError with all partitions that it
    denies. ``subject`` takes the partition. One cause leaves others of a request unattempted, wherever in the answer it
    is."""
    failed = {key: code for key, code in codes.items() if code}
    last = {TOPIC_AUTHORIZATION_FAILED: 1, NOT_ATTEMPTED: 2}
    for (topic, partition), code in sorted(failed.items(), key=lambda each: last.get(each[1], 0)):
        if code == TOPIC_AUTHORIZATION_FAILED:
            denied = [key for key in failed if failed[key] == code]
            raise PartitionsDeniedError(denied, subject(f"{topic}-{partition}"))
        check(code, subject(f"{topic}-{partition}"))


def check(code: int, subject: str) -> None:
    """Raises FencedError or BrokerError for a code that is not 0."""
    if code in FENCED:
        raise FencedError(code, subject)
    if code:
        raise BrokerError(code, subject)
