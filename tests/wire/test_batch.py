"""Record batches: what a producer may send, and records in and out."""

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from depth import examples
from penstock.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    UnsupportedCompressionType,
)
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    CODEC_MASK,
    COMMIT_MARKER,
    HEADER,
    LAST_OFFSET_DELTA,
    TRANSACTIONAL,
    CorruptBatch,
    Header,
    Record,
    batch_headers,
    build_batch,
    build_marker,
    check_produced,
    increment_sequence,
    needs_time_check,
    read_marker,
    read_records,
    recompress_batch,
    skim_records,
    skim_start,
    stamp_append_time,
    unpack_batch,
    unpack_start,
    write_varint,
)
from penstock.wire.compression import ZSTD
from penstock.wire.primitives import Malformed

NOW_MS = 1_700_000_000_000


def good(**fields: int) -> bytes:
    data = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS + 1, None, b"w")])
    return changed(data, **fields)


NAMES = [
    *("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "delta"),
    *("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "sequence", "count"),
]


def changed(data: bytes, **fields: int) -> bytes:
    values = list(HEADER.unpack_from(data))
    for name, value in fields.items():
        values[NAMES.index(name)] = value
    out = bytearray(data)
    HEADER.pack_into(out, 0, *values)
    if "crc" not in fields:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def header_of(data: bytes) -> Header:
    header: Header = HEADER.unpack_from(data)
    return header


def test_a_good_batch_is_its_header() -> None:
    assert check_produced(memoryview(good())) == header_of(good())
    idempotent = good(producer_id=5, producer_epoch=0, sequence=0, attributes=0x10)
    assert check_produced(memoryview(idempotent))[9] == 5


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", InvalidRecord),
        (good()[:60], InvalidRecord),
        (good()[:-1], InvalidRecord),
        (good() + b"x", InvalidRecord),
        (good() + good(), InvalidRecord),
        (good(magic=1), InvalidRecord),
        (good(magic=0), InvalidRecord),
        (good(magic=3), InvalidRecord),
        (good(magic=1)[:30], InvalidRecord),
        (good(length=10), InvalidRecord),
        (good(length=-1), InvalidRecord),
        (good(length=2**31 - 1), InvalidRecord),
        (good(count=1), InvalidRecord),
        (good(count=0, delta=-1), InvalidRecord),
        (good(count=-1, delta=-2), InvalidRecord),
        (good(count=3), InvalidRecord),
        (good(attributes=0x20), InvalidRecord),
        (good(attributes=0x08), InvalidTimestamp),
        (good(attributes=5), UnsupportedCompressionType),
        (good(attributes=7), UnsupportedCompressionType),
        (good(producer_id=1, producer_epoch=0, sequence=-1), InvalidRecord),
        (good(crc=1), CorruptMessage),
    ],
)
def test_what_a_producer_may_not_send(data: bytes, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check_produced(memoryview(data))


def test_any_changed_bit_that_the_checksum_covers_is_found() -> None:
    data = good()
    for place in range(21, len(data)):
        bad = bytearray(data)
        bad[place] ^= 1 << (place % 8)
        with pytest.raises(KafkaError):
            check_produced(memoryview(bytes(bad)))


def test_append_time_is_stamped_on_the_batch_and_seen_on_its_records() -> None:
    stamped = stamp_append_time(good(), 123)
    header = header_of(stamped)
    assert (header[5] & 8, header[8]) == (8, 123)
    assert header[4] == crc32c(stamped[21:])
    assert [record.timestamp for record in read_records(stamped)] == [123, 123]
    assert stamp_append_time(good(), 123)[43:] == good()[43:]


records_strategy = st.lists(
    st.builds(
        lambda timestamp, key, value, headers: Record(0, timestamp, key, value, headers),
        st.integers(0, 2**41),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(150, few=40))
@given(records_strategy, st.integers(0, 4), st.integers(0, 2**40), st.booleans())
def test_records_come_out_as_they_went_in(
    records: list[Record], codec: int, base_offset: int, transactional: bool
) -> None:
    for place, record in enumerate(records):
        record.offset = base_offset + 2 * place
    data = build_batch(
        records,
        base_offset=base_offset,
        compression=codec,
        producer_id=9,
        producer_epoch=3,
        base_sequence=4,
        transactional=transactional,
        leader_epoch=6,
    )
    assert list(read_records(data)) == records
    header = header_of(data)
    assert header[8] == max(record.timestamp for record in records)
    assert header[2] == 6
    assert header[6] == 2 * (len(records) - 1)


@settings(max_examples=examples(60, few=20))
@given(records_strategy, st.integers(0, 4))
def test_kafka_python_reads_our_batches_and_we_read_its(records: list[Record], codec: int) -> None:
    for place, record in enumerate(records):
        record.offset = place
    theirs = MemoryRecords(build_batch(records, compression=codec)).next_batch()
    assert theirs.validate_crc()
    seen = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    ours = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
    assert seen == ours
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 2**20)
    for record in records:
        builder.append(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            [(name, b"" if content is None else content) for name, content in record.headers],
        )
    data = bytes(builder.build())
    check_produced(memoryview(data))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in read_records(data)] == [
        each[:4] for each in ours
    ]


