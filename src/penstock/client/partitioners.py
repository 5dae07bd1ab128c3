"""Partitioners: the choice of a record's partition.

The default is Kafka's: murmur2 over the key, equal to Java's byte for byte; without a key one
partition after the other, each for a while. librdkafka has that and others by name. The Python ones
here, and an application's own function, get the record's bytes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.client.runtime.python_paths import NotThere, load

# (topic, key, value, number of partitions) -> partition
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int]
PartitionerLike: TypeAlias = Partitioner | str | type

STICKY_BYTES = 16_384  # Kafka's batch.size: so much goes to one partition before the next one
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


class PartitionerRefused(ValueError):
    """The argument is no partitioner; the text says what would be one."""


@dataclass(frozen=True, slots=True)
class LibraryPartitioner:
    """A partitioner of librdkafka, by its name; records without a key are sticky."""

    name: str


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash as in Java, signed."""
    size = len(data)
    whole = size & ~3
    mixed = _SEED ^ size
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> 24
        mixed = (mixed * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    if whole < size:
        mixed = (mixed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    mixed ^= mixed >> 13
    mixed = mixed * _MULTIPLIER & _MASK
    mixed ^= mixed >> 15
    return mixed - (1 << 32) if mixed & 0x80000000 else mixed


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key with Kafka's default partitioner."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobin:
    """Partition after partition, regardless of the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(
        self, topic: str, _key: bytes | None, _value: bytes | None, partition_count: int
    ) -> int:
        turn = self._next.get(topic)
        if turn is None:
            turn = random.randrange(partition_count)
        self._next[topic] = turn + 1
        return turn % partition_count


class UniformSticky:
    """A random partition for about one batch, then another, regardless of the key."""

    def __init__(self, sticky_bytes: int = STICKY_BYTES) -> None:
        self._sticky_bytes = sticky_bytes
        self._at: dict[str, tuple[int, int]] = {}

    def __call__(
        self, topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int:
        partition, written = self._at.get(topic, (-1, 0))
        if not 0 <= partition < partition_count or written >= self._sticky_bytes:
            partition, written = random.randrange(partition_count), 0
        size = (0 if key is None else len(key)) + (0 if value is None else len(value))
        self._at[topic] = (partition, written + size)
        return partition


DEFAULT = LibraryPartitioner("murmur2_random")
_LIBRARY = (
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
)
_OWN: dict[str, type[RoundRobin] | type[UniformSticky]] = {
    "round_robin": RoundRobin,
    "uniform_sticky": UniformSticky,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobin,
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": UniformSticky,
}
_JAVA_DEFAULTS = (
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
    "org.apache.kafka.clients.producer.internals.BuiltInPartitioner",
)
NAMES = (*_LIBRARY, *_OWN, *_JAVA_DEFAULTS)


def partitioner_of(
    said: object | None, *, ignores_keys: bool = False
) -> "LibraryPartitioner | Partitioner":
    """Return the partitioner of a producer's argument; None is Kafka's default."""
    if isinstance(said, LibraryPartitioner):
        return said
    if said is None or said in _JAVA_DEFAULTS:
        return UniformSticky() if ignores_keys else DEFAULT
    if isinstance(said, str):
        if said in _LIBRARY:
            return LibraryPartitioner(said)
        if said in _OWN:
            return _OWN[said]()
    try:
        made = load(said) if isinstance(said, str) else said
    except NotThere as error:
        raise PartitionerRefused(
            f"no partitioner {said}: {error}. Say package.module:name, or one of {', '.join(NAMES)}"
        ) from error
    if isinstance(made, type):
        made = made()
    if not callable(made):
        raise PartitionerRefused(
            f"{said!r} is no partitioner: it takes (topic, key, value, partition_count) and "
            "returns the partition"
        )
    chosen: Partitioner = made
    return chosen
