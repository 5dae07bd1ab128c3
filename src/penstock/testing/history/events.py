"""The requests and answers of clients, as frozen values: the events of a history.

A moment is a number: each call and each answer takes the next one. An operation lasts from its call
to its answer. Without an answer, it may have happened or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NewType

from penstock.model import TopicPartition

Moment = NewType("Moment", int)
TransactionNumber = NewType("TransactionNumber", int)  # unique within a history


class ClientOutcome(Enum):
    """The answer to a request of a client."""

    OK = "ok"
    FAILED = "failed"  # certainly without effect
    UNKNOWN = "unknown"  # a timeout, a lost connection, a crash: both are allowed


class Ending(Enum):
    """The end of a transaction, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Isolation(Enum):
    """The isolation level of a consumer."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Place(NamedTuple):
    """One offset of one partition."""

    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.partition} offset {self.offset}"


class Span(NamedTuple):
    """From the call to the answer; `ended` is None if no answer came."""

    began: Moment
    ended: Moment | None


class Polled(NamedTuple):
    """A record as a consumer received it."""

    partition: TopicPartition
    offset: int
    value: bytes

    @property
    def place(self) -> Place:
        return Place(self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class ClientOperation:
    """A request of a client, from its call to its answer, or a change of the client's state."""

    process: str
    span: Span


@dataclass(frozen=True, slots=True)
class Send(ClientOperation):
    """One record for one partition; the value is unique within its topic."""

    partition: TopicPartition
    value: bytes
    outcome: ClientOutcome
    offset: int | None = None
    transaction: TransactionNumber | None = None
    source: Place | None = None  # the input record of this output


@dataclass(frozen=True, slots=True)
class Poll(ClientOperation):
    """The result of one poll of a consumer, in its order."""

    records: tuple[Polled, ...]
    isolation: Isolation
    transaction: TransactionNumber | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommit(ClientOperation):
    """A group's commit: the next offset to read, per partition."""

    group: str
    offsets: tuple[Place, ...]
    outcome: ClientOutcome
    transaction: TransactionNumber | None = None


@dataclass(frozen=True, slots=True)
class RecordedTransaction(ClientOperation):
    """A transaction around the sends, polls and offset commits that carry its number."""

    number: TransactionNumber
    transactional_id: str
    ending: Ending
    commit_asked: Moment | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetch(ClientOperation):
    """The answer about a group's commits: the next offset to read, None for no commit."""

    group: str
    offsets: tuple[tuple[TopicPartition, int | None], ...]


@dataclass(frozen=True, slots=True)
class ReadToEnd(ClientOperation):
    """A consumer reached `offset`, which was the high watermark at the call."""

    partition: TopicPartition
    offset: int
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Subscribed(ClientOperation):
    """From here on a group assigns partitions of these topics to the consumer."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssignedPartitions(ClientOperation):
    """From here on the consumer has these partitions; those it had before continue at their
    positions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked(ClientOperation):
    """The consumer loses these partitions; assigned again, they begin anywhere."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Sought(ClientOperation):
    """The consumer continues at this offset; None: at an unknown one."""

    partition: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True)
class Trimmed(ClientOperation):
    """Records below this offset may be deleted, by request or by retention."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Crashed(ClientOperation):
    """The process lost its state. Its unanswered requests have an unknown outcome."""


@dataclass(frozen=True, slots=True)
class History:
    """All operations of a run, in the order of their calls."""

    operations: tuple[ClientOperation, ...]

    def __iter__(self) -> Iterator[ClientOperation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)
