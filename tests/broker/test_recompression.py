"""Batches of topics with a compression.type: what is stored, in which order, and who waits."""

import random
from typing import Any

import pytest
from crc32c import crc32c
from held_workers import HeldWorkers
from simulated_node import (
    PRODUCE,
    VERSIONS,
    Bench,
    FakePeer,
    correlation_ids,
    produce_batch,
    replies,
)

from penstock.broker.network.connection import BrokerConnection
from penstock.broker.produce.recompression import RUNS_MAX
from penstock.errors import InvalidRecord, MessageTooLarge, UnknownTopicOrPartition
from penstock.wire.batch import (
    ATTRIBUTES,
    CODEC_MASK,
    CRC_POSITION,
    CRC_START,
    PREFIX,
    Record,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD
from penstock.wire.frame import request_frame
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k44_incremental_alter_configs as k44

NOW_MS = 1_750_000_000_000
VALUE = b"a value that packs well " * 20
TOPIC_TYPE, SET, ALTER_CONFIGS, DELETE_TOPICS = 2, 0, 44, 20


def packed(
    *values: bytes, codec: int = NONE, sequence: int | None = None, key: bytes = b"k"
) -> bytes:
    records = [Record(place, NOW_MS + place, key, value) for place, value in enumerate(values)]
    if sequence is None:
        return build_batch(records, compression=codec)
    return build_batch(
        records, compression=codec, producer_id=7, producer_epoch=0, base_sequence=sequence
    )


def with_topic(**configs: str) -> Bench:
    bench = Bench()
    bench.create_topic("t", 2, {name.replace("_", "."): value for name, value in configs.items()})
    return bench


def send(
    bench: Bench, connection: BrokerConnection, batch: bytes, partition: int = 0, *, acks: int = -1
) -> None:
    message = produce_batch("t", batch, partition, acks=acks)
    bench.receive(connection, bench.frame(PRODUCE, message))


def told(peer: FakePeer, count: int) -> list[Any]:
    answers = replies(peer, [PRODUCE] * count)
    return [each.responses[0].partition_responses[0] for each in answers]


def stored(bench: Bench, partition: int = 0) -> bytes:
    files = bench.world.disks["data"].files()
    return files[f"t-{partition}/00000000000000000000.log"]


def values(bench: Bench, partition: int = 0) -> list[bytes | None]:
    data = stored(bench, partition)
    batches = [data[at : at + 12 + header[1]] for at, header in batch_headers(data)]
    return [record.value for each in batches for record in read_records(each)]


def codecs(bench: Bench, partition: int = 0) -> list[int]:
    headers = batch_headers(stored(bench, partition))
    return [header[ATTRIBUTES] & CODEC_MASK for _, header in headers]


def alter(bench: Bench, key: str, value: str) -> None:
    entry = k44.AlterableConfig(name=key, config_operation=SET, value=value)
    resource = k44.AlterConfigsResource(
        resource_type=TOPIC_TYPE, resource_name="t", configs=[entry]
    )
    connection, peer = bench.connect()
    message = k44.IncrementalAlterConfigsRequest(resources=[resource])
    bench.receive(connection, request_frame(ALTER_CONFIGS, 1, 1, "test", message))
    bench.simulation.run_until(lambda: bool(peer.sent))


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("target", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec_becomes_that_of_the_topic(codec: int, target: int) -> None:
    bench = with_topic(compression_type="uncompressed" if target == NONE else NAMES[target])
    connection, peer = bench.connect()
    send(bench, connection, packed(VALUE, b"two", codec=codec))
    bench.settle()
    assert [(each.error_code, each.base_offset) for each in told(peer, 1)] == [(0, 0)]
    assert codecs(bench) == [target]
    assert values(bench) == [VALUE, b"two"]


def test_a_batch_in_the_codec_of_the_topic_is_stored_byte_by_byte() -> None:
    bench = with_topic(compression_type="gzip", compression_gzip_level="1")
    connection, _ = bench.connect()
    sent = packed(VALUE, codec=GZIP)
    send(bench, connection, sent)
    bench.settle()
    assert stored(bench)[PREFIX.size :] == sent[PREFIX.size :]
    assert bench.broker.recompression.recompressed == 0


@pytest.mark.parametrize("size", [10, 300, 20_000, 3_000_000])
def test_batches_in_the_codec_of_the_topic_take_the_fast_way(size: int) -> None:
    bench = with_topic(compression_type="gzip")
    memo = bench.broker.produce_cache
    connection, peer = bench.connect()
    noise = random.Random(1).randbytes(min(size, 20_000)) + bytes(size)
    send(bench, connection, packed(b"first", codec=GZIP))
    misses = memo.misses
    for _ in range(3):
        send(bench, connection, packed(noise, codec=GZIP))
    assert memo.misses == misses
    send(bench, connection, packed(noise[:500], codec=LZ4))
    send(bench, connection, packed(b"behind it", codec=GZIP))
    assert memo.misses == misses + 2, "it must not overtake"
    bench.settle()
    send(bench, connection, packed(b"last", codec=GZIP))
    assert memo.misses == misses + 2
    assert [each.base_offset for each in told(peer, 7)] == list(range(7))
    assert codecs(bench) == [GZIP] * 7
    assert values(bench)[4:] == [noise[:500], b"behind it", b"last"]


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(GZIP, "1", "9"), (LZ4, "9", "12"), (ZSTD, "-50", "19")]
)
def test_levels_are_honoured_and_can_be_changed_in_use(codec: int, low: str, high: str) -> None:
    dice = random.Random(3)
    text = b" ".join(dice.choice((b"lorem", b"ipsum", b"dolor")) for _ in range(5_000))
    key = f"compression.{NAMES[codec]}.level"
    bench = with_topic(**{"compression_type": NAMES[codec], key.replace(".", "_"): low})
    connection, _ = bench.connect()
    send(bench, connection, packed(text))
    bench.settle()
    before = len(stored(bench))
    alter(bench, key, high)
    send(bench, connection, packed(text))
    bench.settle()
    assert len(stored(bench)) - before < before
    assert values(bench) == [text, text]


