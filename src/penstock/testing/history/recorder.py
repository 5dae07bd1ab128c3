"""Records a history while it happens, from as many threads as there are clients.

Record the call before it is made and the answer after it came; the checker relies on the order of
both. A process is one thread of actions: a producer, a consumer, or both in turn.
"""

import itertools
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from penstock.model import TopicPartition
from penstock.testing.history.events import (
    AssignedPartitions,
    ClientOperation,
    ClientOutcome,
    Crashed,
    Ending,
    History,
    Isolation,
    Moment,
    OffsetCommit,
    OffsetFetch,
    Place,
    Poll,
    Polled,
    ReadToEnd,
    RecordedTransaction,
    Revoked,
    Send,
    Sought,
    Span,
    Subscribed,
    TransactionNumber,
    Trimmed,
)

Asked = TypeVar("Asked", bound=Send | OffsetCommit | RecordedTransaction)


class Recorder:
    """A history being recorded. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments = itertools.count(1)
        self._transactions = itertools.count(1)
        self._operations: dict[Moment, ClientOperation] = {}
        self._sent: set[tuple[str, bytes]] = set()

    def process(self, name: str, isolation: Isolation = Isolation.READ_COMMITTED) -> "Process":
        """Return a process, a client whose actions follow one another; its polls have this
        isolation."""
        return Process(self, name, isolation)

    def history(self) -> History:
        """Return the history so far. Operations without an answer are unknown."""
        with self._lock:
            return History(tuple(self._operations[each] for each in sorted(self._operations)))

    # -- for the handles below

    def now(self) -> Moment:
        with self._lock:
            return Moment(next(self._moments))

    def next_transaction(self) -> TransactionNumber:
        with self._lock:
            return TransactionNumber(next(self._transactions))

    def put(self, operation: ClientOperation) -> None:
        """Add an operation, or replace it when more is known."""
        with self._lock:
            self._operations[operation.span.began] = operation

    def claim(self, topic: str, value: bytes) -> None:
        """Reserve a value for one send: repeated values would be indistinguishable."""
        with self._lock:
            if (topic, value) in self._sent:
                raise ValueError(f"{value!r} was sent to {topic} before: values must be unique")
            self._sent.add((topic, value))


class _Asked(Generic[Asked]):
    """A request without an answer yet."""

    def __init__(self, recorder: Recorder, operation: Asked) -> None:
        self._recorder = recorder
        self._operation: Asked = operation
        recorder.put(operation)

    def _now(self) -> Span:
        return Span(self._operation.span.began, self._recorder.now())

    def _answered(self, operation: Asked) -> None:
        assert self._operation.span.ended is None, f"answered twice: {self._operation}"
        self._operation = operation
        self._recorder.put(operation)


class Sending(_Asked[Send]):
    """A send in flight; without a call of these its outcome stays unknown."""

    def ok(self, offset: int | None = None) -> None:
        """Note the acknowledgement; None if the broker gave no offset (Kafka: -1)."""
        known = _known(offset)
        self._answered(
            replace(self._operation, span=self._now(), outcome=ClientOutcome.OK, offset=known)
        )

    def failed(self) -> None:
        """Note a rejection: the record is certainly not in the log. Do not call this after a
        timeout."""
        self._answered(replace(self._operation, span=self._now(), outcome=ClientOutcome.FAILED))


class CommittingOffsets(_Asked[OffsetCommit]):
    """An offset commit in flight; without a call of these its outcome stays unknown."""

    def ok(self) -> None:
        self._answered(replace(self._operation, span=self._now(), outcome=ClientOutcome.OK))

    def failed(self) -> None:
        self._answered(replace(self._operation, span=self._now(), outcome=ClientOutcome.FAILED))


class OpenTransaction(_Asked[RecordedTransaction]):
    """An open transaction; without an end its outcome stays unknown."""

    @property
    def number(self) -> TransactionNumber:
        return self._operation.number

    def commit_asked(self) -> None:
        """Note the commit request, before it is sent: the records may be visible from now on."""
        if self._operation.commit_asked is None:
            self._operation = replace(self._operation, commit_asked=self._recorder.now())
            self._recorder.put(self._operation)

    def committed(self) -> None:
        assert self._operation.commit_asked is not None, "call commit_asked before the commit"
        self._answered(replace(self._operation, span=self._now(), ending=Ending.COMMITTED))

    def aborted(self) -> None:
        """Note the acknowledged abort. Do not call this after a failed abort."""
        self._answered(replace(self._operation, span=self._now(), ending=Ending.ABORTED))


@dataclass(frozen=True, slots=True)
class Polling:
    """A poll in flight; without records it leaves no trace."""

    recorder: Recorder
    process: str
    isolation: Isolation
    transaction: TransactionNumber | None
    began: Moment

    def got(self, records: Iterable[Polled]) -> None:
        found = tuple(records)
        if found:
            span = Span(self.began, self.recorder.now())
            self.recorder.put(Poll(self.process, span, found, self.isolation, self.transaction))


@dataclass(frozen=True, slots=True)
class FetchingOffsets:
    """A request for a group's commits; without an answer it leaves no trace."""

    recorder: Recorder
    process: str
    group: str
    began: Moment

    def got(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Note the answer: None, or one of Kafka's negative numbers, where nothing is committed."""
        span = Span(self.began, self.recorder.now())
        found = tuple((each, _known(offset)) for each, offset in sorted(offsets.items()))
        self.recorder.put(OffsetFetch(self.process, span, self.group, found))


@dataclass(frozen=True, slots=True)
class ReadingToEnd:
    """A read up to the high watermark of now; without an answer it leaves no trace."""

    recorder: Recorder
    process: str
    partition: TopicPartition
    isolation: Isolation
    began: Moment

    def reached(self, high_watermark: int) -> None:
        span = Span(self.began, self.recorder.now())
        self.recorder.put(
            ReadToEnd(self.process, span, self.partition, high_watermark, self.isolation)
        )


class Process:
    """One thread of actions; call every method at the moment of the request."""

    def __init__(self, recorder: Recorder, name: str, isolation: Isolation) -> None:
        self._recorder = recorder
        self.name = name
        self.isolation = isolation

    # -- as a producer

    def send(
        self,
        partition: TopicPartition,
        value: bytes,
        *,
        transaction: OpenTransaction | None = None,
        source: Place | None = None,
    ) -> Sending:
        """Note a send. `source` is the input record of this output, for the exactly-once check."""
        self._recorder.claim(partition.topic, value)
        number = _number(transaction)
        asked = Send(
            self.name, self._asked(), partition, value, ClientOutcome.UNKNOWN, None, number, source
        )
        return Sending(self._recorder, asked)

    def begin(self, transactional_id: str) -> OpenTransaction:
        number = self._recorder.next_transaction()
        begun = RecordedTransaction(
            self.name, self._asked(), number, transactional_id, Ending.UNKNOWN
        )
        return OpenTransaction(self._recorder, begun)

    # -- as a consumer

    def poll(self, transaction: OpenTransaction | None = None) -> Polling:
        moment = self._recorder.now()
        return Polling(self._recorder, self.name, self.isolation, _number(transaction), moment)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        transaction: OpenTransaction | None = None,
    ) -> CommittingOffsets:
        """Note a commit: the next offset to read per partition, as Kafka counts."""
        places = tuple(Place(*each) for each in sorted(offsets.items()))
        number = _number(transaction)
        asked = OffsetCommit(self.name, self._asked(), group, places, ClientOutcome.UNKNOWN, number)
        return CommittingOffsets(self._recorder, asked)

    def fetch_offsets(self, group: str) -> FetchingOffsets:
        """Note a request as of read_committed consumers, which waits for pending transactions."""
        return FetchingOffsets(self._recorder, self.name, group, self._recorder.now())

    def read_to_end(self, partition: TopicPartition) -> ReadingToEnd:
        """Note the start of a read: call this before the request for the high watermark, then read
        up to it, from the start."""
        moment = self._recorder.now()
        return ReadingToEnd(self._recorder, self.name, partition, self.isolation, moment)

    def subscribed(self, topics: Iterable[str]) -> None:
        self._recorder.put(Subscribed(self.name, self._at_once(), tuple(topics)))

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Note all partitions of the consumer; call `revoked` first for those that begin again."""
        self._recorder.put(AssignedPartitions(self.name, self._at_once(), tuple(partitions)))

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._recorder.put(Revoked(self.name, self._at_once(), tuple(partitions)))

    def sought(self, partition: TopicPartition, offset: int | None) -> None:
        self._recorder.put(Sought(self.name, self._at_once(), partition, offset))

    # -- for all clients

    def trimmed(self, partition: TopicPartition, offset: int) -> None:
        """Note a deletion, before it is requested."""
        self._recorder.put(Trimmed(self.name, self._at_once(), partition, offset))

    def crashed(self) -> None:
        self._recorder.put(Crashed(self.name, self._at_once()))

    def _asked(self) -> Span:
        return Span(self._recorder.now(), None)

    def _at_once(self) -> Span:
        moment = self._recorder.now()
        return Span(moment, moment)


def _number(transaction: OpenTransaction | None) -> TransactionNumber | None:
    return None if transaction is None else transaction.number


def _known(offset: int | None) -> int | None:
    """Return None for -1 and -1001, Kafka's numbers for a missing offset."""
    return offset if offset is not None and offset >= 0 else None
