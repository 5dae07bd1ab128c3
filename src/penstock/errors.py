"""One exception per Kafka error code, and the mapping from a code to its class.

A KafkaError is an answer to the peer: raised where the fault is found, written into the response.
The docstring of the class is the text for people if there is no exact message.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

NONE = 0
# A message may quote a peer's input; a response has room for 32,767 bytes.
MESSAGE_CHARACTERS_MAX = 4_000


class RecordFault(NamedTuple):
    """A bad record of a produced batch: its index among the records, and the reason."""

    place: int
    text: str | None


class KafkaError(Exception):
    """A fault of the peer, or a state that the peer has to know."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    # For one error whose next step differs from that of its class.
    own_step: str | None = None
    # The bad records of a produced batch.
    record_faults: Sequence[RecordFault] = ()

    def __init_subclass__(cls, code: int, retriable: bool = False) -> None:
        cls.code = code
        cls.retriable = retriable

    @property
    def message(self) -> str:
        """Return the message to or from the peer."""
        text = super().__str__() or type(self).summary()
        if len(text) <= MESSAGE_CHARACTERS_MAX:
            return text
        return f"{text[:MESSAGE_CHARACTERS_MAX]}..."

    @property
    def next_step(self) -> str:
        """Return the next step for a person; empty if unknown."""
        from penstock.next_steps import NEXT_STEPS

        if self.own_step is not None:
            return self.own_step
        return NEXT_STEPS.get(type(self).kafka_name(), "")

    def __str__(self) -> str:
        """Return the message and the next step, for people."""
        text, step = self.message, self.next_step
        if not step or step in text:
            return text
        return f"{text.rstrip('.')}. {step}."

    @classmethod
    def summary(cls) -> str:
        """Return the one line that describes the error class."""
        return (cls.__doc__ or cls.__name__).rstrip(".")

    @classmethod
    def kafka_name(cls) -> str:
        """Return Kafka's own spelling, e.g. OFFSET_OUT_OF_RANGE."""
        return _kafka_name(cls.__name__)


class UnknownServerError(KafkaError, code=-1):
    """Something went wrong on the server; its log says what."""


class OffsetOutOfRange(KafkaError, code=1):
    """The offset is before the log's start or after its end."""


class CorruptMessage(KafkaError, code=2, retriable=True):
    """The record batch does not match its checksum."""


class UnknownTopicOrPartition(KafkaError, code=3, retriable=True):
    """This server does not host that topic or partition."""


class InvalidFetchSize(KafkaError, code=4):
    """Invalid fetch size."""


class LeaderNotAvailable(KafkaError, code=5, retriable=True):
    """The partition has no leader right now."""


class NotLeaderOrFollower(KafkaError, code=6, retriable=True):
    """This node does not lead that partition."""


class RequestTimedOut(KafkaError, code=7, retriable=True):
    """The request took longer than its timeout."""


class BrokerNotAvailable(KafkaError, code=8):
    """Broker not available."""


class ReplicaNotAvailable(KafkaError, code=9, retriable=True):
    """Replica not available."""


class MessageTooLarge(KafkaError, code=10):
    """The batch is larger than the topic allows (max.message.bytes)."""


class StaleControllerEpoch(KafkaError, code=11):
    """Stale controller epoch."""


class OffsetMetadataTooLarge(KafkaError, code=12):
    """Offset metadata too large."""


class NetworkException(KafkaError, code=13, retriable=True):
    """Network exception."""


class CoordinatorLoadInProgress(KafkaError, code=14, retriable=True):
    """Coordinator load in progress."""


class CoordinatorNotAvailable(KafkaError, code=15, retriable=True):
    """Coordinator not available."""


class NotCoordinator(KafkaError, code=16, retriable=True):
    """Not coordinator."""


class InvalidTopic(KafkaError, code=17):
    """The topic name is not legal."""


class RecordListTooLarge(KafkaError, code=18):
    """Record list too large."""


