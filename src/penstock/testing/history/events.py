"""What clients asked and what they were told, as frozen values: the words of a history.

A moment is a number: each call and each answer takes the next one. An operation lasts from the
moment it was asked for to the moment it was answered; unanswered, it may have happened or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, NewType, TypeAlias

from penstock.model import TopicPartition

Moment = NewType("Moment", int)
TransactionNumber = NewType("TransactionNumber", int)  # unique within a history


class Outcome(Enum):
    """What a client was told about something it asked for."""

    OK = "ok"
    FAILED = "failed"  # certainly without effect
    UNKNOWN = "unknown"  # a timeout, a lost connection, a crash: either is allowed


class Ending(Enum):
    """How a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Isolation(Enum):
    """What a consumer wants to see of transactions."""

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
    """A record as a consumer got it."""

    partition: TopicPartition
    offset: int
    value: bytes

    @property
    def place(self) -> Place:
        return Place(self.partition, self.offset)


@dataclass(frozen=True, slots=True)
class Send:
    """One record for one partition; the value is unique within its topic."""

    process: str
    span: Span
    partition: TopicPartition
    value: bytes
    outcome: Outcome
    offset: int | None = None
    transaction: TransactionNumber | None = None
    source: Place | None = None  # the input that this is the output of


@dataclass(frozen=True, slots=True)
class Poll:
    """What one call of a consumer returned, in its order."""

    process: str
    span: Span
    records: tuple[Polled, ...]
    isolation: Isolation
    transaction: TransactionNumber | None = None


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A group's progress: the next offset to read, per partition."""

    process: str
    span: Span
    group: str
    offsets: tuple[Place, ...]
    outcome: Outcome
    transaction: TransactionNumber | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """The frame around sends, polls and offset commits that carry its number."""

    process: str
    span: Span
    number: TransactionNumber
    transactional_id: str
    ending: Ending
    commit_asked: Moment | None = None


@dataclass(frozen=True, slots=True)
class OffsetFetch:
    """The progress of a group as it was answered: the next offset to read, None for no commit."""

    process: str
    span: Span
    group: str
    offsets: tuple[tuple[TopicPartition, int | None], ...]


@dataclass(frozen=True, slots=True)
class ReadToEnd:
    """A consumer came to `offset`, which was the high watermark when it was asked for."""

    process: str
    span: Span
    partition: TopicPartition
    offset: int
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Subscribed:
    """From here on a group decides which partitions of these topics the consumer has."""

    process: str
    span: Span
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """From here on the consumer has these partitions; those it had before go on where they were."""

    process: str
    span: Span
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The consumer has these partitions no more; assigned again they begin anywhere."""

    process: str
    span: Span
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Sought:
    """The consumer goes on from this offset; None: from where it is not known."""

    process: str
    span: Span
    partition: TopicPartition
    offset: int | None


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Records below this offset may be gone: deleted, or past their retention."""

    process: str
    span: Span
    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """The process lost all it knew. What it had asked for and was not told is unknown."""

    process: str
    span: Span


Operation: TypeAlias = (
    Send
    | Poll
    | OffsetCommit
    | Transaction
    | OffsetFetch
    | ReadToEnd
    | Subscribed
    | Assigned
    | Revoked
    | Sought
    | Trimmed
    | Crashed
)


@dataclass(frozen=True, slots=True)
class History:
    """Everything that happened in a run, in the order in which it was asked for."""

    operations: tuple[Operation, ...]

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)
