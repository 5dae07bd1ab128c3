"""Verifies a producer's first write of a transaction to a partition with the coordinator.

For transactions v2 (Produce 12, TxnOffsetCommit 5) the leader adds the partition. Older clients add
it themselves, and the leader verifies that: a late write must not open a transaction without an end
(KIP-890). Later batches of the producer wait behind the first one. A transaction that is open in
the partition needs no request while its producer is verified (verified_producers.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.partitions.partition import Partition, Ticket, unavailable_error
from penstock.broker.partitions.verified_producers import (
    PendingVerification,
    TransactionalBatch,
)
from penstock.broker.transactions.remote_coordinators import ask_coordinator
from penstock.broker.transactions.transactions import ask
from penstock.controller.image import NO_LEADER
from penstock.coordinator.partitions import partition_for
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
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import TRANSACTION_STATE_TOPIC, TopicPartition
from penstock.wire.batch import BASE_SEQUENCE, PRODUCER_EPOCH, PRODUCER_ID, Header
from penstock.world import Buffer, Timer

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker

ADDED_BY_PRODUCE = 12  # from this version on the leader adds partitions
ABORTABLE_FROM = 11  # and from this one on the client knows TRANSACTION_ABORTABLE
# Batches that wait for an answer are copies: their connections go on reading.
WAITING_BYTES_MAX = 64 * 1024 * 1024

Errors = dict[TopicPartition, KafkaError | None]


class VerificationRequest(NamedTuple):
    """Partitions to add to a transaction, or to verify."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic_partitions: tuple[TopicPartition, ...]
    adds: bool


