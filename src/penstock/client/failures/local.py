"""One class per error that librdkafka finds itself, by its negative code.

The name is librdkafka's, without RD_KAFKA_RESP_ERR_; the docstring says what it means, `next_step`
what to do. A code that is newer than this table becomes a plain LocalError.
"""

from penstock.client.failures.kinds import ClientError, NoOffset, TimedOut


class LocalError(ClientError):
    """An error that the client library found without a broker saying so."""

    code: int = 0
    name: str = ""

    def __init_subclass__(
        cls, code: int = 0, name: str = "", retriable: bool = False, next_step: str = ""
    ) -> None:
        """Take the next step as an argument where several classes share it."""
        cls.code = code
        cls.name = name
        cls.retriable = retriable
        if next_step:
            cls.next_step = next_step


_UNEXPECTED = "It is of librdkafka's own making; set debug=all and see what came before it"
_BROKERS = (
    "See whether the brokers run, whether bootstrap.servers names them, and whether "
    "security.protocol is what their listener expects"
)
_SAME_TOPIC = "Create the topic (`penstock topic create`), or correct its name"
_AGAIN = "Try again in a moment"
_PURGED = (
    "It was given up on request (a close or an abort), and may have been written if it had been "
    "sent before: look before you send it again"
)


class BadMessage(LocalError, code=-199, name="_BAD_MSG", next_step=_UNEXPECTED):
    """The broker sent bytes that are no valid message."""


class BadCompression(LocalError, code=-198, name="_BAD_COMPRESSION"):
    """Compressed data cannot be unpacked."""

    next_step = "See which producer wrote the batch; check.crcs=true tells whether it was damaged"


class Destroyed(LocalError, code=-197, name="_DESTROY"):
    """The client is being closed."""

    next_step = "Make a new client; this one was closed"


class LocalFailure(LocalError, code=-196, name="_FAIL", next_step=_UNEXPECTED):
    """The client library failed without saying more."""


class TransportFailure(
    LocalError, code=-195, name="_TRANSPORT", retriable=True, next_step=_BROKERS
):
    """A connection to a broker broke, or could not be made."""


class SystemResourceFailure(LocalError, code=-194, name="_CRIT_SYS_RESOURCE"):
    """The operating system refused the client a resource."""

    next_step = "Look at the limits of the process: memory, threads, open files"


class HostNotResolved(LocalError, code=-193, name="_RESOLVE", retriable=True):
    """The address of a broker cannot be resolved."""

    next_step = (
        "See whether bootstrap.servers and the brokers' advertised.listeners are names that this "
        "machine knows"
    )


class MessageTimedOut(LocalError, TimedOut, code=-192, name="_MSG_TIMED_OUT", retriable=True):
    """The record was not confirmed within delivery.timeout.ms."""

    next_step = (
        "See whether the partition has a leader and the brokers are reachable; raise "
        "delivery.timeout.ms if they are slow. It may have been written: sent again it can be "
        "there twice"
    )


class PartitionEnd(LocalError, code=-191, name="_PARTITION_EOF"):
    """The end of the partition is reached."""

    next_step = "Nothing is wrong: go on polling, or set enable.partition.eof=false"


class UnknownPartition(LocalError, code=-190, name="_UNKNOWN_PARTITION"):
    """The topic has no such partition."""

    next_step = (
        "See how many partitions the topic has (`penstock topic describe`); they count from 0"
    )


class FileFailure(LocalError, code=-189, name="_FS"):
    """A file cannot be used."""

    next_step = "See whether the file that the configuration names is there and may be read"


class UnknownTopic(LocalError, code=-188, name="_UNKNOWN_TOPIC", next_step=_SAME_TOPIC):
    """The cluster has no such topic."""


class AllBrokersDown(
    LocalError, code=-187, name="_ALL_BROKERS_DOWN", retriable=True, next_step=_BROKERS
):
    """No broker can be reached."""


class InvalidArgument(LocalError, code=-186, name="_INVALID_ARG"):
    """An argument or a setting is not possible."""

    next_step = "Correct the value that the text names"


class OperationTimedOut(LocalError, TimedOut, code=-185, name="_TIMED_OUT", retriable=True):
    """The operation took longer than its timeout."""

    next_step = "Give it more time, and see whether the brokers are reachable and busy"


class QueueFull(LocalError, code=-184, name="_QUEUE_FULL", retriable=True):
    """The local queue is full."""

    next_step = (
        "Wait until some records are delivered; buffer.memory and queue.buffering.max.messages say "
        "how many may wait"
    )