@pytest.mark.parametrize("codec", range(5))
def test_a_broken_batch_is_malformed_and_nothing_else(codec: int) -> None:
    dice = random.Random(codec)
    records = [Record(place, NOW_MS, b"key", b"value" * 5, [("h", b"x")]) for place in range(5)]
    data = build_batch(records, compression=codec)
    for _ in range(3_000):
        bad = bytearray(data[: dice.randrange(len(data))] if dice.random() < 0.2 else data)
        for _ in range(dice.randrange(1, 4)):
            if bad:
                bad[dice.randrange(len(bad))] = dice.randrange(256)
        try:
            found = list(read_records(bytes(bad), 10_000))
        except Malformed:
            continue
        assert len(found) < 10_000


def test_records_that_contradict_the_header_are_malformed() -> None:
    data = good()
    for bad in (changed(data, count=1), changed(data, count=3), changed(data, count=2**31 - 1)):
        with pytest.raises(Malformed):
            list(read_records(bad))
    with pytest.raises(Malformed):
        list(read_records(changed(data, magic=1)))


def test_varints_of_all_lengths_come_back() -> None:
    for power in range(62):
        for value in (2**power - 1, 2**power):
            records = [Record(0, 0, None, None), Record(1, value, None, None)]
            assert list(read_records(build_batch(records)))[1].timestamp == value


def test_headers_of_a_range_leave_out_a_batch_that_is_cut_short() -> None:
    data = good() + good()
    assert [position for position, _ in batch_headers(data)] == [0, len(good())]
    assert len(list(batch_headers(data[:-1]))) == 1
    with pytest.raises(Malformed):
        list(batch_headers(good() + bytes(100)))


def test_markers_name_their_kind_and_coordinator() -> None:
    for kind in (ABORT_MARKER, COMMIT_MARKER):
        data = build_marker(
            kind, producer_id=4, producer_epoch=2, coordinator_epoch=7, timestamp=99, base_offset=50
        )
        assert read_marker(data) == (kind, 7, 99)
        header = header_of(data)
        assert (header[0], header[5], header[9:12]) == (50, 0x30, (4, 2, -1))
    quorum = build_batch([Record(0, 0, struct.pack(">hh", 0, 2), b"\0")], control=True)
    assert read_marker(quorum) is None
    with pytest.raises(Malformed):
        read_marker(build_batch([Record(0, 0, None, b"")], control=True))


def of(*timestamps: int) -> bytes:
    return build_batch(Record(place, time, None, b"") for place, time in enumerate(timestamps))


@pytest.mark.parametrize(
    ("data", "before", "after", "needed"),
    [
        (of(NOW_MS + 1_000), 2**63 - 1, 1_000, False),
        (of(0), 2**63 - 1, 1_000, False),
        (of(-1), 10, 10, False),
        (of(NOW_MS), 10, 10, False),
        (of(NOW_MS, NOW_MS - 11), 10, 1_000, True),
        (of(-1, NOW_MS), 10, 1_000, True),
        (of(NOW_MS + 1_001), 2**63 - 1, 1_000, True),
        (of(NOW_MS, NOW_MS + 1_001), 2**63 - 1, 1_000, True),
        (of(NOW_MS - 11), 10, 1_000, True),
    ],
)
def test_only_a_batch_that_may_hold_a_forbidden_time_is_looked_into(
    data: bytes, before: int, after: int, needed: bool
) -> None:
    header = header_of(data)
    assert needs_time_check(header, NOW_MS, before_ms_max=before, after_ms_max=after) == needed