class NotEnoughReplicas(KafkaError, code=19, retriable=True):
    """Fewer in-sync replicas than min.insync.replicas."""


class NotEnoughReplicasAfterAppend(KafkaError, code=20, retriable=True):
    """Written, but to fewer replicas than min.insync.replicas."""


class InvalidRequiredAcks(KafkaError, code=21):
    """Acks must be -1, 0 or 1."""


class IllegalGeneration(KafkaError, code=22):
    """Illegal generation."""


class InconsistentGroupProtocol(KafkaError, code=23):
    """Inconsistent group protocol."""


class InvalidGroupId(KafkaError, code=24):
    """Invalid group id."""


class UnknownMemberId(KafkaError, code=25):
    """Unknown member id."""


class InvalidSessionTimeout(KafkaError, code=26):
    """Invalid session timeout."""


class RebalanceInProgress(KafkaError, code=27):
    """Rebalance in progress."""


class InvalidCommitOffsetSize(KafkaError, code=28):
    """Invalid commit offset size."""


class TopicAuthorizationFailed(KafkaError, code=29):
    """Topic authorization failed."""


class GroupAuthorizationFailed(KafkaError, code=30):
    """Group authorization failed."""


class ClusterAuthorizationFailed(KafkaError, code=31):
    """Cluster authorization failed."""


class InvalidTimestamp(KafkaError, code=32):
    """The record's timestamp is outside what the topic allows."""


class UnsupportedSaslMechanism(KafkaError, code=33):
    """Unsupported sasl mechanism."""


class IllegalSaslState(KafkaError, code=34):
    """Illegal sasl state."""


class UnsupportedVersion(KafkaError, code=35):
    """This version of the request is not served."""


class TopicAlreadyExists(KafkaError, code=36):
    """A topic of that name exists."""


class InvalidPartitions(KafkaError, code=37):
    """The number of partitions is not possible."""


class InvalidReplicationFactor(KafkaError, code=38):
    """The replication factor is not possible with the brokers there are."""


class InvalidReplicaAssignment(KafkaError, code=39):
    """The replica assignment is not possible."""


class InvalidConfig(KafkaError, code=40):
    """The configuration is not legal."""


class NotController(KafkaError, code=41, retriable=True):
    """This node is not the active controller."""


class InvalidRequest(KafkaError, code=42):
    """The request contradicts itself."""


class UnsupportedForMessageFormat(KafkaError, code=43):
    """The message format on the server is too old for this."""


class PolicyViolation(KafkaError, code=44):
    """A policy of the server forbids it."""


class OutOfOrderSequenceNumber(KafkaError, code=45):
    """The batch does not follow the last one of this producer."""


class DuplicateSequenceNumber(KafkaError, code=46):
    """The batch was stored before."""


class InvalidProducerEpoch(KafkaError, code=47):
    """The producer's epoch is older than the server's."""


class InvalidTxnState(KafkaError, code=48):
    """Invalid txn state."""


class InvalidProducerIdMapping(KafkaError, code=49):
    """Invalid producer id mapping."""


class InvalidTransactionTimeout(KafkaError, code=50):
    """Invalid transaction timeout."""


class ConcurrentTransactions(KafkaError, code=51, retriable=True):
    """Concurrent transactions."""


class TransactionCoordinatorFenced(KafkaError, code=52):
    """Transaction coordinator fenced."""


class TransactionalIdAuthorizationFailed(KafkaError, code=53):
    """Transactional id authorization failed."""


class SecurityDisabled(KafkaError, code=54):
    """Security disabled."""


class OperationNotAttempted(KafkaError, code=55):
    """Operation not attempted."""


class KafkaStorageError(KafkaError, code=56, retriable=True):
    """The disk under this partition failed or has too little room; the server's log says how."""


class LogDirNotFound(KafkaError, code=57):
    """Log dir not found."""


class SaslAuthenticationFailed(KafkaError, code=58):
    """Sasl authentication failed."""


class UnknownProducerId(KafkaError, code=59):
    """Nothing is known of this producer."""


