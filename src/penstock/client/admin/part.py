"""The base of Admin's parts, and partitions as arguments of their calls.

A partition is a TopicPartition, or any pair of a topic and a number. Results have TopicPartitions,
which equal plain pairs and can be looked up by them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from penstock.client.cluster.limits import CallLimit
from penstock.client.cluster.routing import Routes
from penstock.model import TopicPartition

V = TypeVar("V")

# TopicPartition is a tuple of these.
Pair: TypeAlias = tuple[str, int]
# Mapping is invariant in its keys, so both types are named.
ByPair: TypeAlias = Mapping[TopicPartition, V] | Mapping[Pair, V]


class AdminPart:
    """A part of one Admin, with its routes and its limit of a call."""

    def __init__(self, routes: Routes, timeout_ms: int) -> None:
        self._routes = routes
        self._timeout_ms = timeout_ms

    @property
    def limit(self) -> CallLimit:
        return self._routes.limit


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