def test_sequence_numbers_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(5, 3) == 8


def test_a_record_says_what_it_holds() -> None:
    record = Record(1, 2, b"k", None)
    assert repr(record) == "Record(offset=1, timestamp=2, key=b'k', value=None, headers=())"
    assert record != "something else"
    assert hash(record) == hash(Record(1, 2, b"k", None))


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.none() | st.binary(max_size=20), st.binary()),
        max_size=20,
    ),
    st.sampled_from(range(5)),
)
def test_skimmed_records_are_the_records(
    wanted: list[tuple[int, bytes | None, bytes]], codec: int
) -> None:
    records = [
        Record(7 + place, timestamp, key, value, [("h", b"x")])
        for place, (timestamp, key, value) in enumerate(wanted)
    ]
    data = build_batch(records, base_offset=7, compression=codec)
    skimmed = list(skim_records(*unpack_batch(data)))
    assert skimmed == [(each.offset, each.timestamp, each.key is not None) for each in records]
    assert list(read_records(data)) == records


@pytest.mark.parametrize("count", [1, -1, 500_000])
def test_a_record_that_lies_about_its_headers_is_malformed(count: int) -> None:
    data = build_batch([Record(0, NOW_MS, b"k", b"v")])
    header, records = unpack_batch(data)
    number = bytearray()
    write_varint(number, count)
    body = bytes(records[1:-1]) + number  # without its size, and the 0 that counts no headers
    size = bytearray()
    write_varint(size, len(body))
    with pytest.raises(CorruptBatch, match=f"claims {count} headers"):
        list(skim_records(header, bytes(size) + body))


@given(st.binary(max_size=60), st.integers(1, 5))
def test_skimming_garbage_ends_in_malformed_or_in_records_of_the_batch(
    body: bytes, count: int
) -> None:
    header = header_of(build_batch(Record(place, NOW_MS, None, b"") for place in range(count)))
    try:
        skimmed = list(skim_records(header, body))
    except Malformed:
        return
    assert len(skimmed) == count
    assert all(0 <= offset < count for offset, _timestamp, _keyed in skimmed)


@given(records=st.integers(1, 30), codec=st.integers(0, 4), target=st.integers(0, 4))
def test_a_recompressed_batch_differs_in_its_codec_alone(
    records: int, codec: int, target: int
) -> None:
    made = [Record(n, 1_000 + n, b"k%d" % n, b"v" * n, [("h", b"x")]) for n in range(records)]
    before = build_batch(
        made,
        compression=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=77,
        transactional=True,
    )
    after = recompress_batch(before, target, None)
    header = check_produced(memoryview(after))
    assert list(read_records(after)) == made
    assert header[ATTRIBUTES] & CODEC_MASK == target
    assert header[ATTRIBUTES] & TRANSACTIONAL
    assert header[LAST_OFFSET_DELTA:] == HEADER.unpack_from(before)[LAST_OFFSET_DELTA:]


def test_a_batch_is_not_recompressed_beyond_the_ceiling() -> None:
    batch = build_batch([Record(0, 0, None, bytes(100_000))], compression=ZSTD)
    with pytest.raises(Malformed):
        recompress_batch(batch, 0, None, 50_000)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_the_records_at_the_start_of_a_large_batch_can_be_skimmed(codec: int) -> None:
    made = [Record(n, 1_000 + n, b"key", bytes(1_000)) for n in range(100)]
    header, data, whole = unpack_start(build_batch(made, compression=codec), 50_000)
    seen = list(skim_start(header, data))
    assert not whole
    assert seen == [(n, 1_000 + n, True) for n in range(len(seen))]
    assert 48 <= len(seen) <= 51
