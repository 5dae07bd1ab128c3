"""The input and the output of an assignor."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

# By topic id. Immutable by agreement: assignments are shared between old and new states.
Assignment: TypeAlias = Mapping[bytes, frozenset[int]]


class Subscriber(NamedTuple):
    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]  # those that exist
    assigned: Assignment  # its target so far
    rack_id: str | None = None


class Subscribers(NamedTuple):
    members: Sequence[Subscriber]  # in a stable order
    partitions: Mapping[bytes, int]  # how many a topic has, for every topic subscribed to
    racks: Mapping[bytes, Sequence[frozenset[str]]] = MappingProxyType({})  # of their replicas

    @property
    def alike(self) -> bool:
        """Return whether all members are subscribed to the same topics."""
        return len({member.topics for member in self.members}) <= 1

    def racks_of(self, topic: bytes, partition: int) -> frozenset[str]:
        of_topic = self.racks.get(topic, ())
        return of_topic[partition] if partition < len(of_topic) else frozenset()


Assignor: TypeAlias = Callable[[Subscribers], dict[str, Assignment]]
