"""Produce: what is stored, what is refused, and how the producer hears of it."""

import struct
import time
import zlib
from typing import Any

import pytest
from api_asking import (
    NOW_MS,
    Asker,
    asking,
    batch,
    fetch,
    list_offset,
    new_topic,
    produce,
    produce_request,
    producer_id,
    topic_id,
    versions,
)

from penstock import errors
from penstock.broker.produce.record_errors import FAULTS_MAX, TEXTS_MAX
from penstock.testing.cluster import Cluster
from penstock.wire.batch import (
    BASE_TIMESTAMP,
    HEADER,
    HEADER_BYTES,
    Record,
    batch_headers,
    build_batch,
    read_records,
    seal_batch,
)
from penstock.wire.messages import k00_produce as k00

pytest_plugins = ["api_fixtures"]

LATEST = -1
HOUR_MS = 3_600_000
ZSTD = 4
CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


def _name(asker: Asker, topic: str, version: int) -> str | bytes:
    return topic_id(asker, topic) if version >= 13 else topic


def _end(asker: Asker, topic: str) -> int:
    return list_offset(asker, topic, LATEST).offset


@pytest.mark.parametrize("version", versions(0))
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_batch_gets_the_next_offsets(asker: Asker, topic: str, version: int, acks: int) -> None:
    name = _name(asker, topic, version)
    first = produce(asker, name, batch(b"a", b"b"), version=version, acks=acks)
    # The second goes the fast way where there is one, and must not be told apart.
    second = produce(asker, name, batch(b"c"), version=version, acks=acks)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)


@pytest.mark.parametrize("codec", CODECS, ids=CODECS.values())
def test_a_compressed_batch_is_stored_as_it_came(asker: Asker, topic: str, codec: int) -> None:
    sent = batch(b"value" * 50, b"more" * 50, compression=codec)
    assert produce(asker, topic, sent).error_code == 0
    records = fetch(asker, topic, 0).records
    assert records is not None
    assert bytes(records)[17:] == sent[17:], "beyond the fields that the leader writes"
    assert [each.value for each in read_records(records)] == [b"value" * 50, b"more" * 50]


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_zstd_needs_produce_v7(asker: Asker, topic: str, version: int) -> None:
    answer = produce(asker, topic, batch(b"a", compression=ZSTD), version=version)
    assert answer.error_code == errors.UnsupportedCompressionType.code
    assert _end(asker, topic) == 0


@pytest.mark.parametrize("version", [7, 8, 13])
def test_zstd_is_taken_from_v7_on(asker: Asker, topic: str, version: int) -> None:
    name = _name(asker, topic, version)
    assert produce(asker, name, batch(b"a", compression=ZSTD), version=version).error_code == 0


def _corrupt() -> bytes:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    return bytes(damaged)


def _older_format(magic: int) -> bytes:
    stamp = struct.pack(">q", NOW_MS) if magic else b""
    body = struct.pack(">bb", magic, 0) + stamp + struct.pack(">ii", -1, 1) + b"a"
    content = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(content)) + content


def _with_gap() -> bytes:
    return build_batch([Record(0, NOW_MS, None, b"a"), Record(5, NOW_MS, None, b"b")])


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(None, errors.InvalidRecord, id="no records"),
        pytest.param(b"", errors.InvalidRecord, id="empty records"),
        pytest.param(batch(b"a") + batch(b"b"), errors.InvalidRecord, id="two batches"),
        pytest.param(batch(b"a", control=True), errors.InvalidRecord, id="a control batch"),
        pytest.param(_with_gap(), errors.InvalidRecord, id="a count that is not last delta + 1"),
        pytest.param(batch(), errors.InvalidRecord, id="a batch of nothing"),
        pytest.param(batch(b"a", producer=(7, 0, -1)), errors.InvalidRecord, id="no sequence"),
        pytest.param(_older_format(1), errors.InvalidRecord, id="format 1"),
        pytest.param(_older_format(0), errors.InvalidRecord, id="format 0"),
        pytest.param(_corrupt(), errors.CorruptMessage, id="a wrong checksum"),
        pytest.param(batch(b"x" * 1_100_000), errors.MessageTooLarge, id="too large"),
        pytest.param(
            batch(b"a", timestamp=int(time.time() * 1000) + 2 * HOUR_MS),
            errors.InvalidTimestamp,
            id="from the future",
        ),
    ],
)
@pytest.mark.parametrize("fast", [False, True], ids=["first", "after a good one"])
def test_a_batch_that_may_not_be_stored_is_refused(
    asker: Asker, topic: str, records: bytes | None, error: type[errors.KafkaError], fast: bool
) -> None:
    if fast:
        produce(asker, topic, batch(b"good"))
    answer = produce(asker, topic, records)
    assert (answer.error_code, answer.base_offset) == (error.code, -1)
    assert answer.error_message
    assert _end(asker, topic) == fast


