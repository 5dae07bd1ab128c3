"""Before a producer's first write of a transaction to a partition, its coordinator hears of it.

Clients of transactions v2 (Produce 12, TxnOffsetCommit 5) leave it to the leader to add the
partition. Older ones add it themselves, and the leader asks whether they did: a write that comes
late must not open a transaction that nobody ends (KIP-890). Later batches of the same producer
wait behind the first, in order. A transaction that is open in the partition needs no question
while its coordinator vouches for the producer (admission.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.partition import Partition, absence
from penstock.broker.produce_memo import Ticket
from penstock.broker.transactions import ask
from penstock.coordinator.transactions.events import AddPartitions, VerifyPartitions
from penstock.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import TopicPartition
from penstock.wire.batch import BASE_SEQUENCE, PRODUCER_EPOCH, PRODUCER_ID, Header
from penstock.world import Buffer, Timer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

ADDED_BY_PRODUCE = 12  # from this version on the leader adds partitions
ABORTABLE_FROM = 11  # and from this one on the client knows TRANSACTION_ABORTABLE
# Batches that wait for an answer are copies: their connections go on reading.
WAITING_BYTES_MAX = 64 * 1024 * 1024

Errors = dict[TopicPartition, KafkaError | None]


class Batch(NamedTuple):
    """A transactional batch that has passed every other check."""

    partition: Partition
    records: Buffer
    header: Header
    ticket: Ticket


class Joining:
    """The batches of one producer that wait at one partition."""

    __slots__ = ("batches", "copied_bytes", "ended")

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        self.copied_bytes = 0
        self.ended = False  # a marker came while they waited


class Question(NamedTuple):
    """What the coordinator is asked about."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: tuple[TopicPartition, ...]
    adds: bool


