"""The events of a transaction coordinator, its answers and its sends.

Plain values instead of requests: leaders of partitions ask the same questions as clients do.
`transactions_v2` is the protocol of the client. With version 2 (KIP-890) every end of a transaction
bumps the epoch, so that late requests are recognised.
"""

from dataclasses import dataclass

from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

# ---- what is asked


@dataclass(frozen=True, slots=True)
class TransactionalIdEvent:
    """An event about one transactional id."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class InitProducer(TransactionalIdEvent):
    """InitProducerId with a transactional id. `new_producer_id` is an unused id, if one was drawn.

    `producer_id` and `producer_epoch` are the last identity of a producer that goes on.
    """

    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    two_phase_commit: bool = False
    keep_prepared: bool = False
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions(TransactionalIdEvent):
    """These partitions take part from now on; the first ones begin the transaction."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    transactions_v2: bool = False


@dataclass(frozen=True, slots=True)
class VerifyPartitions(TransactionalIdEvent):
    """The question whether these partitions take part already. Changes nothing."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction(TransactionalIdEvent):
    producer_id: int
    producer_epoch: int
    committed: bool
    transactions_v2: bool = True
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class MarkersWritten(TransactionalIdEvent):
    """Every partition of a prepared transaction has its marker, or is gone."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class DescribeTransaction(TransactionalIdEvent):
    """The question for the transaction of an id. Changes nothing."""


@dataclass(frozen=True, slots=True)
class ListTransactionalIds:
    """All ids, or those that pass every filter that is given."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


# ---- what is answered


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """The identity of a producer, and of the transaction that was kept open for it, if any."""

    producer_id: int
    producer_epoch: int
    ongoing_producer_id: int = NO_PRODUCER_ID
    ongoing_producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """Ask again with an unused producer id: the machine cannot draw one."""


# ---- what is sent


@dataclass(frozen=True, slots=True)
class ProducerTakenOver:
    """A new owner has taken over the open transaction of a producer. Before the owner gets its
    answer, these partitions stop accepting records of the producer without verification."""

    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """End a transaction in its partitions, then say MarkersWritten to the machine."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transactions_v2: bool
    partitions: tuple[TopicPartition, ...]