class TooFewInSync(LocalError, code=-183, name="_ISR_INSUFF", retriable=True):
    """Fewer replicas are in sync than the producer asks for."""

    next_step = "Bring the missing brokers back, or lower the topic's min.insync.replicas"


class BrokerNodeUpdate(LocalError, code=-182, name="_NODE_UPDATE", next_step=_UNEXPECTED):
    """A broker's address changed."""


class TlsFailure(LocalError, code=-181, name="_SSL"):
    """TLS failed."""

    next_step = (
        "See whether the trust store holds the authority of the broker's certificate, and whether "
        "the listener speaks TLS at all"
    )


class WaitingForCoordinator(LocalError, code=-180, name="_WAIT_COORD", retriable=True):
    """The coordinator is not available yet."""

    next_step = "Try again in a moment; if it stays, see whether all brokers run"


class UnknownGroup(LocalError, code=-179, name="_UNKNOWN_GROUP"):
    """The client has no group."""

    next_step = "Set group.id (`group=...`)"


class OperationInProgress(
    LocalError, code=-178, name="_IN_PROGRESS", retriable=True, next_step=_AGAIN
):
    """The operation is under way already."""


class PreviousInProgress(
    LocalError, code=-177, name="_PREV_IN_PROGRESS", retriable=True, next_step=_AGAIN
):
    """A previous operation has not ended."""


class ExistingSubscription(LocalError, code=-176, name="_EXISTING_SUBSCRIPTION"):
    """The call would interfere with the existing subscription."""

    next_step = "Call unsubscribe() first"


class AssignPartitions(LocalError, code=-175, name="_ASSIGN_PARTITIONS", next_step=_UNEXPECTED):
    """Partitions are being assigned."""


class RevokePartitions(LocalError, code=-174, name="_REVOKE_PARTITIONS", next_step=_UNEXPECTED):
    """Partitions are being revoked."""


class ConflictingUse(LocalError, code=-173, name="_CONFLICT"):
    """Two uses exclude each other."""

    next_step = "One thing at a time: wait for the other call, or set only one of the settings"


class WrongState(LocalError, code=-172, name="_STATE"):
    """The client is not in a state in which this is possible."""

    next_step = (
        "The order matters: a transaction is begun before it is used, partitions are assigned "
        "before they are read, nothing works after close()"
    )


class UnknownProtocol(LocalError, code=-171, name="_UNKNOWN_PROTOCOL"):
    """The protocol is not known."""

    next_step = "All members of a group need a partition.assignment.strategy in common"


class NotImplementedHere(LocalError, code=-170, name="_NOT_IMPLEMENTED"):
    """The client library does not do this."""

    next_step = "Leave the setting or call out"


class AuthenticationFailure(LocalError, code=-169, name="_AUTHENTICATION"):
    """The broker did not accept who the client says it is."""

    next_step = (
        "Check sasl.mechanism and the user and password in sasl.jaas.config, and whether the "
        "listener takes SASL (security.protocol); the broker's log says what it did not like"
    )


class NothingStored(LocalError, code=-168, name="_NO_OFFSET"):
    """There is no offset to commit."""

    next_step = "Nothing is wrong: there is nothing new to commit"


class Outdated(LocalError, code=-167, name="_OUTDATED", next_step=_AGAIN):
    """The result is out of date."""


class TimedOutInQueue(
    LocalError, TimedOut, code=-166, name="_TIMED_OUT_QUEUE", retriable=True, next_step=_BROKERS
):
    """The request timed out before there was a connection, and was not sent."""


class UnsupportedFeature(LocalError, code=-165, name="_UNSUPPORTED_FEATURE"):
    """The broker does not offer what this needs."""

    next_step = "Use a newer broker, or do without: the broker does not serve this request"


class WaitingForCache(LocalError, code=-164, name="_WAIT_CACHE", retriable=True, next_step=_AGAIN):
    """Metadata has not arrived yet."""


class Interrupted(LocalError, code=-163, name="_INTR", retriable=True, next_step=_AGAIN):
    """The operation was interrupted."""


class KeySerializationFailure(LocalError, code=-162, name="_KEY_SERIALIZATION"):
    """The key cannot be turned into bytes."""

    next_step = "Give the producer a serializer for such keys (key=...)"


class ValueSerializationFailure(LocalError, code=-161, name="_VALUE_SERIALIZATION"):
    """The value cannot be turned into bytes."""

    next_step = "Give the producer a serializer for such values (value=...)"


class KeyDeserializationFailure(LocalError, code=-160, name="_KEY_DESERIALIZATION"):
    """The key is not what the deserializer reads."""

    next_step = "Read it with the deserializer that belongs to its sender (key=...)"