def test_what_comes_later_waits_behind_a_batch_that_is_being_recompressed() -> None:
    bench = with_topic(compression_type="lz4")
    workers = HeldWorkers(bench)
    first, heard_first = bench.connect()
    second, heard_second = bench.connect(FakePeer(("10.0.0.2", 1)))
    send(bench, first, packed(b"first", codec=ZSTD))
    send(bench, second, packed(b"second", codec=LZ4))  # in the right codec already
    send(bench, second, packed(b"third", codec=GZIP))
    assert not heard_first.sent and not heard_second.sent
    workers.work(1)  # the third
    bench.settle()
    assert not heard_second.sent
    workers.work()
    bench.settle()
    assert values(bench) == [b"first", b"second", b"third"]
    assert [each.base_offset for each in told(heard_second, 2)] == [1, 2]


def test_other_partitions_of_the_same_connection_go_on() -> None:
    bench = with_topic(compression_type="lz4")
    workers = HeldWorkers(bench)
    connection, peer = bench.connect()
    send(bench, connection, packed(b"waits", codec=ZSTD))
    send(bench, connection, packed(b"goes on", codec=LZ4), partition=1)
    bench.settle()
    assert values(bench, 1) == [b"goes on"]
    assert not peer.sent, "answers leave in the order of the questions"
    workers.work()
    bench.settle()
    ids = correlation_ids(peer)
    assert ids == sorted(ids) and len(ids) == 2