def test_one_refused_partition_does_not_stop_the_others(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster, partitions=3)
    request = produce_request(topic, batch(b"a"))
    request.topic_data[0].partition_data = [
        k00.PartitionProduceData(index=0, records=batch(b"a")),
        k00.PartitionProduceData(index=1, records=_corrupt()),
        k00.PartitionProduceData(index=7, records=batch(b"a")),
        k00.PartitionProduceData(index=2, records=batch(b"a", b"b")),
    ]
    [told] = asker.ask(request, 9).responses
    codes = {each.index: each.error_code for each in told.partition_responses}
    unknown = errors.UnknownTopicOrPartition.code
    assert codes == {0: 0, 1: errors.CorruptMessage.code, 7: unknown, 2: 0}


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_an_unknown_topic_is_an_error_of_its_partition(asker: Asker, version: int) -> None:
    answer = produce(asker, "no-such-topic", batch(b"a"), version=version)
    assert answer.error_code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("unknown", [b"u" * 16, bytes(16)], ids=["random", "zero"])
def test_an_unknown_topic_id_is_an_error_of_its_partition(asker: Asker, unknown: bytes) -> None:
    answer = produce(asker, unknown, batch(b"a"), version=13)
    assert answer.error_code == errors.UnknownTopicId.code


@pytest.mark.parametrize("acks", [2, -2, 17])
def test_acks_other_than_the_known_ones_are_refused(asker: Asker, topic: str, acks: int) -> None:
    answer = produce(asker, topic, batch(b"a"), acks=acks)
    assert answer.error_code == errors.InvalidRequiredAcks.code
    assert _end(asker, topic) == 0


# -- acks=0


@pytest.mark.parametrize("version", versions(0))
def test_acks_0_gets_no_reply(asker: Asker, topic: str, version: int) -> None:
    name = _name(asker, topic, version)
    for _ in range(3):
        asker.send_silently(produce_request(name, batch(b"a"), acks=0), version)
    # The next answer is the next question's: the asker checks the correlation id.
    assert produce(asker, name, batch(b"a"), version=version).base_offset == 3


@pytest.mark.parametrize("fast", [False, True], ids=["first", "after a good one"])
def test_an_error_under_acks_0_closes_the_connection(asker: Asker, topic: str, fast: bool) -> None:
    if fast:
        asker.send_silently(produce_request(topic, batch(b"a"), acks=0), 9)
    asker.send_silently(produce_request(topic, _corrupt(), acks=0), 9)
    assert asker.is_closed()


def test_an_unknown_topic_under_acks_0_closes_the_connection(asker: Asker) -> None:
    asker.send_silently(produce_request("no-such-topic", batch(b"a"), acks=0), 9)
    assert asker.is_closed()


# -- idempotence


def _sequences(asker: Asker, topic: str, producer: int, sequences: list[int]) -> None:
    for sequence in sequences:
        assert produce(asker, topic, batch(b"v", producer=(producer, 0, sequence))).error_code == 0


@pytest.mark.parametrize("sequence", [1, 2, 3, 4, 5])
def test_a_duplicate_of_the_last_five_answers_its_first_offset(
    asker: Asker, topic: str, sequence: int
) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0, 1, 2, 3, 4, 5])
    again = produce(asker, topic, batch(b"v", producer=(producer, 0, sequence)))
    assert (again.error_code, again.base_offset) == (0, sequence)
    assert _end(asker, topic) == 6


def test_a_duplicate_older_than_the_last_five_is_refused(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0, 1, 2, 3, 4, 5])
    again = produce(asker, topic, batch(b"v", producer=(producer, 0, 0)))
    assert again.error_code == errors.OutOfOrderSequenceNumber.code