class Joins:
    """Asks on behalf of this node's partitions."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        self._retry_ms = config.integer("add.partitions.to.txn.retry.backoff.ms")
        self._retry_ms_max = config.integer("add.partitions.to.txn.retry.backoff.max.ms")
        self._waiting_bytes = 0
        self._timers: dict[Timer, None] = {}

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def must_ask(self, adds: bool) -> bool:
        """Whether older clients are checked can be configured; adding is never left out."""
        enabled = self._broker.config.boolean("transaction.partition.verification.enable")
        return adds or enabled

    # ---- Produce

    def produce(
        self,
        transactional_id: str | None,
        version: int,
        arrived: Sequence[tuple[Partition, Buffer, Header, Ticket]],
    ) -> None:
        """Stage the transactional batches of one request, as soon as they may be."""
        batches = [Batch(*each) for each in arrived]
        producers = {(each.header[PRODUCER_ID], each.header[PRODUCER_EPOCH]) for each in batches}
        if not transactional_id:
            _refuse(batches, TransactionalIdAuthorizationFailed("there is no transactional id"))
            return
        if len(producers) > 1:
            _refuse(batches, InvalidProducerIdMapping("a request is of one producer"))
            return
        producer = producers.pop()
        first: dict[Partition, list[Batch]] = {}
        for batch in batches:
            joining = batch.partition.joining.get(producer)
            if joining is not None:
                _note(batch)
                self._wait(joining, batch)
            elif batch.partition.has_open(*producer):
                self._stage(batch)
            else:
                first.setdefault(batch.partition, []).append(batch)
        if first and self.must_ask(version >= ADDED_BY_PRODUCE):
            joinings = {partition: Joining(waiting) for partition, waiting in first.items()}
            for waiting in first.values():
                for batch in waiting:
                    _note(batch)
            self._join(joinings, transactional_id, producer, version)
        else:
            for waiting in first.values():
                for batch in waiting:
                    self._stage(batch)

    def _join(
        self,
        joinings: dict[Partition, Joining],
        transactional_id: str,
        producer: tuple[int, int],
        version: int,
    ) -> None:
        adds = version >= ADDED_BY_PRODUCE

        def answered(errors: Errors) -> None:
            for partition, joining in joinings.items():
                partition.joining.pop(producer, None)
                error = errors[_place(partition)]
                if error is None and joining.ended and not adds:
                    # With v2 the log sees it by the epoch.
                    error = InvalidTxnState("the transaction was ended meanwhile")
                self._waiting_bytes -= joining.copied_bytes
                if error is None:
                    self._let_in(partition, producer, joining.batches, adds)
                else:
                    _refuse(joining.batches, _for_produce(error, version))

        places = tuple(_place(partition) for partition in joinings)
        if self.ask(Question(transactional_id, *producer, places, adds), answered):
            return
        for partition, joining in joinings.items():
            partition.joining[producer] = joining
            arrived, joining.batches = joining.batches, []
            for batch in arrived:
                self._wait(joining, batch)

    def _wait(self, joining: Joining, batch: Batch) -> None:
        size = len(batch.records)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            _refuse([batch], NotEnoughReplicas("too much waits for transaction coordinators"))
            return
        self._waiting_bytes += size
        joining.copied_bytes += size
        # The receive buffer is used again when the turn ends.
        joining.batches.append(batch._replace(records=memoryview(bytearray(batch.records))))

    def _let_in(
        self, partition: Partition, producer: tuple[int, int], batches: list[Batch], adds: bool
    ) -> None:
        partition.admission.vouch(*producer)
        for batch in batches:
            try:
                partition.admission.begin(*producer, batch.header[BASE_SEQUENCE])
            except OutOfOrderSequenceNumber as error:
                _refuse([batch], error)
            else:
                self._stage(batch, start_at_zero=adds)

    def _stage(self, batch: Batch, *, start_at_zero: bool = False) -> None:
        partition = batch.partition
        if (gone := absence(partition)) is not None:
            _refuse([batch], gone)
            return
        partition.batches.append((batch.records, batch.header))
        partition.tickets.append(batch.ticket)
        if start_at_zero:
            partition.start_at_zero = (*partition.start_at_zero, batch.header[PRODUCER_ID])
        if not partition.touched:
            self._broker.touch_partition(partition)

    # ---- the question

    def ask(self, question: Question, done: Callable[[Errors], None]) -> bool:
        """Add the partitions, or verify them. True if `done` was called before this returned."""
        until = self._broker.world.clock.mono_ms() + self._retry_ms_max
        calls: list[None] = []

        def answered(errors: Errors) -> None:
            calls.append(None)
            done(errors)

        self._try(question, until, answered)
        return bool(calls)

    def _try(self, question: Question, until: float, done: Callable[[Errors], None]) -> None:
        name, producer_id, epoch, places, adds = question
        event = (
            AddPartitions(name, producer_id, epoch, places, transactions_v2=True)
            if adds
            else VerifyPartitions(name, producer_id, epoch, places)
        )

        def answered(result: Any) -> None:
            now_ms = self._broker.world.clock.mono_ms()
            if adds and isinstance(result, ConcurrentTransactions) and now_ms < until:
                # The markers of the transaction before are being written: soon they will be.
                self._later(lambda: self._try(question, until, done))
            elif isinstance(result, KafkaError):
                done(dict.fromkeys(places, result))
            else:
                done(dict.fromkeys(places) if result is None else result)

        ask(self._broker, name, event, answered)

    def _later(self, call: Callable[[], None]) -> None:
        world = self._broker.world

        def fire() -> None:
            self._timers.pop(timer, None)
            call()

        timer = world.timers.at(world.clock.mono_ms() + self._retry_ms, fire)
        self._timers[timer] = None


def _place(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


def _note(batch: Batch) -> None:
    """It may be refused and come again. Where the log knows the producer, its sequences count."""
    partition, header = batch.partition, batch.header
    producer_id = header[PRODUCER_ID]
    if not partition.knows(producer_id):
        partition.admission.came(producer_id, header[PRODUCER_EPOCH], header[BASE_SEQUENCE])


def _refuse(batches: Sequence[Batch], error: KafkaError) -> None:
    for batch in batches:
        batch.ticket[0].failed(batch.ticket, error)


def _for_produce(error: KafkaError, version: int) -> KafkaError:
    """As producers understand it: what will pass is an error that they retry without a thought."""
    passing = [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator]
    if version < ADDED_BY_PRODUCE:
        passing.append(ConcurrentTransactions)
    if isinstance(error, tuple(passing)):
        return NotEnoughReplicas(f"the transaction coordinator says: {error.message}")
    return known_error(error, abortable=version >= ABORTABLE_FROM)


def known_error(error: KafkaError, *, abortable: bool) -> KafkaError:
    """A coordinator's error in the words of a producer's client."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, TransactionAbortable) and not abortable:
        return InvalidTxnState(error.message)
    return error