def test_sequences_are_right_however_the_workers_end() -> None:
    bench = with_topic(compression_type="snappy")
    workers = HeldWorkers(bench)
    connection, peer = bench.connect()
    for sequence in range(3):
        send(bench, connection, packed(b"%d" % sequence, codec=ZSTD, sequence=sequence))
    send(bench, connection, packed(b"1", codec=ZSTD, sequence=1))  # once more
    for _ in range(len(workers.tasks)):
        workers.work(-1)
    bench.settle()
    answers = told(peer, 4)
    assert [each.error_code for each in answers] == [0, 0, 0, 0]
    assert [each.base_offset for each in answers] == [0, 1, 2, 1]
    assert values(bench) == [b"0", b"1", b"2"]


def test_a_broken_batch_is_refused_and_those_behind_it_are_not() -> None:
    bench = with_topic(compression_type="lz4")
    connection, peer = bench.connect()
    broken = bytearray(packed(VALUE, codec=GZIP))
    broken[80] ^= 0xFF
    broken[CRC_POSITION : CRC_POSITION + 4] = crc32c(bytes(broken[CRC_START:])).to_bytes(4)
    send(bench, connection, bytes(broken))
    send(bench, connection, packed(b"good", codec=GZIP))
    bench.settle()
    assert [each.error_code for each in told(peer, 2)] == [InvalidRecord.code, 0]
    assert values(bench) == [b"good"]


def test_a_batch_that_unpacks_beyond_the_ceiling_is_refused() -> None:
    bench = with_topic(compression_type="lz4", max_message_bytes="10000")
    ceiling = bench.broker.find("t", 0).settings.unpacked_bytes_max
    connection, peer = bench.connect()
    send(bench, connection, packed(bytes(ceiling + 1), codec=ZSTD))
    bench.settle()
    assert [each.error_code for each in told(peer, 1)] == [InvalidRecord.code]


def test_the_size_counts_before_and_after() -> None:
    bench = with_topic(compression_type="uncompressed", max_message_bytes="1000")
    connection, peer = bench.connect()
    send(bench, connection, packed(random.Random(1).randbytes(1_000), codec=ZSTD))
    send(bench, connection, packed(bytes(1_000), codec=ZSTD))  # fits as it comes only
    send(bench, connection, packed(bytes(800), codec=ZSTD))
    bench.settle()
    answers = told(peer, 3)
    assert [each.error_code for each in answers] == [MessageTooLarge.code, MessageTooLarge.code, 0]
    assert "compression.type" in answers[1].error_message
    assert values(bench) == [bytes(800)]


def test_a_batch_too_large_as_it_comes_is_refused_even_if_the_topic_would_pack_it() -> None:
    bench = with_topic(compression_type="zstd", max_message_bytes="1000")
    connection, peer = bench.connect()
    send(bench, connection, packed(bytes(2_000)))
    bench.settle()
    assert [each.error_code for each in told(peer, 1)] == [MessageTooLarge.code]


def test_append_time_is_set_on_recompressed_batches() -> None:
    bench = with_topic(compression_type="gzip", message_timestamp_type="LogAppendTime")
    connection, peer = bench.connect()
    send(bench, connection, packed(b"x", codec=LZ4))
    bench.settle()
    [answer] = told(peer, 1)
    [record] = read_records(stored(bench))
    assert record.timestamp == answer.log_append_time_ms >= NOW_MS


def test_keys_are_asked_for_on_compacted_topics_all_the_same() -> None:
    bench = with_topic(compression_type="gzip", cleanup_policy="compact")
    connection, peer = bench.connect()
    keyless = build_batch([Record(0, NOW_MS, None, b"v")], compression=LZ4)
    send(bench, connection, keyless)
    send(bench, connection, packed(b"keyed", codec=LZ4))
    bench.settle()
    assert [each.error_code for each in told(peer, 2)] == [InvalidRecord.code, 0]
    assert codecs(bench) == [GZIP]


