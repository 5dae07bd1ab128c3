"""The anomalies that a history can show: each a value and a sentence."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.model import TopicPartition
from penstock.testing.history.events import Isolation, Place, Polled, RecordedTransaction, Send

NAMED_MAX = 8  # records that a sentence names before it only counts


@dataclass(frozen=True, slots=True)
class Anomaly(ABC):
    """An observation that a correct cluster never causes; `str` of it is a sentence."""

    @property
    @abstractmethod
    def sentence(self) -> str: ...

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class LostWrite(Anomaly):
    """An acknowledged record that no consumer saw, although later ones were read."""

    send: Send
    isolation: Isolation
    read_up_to: int  # all records below this offset should have been seen

    @property
    def sentence(self) -> str:
        return (
            f"{self.send.process} got the answer that {_send_text(self.send)}, and "
            f"{self.send.partition} was read up to offset {self.read_up_to - 1}, but no "
            f"{self.isolation.value} consumer has seen it"
        )


@dataclass(frozen=True, slots=True)
class Duplicate(Anomaly):
    """One value, sent once, at two offsets."""

    value: bytes
    places: tuple[Place, ...]
    processes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        places = _names(str(each) for each in self.places)
        return f"{self.value!r} was sent once but is at {places}, say {_names(self.processes)}"


@dataclass(frozen=True, slots=True)
class InconsistentOffset(Anomaly):
    """Two values at one offset."""

    place: Place
    values: tuple[bytes, ...]
    processes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        values = _names(repr(each) for each in self.values)
        return f"{self.place} holds different values, {values}, say {_names(self.processes)}"


@dataclass(frozen=True, slots=True)
class UnsentValue(Anomaly):
    """A value that no producer sent to this topic."""

    record: Polled
    processes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return (
            f"{_names(self.processes)} read {self.record.value!r} at {self.record.place}, "
            f"which no producer sent there"
        )


@dataclass(frozen=True, slots=True)
class AbortedRead(Anomaly):
    """A consumer saw a record of an aborted transaction or of a rejected send."""

    send: Send
    transaction: RecordedTransaction | None
    place: Place
    readers: tuple[str, ...]

    @property
    def sentence(self) -> str:
        if self.transaction is None:
            why = f"although the send by {self.send.process} was rejected"
        else:
            why = f"although {_titled(self.transaction)} was aborted"
        return f"{_names(self.readers)} read {self.send.value!r} at {self.place}, {why}"


@dataclass(frozen=True, slots=True)
class UncommittedRead(Anomaly):
    """A read_committed consumer saw a record before its transaction could have been committed."""

    send: Send
    transaction: RecordedTransaction
    place: Place
    readers: tuple[str, ...]

    @property
    def sentence(self) -> str:
        if self.transaction.commit_asked is None:
            when = f"without any commit request of {_titled(self.transaction)}"
        else:
            when = f"before the commit request of {_titled(self.transaction)}"
        return f"{_names(self.readers)} read {self.send.value!r} at {self.place} {when}"


@dataclass(frozen=True, slots=True)
class NonMonotonicPoll(Anomaly):
    """A consumer went back, or got a record again, without a seek or a rebalance."""

    process: str
    partition: TopicPartition
    expected: int  # the lowest valid next offset
    record: Polled
    within_one_poll: bool

    @property
    def sentence(self) -> str:
        return (
            f"{self.process} had read {self.partition} before offset {self.expected}, then got "
            f"{self.record.value!r} at offset {self.record.offset} {_where(self.within_one_poll)}"
        )


@dataclass(frozen=True, slots=True)
class PollSkip(Anomaly):
    """A consumer skipped records that others saw."""

    process: str
    partition: TopicPartition
    expected: int
    record: Polled
    skipped: tuple[int, ...]
    within_one_poll: bool

    @property
    def sentence(self) -> str:
        skipped = _names(str(each) for each in self.skipped)
        return (
            f"{self.process} was at offset {self.expected} of {self.partition} and got offset "
            f"{self.record.offset} next {_where(self.within_one_poll)}, but others read {skipped}"
        )


@dataclass(frozen=True, slots=True)
class NonMonotonicSend(Anomaly):
    """A producer's later record was acknowledged at a lower offset than its earlier one."""

    earlier: Send
    later: Send

    @property
    def sentence(self) -> str:
        return (
            f"{self.later.process} sent {self.earlier.value!r} and then {self.later.value!r} to "
            f"{self.later.partition}, but they are at offsets {self.earlier.offset} and "
            f"{self.later.offset}"
        )


@dataclass(frozen=True, slots=True)
class TornTransaction(Anomaly):
    """A part of a transaction took effect and another part did not."""

    transaction: RecordedTransaction
    seen: tuple[Send, ...]
    missing: tuple[Send, ...]
    offsets_of: str | None = None  # the group whose offsets are the other part
    offsets_seen: tuple[Place, ...] = ()
    offsets_missing: tuple[Place, ...] = ()

    @property
    def sentence(self) -> str:
        there = [_records(self.seen)] if self.seen else []
        there += [_offsets(self.offsets_of, self.offsets_seen)] if self.offsets_seen else []
        gone = [_records(self.missing)] if self.missing else []
        gone += [_offsets(self.offsets_of, self.offsets_missing)] if self.offsets_missing else []
        return (
            f"of {_titled(self.transaction)}, {self.transaction.ending.value}: "
            f"{' and '.join(there)} took effect, {' and '.join(gone) or 'the rest'} did not"
        )


@dataclass(frozen=True, slots=True)
class LostOffsets(Anomaly):
    """A group's committed offset is not the last commit."""

    group: str
    partition: TopicPartition
    asked_by: str
    found: int | None
    possible: tuple[int, ...]

    @property
    def sentence(self) -> str:
        found = "nothing" if self.found is None else f"offset {self.found}"
        could = _names(str(each) for each in self.possible) or "nothing"
        return (
            f"{self.asked_by} got the answer that group {self.group} has committed {found} for "
            f"{self.partition}, where only {could} was possible"
        )


@dataclass(frozen=True, slots=True)
class NotExactlyOnce(Anomaly):
    """An input with more or fewer outputs than expected."""

    group: str
    source: Place
    value: bytes | None
    committed: int | None  # the group's committed offset in this partition
    outputs: tuple[Send, ...]
    expected: int

    @property
    def sentence(self) -> str:
        value = "" if self.value is None else f" ({self.value!r})"
        found = _records(self.outputs) if self.outputs else "none"
        return (
            f"group {self.group} is at offset {self.committed or 0} of {self.source.partition}, "
            f"so the input at {self.source}{value} should have {self.expected} outputs; "
            f"there are: {found}"
        )


def _send_text(send: Send) -> str:
    where = f"offset {send.offset}" if send.offset is not None else "an unknown offset"
    return f"{send.value!r} is in {send.partition} at {where}"


def _titled(transaction: RecordedTransaction) -> str:
    return (
        f"transaction {transaction.number} of {transaction.process} "
        f"({transaction.transactional_id})"
    )


def _names(texts: Iterable[str]) -> str:
    every = list(texts)
    shown = ", ".join(every[:NAMED_MAX])
    more = len(every) - NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _records(sends: tuple[Send, ...]) -> str:
    return _names(f"{each.value!r} in {each.partition}" for each in sends)


def _offsets(group: str | None, places: tuple[Place, ...]) -> str:
    return f"the progress of group {group} ({_names(str(each) for each in places)})"


def _where(within_one_poll: bool) -> str:
    return "within one poll" if within_one_poll else "in its next poll"