class ValueDeserializationFailure(LocalError, code=-159, name="_VALUE_DESERIALIZATION"):
    """The value is not what the deserializer reads."""

    next_step = "Read it with the deserializer that belongs to its sender (value=...)"


class PartialResponse(LocalError, code=-158, name="_PARTIAL", retriable=True, next_step=_AGAIN):
    """Only a part of the answer arrived."""


class ReadOnly(LocalError, code=-157, name="_READ_ONLY", next_step=_UNEXPECTED):
    """The object is read-only."""


class NoSuchEntry(LocalError, code=-156, name="_NOENT"):
    """There is no such entry."""

    next_step = "See whether the name is right"


class ReadUnderflow(LocalError, code=-155, name="_UNDERFLOW", next_step=_UNEXPECTED):
    """An answer ended before its time."""


class InvalidType(LocalError, code=-154, name="_INVALID_TYPE"):
    """A value is of the wrong type."""

    next_step = "Give the setting a value of the type that the text names"


class RetryOperation(LocalError, code=-153, name="_RETRY", retriable=True, next_step=_AGAIN):
    """The operation has to be tried again."""


class PurgedInQueue(LocalError, code=-152, name="_PURGE_QUEUE", next_step=_PURGED):
    """The record was given up before it was sent, or before it was sent again."""


class PurgedInFlight(LocalError, code=-151, name="_PURGE_INFLIGHT", next_step=_PURGED):
    """The record was given up after it was sent and before an answer came."""


class Fatal(LocalError, code=-150, name="_FATAL"):
    """The client cannot go on without breaking its promise."""

    next_step = "Close this client and make a new one; the text says what happened"
    fatal = True


class InconsistentState(LocalError, code=-149, name="_INCONSISTENT"):
    """The client and the cluster do not agree on what happened."""

    next_step = "Close this client and make a new one"


class GaplessGuaranteeBroken(LocalError, code=-148, name="_GAPLESS_GUARANTEE"):
    """Going on would leave a gap in the order of records."""

    next_step = "Make a new producer, or set enable.gapless.guarantee=false"


class PollIntervalExceeded(LocalError, code=-147, name="_MAX_POLL_EXCEEDED"):
    """Nothing was read for longer than max.poll.interval.ms, and the group went on without it."""

    next_step = "Read more often, or raise max.poll.interval.ms; other members have the partitions"


class UnknownBroker(LocalError, code=-146, name="_UNKNOWN_BROKER"):
    """There is no broker of that id."""

    next_step = "See which brokers there are (`penstock broker list`)"


class NotConfigured(LocalError, code=-145, name="_NOT_CONFIGURED"):
    """The client was not configured for this."""

    next_step = "Set what it needs: transactional.id for transactions, group.id for groups"


class Fenced(LocalError, code=-144, name="_FENCED"):
    """A newer instance has taken over."""

    next_step = (
        "Stop this instance: another one with the same transactional.id or group.instance.id has "
        "taken over. Two that should both run need ids of their own"
    )
    fatal = True


class ApplicationFailure(LocalError, code=-143, name="_APPLICATION"):
    """The application said that something failed."""

    next_step = "The application's own text says more"


class AssignmentLost(LocalError, code=-142, name="_ASSIGNMENT_LOST"):
    """The group has taken the partitions away."""

    next_step = "Nothing to do: the group assigns anew. What was not committed is read again"


class NothingDone(LocalError, code=-141, name="_NOOP"):
    """Nothing was done."""

    next_step = "Nothing is wrong: there was nothing to do"


class NoResetOffset(LocalError, NoOffset, code=-140, name="_AUTO_OFFSET_RESET"):
    """The group has no valid offset for the partition, and auto.offset.reset is none."""

    next_step = NoOffset.next_step


class LogTruncated(LocalError, code=-139, name="_LOG_TRUNCATION"):
    """The log was cut below the position of the reader."""

    next_step = (
        "Records that were read are gone (an unclean leader election): seek to where reading shall "
        "go on"
    )


class OtherRecordInvalid(LocalError, code=-138, name="_INVALID_DIFFERENT_RECORD", retriable=True):
    """Another record of the same batch was refused, and so this one was not written."""

    next_step = "Send it again without the record that was refused"


class BrokerHandleDestroyed(
    LocalError, code=-137, name="_DESTROY_BROKER", retriable=True, next_step=_AGAIN
):
    """The connection to a broker that left the cluster was given up."""


LOCAL_BY_CODE: dict[int, type[LocalError]] = {
    each.code: each for each in LocalError.__subclasses__()
}