def test_back_to_producer_nothing_overtakes_what_waits() -> None:
    bench = with_topic(compression_type="gzip")
    workers = HeldWorkers(bench)
    connection, peer = bench.connect()
    send(bench, connection, packed(b"0", sequence=0))
    alter(bench, "compression.type", "producer")
    for sequence in range(1, 4):
        send(bench, connection, packed(b"%d" % sequence, sequence=sequence))
    workers.work()
    bench.settle()
    for sequence in range(4, 6):
        send(bench, connection, packed(b"%d" % sequence, sequence=sequence))
    bench.settle()
    assert [each.error_code for each in told(peer, 6)] == [0] * 6
    assert codecs(bench) == [GZIP, NONE, NONE, NONE, NONE, NONE]
    assert bench.broker.find("t", 0).plain


def test_a_topic_deleted_meanwhile_answers_with_that() -> None:
    bench = with_topic(compression_type="gzip")
    workers = HeldWorkers(bench)
    connection, peer = bench.connect()
    send(bench, connection, packed(b"x"))
    other, heard = bench.connect(FakePeer(("10.0.0.2", 1)))
    request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    bench.receive(other, request_frame(DELETE_TOPICS, 5, 1, "test", request))
    bench.simulation.run_until(lambda: bool(heard.sent))
    workers.work()
    bench.settle()
    assert [each.error_code for each in told(peer, 1)] == [UnknownTopicOrPartition.code]
    assert bench.broker.backpressure.requests == 0


def test_no_more_than_a_few_workers_are_asked_at_a_time() -> None:
    bench = with_topic(compression_type="gzip")
    workers = HeldWorkers(bench)
    connection, peer = bench.connect()
    for _ in range(50):
        send(bench, connection, packed(VALUE))
    assert len(workers.tasks) == RUNS_MAX
    done = 0
    while workers.tasks:
        workers.work()
        done += 1
    bench.settle()
    assert done < 50, "small batches share their way"
    assert [each.base_offset for each in told(peer, 50)] == list(range(50))


def test_a_stop_waits_for_what_is_not_answered() -> None:
    bench = with_topic(compression_type="gzip")
    connection, _ = bench.connect()
    send(bench, connection, packed(b"without an answer"), acks=0)
    disks = bench.stop()
    assert b"without an answer" not in disks["data"].files()["t-0/00000000000000000000.log"]
    again = Bench(disks=disks)
    assert values(again) == [b"without an answer"]


@pytest.mark.parametrize("seed", range(20))
def test_any_mix_of_codecs_producers_and_changes_keeps_every_order(seed: int) -> None:
    chance = random.Random(seed)
    bench = with_topic(compression_type=chance.choice(("producer", "gzip", "zstd")))
    peers = [bench.connect(FakePeer(("10.0.0.1", 5_000 + n))) for n in range(3)]
    sent = [0, 0, 0]
    for _ in range(60):
        place = chance.randrange(3)
        padding = bytes(chance.choice((1, 1, 9_000)))
        record = Record(0, NOW_MS, b"k", b"%d:%d:" % (place, sent[place]) + padding)
        batch = build_batch(
            [record],
            compression=chance.randrange(5),
            producer_id=place,
            producer_epoch=0,
            base_sequence=sent[place],
        )
        sent[place] += 1
        send(bench, peers[place][0], batch)
        if chance.random() < 0.1:
            alter(bench, "compression.type", chance.choice(("producer", "lz4", "uncompressed")))
        if chance.random() < 0.3:
            bench.settle(chance.choice((0, 1, 10)))
    bench.settle(1_000)
    for (_, peer), count in zip(peers, sent, strict=True):
        assert [each.error_code for each in told(peer, count)] == [0] * count
    read = [value.split(b":")[:2] for value in values(bench) if value is not None]
    for place, count in enumerate(sent):
        mine = [int(number) for name, number in read if int(name) == place]
        assert mine == list(range(count))
    assert bench.broker.backpressure.requests == 0
    assert bench.broker.frames.lent_bytes == 0


assert VERSIONS[PRODUCE] >= 9, "the fast way takes part"