class TxnVerification:
    """Requests to transaction coordinators for this node's partitions."""

    def __init__(self, broker: "TransactionsBroker") -> None:
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
        """Return whether a request is needed: always to add, and by configuration to verify."""
        enabled = self._broker.config.boolean("transaction.partition.verification.enable")
        return adds or enabled

    # ---- Produce

    def produce(
        self,
        transactional_id: str | None,
        version: int,
        arrived: Sequence[tuple[Partition, Buffer, Header, Ticket]],
    ) -> None:
        """Stage the transactional batches of one request after their verification."""
        batches = [TransactionalBatch(*each) for each in arrived]
        producers = {(each.header[PRODUCER_ID], each.header[PRODUCER_EPOCH]) for each in batches}
        if not transactional_id:
            _reject(batches, TransactionalIdAuthorizationFailed("there is no transactional id"))
            return
        if len(producers) > 1:
            _reject(batches, InvalidProducerIdMapping("a request is of one producer"))
            return
        producer = producers.pop()
        first: dict[Partition, list[TransactionalBatch]] = {}
        for batch in batches:
            pending = batch.partition.pending_verifications.get(producer)
            if pending is not None:
                _note_sequence(batch)
                self._wait(pending, batch)
            elif batch.partition.has_open(*producer):
                self._stage(batch)
            else:
                first.setdefault(batch.partition, []).append(batch)
        if first and self.must_ask(version >= ADDED_BY_PRODUCE):
            pending_of = {
                partition: PendingVerification(waiting, partition.leader.epoch)
                for partition, waiting in first.items()
            }
            for waiting in first.values():
                for batch in waiting:
                    _note_sequence(batch)
            self._join(pending_of, transactional_id, producer, version)
        else:
            for waiting in first.values():
                for batch in waiting:
                    self._stage(batch)

    def _join(
        self,
        pending_of: dict[Partition, PendingVerification],
        transactional_id: str,
        producer: tuple[int, int],
        version: int,
    ) -> None:
        adds = version >= ADDED_BY_PRODUCE

        def answered(errors: Errors) -> None:
            for partition, pending in pending_of.items():
                partition.pending_verifications.pop(producer, None)
                error = errors[_topic_partition(partition)]
                if error is None and pending.ended and not adds:
                    # With v2 the log sees it by the epoch.
                    error = InvalidTxnState("the transaction was ended meanwhile")
                self._waiting_bytes -= pending.copied_bytes
                if error is None:
                    error = self._let_in(partition, producer, pending, adds)
                if error is not None:
                    _reject(pending.batches, _for_produce(error, version))

        topic_partitions = tuple(_topic_partition(partition) for partition in pending_of)
        if self.ask(
            VerificationRequest(transactional_id, *producer, topic_partitions, adds), answered
        ):
            return
        for partition, pending in pending_of.items():
            partition.pending_verifications[producer] = pending
            arrived, pending.batches = pending.batches, []
            for batch in arrived:
                self._wait(pending, batch)

    def _wait(self, pending: PendingVerification, batch: TransactionalBatch) -> None:
        size = len(batch.records)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            _reject([batch], NotEnoughReplicas("too much waits for transaction coordinators"))
            return
        self._waiting_bytes += size
        pending.copied_bytes += size
        # The receive buffer is used again when the turn ends.
        pending.batches.append(batch._replace(records=memoryview(bytearray(batch.records))))

    def _let_in(
        self,
        partition: Partition,
        producer: tuple[int, int],
        pending: PendingVerification,
        adds: bool,
    ) -> KafkaError | None:
        """Stage the batches of a verified producer, or return why none is staged."""
        if partition.leader.epoch != pending.leader_epoch:
            # A take-over since then has asked another leader, or one that has forgotten it.
            return NotLeaderOrFollower(f"{partition} has another leader epoch since its request")
        try:
            partition.verified_producers.vouch(*producer)
        except ProducerFenced as fenced:
            return fenced
        for batch in pending.batches:
            try:
                partition.verified_producers.begin(*producer, batch.header[BASE_SEQUENCE])
            except OutOfOrderSequenceNumber as error:
                _reject([batch], error)
            else:
                self._stage(batch, start_at_zero=adds)
        return None

    def _stage(self, batch: TransactionalBatch, *, start_at_zero: bool = False) -> None:
        partition = batch.partition
        if (gone := unavailable_error(partition)) is not None:
            _reject([batch], gone)
            return
        # The rules of access may have changed since the request.
        if (denial := batch.ticket[0].denial(partition.topic, transactional=True)) is not None:
            _reject([batch], denial)
            return
        partition.batches.append((batch.records, batch.header))
        partition.tickets.append(batch.ticket)
        if start_at_zero:
            partition.start_at_zero = (*partition.start_at_zero, batch.header[PRODUCER_ID])
        if not partition.touched:
            self._broker.touch_partition(partition)

    # ---- the request

    def ask(self, question: VerificationRequest, done: Callable[[Errors], None]) -> bool:
        """Add or verify the partitions. Return whether `done` was called already."""
        until = self._broker.world.clock.mono_ms() + self._retry_ms_max
        calls: list[None] = []

        def answered(errors: Errors) -> None:
            calls.append(None)
            done(errors)

        self._try(question, until, answered)
        return bool(calls)

    def _try(
        self, question: VerificationRequest, until: float, done: Callable[[Errors], None]
    ) -> None:
        name, producer_id, epoch, topic_partitions, adds = question

        def answered(result: Any) -> None:
            now_ms = self._broker.world.clock.mono_ms()
            if adds and isinstance(result, ConcurrentTransactions) and now_ms < until:
                # The markers of the former transaction are being written: try again soon.
                self._later(lambda: self._try(question, until, done))
            elif isinstance(result, KafkaError):
                done(dict.fromkeys(topic_partitions, result))
            else:
                done(dict.fromkeys(topic_partitions) if result is None else result)

        coordinator = self._coordinator_of(name)
        if coordinator not in (NO_LEADER, self._broker.node_id):
            ask_coordinator(self._broker, coordinator, question, answered)
        elif adds:
            added = AddPartitions(name, producer_id, epoch, topic_partitions, transactions_v2=True)
            ask(self._broker, name, added, answered)
        else:
            verified = VerifyPartitions(name, producer_id, epoch, topic_partitions)
            ask(self._broker, name, verified, answered)

    def _coordinator_of(self, transactional_id: str) -> int:
        """Return the node that coordinates an id, or NO_LEADER."""
        topic = self._broker.image.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        index = partition_for(transactional_id, len(topic.partitions))
        return topic.partitions[index].leader

    def _later(self, call: Callable[[], None]) -> None:
        world = self._broker.world

        def fire() -> None:
            self._timers.pop(timer, None)
            call()

        timer = world.timers.at(world.clock.mono_ms() + self._retry_ms, fire)
        self._timers[timer] = None


def _topic_partition(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)


def _note_sequence(batch: TransactionalBatch) -> None:
    """Note a batch that may be rejected and retried, unless the log knows its producer."""
    partition, header = batch.partition, batch.header
    producer_id = header[PRODUCER_ID]
    if not partition.knows(producer_id):
        partition.verified_producers.note_sequence(
            producer_id, header[PRODUCER_EPOCH], header[BASE_SEQUENCE]
        )


def _reject(batches: Sequence[TransactionalBatch], error: KafkaError) -> None:
    for batch in batches:
        batch.ticket[0].failed(batch.ticket, error)


def _for_produce(error: KafkaError, version: int) -> KafkaError:
    """Return a coordinator's error for producers; a passing one becomes a retriable error."""
    passing = [CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator]
    if version < ADDED_BY_PRODUCE:
        passing.append(ConcurrentTransactions)
    if isinstance(error, tuple(passing)):
        return NotEnoughReplicas(f"the transaction coordinator says: {error.message}")
    return known_error(error, abortable=version >= ABORTABLE_FROM)


def known_error(error: KafkaError, *, abortable: bool) -> KafkaError:
    """Return a coordinator's error as the version of the client knows it."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, TransactionAbortable) and not abortable:
        return InvalidTxnState(error.message)
    return error
