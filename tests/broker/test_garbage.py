"""Records that nobody can read: stored where nothing looks inside, and never the node's end."""

from collections.abc import Sequence
from typing import Any

import pytest
from broker_garbage import GARBAGE, NOW_MS, raw_batch, records_of
from simulated_node import (
    API_VERSIONS,
    LIST_OFFSETS,
    PRODUCE,
    Bench,
    FakePeer,
    api_versions,
    produce_batch,
    replies,
)

from penstock.broker.handlers import k02_list_offsets as lookups
from penstock.broker.network.connection import BrokerConnection
from penstock.broker.produce import unpacking
from penstock.wire.batch import Record, build_batch
from penstock.wire.compression import GZIP, ZSTD, compress
from penstock.wire.messages import k02_list_offsets as k02

CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP = 2, 87, 32
LARGEST = -3
COMPACTED = {"cleanup.policy": "compact"}


def list_offsets(topic: str, timestamps: Sequence[int]) -> k02.ListOffsetsRequest:
    """One time for each partition."""
    wanted = [
        k02.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        for index, timestamp in enumerate(timestamps)
    ]
    return k02.ListOffsetsRequest(
        replica_id=-1, topics=[k02.ListOffsetsTopic(name=topic, partitions=wanted)]
    )


def ask(
    bench: Bench, connection: BrokerConnection, peer: FakePeer, key: int, message: object
) -> list[Any]:
    """What is told about each partition."""
    bench.receive(connection, bench.frame(key, message))
    bench.settle(1_000)
    assert not peer.closed
    (answer,) = replies(peer, [key])
    if key == PRODUCE:
        told: list[Any] = answer.responses[0].partition_responses
    else:
        told = answer.topics[0].partitions
    return told


def store(bench: Bench, *batches: bytes, topic: str = "t") -> list[int]:
    connection, peer = bench.connect()
    codes = [
        ask(bench, connection, peer, PRODUCE, produce_batch(topic, batch))[0].error_code
        for batch in batches
    ]
    connection.closed()
    return codes


@pytest.mark.parametrize("timestamp", [0, NOW_MS, LARGEST])
@pytest.mark.parametrize("kind", GARBAGE)
def test_a_time_in_stored_garbage_is_an_error_of_that_partition(kind: str, timestamp: int) -> None:
    bench = Bench()
    bench.create_topic("t", 2)
    assert store(bench, GARBAGE[kind]) == [0]
    connection, peer = bench.connect()
    request = list_offsets("t", [timestamp, -1])
    first, second = ask(bench, connection, peer, LIST_OFFSETS, request)
    assert (first.error_code, first.offset) == (CORRUPT_MESSAGE, -1)
    assert (second.error_code, second.offset) == (0, 0)


@pytest.mark.parametrize("kind", ["no varint", "broken zstd", "a bomb"])
def test_garbage_that_must_come_from_disk_is_an_error_too(kind: str) -> None:
    bench = Bench()
    bench.create_topic("t")
    store(bench, GARBAGE[kind])
    again = Bench(disks=bench.stop())
    connection, peer = again.connect()
    (told,) = ask(again, connection, peer, LIST_OFFSETS, list_offsets("t", [0]))
    assert told.error_code == CORRUPT_MESSAGE
    assert len(replies(peer, [])) == 0


