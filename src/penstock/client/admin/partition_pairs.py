"""Partitions as arguments: a TopicPartition, or any pair of a topic and a number.

The admin client reads all its partition arguments here. Results have TopicPartitions, which equal
plain pairs and can be looked up by them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from penstock.model import TopicPartition

V = TypeVar("V")

# TopicPartition is a tuple of these.
Pair: TypeAlias = tuple[str, int]
# Mapping is invariant in its keys, so both types are named.
ByPair: TypeAlias = Mapping[TopicPartition, V] | Mapping[Pair, V]


def partition_of(said: Pair) -> TopicPartition:
    """Return the partition. Raise TypeError if `said` is no pair of a topic and a number."""
    match said:
        case [str(topic), int(partition)] if not isinstance(partition, bool):
            return TopicPartition(topic, partition)
    raise TypeError(f"a partition is a pair such as ('orders', 0), and {said!r} is none")


def partitions_of(said: Iterable[Pair]) -> list[TopicPartition]:
    return [partition_of(each) for each in said]


def by_partition(said: ByPair[V]) -> dict[TopicPartition, V]:
    return {partition_of(place): value for place, value in said.items()}
