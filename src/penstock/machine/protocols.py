"""The contracts of the runtime with a machine and with the log under it.

`raft` and `replication` each satisfy `ReplicatedLog`; the controller, groups and transactions
each satisfy `Machine`. Neither side knows the other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.effects import Failure, Outcome, Record_co, Reply_co

if TYPE_CHECKING:  # defaults of type variables come with Python 3.13
    from typing_extensions import TypeVar as DefaultingTypeVar

    Event = DefaultingTypeVar("Event", default=Any)
    Record = DefaultingTypeVar("Record", default=Any)
else:
    Event, Record = TypeVar("Event"), TypeVar("Record")


class LogUnreadable(Exception):
    """A log holds records that this version cannot read; the text says where, and the next step."""


class Machine(Protocol[Event, Record, Reply_co]):
    """State that is the sum of its records, and a volatile part that is lost with the machine.
    Volatile are requests that wait, times of heartbeats, timers."""

    def handle(self, event: Event, now_ms: int) -> Outcome[Event, Record, Reply_co]:
        """Decide. Changes no durable state.

        If it changes the volatile part and writes records, the outcome says so. A KafkaError is
        an answer like any other.
        """
        ...

    def replay(self, record: Record) -> None:
        """Take in one record. Nothing else changes durable state."""
        ...

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Note the end of a batch: the next one starts at `end_offset`."""
        ...

    def loaded(self, now_ms: int) -> Outcome[Event, Record, Reply_co]:
        """Restart timers and put things in order: all records are replayed, and this node leads."""
        ...

    def recover(
        self, event: Event, problem: Exception, now_ms: int
    ) -> Outcome[Event, Record, Reply_co]:
        """Return the subject of an event to the state of its records; `handle` raised `problem`.

        The outcome writes no record. Its failures name the subject. Its timers keep alive the
        members and tasks that the event was to keep alive.
        """
        ...

    def set_aside(self, record: Record, problem: Exception) -> Failure:
        """Stop serving the subject of a record, and serve the others; `replay` raised `problem`.

        A machine whose subjects depend on each other raises `problem`.
        """
        ...


class MachineBatch(Protocol[Record_co]):
    """Records that were written together; none if the log keeps the batch to itself."""

    @property
    def records(self) -> Sequence[Record_co]: ...
    @property
    def end_offset(self) -> int:
        """Return the offset behind the last record; negative if the batch goes on in the next
        slice."""
        ...

    @property
    def epoch(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


class LogReader(Protocol[Record_co]):
    """Reads all batches that a machine has to replay, in slices."""

    def next_slice(self) -> Sequence[MachineBatch[Record_co]] | None:
        """Return the next few batches, none at the end; None if a snapshot has replaced the rest,
        and a new reader is needed.

        After Cold, warm the range and ask again. After LogUnreadable, give the log up.
        """
        ...


class LogFollower(Protocol):
    """The events of a log, for the machine above it."""

    def gained(self) -> None: ...
    def lost(self) -> None: ...
    def committed(self, offset: int) -> None: ...


class MachineBatchWriter(Protocol[Record]):
    """A batch that is encoded in pieces, so that no piece blocks the loop for long."""

    def add(self, records: Sequence[Record]) -> None:
        """Encode some more. Raises as `ReplicatedLog.append` does if they cannot be encoded."""
        ...

    def finish(self) -> MachineBatch[Record]:
        """Write the batch, as `ReplicatedLog.append` does."""
        ...


class ReplicatedLog(Protocol[Record]):
    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """Return the offset below which every record is safe on a majority."""
        ...

    def append(self, records: Sequence[Record]) -> MachineBatch[Record]:
        """Write one atomic batch, not yet committed.

        KafkaError: rejected, and nothing was written. UnencodableValue or Malformed: the records
        cannot be encoded, and nothing was written. DiskFailed: the batch may or may not be written.
        """
        ...

    def read(self) -> LogReader[Record]: ...

    def follow(self, follower: LogFollower) -> None: ...


class FollowedLog(Protocol[Record_co]):
    """A log whose committed batches a standby follows while another node leads."""

    @property
    def start_offset(self) -> int:
        """Return the first offset in the log; a snapshot holds what came before."""
        ...

    def read_committed(self, offset: int) -> LogReader[Record_co]:
        """Return a reader of what is committed from `offset` on; below the start of the log the
        snapshot comes first."""
        ...