def test_garbage_behind_the_record_that_is_looked_for_disturbs_nobody() -> None:
    bench = Bench()
    bench.create_topic("t")
    store(bench, raw_batch(records_of(3), count=3), GARBAGE["no varint"])
    connection, peer = bench.connect()
    (told,) = ask(bench, connection, peer, LIST_OFFSETS, list_offsets("t", [NOW_MS]))
    assert (told.error_code, told.timestamp, told.offset) == (0, NOW_MS, 0)


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_large_batch_is_gone_through_between_turns(codec: int) -> None:
    bench = Bench()
    bench.create_topic("t")
    count = 20 * unpacking.RECORDS_PER_STEP * unpacking.STEPS_PER_TURN
    records = [Record(place, NOW_MS + place, None, b"") for place in range(count)]
    store(bench, build_batch(records, compression=codec))
    asking, heard = bench.connect()
    other, answered = bench.connect()
    target = NOW_MS + count - 1
    bench.receive(asking, bench.frame(LIST_OFFSETS, list_offsets("t", [target])))
    turns = 0
    while not heard.sent:
        bench.simulation.step()
        turns += 1
        if turns == 5:
            bench.receive(other, bench.frame(API_VERSIONS, api_versions()))
            assert answered.sent
            assert not heard.sent
    assert turns >= 20
    (answer,) = replies(heard, [LIST_OFFSETS])
    assert answer.topics[0].partitions[0].offset == count - 1


def test_headers_that_lie_about_time_are_believed_only_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.create_topic("t")
    body = records_of(1_000)
    liar = raw_batch(compress(ZSTD, body), count=1_000, codec=ZSTD, latest_ms=NOW_MS + 1_000)
    assert set(store(bench, *[liar] * 20)) == {0}
    connection, peer = bench.connect()
    request = list_offsets("t", [NOW_MS + 500])
    (told,) = ask(bench, connection, peer, LIST_OFFSETS, request)
    assert (told.error_code, told.offset) == (0, -1)
    monkeypatch.setattr(lookups, "VAIN_BYTES_MAX", 10 * len(body))
    (told,) = ask(bench, connection, peer, LIST_OFFSETS, request)
    assert (told.error_code, told.offset) == (CORRUPT_MESSAGE, -1)


def test_only_a_few_batches_are_unpacked_at_a_time() -> None:
    bench = Bench()
    bench.create_topic("t", 50)
    connection, peer = bench.connect()
    for index in range(50):
        batch = raw_batch(compress(GZIP, records_of(100)), count=100, codec=GZIP)
        bench.receive(connection, bench.frame(PRODUCE, produce_batch("t", batch, index)))
    bench.settle()
    replies(peer, [PRODUCE] * 50)
    asking = [bench.connect() for _ in range(10)]
    for each, _heard in asking:
        bench.receive(each, bench.frame(LIST_OFFSETS, list_offsets("t", [NOW_MS] * 50)))
    most = 0
    while any(not heard.sent for _, heard in asking):
        bench.simulation.step()
        most = max(most, bench.broker.unpacking.unpacked)
    assert 1 <= most <= unpacking.UNPACKED_MAX
    assert bench.broker.unpacking.unpacked == 0


def test_a_lookup_ends_with_its_connection() -> None:
    bench = Bench()
    bench.create_topic("t")
    store(bench, raw_batch(records_of(50_000), count=50_000, latest_ms=NOW_MS + 1))
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(LIST_OFFSETS, list_offsets("t", [NOW_MS + 1])))
    connection.closed()
    bench.settle(1_000)
    assert not peer.sent
    assert bench.broker.unpacking.unpacked == 0


# -- where the node must look inside


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_compacted_topic_takes_no_garbage(kind: str) -> None:
    bench = Bench()
    bench.create_topic("t", configs=COMPACTED)
    assert store(bench, GARBAGE[kind], raw_batch(records_of(1))) == [INVALID_RECORD, 0]
    assert bench.broker.find("t", 0).log.end_offset == 1


