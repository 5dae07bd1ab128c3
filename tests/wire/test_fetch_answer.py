"""A Fetch answer written around file ranges is byte for byte what the codec writes."""

import random

import pytest

from penstock.testing.sim.disk import MemoryDisk
from penstock.wire.fetch_answer import NO_TAGS, PartitionAnswer, Tagged, fetch_answer, joined
from penstock.wire.frame import response_frame
from penstock.wire.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from penstock.wire.structures import NodeEndpoint
from penstock.world import FileRange, Part

VERSIONS = range(4, 19)


def random_partition(
    dice: random.Random, version: int, index: int
) -> tuple[PartitionAnswer, PartitionData]:
    aborted = dice.choice((None, [], [(7, 1), (2**40, 99)]))
    content = dice.randbytes(dice.choice((0, 1, 200, 70_000)))
    records: Part = content
    if len(content) > 1000:
        file = MemoryDisk().open("a", create=True)
        file.append([b"before", content, b"after"])
        records = FileRange(file, 6, len(content))
    tagged = Tagged()
    if version >= 12 and dice.random() < 0.3:
        tagged = Tagged((3, 77), dice.choice((None, (1, 5))))
    high, stable, start = (dice.randrange(-1, 2**62) for _ in range(3))
    error_code = dice.choice((0, 0, 1, 74))
    tags = NO_TAGS if tagged == Tagged() else tagged.encode()
    answer = PartitionAnswer(index, error_code, high, stable, start, aborted, records, tags)
    wanted = PartitionData(
        partition_index=index,
        error_code=error_code,
        high_watermark=high,
        last_stable_offset=stable,
        log_start_offset=start,
        aborted_transactions=None
        if aborted is None
        else [AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
        records=content,
    )
    if tagged.diverging_epoch is not None:
        epoch, end = tagged.diverging_epoch
        wanted.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
    if tagged.current_leader is not None:
        leader, epoch = tagged.current_leader
        wanted.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return answer, wanted


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_write_the_same_bytes(version: int, seed: int) -> None:
    dice = random.Random(f"{version}/{seed}")
    response = FetchResponse(session_id=dice.choice((0, 12345)) if version >= 7 else 0)
    topics: list[tuple[str | bytes, list[PartitionAnswer]]] = []
    for number in range(dice.randrange(4)):
        pairs = [random_partition(dice, version, index) for index in range(dice.randrange(4))]
        name, topic_id = f"topic-{number}", dice.randbytes(16)
        topics.append((topic_id if version >= 13 else name, [answer for answer, _ in pairs]))
        response.responses.append(
            FetchableTopicResponse(
                topic=name, topic_id=topic_id, partitions=[wanted for _, wanted in pairs]
            )
        )
    error_code = dice.choice((0, 70))
    response.error_code = error_code
    if version >= 16:
        response.node_endpoints = [
            NodeEndpoint(
                node_id=number,
                host="h" * dice.choice((0, 9, 200)),
                port=dice.randrange(2**16),
                rack=dice.choice((None, "", "rack")),
            )
            for number in range(dice.randrange(3))
        ]
    parts = fetch_answer(
        version, 42, error_code, response.session_id, topics, response.node_endpoints
    )
    assert joined(parts) == response_frame(1, version, 42, response)