def test_a_gap_in_the_sequence_is_refused(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0, 1])
    answer = produce(asker, topic, batch(b"v", producer=(producer, 0, 3)))
    assert answer.error_code == errors.OutOfOrderSequenceNumber.code
    assert _end(asker, topic) == 2


def test_an_unknown_producer_may_start_at_any_sequence(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    assert produce(asker, topic, batch(b"v", producer=(producer, 0, 17))).error_code == 0
    assert produce(asker, topic, batch(b"v", producer=(producer, 0, 18))).error_code == 0


def test_a_new_epoch_starts_at_sequence_0(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0, 1])
    wrong = produce(asker, topic, batch(b"v", producer=(producer, 1, 2)))
    right = produce(asker, topic, batch(b"v", producer=(producer, 1, 0)))
    assert wrong.error_code == errors.OutOfOrderSequenceNumber.code
    assert right.error_code == 0


def test_a_stale_epoch_is_an_invalid_producer_epoch(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0])
    produce(asker, topic, batch(b"v", producer=(producer, 1, 0)))
    answer = produce(asker, topic, batch(b"v", producer=(producer, 0, 1)))
    assert answer.error_code == errors.InvalidProducerEpoch.code


def test_the_sequence_wraps_after_the_largest(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    largest = 2**31 - 1
    first = produce(asker, topic, batch(b"v", b"v", producer=(producer, 0, largest)))
    second = produce(asker, topic, batch(b"v", producer=(producer, 0, 1)))
    assert (first.error_code, second.error_code) == (0, 0)


def test_duplicates_in_one_burst_are_stored_once(asker: Asker, topic: str) -> None:
    producer = producer_id(asker)
    for _ in range(3):
        asker.send(produce_request(topic, batch(b"v", producer=(producer, 0, 0))), 9)
    offsets = [asker.receive().responses[0].partition_responses[0].base_offset for _ in range(3)]
    assert offsets == [0, 0, 0]
    assert _end(asker, topic) == 1


def test_a_producer_goes_on_over_another_connection(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    producer = producer_id(asker)
    _sequences(asker, topic, producer, [0, 1])
    with asking(penstock_cluster) as other:
        again = produce(other, topic, batch(b"v", producer=(producer, 0, 1)))
        following = produce(other, topic, batch(b"v", producer=(producer, 0, 2)))
    assert (again.base_offset, following.base_offset) == (1, 2)


# -- what the topic asks for


def test_log_append_time_is_told_and_stored(asker: Asker, penstock_cluster: Cluster) -> None:
    topic = new_topic(penstock_cluster, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    answer = produce(asker, topic, batch(b"a", b"b", timestamp=5))
    records = fetch(asker, topic, 0).records
    assert records is not None
    assert before <= answer.log_append_time_ms <= int(time.time() * 1000)
    stamps = {each.timestamp for each in read_records(records)}
    assert stamps == {answer.log_append_time_ms}


def test_a_compacted_topic_refuses_records_without_a_key(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster, config={"cleanup.policy": "compact"})
    assert produce(asker, topic, batch(b"a")).error_code == errors.InvalidRecord.code
    assert produce(asker, topic, batch(b"a", key=b"k")).error_code == 0


def _some_bad(count: int, bad: set[int], compression: int = 0) -> bytes:
    """A batch in which some records have no key."""
    return build_batch(
        (Record(each, NOW_MS, None if each in bad else b"k", b"v") for each in range(count)),
        compression=compression,
    )


# The second count needs a look between turns.
@pytest.mark.parametrize("count", [100, 2_000])
@pytest.mark.parametrize("codec", [0, ZSTD])
def test_an_answer_names_the_records_without_a_key(
    asker: Asker, penstock_cluster: Cluster, count: int, codec: int
) -> None:
    topic = new_topic(penstock_cluster, config={"cleanup.policy": "compact"})
    bad = set(range(3, count, 10))
    answer = produce(asker, topic, _some_bad(count, bad, codec))
    assert answer.error_code == errors.InvalidRecord.code
    assert {each.batch_index for each in answer.record_errors} == bad
    text = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
    assert answer.record_errors[0].batch_index_error_message == text
    begin = f"One or more records have been rejected due to {len(bad)} record errors in total"
    assert (answer.error_message or "").startswith(begin)
    assert _end(asker, topic) == 0


def test_the_names_of_bad_records_are_bounded(asker: Asker, penstock_cluster: Cluster) -> None:
    topic = new_topic(penstock_cluster, config={"cleanup.policy": "compact"})
    answer = produce(asker, topic, _some_bad(FAULTS_MAX + 1, set(range(FAULTS_MAX + 1)), ZSTD))
    assert len(answer.record_errors) == FAULTS_MAX
    texts = [each.batch_index_error_message for each in answer.record_errors]
    assert texts[TEXTS_MAX - 1]
    assert not any(texts[TEXTS_MAX:])


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("fast", [False, True], ids=["first", "after a good one"])
def test_an_answer_names_the_records_from_the_future(
    asker: Asker, penstock_cluster: Cluster, partitions: int, fast: bool
) -> None:
    topic = new_topic(penstock_cluster, partitions)
    now = int(time.time() * 1000)
    times = now, now + 2 * HOUR_MS, now, now + 3 * HOUR_MS
    late = build_batch(Record(place, each, None, b"v") for place, each in enumerate(times))

    def answers(records: bytes) -> list[Any]:
        request = produce_request(topic, records)
        data = request.topic_data[0].partition_data
        data += [
            k00.PartitionProduceData(index=each, records=records) for each in range(1, partitions)
        ]
        found: list[Any] = asker.ask(request, 9).responses[0].partition_responses
        return found

    if fast:
        answers(batch(b"good"))
    for answer in answers(late):
        assert answer.error_code == errors.InvalidTimestamp.code
        text = "One or more records have been rejected due to invalid timestamp"
        assert answer.error_message == text
        assert [each.batch_index for each in answer.record_errors] == [1, 3]


def test_a_batch_whose_header_claims_the_future_is_refused(asker: Asker, topic: str) -> None:
    honest = batch(b"a")
    header = list(HEADER.unpack_from(honest))
    claimed = (header[BASE_TIMESTAMP], int(time.time() * 1000) + 2 * HOUR_MS)
    lying = seal_batch(honest[HEADER_BYTES:], 0, 1, last_delta=0, times_ms=claimed)
    assert produce(asker, topic, lying).error_code == errors.InvalidTimestamp.code


def test_max_message_bytes_counts_the_whole_batch(asker: Asker, penstock_cluster: Cluster) -> None:
    largest = batch(b"x" * 5_000)
    config = {"max.message.bytes": str(len(largest))}
    topic = new_topic(penstock_cluster, config=config)
    assert produce(asker, topic, largest).error_code == 0
    answer = produce(asker, topic, batch(b"x" * 5_001))
    assert answer.error_code == errors.MessageTooLarge.code


def test_an_old_timestamp_is_refused_where_the_past_is_bounded(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    config = {"message.timestamp.before.max.ms": "60000"}
    topic = new_topic(penstock_cluster, config=config)
    answer = produce(asker, topic, batch(b"a", timestamp=NOW_MS))
    assert answer.error_code == errors.InvalidTimestamp.code


@pytest.mark.parametrize("version", [11, 12, 13])
def test_a_transactional_batch_without_a_transactional_id_is_refused(
    asker: Asker, topic: str, version: int
) -> None:
    name = _name(asker, topic, version)
    records = batch(b"a", producer=(producer_id(asker), 0, 0), transactional=True)
    assert produce(asker, name, records, version=version).error_code != 0
    assert _end(asker, topic) == 0


def test_a_large_request_arrives_in_pieces(asker: Asker, penstock_cluster: Cluster) -> None:
    config = {"max.message.bytes": str(20 << 20)}
    topic = new_topic(penstock_cluster, config=config)
    value = bytes(range(256)) * (40 << 10)
    assert produce(asker, topic, batch(value)).error_code == 0
    records = fetch(asker, topic, 0, partition_bytes_max=1).records
    assert records is not None
    [record] = read_records(records)
    assert record.value == value


def test_the_leader_writes_offset_and_epoch_into_each_batch(asker: Asker, topic: str) -> None:
    produce(asker, topic, batch(b"a", b"b"))
    produce(asker, topic, batch(b"c"))
    records = fetch(asker, topic, 0).records
    assert records is not None
    headers = [header for _, header in batch_headers(records)]
    assert [header[0] for header in headers] == [0, 2]
    assert {header[2] for header in headers} == {0}