@pytest.mark.parametrize("kind", GARBAGE)
def test_a_topic_that_bounds_the_past_takes_no_garbage(kind: str) -> None:
    bench = Bench()
    configs = {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    bench.create_topic("t", configs=configs)
    now_ms = bench.world.clock.wall_ms()
    garbage = bytearray(GARBAGE[kind])
    body, count = bytes(garbage[61:]), int.from_bytes(garbage[57:61])
    batch = raw_batch(body, count=count, codec=garbage[22], base_ms=now_ms - 1, latest_ms=now_ms)
    (code,) = store(bench, batch)
    # Without the time in its header the one that overflows is no garbage.
    assert code == (0 if kind == "a time beyond all times" else INVALID_RECORD)


@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_large_batches_to_a_compacted_topic_are_stored_in_their_order(codec: int) -> None:
    bench = Bench()
    bench.create_topic("t", configs=COMPACTED)
    connection, peer = bench.connect()
    sizes = [10_000, 1, 5_000, 1, 1, 20_000, 1]
    for acks in (1, 0):
        frames = [
            bench.frame(
                PRODUCE,
                produce_batch(
                    "t",
                    raw_batch(compress(codec, records_of(size)), count=size, codec=codec),
                    acks=acks,
                ),
            )
            for size in sizes
        ]
        bench.receive(connection, b"".join(frames))
        bench.settle(1_000)
    told = [each.responses[0].partition_responses[0] for each in replies(peer, [PRODUCE] * 7)]
    assert [each.error_code for each in told] == [0] * 7
    assert [each.base_offset for each in told] == [sum(sizes[:place]) for place in range(7)]
    assert bench.broker.find("t", 0).log.end_offset == 2 * sum(sizes)
    assert not peer.paused


def test_a_record_without_a_key_deep_in_a_batch_is_found() -> None:
    bench = Bench()
    bench.create_topic("t", configs=COMPACTED)
    records = [Record(place, NOW_MS, b"k", b"v") for place in range(9_999)]
    batch = build_batch([*records, Record(9_999, NOW_MS, None, b"v")], compression=ZSTD)
    assert store(bench, batch) == [INVALID_RECORD]


def test_a_record_of_the_far_past_deep_in_a_batch_is_found() -> None:
    bench = Bench()
    bench.create_topic("t", configs={"message.timestamp.before.max.ms": "1000"})
    now_ms = bench.world.clock.wall_ms()
    records = [Record(place, now_ms, b"k", b"v") for place in range(9_999)]
    batch = build_batch([*records, Record(9_999, now_ms - 5_000, None, b"v")])
    assert store(bench, batch) == [INVALID_TIMESTAMP]


def test_others_are_served_while_a_large_batch_is_looked_through() -> None:
    bench = Bench()
    bench.create_topic("t", configs=COMPACTED)
    count = 10 * unpacking.RECORDS_PER_STEP * unpacking.STEPS_PER_TURN
    writer, heard = bench.connect()
    batch = raw_batch(compress(ZSTD, records_of(count)), count=count, codec=ZSTD)
    bench.receive(writer, bench.frame(PRODUCE, produce_batch("t", batch)))
    other, answered = bench.connect()
    bench.receive(other, bench.frame(API_VERSIONS, api_versions()))
    assert answered.sent
    assert not heard.sent
    bench.settle(1_000)
    assert replies(heard, [PRODUCE])[0].responses[0].partition_responses[0].error_code == 0


def test_a_topic_deleted_meanwhile_refuses_what_was_looked_through() -> None:
    bench = Bench()
    bench.create_topic("t", configs=COMPACTED)
    count = 10 * unpacking.RECORDS_PER_STEP * unpacking.STEPS_PER_TURN
    writer, heard = bench.connect()
    batch = raw_batch(records_of(count), count=count)
    bench.receive(writer, bench.frame(PRODUCE, produce_batch("t", batch)))
    bench.broker.find("t", 0).gone = True
    bench.settle(1_000)
    assert replies(heard, [PRODUCE])[0].responses[0].partition_responses[0].error_code == 3


# -- callbacks


@pytest.mark.parametrize("error", [ValueError("odd"), OSError(5, "odd")])
def test_an_exception_while_looking_is_an_answer_and_not_the_end(error: Exception) -> None:
    bench = Bench()
    told: list[object] = []

    def look() -> None:
        raise error

    bench.turn(lambda: bench.broker.when_warm(look, told.append, told.append))
    assert [type(each).__name__ for each in told] == ["UnknownServerError"]
