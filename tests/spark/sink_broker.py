"""A cluster as the sink's protocol sees it, with the facts of Kafka's transactions and no more.

One coordinator for every transactional id, partitions as lists. An EndTxn only decides; markers are
written later, and whoever comes in between is told that the id is busy. Version 4 keeps a
producer's epoch at the end of a transaction, version 5 moves it on.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from penstock.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from penstock.model import TopicPartition
from penstock.spark.sink.decisions import END_VERSION_V2


class State(Enum):
    EMPTY = auto()
    ONGOING = auto()
    PREPARE_COMMIT = auto()
    PREPARE_ABORT = auto()
    COMPLETE_COMMIT = auto()
    COMPLETE_ABORT = auto()


PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass
class Transaction:
    producer_id: int
    epoch: int
    timeout_ms: int | None
    state: State = State.EMPTY
    partitions: list[TopicPartition] = field(default_factory=list)
    started_ms: int = 0


class Entry(NamedTuple):
    """A record of somebody, or the marker that ends what it has open here."""

    producer_id: int | None
    value: object
    committed: bool | None = None


class Broker:
    def __init__(self, *, end_version: int) -> None:
        self.end_version = end_version
        self.now_ms = 1_000_000
        self.ids: dict[str, Transaction] = {}
        self.logs: dict[TopicPartition, list[Entry]] = {}
        self._sequences: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._next_producer_id = 1_000

    # ---- the coordinator

    def init(self, name: str, timeout_ms: int | None) -> tuple[int, int]:
        """Aborts what the id has open, whoever holds it."""
        known = self.ids.get(name)
        if known is None:
            self._next_producer_id += 1
            self.ids[name] = known = Transaction(self._next_producer_id, 0, timeout_ms)
            return known.producer_id, known.epoch
        if known.state is State.ONGOING:
            self._fence(known)
        if known.state in PREPARED:
            raise ConcurrentTransactions
        known.epoch += 1
        known.state = State.EMPTY
        known.timeout_ms = timeout_ms
        return known.producer_id, known.epoch

    def _fence(self, known: Transaction) -> None:
        known.epoch += 1
        known.state = State.PREPARE_ABORT

    def add(self, name: str, producer_id: int, epoch: int, place: TopicPartition) -> None:
        known = self._known(name, producer_id)
        if known.state in PREPARED:
            raise ConcurrentTransactions
        if epoch != known.epoch:
            raise ProducerFenced
        if known.state is not State.ONGOING:
            known.state = State.ONGOING
            known.partitions = []
            known.started_ms = self.now_ms
        if place not in known.partitions:
            known.partitions.append(place)

    def end(
        self, name: str, producer_id: int, epoch: int, *, commit: bool, version: int
    ) -> tuple[int, int]:
        known = self._known(name, producer_id)
        if known.state in PREPARED:
            raise ConcurrentTransactions
        prepared, complete = (
            (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
            if commit
            else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
        )
        v2 = version >= END_VERSION_V2
        again = known.epoch - 1 if v2 else known.epoch
        if epoch == again and known.state in COMPLETE:
            if known.state is not complete:
                raise InvalidTxnState
            return producer_id, known.epoch
        if epoch != known.epoch:
            raise ProducerFenced
        if known.state is State.ONGOING:
            known.state = prepared
            known.epoch += v2
            return producer_id, known.epoch
        if v2 and not commit:
            known.state = State.COMPLETE_ABORT
            known.epoch += 1
            return producer_id, known.epoch
        raise InvalidTxnState

    def _known(self, name: str, producer_id: int) -> Transaction:
        known = self.ids.get(name)
        if known is None or known.producer_id != producer_id:
            raise InvalidProducerIdMapping
        return known

    @property
    def ending(self) -> list[str]:
        """The ids whose markers are not written yet."""
        return [name for name, each in self.ids.items() if each.state in PREPARED]

    def write_markers(self, name: str) -> None:
        known = self.ids[name]
        committed = known.state is State.PREPARE_COMMIT
        for place in known.partitions:
            self.log(place).append(Entry(known.producer_id, None, committed))
        known.state = State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT
        known.partitions = []

    def abort_timed_out(self) -> None:
        for each in self.ids.values():
            if each.state is State.ONGOING and each.timeout_ms is not None:
                if self.now_ms - each.started_ms > each.timeout_ms:
                    self._fence(each)

    def open(self) -> list[tuple[str, Transaction]]:
        return [(name, each) for name, each in self.ids.items() if each.state is State.ONGOING]

    # ---- the partitions

    def log(self, place: TopicPartition) -> list[Entry]:
        return self.logs.setdefault(place, [])

    def append_plain(self, place: TopicPartition, value: object) -> None:
        self.log(place).append(Entry(None, value))

    def produce(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        sequence: int,
        place: TopicPartition,
        value: object,
        *,
        transactions_v2: bool,
    ) -> None:
        """The leader asks the coordinator first: a fenced producer writes nothing."""
        known = self._sequences.get((place, producer_id), (-1, -1))
        if known[0] > epoch:
            raise InvalidProducerEpoch
        if known[0] == epoch and sequence <= known[1]:
            return  # a duplicate, whoever sent it
        if transactions_v2:
            try:
                self.add(name, producer_id, epoch, place)
            except ProducerFenced:
                raise InvalidProducerEpoch from None
        else:
            self._verify(name, producer_id, epoch, place)
        self._sequences[place, producer_id] = (epoch, sequence)
        self.log(place).append(Entry(producer_id, value))

    def _verify(self, name: str, producer_id: int, epoch: int, place: TopicPartition) -> None:
        known = self._known(name, producer_id)
        if epoch != known.epoch:
            raise InvalidProducerEpoch
        if known.state is not State.ONGOING or place not in known.partitions:
            raise InvalidTxnState

    def committed(self, place: TopicPartition) -> list[object]:
        """What a reader of committed records has seen when nothing is open any more."""
        entries = self.log(place)
        return [
            entry.value
            for number, entry in enumerate(entries)
            if entry.committed is None and self._counts(entries, number)
        ]

    def _counts(self, entries: list[Entry], number: int) -> bool:
        producer_id = entries[number].producer_id
        if producer_id is None:
            return True
        for later in entries[number + 1 :]:
            if later.producer_id == producer_id and later.committed is not None:
                return later.committed
        return False

    def last_stable(self, place: TopicPartition) -> int:
        entries = self.log(place)
        unstable: dict[int | None, int] = {}
        for number, entry in enumerate(entries):
            if entry.committed is not None:
                unstable.pop(entry.producer_id, None)
            elif entry.producer_id is not None:
                unstable.setdefault(entry.producer_id, number)
        return min(unstable.values(), default=len(entries))
