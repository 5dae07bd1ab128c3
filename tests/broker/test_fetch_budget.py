"""What does not fit into one Fetch answer comes with the next ones, session or not."""

from collections.abc import Iterator

import pytest

from penstock.client.transport.connection import Connection
from penstock.testing import Cluster
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

TOPIC = "budget"
PARTITIONS = 5
BATCH_BYTES = 50_000
ROOM_FOR_ONE = 60_000
VERSION = 12


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Cluster() as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        with Connection(*cluster.address) as connection:
            fill(connection)
            yield connection


def fill(connection: Connection) -> None:
    batch = build_batch([Record(0, 1000, None, bytes(BATCH_BYTES))])
    partitions = [PartitionProduceData(index=i, records=batch) for i in range(PARTITIONS)]
    topic = TopicProduceData(name=TOPIC, partition_data=partitions)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    connection.request(request, ProduceResponse, VERSION)


def fetch(
    connection: Connection,
    session: tuple[int, int],
    offsets: dict[int, int],
    *,
    bytes_max: int = ROOM_FOR_ONE,
) -> FetchResponse:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=ROOM_FOR_ONE)
        for index, offset in offsets.items()
    ]
    topics = [FetchTopic(topic=TOPIC, partitions=partitions)] if partitions else []
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=bytes_max,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )
    return connection.request(request, FetchResponse, VERSION)


def with_records(answer: FetchResponse) -> list[int]:
    return [
        partition.partition_index
        for topic in answer.responses
        for partition in topic.partitions
        if partition.records
    ]


def test_a_session_gets_every_partition_though_only_one_fits_an_answer(
    connection: Connection,
) -> None:
    answer = fetch(connection, (0, 0), dict.fromkeys(range(PARTITIONS), 0))
    seen = with_records(answer)
    for epoch in range(1, PARTITIONS):
        read = dict.fromkeys(with_records(answer), 1)
        answer = fetch(connection, (answer.session_id, epoch), read)
        seen += with_records(answer)
    assert sorted(seen) == list(range(PARTITIONS))


def test_an_answer_keeps_to_its_bytes(connection: Connection) -> None:
    answer = fetch(connection, (0, -1), dict.fromkeys(range(PARTITIONS), 0))
    assert len(with_records(answer)) == 1


def test_what_was_not_acknowledged_by_a_new_offset_is_sent_again(
    connection: Connection,
) -> None:
    first = fetch(connection, (0, 0), {0: 0})
    again = fetch(connection, (first.session_id, 1), {})
    assert with_records(first) == with_records(again) == [0]


def test_partitions_that_always_have_more_take_turns(connection: Connection) -> None:
    """Each has three batches, and one fits an answer: nobody gets a second before all had one."""
    fill(connection)
    fill(connection)
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    answer = fetch(connection, (0, 0), offsets)
    turns = []
    for epoch in range(1, 2 * PARTITIONS + 1):
        [last] = with_records(answer)
        offsets[last] += 1
        answer = fetch(connection, (answer.session_id, epoch), {last: offsets[last]})
        turns += with_records(answer)
    assert sorted(turns[:PARTITIONS]) == list(range(PARTITIONS))
    assert turns[:PARTITIONS] == turns[PARTITIONS:]


def test_a_broker_gives_no_more_than_fetch_max_bytes_whatever_is_asked_for() -> None:
    with Cluster({"fetch.max.bytes": ROOM_FOR_ONE}) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        with Connection(*cluster.address) as connection:
            fill(connection)
            offsets = dict.fromkeys(range(PARTITIONS), 0)
            answer = fetch(connection, (0, -1), offsets, bytes_max=1 << 30)
    assert len(with_records(answer)) == 1


def test_without_that_limit_a_larger_answer_comes(connection: Connection) -> None:
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    answer = fetch(connection, (0, -1), offsets, bytes_max=1 << 30)
    assert len(with_records(answer)) == PARTITIONS
