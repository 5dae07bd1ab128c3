"""Partitioners: equal to Java's where Java has them."""

from collections import Counter
from typing import Any

import pytest
from confluent_kafka.cimpl import murmur2 as library_murmur2
from hypothesis import given
from hypothesis import strategies as some

from penstock.client.partitioners import (
    DEFAULT,
    LibraryPartitioner,
    PartitionerRefused,
    RoundRobin,
    UniformSticky,
    murmur2,
    partition_for_key,
    partitioner_of,
)

# From the tests of Kafka's own class Utils.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", JAVA, ids=repr)
def test_murmur2_is_javas(key: bytes) -> None:
    assert murmur2(key) == JAVA[key]


@given(some.binary(max_size=70), some.integers(1, 1000))
def test_a_key_goes_where_librdkafka_sends_it(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == library_murmur2(key, count)


def test_round_robin_takes_each_partition_by_turns_whatever_the_key() -> None:
    choose = RoundRobin()
    first = [choose("a", b"key", b"", 3) for _ in range(6)]
    assert first[:3] == first[3:] and sorted(first[:3]) == [0, 1, 2]
    assert sorted(choose("b", None, b"", 2) for _ in range(2)) == [0, 1]


def test_a_sticky_partition_is_left_after_about_a_batch() -> None:
    choose = UniformSticky(sticky_bytes=1000)
    chosen = [choose("a", None, bytes(100), 50) for _ in range(1000)]
    assert all(len(set(chosen[begin : begin + 10])) == 1 for begin in range(0, 1000, 10))
    assert len(Counter(chosen)) > 20


def own(_topic: str, _key: bytes | None, _value: bytes | None, _count: int) -> int:
    return 0


class Own:
    def __call__(self, *_record: Any) -> int:
        return 0


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, DEFAULT),
        ("murmur2", LibraryPartitioner("murmur2")),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", DEFAULT),
        (own, own),
    ],
)
def test_what_may_be_said(said: Any, meant: Any) -> None:
    assert partitioner_of(said) == meant


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", RoundRobin),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", UniformSticky),
        ("round_robin", RoundRobin),
        ("penstock.client.partitioners:RoundRobin", RoundRobin),
        (Own, Own),
    ],
)
def test_names_and_classes_are_made(said: Any, kind: type) -> None:
    assert isinstance(partitioner_of(said), kind)


def test_keys_can_be_ignored() -> None:
    assert isinstance(partitioner_of(None, ignores_keys=True), UniformSticky)


@pytest.mark.parametrize("said", ["org.example.Partitioner", "no.such:thing", 7])
def test_nonsense_is_refused_with_what_would_do(said: Any) -> None:
    with pytest.raises(PartitionerRefused, match=r"round_robin|partition_count"):
        partitioner_of(said)
