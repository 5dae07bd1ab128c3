"""Which open transactions hang: partitions wait for a marker that no coordinator will send.

A transaction hangs if its producer's coordinator does not know of it: the transactional id is gone,
or the partition is not part of what the id has open. Asks nobody.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.coordinator_values import ProducerState, TransactionDescription


class OpenTransaction(NamedTuple):
    """As a partition knows it."""

    partition: TopicPartition
    producer: "ProducerState"
    start_offset: int


class Coordinated(NamedTuple):
    """What coordinators know: the id behind each producer id, and what that id has open."""

    ids: Mapping[int, str]
    described: Mapping[str, "TransactionDescription"]

    def owner(self, partition: TopicPartition, producer_id: int) -> "TransactionDescription | None":
        """Whose marker will end what this producer has open in a partition."""
        known = self.described.get(self.ids.get(producer_id, ""))
        return known if known is not None and partition in known.partitions else None


def open_transactions(
    producers: Mapping[TopicPartition, Sequence["ProducerState"]],
) -> list[OpenTransaction]:
    return [
        OpenTransaction(partition, producer, producer.transaction_start)
        for partition, states in sorted(producers.items())
        for producer in states
        if producer.transaction_start is not None
    ]


def idle_longer_than(
    opened: Sequence[OpenTransaction], limit_ms: int, now_ms: int
) -> list[OpenTransaction]:
    """Those whose producer has written nothing for longer than the limit."""
    return [each for each in opened if now_ms - each.producer.last_timestamp > limit_ms]


def hanging(opened: Sequence[OpenTransaction], known: Coordinated) -> list[OpenTransaction]:
    return [
        each for each in opened if known.owner(each.partition, each.producer.producer_id) is None
    ]