class ReassignmentInProgress(KafkaError, code=60):
    """Reassignment in progress."""


class DelegationTokenAuthDisabled(KafkaError, code=61):
    """Delegation token auth disabled."""


class DelegationTokenNotFound(KafkaError, code=62):
    """Delegation token not found."""


class DelegationTokenOwnerMismatch(KafkaError, code=63):
    """Delegation token owner mismatch."""


class DelegationTokenRequestNotAllowed(KafkaError, code=64):
    """Delegation token request not allowed."""


class DelegationTokenAuthorizationFailed(KafkaError, code=65):
    """Delegation token authorization failed."""


class DelegationTokenExpired(KafkaError, code=66):
    """Delegation token expired."""


class InvalidPrincipalType(KafkaError, code=67):
    """Invalid principal type."""


class NonEmptyGroup(KafkaError, code=68):
    """Non empty group."""


class GroupIdNotFound(KafkaError, code=69):
    """Group id not found."""


class FetchSessionIdNotFound(KafkaError, code=70, retriable=True):
    """No such fetch session; begin a new one."""


class InvalidFetchSessionEpoch(KafkaError, code=71, retriable=True):
    """The fetch session has moved on."""


class ListenerNotFound(KafkaError, code=72, retriable=True):
    """Listener not found."""


class TopicDeletionDisabled(KafkaError, code=73):
    """Topics may not be deleted here (delete.topic.enable)."""


class FencedLeaderEpoch(KafkaError, code=74, retriable=True):
    """The client's leader epoch is old."""


class UnknownLeaderEpoch(KafkaError, code=75, retriable=True):
    """The client's leader epoch is newer than the server's."""


class UnsupportedCompressionType(KafkaError, code=76):
    """The compression type needs a newer request version."""


class StaleBrokerEpoch(KafkaError, code=77):
    """Stale broker epoch."""


class OffsetNotAvailable(KafkaError, code=78, retriable=True):
    """The high watermark is not known yet."""


class MemberIdRequired(KafkaError, code=79):
    """Member id required."""


class PreferredLeaderNotAvailable(KafkaError, code=80, retriable=True):
    """Preferred leader not available."""


class GroupMaxSizeReached(KafkaError, code=81):
    """Group max size reached."""


class FencedInstanceId(KafkaError, code=82):
    """Fenced instance id."""


class EligibleLeadersNotAvailable(KafkaError, code=83, retriable=True):
    """Eligible leaders not available."""


class ElectionNotNeeded(KafkaError, code=84, retriable=True):
    """Election not needed."""


class NoReassignmentInProgress(KafkaError, code=85):
    """No reassignment in progress."""


class GroupSubscribedToTopic(KafkaError, code=86):
    """Group subscribed to topic."""


class InvalidRecord(KafkaError, code=87):
    """The record batch is not legal."""


class UnstableOffsetCommit(KafkaError, code=88, retriable=True):
    """Unstable offset commit."""


class ThrottlingQuotaExceeded(KafkaError, code=89, retriable=True):
    """A quota was exceeded."""


class ProducerFenced(KafkaError, code=90):
    """Producer fenced."""


class ResourceNotFound(KafkaError, code=91):
    """Resource not found."""


class DuplicateResource(KafkaError, code=92):
    """Duplicate resource."""


class UnacceptableCredential(KafkaError, code=93):
    """Unacceptable credential."""


class InconsistentVoterSet(KafkaError, code=94):
    """Inconsistent voter set."""


class InvalidUpdateVersion(KafkaError, code=95):
    """Invalid update version."""


class FeatureUpdateFailed(KafkaError, code=96):
    """Feature update failed."""


class PrincipalDeserializationFailure(KafkaError, code=97):
    """Principal deserialization failure."""


class SnapshotNotFound(KafkaError, code=98):
    """Snapshot not found."""


class PositionOutOfRange(KafkaError, code=99):
    """Position out of range."""


