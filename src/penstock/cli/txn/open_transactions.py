"""Finds hanging transactions: partitions wait for a marker that no coordinator will send.

A transaction hangs if its coordinator does not know it: the transactional id has expired, or its
open transaction does not include the partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.connection.results import value_of
from penstock.client.admin.coordinator_values import TransactionFilter
from penstock.errors import TransactionalIdNotFound
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.admin.coordinator_values import ProducerState, TransactionDescription


class PartitionTransaction(NamedTuple):
    """An open transaction in one partition."""

    partition: TopicPartition
    producer: "ProducerState"
    start_offset: int


class Coordinated(NamedTuple):
    """Knowledge of coordinators: transactional ids by producer id, and their open transactions."""

    ids: Mapping[int, str]
    described: Mapping[str, "TransactionDescription"]

    def owner(self, partition: TopicPartition, producer_id: int) -> "TransactionDescription | None":
        """Return the transaction whose marker will end this producer's one in a partition."""
        known = self.described.get(self.ids.get(producer_id, ""))
        return known if known is not None and partition in known.partitions else None


def open_transactions(
    producers: Mapping[TopicPartition, Sequence["ProducerState"]],
) -> list[PartitionTransaction]:
    return [
        PartitionTransaction(partition, producer, producer.transaction_start)
        for partition, states in sorted(producers.items())
        for producer in states
        if producer.transaction_start is not None
    ]


def idle_longer_than(
    opened: Sequence[PartitionTransaction], limit_ms: int, now_ms: int
) -> list[PartitionTransaction]:
    """Return transactions whose producer has not written for longer than the limit."""
    return [each for each in opened if now_ms - each.producer.last_timestamp > limit_ms]


def hanging_transactions(
    opened: Sequence[PartitionTransaction], known: Coordinated
) -> list[PartitionTransaction]:
    return [
        each for each in opened if known.owner(each.partition, each.producer.producer_id) is None
    ]


def ask_coordinators(admin: "Admin", producer_ids: Iterable[int]) -> Coordinated:
    """Return the open transactions that coordinators know for these producers.

    An error of one coordinator is raised: without its answer, its transactions would seem to hang.
    """
    asked = tuple(dict.fromkeys(producer_ids))
    if not asked:
        return Coordinated({}, {})
    listed = admin.transactions.list_all(TransactionFilter(producer_ids=asked))
    ids = {each.producer_id: each.transactional_id for each in listed}
    described: dict[str, TransactionDescription] = {}
    for name, found in admin.transactions.describe(list(dict.fromkeys(ids.values()))).items():
        if not isinstance(found, TransactionalIdNotFound):
            described[name] = value_of(found)
    return Coordinated(ids, described)
