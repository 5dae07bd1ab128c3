"""A transactional id: its producer, and the state of its transaction.

A value for each moment; records of __transaction_state are its only source, and each holds all of
it. With two-phase commit (KIP-939) a transaction that was kept open for a new owner has two
identities. The producer's own pair has written the records, and the markers need it. The owner uses
the next pair.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from penstock.coordinator.records import CoordinatorRecord
from penstock.coordinator.transactions.events import ListTransactionalIds, WriteMarkers
from penstock.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    KafkaError,
    UnknownServerError,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from penstock.wire.records.transaction import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

EPOCH_MAX = 2**15 - 1
# A client never gets the very last epoch, so that its producer can always be fenced.
CLIENT_EPOCH_MAX = EPOCH_MAX - 1
# How the record spells "no time limit": a participant of a two-phase commit.
NO_TIMEOUT_MS = 2**31 - 1
VERSION_1, VERSION_2 = 0, 2  # the client's transaction version, as Kafka writes it


class TxnStatus(IntEnum):
    """The numbers of the record. The last two are never stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Return the state as DescribeTransactions spells it: "PrepareCommit"."""
        return "".join(word.capitalize() for word in self.name.split("_"))


TITLES = {status.title: status for status in TxnStatus}
STATUSES = frozenset(status.value for status in TxnStatus)
PREPARED = (TxnStatus.PREPARE_COMMIT, TxnStatus.PREPARE_ABORT)


class TxnProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int

    @property
    def exhausted(self) -> bool:
        """Return whether the client can get no further epoch and needs a new producer id."""
        return self.epoch >= CLIENT_EPOCH_MAX


NO_PRODUCER = TxnProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    transactional_id: str
    producer: TxnProducerIdentity
    timeout_ms: int
    status: TxnStatus = TxnStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    version: int = VERSION_1
    # The id before a rotation: a client that did not hear of it asks again under this one.
    previous_producer_id: int = NO_PRODUCER_ID
    # With an epoch: the owner of a kept transaction. Without one: the id after a rotation.
    next: TxnProducerIdentity = NO_PRODUCER

    @property
    def kept(self) -> bool:
        """Return whether a new owner has taken over the transaction; the owner may only end it."""
        return self.next.epoch != NO_PRODUCER_EPOCH

    @property
    def client(self) -> TxnProducerIdentity:
        """Return the identity that the client uses."""
        return self.next if self.kept else self.producer

    @property
    def prepared(self) -> bool:
        return self.status in PREPARED

    @property
    def still_ending(self) -> ConcurrentTransactions:
        """Return the error for requests during the end of the transaction."""
        return ConcurrentTransactions(f"the markers of {self.transactional_id!r} are being written")

    @property
    def has_no_timeout(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def expires(self) -> bool:
        """Return whether the id may be removed after a long idle time."""
        return not self.prepared and self.status is not TxnStatus.ONGOING

    # ---- the steps of a transaction

    def added(
        self, partitions: Iterable[TopicPartition], version: int, now_ms: int
    ) -> "TransactionMetadata":
        begun = self.status is TxnStatus.ONGOING
        return replace(
            self,
            status=TxnStatus.ONGOING,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if begun else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def prepared_v1(self, status: TxnStatus, now_ms: int) -> "TransactionMetadata":
        return replace(self, status=status, updated_ms=now_ms, version=VERSION_1)

    def prepared_v2(
        self, status: TxnStatus, now_ms: int, rotated: int | None
    ) -> "TransactionMetadata":
        """Return the prepared transaction. Its markers get the next epoch, so late writes of this
        epoch are fenced. `rotated` is the client's new producer id when its epochs are used up."""
        client = self.client
        if rotated is not None:
            following = TxnProducerIdentity(rotated, 0 if self.kept else NO_PRODUCER_EPOCH)
        elif self.kept:
            following = TxnProducerIdentity(client.producer_id, client.epoch + 1)
        else:
            following = self.next
        return replace(
            self,
            status=status,
            producer=TxnProducerIdentity(self.producer.producer_id, self.producer.epoch + 1),
            previous_producer_id=client.producer_id,
            next=following,
            started_ms=self.started_ms if self.status is TxnStatus.ONGOING else now_ms,
            updated_ms=now_ms,
            version=VERSION_2,
        )

    def fenced(self, now_ms: int) -> "TransactionMetadata":
        """Return the transaction on its way to the abort, under an epoch that no client has."""
        assert self.producer.epoch < EPOCH_MAX, "a client never has the last epoch"
        return self.prepared_v2(TxnStatus.PREPARE_ABORT, now_ms, None)

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """Return the completed transaction; the client goes on with its next identity."""
        committed = self.status is TxnStatus.PREPARE_COMMIT
        if self.kept:
            producer = self.next
        elif self.next.producer_id != NO_PRODUCER_ID:
            producer = TxnProducerIdentity(self.next.producer_id, 0)
        else:
            producer = self.producer
        return replace(
            self,
            status=TxnStatus.COMPLETE_COMMIT if committed else TxnStatus.COMPLETE_ABORT,
            producer=producer,
            next=NO_PRODUCER,
            partitions=frozenset(),
            updated_ms=now_ms,
        )

    def markers(self, coordinator_epoch: int) -> WriteMarkers:
        assert self.prepared, "partitions get decided markers only"
        return WriteMarkers(
            self.transactional_id,
            self.producer.producer_id,
            self.producer.epoch,
            coordinator_epoch,
            self.status is TxnStatus.PREPARE_COMMIT,
            self.version == VERSION_2,
            tuple(sorted(self.partitions)),
        )

    # ---- as it is stored

    def record(self) -> CoordinatorRecord:
        topics: dict[str, PartitionsSchema] = {}
        for topic, index in sorted(self.partitions):
            topics.setdefault(topic, PartitionsSchema(topic=topic)).partition_ids.append(index)
        value = TransactionLogValue(
            producer_id=self.producer.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next.producer_id,
            producer_epoch=self.producer.epoch,
            next_producer_epoch=self.next.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=(
                None if self.status is TxnStatus.EMPTY else list(topics.values())
            ),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.version,
        )
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), value)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def from_record(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata | None:
    """Return the transaction of a record; None for an id that is about to be removed."""
    status = TxnStatus(value.transaction_status)
    if status is TxnStatus.DEAD:
        return None
    return TransactionMetadata(
        transactional_id,
        TxnProducerIdentity(value.producer_id, value.producer_epoch),
        value.transaction_timeout_ms,
        # On its way to an abort that was not written: still open, and its timer will end it.
        TxnStatus.ONGOING if status is TxnStatus.PREPARE_EPOCH_FENCE else status,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        value.previous_producer_id,
        TxnProducerIdentity(value.next_producer_id, value.next_producer_epoch),
    )


class EpochBump(NamedTuple):
    """A client was moved on to another epoch, and may not have heard of it."""

    expected_epoch: int
    given: TxnProducerIdentity


class TransactionStore:
    """All ids of one partition of __transaction_state."""

    def __init__(self) -> None:
        self._known: dict[str, TransactionMetadata] = {}
        # Volatile: Kafka's record does not hold it. A repeated request after a restart is
        # answered with PRODUCER_FENCED, and the producer starts again.
        self._bumps: dict[str, EpochBump] = {}
        self._set_aside: dict[str, str] = {}  # ids whose record cannot be replayed, and why

    def __iter__(self) -> Iterator[TransactionMetadata]:
        return iter(self._known.values())

    def names(self) -> list[str]:
        return list(self._known)

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the metadata of an id, if known; raise UnknownServerError if the id was set
        aside."""
        if transactional_id in self._set_aside:
            raise UnknownServerError(
                f"{transactional_id!r} was set aside: {self._set_aside[transactional_id]}. Use "
                "another transactional.id, and end what it left open (kafka-transactions abort)."
            )
        return self._known.get(transactional_id)

    def existing(
        self, transactional_id: str, missing: type[KafkaError] = InvalidProducerIdMapping
    ) -> TransactionMetadata:
        known = self.find(transactional_id)
        if known is None:
            raise missing(f"{transactional_id!r} is not known")
        return known

    def listed(self, wanted: ListTransactionalIds, now_ms: int) -> list[TransactionMetadata]:
        return [
            each
            for each in self._known.values()
            if (not wanted.producer_ids or each.producer.producer_id in wanted.producer_ids)
            and (not wanted.states or each.status.title in wanted.states)
            and (wanted.longer_than_ms < 0 or now_ms - each.started_ms > wanted.longer_than_ms)
        ]

    def set_aside(self, transactional_id: str, problem: Exception) -> None:
        """Serve the id no more, until a later record says all of it again."""
        self._forget(transactional_id)
        self._set_aside[transactional_id] = repr(problem)[:200]

    def replay(self, record: CoordinatorRecord) -> None:
        match record:
            case CoordinatorRecord(TransactionLogKey(transactional_id=name), None):
                self._forget(name)
            case CoordinatorRecord(
                TransactionLogKey(transactional_id=name), TransactionLogValue() as value
            ):
                self._learn(name, value)
            case _:
                pass  # a kind of record that we do not know

    def _learn(self, transactional_id: str, value: TransactionLogValue) -> None:
        if value.transaction_status not in STATUSES:
            return  # of a newer server
        transaction = from_record(transactional_id, value)
        if transaction is None:
            self._forget(transactional_id)
        else:
            self._set_aside.pop(transactional_id, None)
            self._known[transactional_id] = transaction

    def _forget(self, transactional_id: str) -> None:
        self._known.pop(transactional_id, None)
        self._set_aside.pop(transactional_id, None)
        self._bumps.pop(transactional_id, None)

    # ---- repeated questions

    def note_bump(
        self, transactional_id: str, expected_epoch: int, given: TxnProducerIdentity
    ) -> None:
        """Note that the client with the expected epoch has the given identity now."""
        self._bumps[transactional_id] = EpochBump(expected_epoch, given)

    def forget_bump(self, transactional_id: str) -> None:
        """Forget the bump of a producer that another one has replaced."""
        self._bumps.pop(transactional_id, None)

    def is_repeated_bump(self, transaction: TransactionMetadata, expected_epoch: int) -> bool:
        """Return whether a client with this epoch repeats its request. A bump whose record the log
        rejected names an identity that the transaction does not have."""
        bump = self._bumps.get(transaction.transactional_id)
        return bump == EpochBump(expected_epoch, transaction.producer)