class UnknownTopicId(KafkaError, code=100, retriable=True):
    """This server does not host a topic of that id."""


class DuplicateBrokerRegistration(KafkaError, code=101):
    """Duplicate broker registration."""


class BrokerIdNotRegistered(KafkaError, code=102):
    """Broker id not registered."""


class InconsistentTopicId(KafkaError, code=103, retriable=True):
    """The topic id does not match the topic."""


class InconsistentClusterId(KafkaError, code=104):
    """Inconsistent cluster id."""


class TransactionalIdNotFound(KafkaError, code=105):
    """Transactional id not found."""


class FetchSessionTopicIdError(KafkaError, code=106, retriable=True):
    """The fetch session mixes topic names and topic ids."""


class IneligibleReplica(KafkaError, code=107):
    """Ineligible replica."""


class NewLeaderElected(KafkaError, code=108):
    """New leader elected."""


class OffsetMovedToTieredStorage(KafkaError, code=109):
    """Offset moved to tiered storage."""


class FencedMemberEpoch(KafkaError, code=110):
    """Fenced member epoch."""


class UnreleasedInstanceId(KafkaError, code=111):
    """Unreleased instance id."""


class UnsupportedAssignor(KafkaError, code=112):
    """Unsupported assignor."""


class StaleMemberEpoch(KafkaError, code=113):
    """Stale member epoch."""


class MismatchedEndpointType(KafkaError, code=114):
    """Mismatched endpoint type."""


class UnsupportedEndpointType(KafkaError, code=115):
    """Unsupported endpoint type."""


class UnknownControllerId(KafkaError, code=116):
    """Unknown controller id."""


class UnknownSubscriptionId(KafkaError, code=117):
    """Unknown subscription id."""


class TelemetryTooLarge(KafkaError, code=118):
    """Telemetry too large."""


class InvalidRegistration(KafkaError, code=119):
    """Invalid registration."""


class TransactionAbortable(KafkaError, code=120):
    """Transaction abortable."""


class InvalidRecordState(KafkaError, code=121):
    """Invalid record state."""


class ShareSessionNotFound(KafkaError, code=122, retriable=True):
    """Share session not found."""


class InvalidShareSessionEpoch(KafkaError, code=123, retriable=True):
    """Invalid share session epoch."""


class FencedStateEpoch(KafkaError, code=124):
    """Fenced state epoch."""


class InvalidVoterKey(KafkaError, code=125):
    """Invalid voter key."""


class DuplicateVoter(KafkaError, code=126):
    """Duplicate voter."""


class VoterNotFound(KafkaError, code=127):
    """Voter not found."""


class InvalidRegularExpression(KafkaError, code=128):
    """Invalid regular expression."""


class RebootstrapRequired(KafkaError, code=129):
    """Rebootstrap required."""


class StreamsInvalidTopology(KafkaError, code=130):
    """Streams invalid topology."""


class StreamsInvalidTopologyEpoch(KafkaError, code=131):
    """Streams invalid topology epoch."""


class StreamsTopologyFenced(KafkaError, code=132):
    """Streams topology fenced."""


class ShareSessionLimitReached(KafkaError, code=133, retriable=True):
    """Share session limit reached."""


def _kafka_name(class_name: str) -> str:
    special = {"InvalidTopic": "INVALID_TOPIC_EXCEPTION"}
    if class_name in special:
        return special[class_name]
    words = "".join("_" + c if c.isupper() else c.upper() for c in class_name)
    return words.lstrip("_")


BY_CODE: dict[int, type[KafkaError]] = {cls.code: cls for cls in KafkaError.__subclasses__()}


def from_code(code: int, message: str | None = None) -> KafkaError:
    """Return the exception for a code off the wire; unknown codes become UnknownServerError."""
    found = BY_CODE.get(code)
    if found is None:
        return UnknownServerError(message or f"error code {code}")
    return found(message) if message else found()


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the exception for a code off the wire; None for a success."""
    return from_code(code, message) if code else None
