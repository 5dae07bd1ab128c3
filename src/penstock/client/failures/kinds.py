"""The exceptions of the clients besides penstock.errors.KafkaError.

Each text has the event and the next step; `retriable` says whether the same call may succeed later.
Errors of librdkafka are in local.py, errors of a broker in penstock.errors.
"""

from penstock.model import TopicPartition


def sentences(*parts: str) -> str:
    """Return the parts as sentences in one line, without empty ones."""
    kept = [part.strip() for part in parts if part and part.strip()]
    return " ".join(part if part[-1] in ".!?" else f"{part}." for part in kept)


class ClientError(Exception):
    """A client could not do what it was asked to."""

    retriable: bool = False
    # The client cannot be used any more; only close() is left.
    fatal: bool = False
    # The open transaction has to be aborted; the next one may succeed.
    txn_requires_abort: bool = False
    next_step: str = ""

    def __init__(self, what: str = "", *, next_step: str | None = None) -> None:
        super().__init__(what)
        if next_step is not None:
            self.next_step = next_step

    @property
    def what(self) -> str:
        """Return the event without the next step."""
        return str(self.args[0]) if self.args and self.args[0] else type(self).summary()

    @classmethod
    def summary(cls) -> str:
        """Return the one line that describes the class of error."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")

    def __str__(self) -> str:
        return sentences(self.what, self.next_step)


class BufferExhausted(ClientError):
    """There was no room for the record within buffer.memory and max.block.ms."""

    retriable = True
    next_step = (
        "Await what send() or post() return, so that sending waits for room; or raise "
        "buffer.memory or max.block.ms"
    )


class ClientClosed(ClientError):
    """The client is closed."""

    next_step = "Use it inside its `with` block, or make a new one"


class UsedAfterFork(ClientError):
    """The client was made before this process was forked; its threads and sockets stayed behind."""

    next_step = "Make clients in the process that uses them"


class HandlerTimedOut(ClientError):
    """The body of the loop took longer than handler.timeout.ms; its record is not committed."""

    next_step = (
        "Raise handler.timeout.ms, or give the record to penstock.retry; it will be read again"
    )


class PartitionsRevoked(ClientError):
    """The partition was revoked while its record was in the loop; the record is not committed."""

    next_step = (
        "The new owner reads the record again: make the work repeatable, or raise "
        "revoke.timeout.ms so that it can end in time"
    )


class WrongLoop(ClientError, RuntimeError):
    """An asyncio client belongs to the event loop it was first used in."""

    next_step = "Make a client per event loop, or use penstock.sync"


class WrongProtocol(ClientError):
    """The port speaks something else than security.protocol says."""

    next_step = (
        "Set security.protocol to what the broker's listener speaks, or use the port of another"
    )


class TransactionFailed(ClientError):
    """A part of the open transaction has failed: the transaction can only be aborted."""

    next_step = "Let this out of the transaction's block, which aborts it; then do all of it again"


class TimedOut(ClientError, TimeoutError):
    """The call took longer than its time limit."""

    retriable = True
    next_step = "Give it more time, and see whether the brokers are reachable and busy"


class CommitUnknown(TimedOut):
    """The commit was not confirmed in time: the transaction may still be committed."""

    retriable = False
    next_step = (
        "Do not repeat the block, what it has written may be there: the next transaction() of this "
        "producer first sees this commit to its end, and raises if it failed"
    )


class ProducerLost(TimedOut):
    """librdkafka has not come back from a call: this producer is of no more use."""

    retriable = False
    fatal = True
    next_step = (
        "Make a new one: under the same transactional.id it fences this one, and what was open is "
        "aborted"
    )


class NoOffset(ClientError):
    """The group has no valid offset for the partition, and auto.offset.reset is none."""

    next_step = (
        "Commit an offset for the group (seek and commit, or `penstock group reset`), or set "
        "auto.offset.reset to earliest or latest"
    )


class SerializationError(ClientError):
    """A key or value could not be turned into bytes; nothing of the record was sent."""

    def __init__(
        self, cause: BaseException | str = "", *, topic: str = "", is_key: bool = False
    ) -> None:
        super().__init__(str(cause))
        self.topic = topic
        self.is_key = is_key
        said = _part(is_key)
        # For example a registry that cannot be reached: the record itself is valid.
        self.retriable = bool(getattr(cause, "retriable", False))
        self.next_step = (
            "Send it again in a moment"
            if self.retriable
            else f"Give the producer a serializer for such a {said} ({said}=...)"
        )
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    @property
    def what(self) -> str:
        part = _part(self.is_key)
        return f"the {part} of a record for {self.topic} cannot be written: {self.args[0]}"


class DeserializationError(ClientError):
    """A key or value is not what its deserializer reads; the position stays before the record."""

    def __init__(
        self,
        cause: BaseException | str = "",
        *,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        is_key: bool = False,
    ) -> None:
        super().__init__(str(cause))
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.is_key = is_key
        # For example a registry that cannot be reached: the record itself is valid.
        self.retriable = getattr(cause, "retriable", False)
        self.next_step = (
            "Read on: the record comes again, and may be read then"
            if self.retriable
            else "Read it with the deserializer that belongs to its sender, or pass over it: "
            "consumer.skip(error)"
        )
        if isinstance(cause, BaseException):
            self.__cause__ = cause

    @property
    def what(self) -> str:
        where = f"{self.topic}-{self.partition}, offset {self.offset}"
        return f"the {_part(self.is_key)} of the record at {where} cannot be read: {self.args[0]}"

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def _part(is_key: bool) -> str:
    return "key" if is_key else "value"
