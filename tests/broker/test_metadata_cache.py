"""Metadata answers joined from kept pieces are what the codec writes in one go."""

import pytest

from penstock.broker.metadata.metadata_cache import MetadataCache, encode_topic, join
from penstock.wire.codec import run_through
from penstock.wire.frame import response_frame
from penstock.wire.messages.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = range(14)


def topic(name: str, partitions: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name,
        topic_id=bytes(range(16)),
        topic_authorized_operations=7,
        partitions=[
            MetadataResponsePartition(
                partition_index=index, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]
            )
            for index in range(partitions)
        ],
    )


def response() -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="a.example", port=9092)],
        cluster_id="some-cluster",
        controller_id=1,
        cluster_authorized_operations=3,
    )


@pytest.mark.parametrize("count", [0, 1, 3, 200])
@pytest.mark.parametrize("version", VERSIONS)
def test_joined_pieces_are_the_bytes_of_the_codec(version: int, count: int) -> None:
    topics = [topic(f"topic-{number}", number % 4) for number in range(count)]
    whole = response()
    whole.topics = topics
    pieces = [run_through(encode_topic(each, version)) for each in topics]
    assert join(response(), pieces, version, 99) == response_frame(3, version, 99, whole)


def test_a_topic_is_kept_per_version_and_question() -> None:
    memo = MetadataCache()
    memo.keep("a", 12, True, b"kept")
    assert memo.find("a", 12, True) == b"kept"
    assert memo.find("a", 12, False) is memo.find("a", 11, True) is None


def test_nothing_is_kept_when_metadata_moves() -> None:
    memo = MetadataCache()
    memo.keep("a", 12, True, b"kept")
    memo.clear()
    assert memo.find("a", 12, True) is None
