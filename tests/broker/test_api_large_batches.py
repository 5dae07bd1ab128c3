"""Offsets by time inside batches that unpack to more than is usually unpacked at once."""

from typing import Any

import pytest
from simulated_node import LIST_OFFSETS, PRODUCE, Bench, produce_batch, replies

from penstock.broker.produce import unpacking
from penstock.errors import CorruptMessage
from penstock.wire.batch import Record, build_batch, seal_batch
from penstock.wire.compression import GZIP, LZ4, SNAPPY, ZSTD
from penstock.wire.messages import k02_list_offsets as k02

NOW_MS = 1_750_000_000_000
RECORDS, RECORD_BYTES = 40, 100_000
LARGEST = -3


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.create_topic("t", 1, {"max.message.bytes": "60000"})
    assert made.broker.find("t", 0).settings.unpacked_bytes_max < RECORDS * RECORD_BYTES
    return made


def store(bench: Bench, batch: bytes) -> None:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce_batch("t", batch)))
    bench.settle()
    [answer] = replies(peer, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == 0


def large(codec: int) -> bytes:
    values = bytes(RECORD_BYTES)
    records = [Record(place, NOW_MS + place, b"k", values) for place in range(RECORDS)]
    return build_batch(records, compression=codec)


def ask(bench: Bench, *timestamps: int) -> list[Any]:
    """All in one go, as several clients would."""
    comers = []
    for timestamp in timestamps:
        connection, peer = bench.connect()
        wanted = k02.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = k02.ListOffsetsTopic(name="t", partitions=[wanted])
        message = k02.ListOffsetsRequest(replica_id=-1, topics=[topic])
        bench.receive(connection, bench.frame(LIST_OFFSETS, message))
        comers.append(peer)
    bench.settle(10_000)
    return [replies(peer, [LIST_OFFSETS])[0].topics[0].partitions[0] for peer in comers]


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_time_is_found_wherever_it_is(bench: Bench, codec: int) -> None:
    store(bench, large(codec))
    answers = ask(bench, NOW_MS, NOW_MS + 17, NOW_MS + RECORDS - 1, NOW_MS + RECORDS, LARGEST)
    assert [each.error_code for each in answers] == [0] * 5
    assert [each.offset for each in answers] == [0, 17, RECORDS - 1, -1, RECORDS - 1]
    assert answers[1].timestamp == NOW_MS + 17


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_beyond_what_can_be_held_nobody_misses_a_record(
    bench: Bench, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "OUTPUT_BYTES_MAX", 2_000_000)
    store(bench, large(codec))
    early, late = ask(bench, NOW_MS + 5, NOW_MS + 30)
    assert (early.offset, early.timestamp) == (5, NOW_MS + 5)
    assert late.error_code == 0
    assert 19 <= late.offset <= 21, "the first record that was not looked at"
    assert late.timestamp == NOW_MS + 30


def test_one_that_lies_about_its_size_is_corrupt(bench: Bench) -> None:
    claim = b"\xff\xff\xff\xff\x0f" + bytes(100)  # four gigabytes, in snappy's own words
    batch = seal_batch(claim, SNAPPY, 1, last_delta=0, times_ms=(NOW_MS, NOW_MS))
    store(bench, batch)
    [answer] = ask(bench, NOW_MS)
    assert answer.error_code == CorruptMessage.code
