"""What the runtime needs of a machine and of the log under it.

`raft` and `replication` each satisfy `ReplicatedLog`; the controller, groups and transactions
each satisfy `Machine`. Neither side knows the other.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.effects import Failure, Outcome


class LogUnreadable(Exception):
    """A log holds what nobody here understands; the text says where and what to do."""


class Machine(Protocol):
    """State that is the sum of its records, and a little beside it that dies with the machine: who
    waits, who was heard of, what was said last."""

    def handle(self, event: Any, now_ms: int) -> Outcome:
        """Decide. Changes no durable state; if it changes the other kind and writes records, it
        says so (see Outcome.volatile). A KafkaError is an answer like any other."""
        ...

    def replay(self, record: Any) -> None:
        """Take in one record. The only thing that changes durable state."""
        ...

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        """The records of one batch are in; the next one will start at `end_offset`."""
        ...

    def loaded(self, now_ms: int) -> Outcome:
        """Everything is replayed and this node leads: restart timers, put things in order."""
        ...

    def recover(self, event: Any, problem: Exception, now_ms: int) -> Outcome:
        """Return the subject of an event to the state of its records; `handle` raised `problem`.

        The outcome writes no record. Its failures name the subject, and its timers keep alive
        what the event was to keep alive.
        """
        ...

    def set_aside(self, record: Any, problem: Exception) -> Failure:
        """Stop to serve the subject of a record, so that the others are; `replay` raised `problem`.

        A machine whose subjects depend on each other raises `problem`.
        """
        ...


class Batch(Protocol):
    """Records that were written together; none of them when the log kept them for itself."""

    @property
    def records(self) -> Sequence[Any]: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...


class LogReader(Protocol):
    """Reads everything a machine has to replay, in slices."""

    def next_slice(self) -> Sequence[Batch]:
        """The next few batches, empty at the end. After Cold, warm the range and ask again.
        LogUnreadable: there is no way past it."""
        ...


class LogFollower(Protocol):
    """What a log tells the machine above it."""

    def gained(self) -> None: ...
    def lost(self) -> None: ...
    def committed(self, offset: int) -> None: ...


class Writing(Protocol):
    """A batch that is made in pieces, because making it at once would hold everybody up."""

    def add(self, records: Sequence[Any]) -> None:
        """Encode some more. As `ReplicatedLog.append`, it may find that they have no place."""
        ...

    def finish(self) -> Batch:
        """Write them all, as `ReplicatedLog.append` does."""
        ...


class ReplicatedLog(Protocol):
    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """Everything below is safe on a majority."""
        ...

    def append(self, records: Sequence[Any]) -> Batch:
        """Write one atomic batch, not yet committed.

        KafkaError: refused, nothing was written; nor after Unwritable or Malformed, for which
        records have no place. DiskFailed: nobody knows what was written.
        """
        ...

    def read(self) -> LogReader: ...

    def follow(self, follower: LogFollower) -> None: ...
