"""Arrow columns to record batches: what the plain codec reads back is what was put in."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from bulk_records import BOTH, CONTENTS, HEADERS, NOW_MS, decoder, encoder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from penstock.bulk.columns import HEADERS_TYPE
from penstock.bulk.encode import EncodedBatch, WriterIdentity
from penstock.bulk.murmur2 import murmur2, partition_of
from penstock.wire.batch import (
    HEADER,
    Record,
    build_batch,
    check_produced,
    read_records,
)
from penstock.wire.compression import NAMES

IDENTITY = WriterIdentity(producer_id=7, epoch=2, transactional=True)
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None, int | None]

# The hashes that Java's Kafka gives for these, as signed numbers.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def headers_array(rows: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    return pa.array(
        [
            None if row is None else [{"key": name, "value": content} for name, content in row]
            for row in rows
        ],
        HEADERS_TYPE,
    )


def columns_of(rows: list[Row]) -> dict[str, pa.Array]:
    return {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "headers": headers_array([row[2] for row in rows]),
        "partition": pa.array([row[3] for row in rows], pa.int32()),
        "timestamp": pa.array([row[4] for row in rows], pa.int64()),
    }


def values_of(batches: list[EncodedBatch]) -> list[tuple[int, list[bytes | None]]]:
    return [
        (one.partition, [record.value for record in read_records(one.batch)]) for one in batches
    ]


def rebuilt(one: EncodedBatch) -> bytes:
    """The batch as the plain codec writes the same records."""
    header = HEADER.unpack_from(one.batch)
    return build_batch(
        read_records(one.batch),
        compression=header[5] & 7,
        producer_id=header[9],
        producer_epoch=header[10],
        base_sequence=header[11],
        transactional=bool(header[5] & 0x10),
    )


ROWS = st.lists(
    st.tuples(
        CONTENTS,
        CONTENTS,
        HEADERS,
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(0, 2**52)),
    ),
    max_size=20,
)


@given(
    parts=st.lists(ROWS, max_size=4),
    compression=st.sampled_from(NAMES),
    identity=st.sampled_from([None, IDENTITY]),
    batch_bytes_max=st.sampled_from([62, 80, 200, 5000, 1_000_000]),
)
def test_both_write_the_batches_that_the_plain_codec_writes(
    parts: list[list[Row]], compression: str, identity: WriterIdentity | None, batch_bytes_max: int
) -> None:
    how: Any = {
        "compression": compression,
        "identity": identity,
        "batch_bytes_max": batch_bytes_max,
    }
    found: list[list[EncodedBatch]] = []
    for implementation in BOTH:
        one = encoder(implementation, 3, **how)
        batches = [batch for rows in parts for batch in one.encode(**columns_of(rows))]
        found.append(batches + one.flush())
        assert one.flush() == []
    compiled, plain = (
        [(one.partition, bytes(one.batch), one.records) for one in batches] for batches in found
    )
    assert compiled == plain
    assert all(bytes(one.batch) == rebuilt(one) for one in found[0])
    assert all(check_produced(memoryview(one.batch).cast("B")) for one in found[0])


@pytest.mark.parametrize("implementation", BOTH)
@given(parts=st.lists(ROWS, max_size=4), batch_bytes_max=st.sampled_from([80, 5000, 1_000_000]))
def test_every_row_comes_out_once_and_in_order(
    implementation: str, parts: list[list[Row]], batch_bytes_max: int
) -> None:
    one = encoder(implementation, 3, batch_bytes_max=batch_bytes_max)
    batches = [batch for rows in parts for batch in one.encode(**columns_of(rows))] + one.flush()
    found: dict[int, list[Record]] = defaultdict(list)
    for batch in batches:
        records = list(read_records(batch.batch))
        assert len(records) == batch.records
        assert len(batch.batch) <= batch_bytes_max or batch.records == 1
        found[batch.partition] += records
    places = {partition: iter(records) for partition, records in found.items()}
    for key, value, headers, partition, timestamp in (row for rows in parts for row in rows):
        expected = (NOW_MS if timestamp is None else timestamp, key, value, headers)
        chosen = partition
        if chosen is None and key is not None:
            chosen = partition_of(key, 3)
        if chosen is not None:
            # A row of nobody's choice may lie between; those are looked at by the count.
            assert any(
                (record.timestamp, record.key, record.value, list(record.headers)) == expected
                for record in places[chosen]
            )
    assert sum(map(len, found.values())) == sum(map(len, parts))


@pytest.mark.parametrize("key", JAVA_HASHES)
def test_keys_hash_as_in_java(key: bytes) -> None:
    assert murmur2(key) == JAVA_HASHES[key] & 0xFFFFFFFF


@pytest.mark.parametrize("implementation", BOTH)
@given(keys=st.lists(st.binary(max_size=40), min_size=1), partitions=st.integers(1, 1000))
def test_a_key_always_goes_to_its_partition(
    implementation: str, keys: list[bytes], partitions: int
) -> None:
    one = encoder(implementation, partitions)
    batches = one.encode(pa.array(keys, pa.binary()), pa.array(keys, pa.binary())) + one.flush()
    for batch in batches:
        for record in read_records(batch.batch):
            assert record.key is not None
            assert partition_of(record.key, partitions) == batch.partition


@pytest.mark.parametrize("implementation", BOTH)
def test_rows_without_a_key_fill_one_partition_after_the_other(implementation: str) -> None:
    one = encoder(implementation, 3, batch_bytes_max=61 + 5 * 17, seed=4)
    values = pa.array([b"0123456789"] * 23, pa.binary())
    batches = one.encode(None, values) + one.encode(None, values) + one.flush()
    assert [batch.partition for batch in batches] == [1, 2, 0, 1, 2, 0, 1, 2, 0, 1]
    assert [batch.records for batch in batches] == [5] * 9 + [1]


@pytest.mark.parametrize("implementation", BOTH)
def test_what_is_flushed_moves_rows_without_a_key_on(implementation: str) -> None:
    one = encoder(implementation, 3)
    partitions = []
    for _ in range(4):
        one.encode(None, pa.array([b"v"]))
        partitions += [batch.partition for batch in one.flush()]
    assert partitions == [0, 1, 2, 0]


@pytest.mark.parametrize("implementation", BOTH)
def test_a_record_above_the_limit_goes_alone_and_in_its_turn(implementation: str) -> None:
    one = encoder(implementation, 2, batch_bytes_max=200, identity=IDENTITY)
    values = pa.array([b"a", b"b", b"c" * 500, b"d"], pa.binary())
    chosen = pa.array([1] * 4, pa.int32())
    batches = one.encode(None, values, None, chosen) + one.flush()
    assert values_of(batches) == [(1, [b"a", b"b"]), (1, [b"c" * 500]), (1, [b"d"])]
    assert [HEADER.unpack_from(batch.batch)[11] for batch in batches] == [0, 2, 3]
    assert all(bytes(batch.batch) == rebuilt(batch) for batch in batches)


@pytest.mark.parametrize("implementation", BOTH)
def test_sequences_run_on_per_partition_and_wrap(implementation: str) -> None:
    one = encoder(implementation, 2, identity=IDENTITY)
    one._sequences[1] = 2**31 - 2
    seen = defaultdict(list)
    for _ in range(3):
        one.encode(None, pa.array([b"x"] * 4), None, pa.array([0, 1, 1, 1], pa.int32()))
        for batch in one.flush():
            seen[batch.partition].append(HEADER.unpack_from(batch.batch)[11])
    assert seen == {0: [0, 1, 2], 1: [2**31 - 2, 1, 4]}


@pytest.mark.parametrize("implementation", BOTH)
def test_no_identity_writes_no_producer(implementation: str) -> None:
    one = encoder(implementation, 1)
    one.encode(None, pa.array([b"x"]))
    (batch,) = one.flush()
    header = HEADER.unpack_from(batch.batch)
    assert header[9:12] == (-1, -1, -1) and header[5] == 0 and header[0] == 0 and header[2] == -1


@pytest.mark.parametrize("implementation", BOTH)
@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()], ids=str
)
def test_cut_and_chunked_arrays_of_every_width_are_read(
    implementation: str, kind: pa.DataType
) -> None:
    content = ["left out", "ä", None, "", "longer than the others", None, "z", "left out"]
    whole = pa.array(content).cast(kind)
    chunked = pa.chunked_array([whole.slice(0, 3), whole.slice(3, 0), whole.slice(3)])
    expected = [None if text is None else text.encode() for text in content[1:-1]]
    for column in (whole.slice(1, 6), chunked.slice(1, 6)):
        one = encoder(implementation, 1)
        one.encode(column, column, None, None)
        (batch,) = one.flush()
        records = list(read_records(batch.batch))
        assert [record.value for record in records] == expected
        assert [record.key for record in records] == expected


@pytest.mark.parametrize("implementation", BOTH)
@pytest.mark.parametrize("kind", [HEADERS_TYPE, pa.large_list(HEADERS_TYPE.value_type)], ids=str)
def test_cut_and_chunked_headers_are_read(implementation: str, kind: pa.DataType) -> None:
    content: list[list[tuple[str, bytes | None]] | None]
    content = [[("x", b"x")], [("a", b"1"), ("b", None)], None, [], [("c", b"")], [("y", b"y")]]
    whole = headers_array(content).cast(kind)
    chunked = pa.chunked_array([whole.slice(0, 2), whole.slice(2)])
    for column in (whole.slice(1, 4), chunked.slice(1, 4)):
        one = encoder(implementation, 1)
        one.encode(None, pa.array([b"v"] * 4), column)
        (batch,) = one.flush()
        found = [list(record.headers) for record in read_records(batch.batch)]
        assert found == [[("a", b"1"), ("b", None)], [], [], [("c", b"")]]


@pytest.mark.parametrize("implementation", BOTH)
def test_timestamps_of_any_unit_become_milliseconds(implementation: str) -> None:
    for unit, factor in (("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        times = pa.array([int(5000 * factor), None, int(7000 * factor)], pa.timestamp(unit, "UTC"))
        one = encoder(implementation, 1)
        one.encode(None, pa.array([b"v"] * 3), timestamp=times)
        (batch,) = one.flush()
        assert [record.timestamp for record in read_records(batch.batch)] == [5000, NOW_MS, 7000]


VALUES = pa.array([b"v", b"w"])


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"partition": pa.array([0, 4], pa.int32())}, ValueError, "partition 4 does not exist"),
        ({"partition": pa.array([-1, 0], pa.int32())}, ValueError, "partition -1 does not exist"),
        ({"partition": pa.array(["0", "1"])}, TypeError, "partition is string"),
        ({"timestamp": pa.array([1, -5])}, ValueError, "before 1970"),
        ({"timestamp": pa.array(["now", "then"])}, TypeError, "timestamp is string"),
        ({"key": pa.array([1, 2])}, TypeError, "key is int64"),
        ({"key": pa.array([b"only one"])}, ValueError, "one length"),
        ({"headers": pa.array([["x"], []])}, TypeError, "headers is list"),
        ({"headers": pa.array([[None], []], HEADERS_TYPE)}, ValueError, "a header is null"),
        (
            {"headers": pa.array([[{"key": None, "value": b""}], []], HEADERS_TYPE)},
            ValueError,
            "without a key",
        ),
    ],
)
@pytest.mark.parametrize("implementation", BOTH)
def test_rows_that_cannot_be_sent_are_refused_together(
    implementation: str, columns: dict[str, pa.Array], error: type[Exception], words: str
) -> None:
    one = encoder(implementation, 4)
    given = {"key": None, "value": VALUES, **columns}
    with pytest.raises(error, match=words):
        one.encode(**given)
    assert one.flush() == []


@pytest.mark.parametrize(
    "wrong",
    [{"partitions": 0}, {"compression": "brotli"}, {"batch_bytes_max": 61}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_encoder_that_cannot_work_is_not_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"partitions|compression|record"):
        encoder("plain", **{"partitions": 1, **wrong})


@pytest.mark.parametrize("implementation", BOTH)
def test_no_rows_give_no_batches(implementation: str) -> None:
    one = encoder(implementation, 4)
    for empty in (pa.array([], pa.binary()), pa.chunked_array([], pa.string())):
        assert one.encode(empty, empty) == []
    assert one.flush() == []


@pytest.mark.parametrize("implementation", BOTH)
def test_many_partitions_share_a_bounded_memory(implementation: str) -> None:
    one = encoder(implementation, 50_000)
    values = pa.array([bytes(1000)] * 40, pa.binary())
    batches = one.encode(None, values, None, pa.array([49_999] * 40, pa.int32())) + one.flush()
    assert [batch.records for batch in batches] == [16, 16, 8]


@pytest.mark.parametrize("implementation", BOTH)
def test_a_batch_stays_as_it_is_while_others_are_made(implementation: str) -> None:
    one = encoder(implementation, 1, batch_bytes_max=2000)
    kept = one.encode(None, pa.array([b"%04d" % n for n in range(1000)]))
    copies = [bytes(batch.batch) for batch in kept]
    one.encode(None, pa.array([b"other"] * 1000))
    assert [bytes(batch.batch) for batch in kept] == copies


@pytest.mark.parametrize("compression", NAMES)
@pytest.mark.parametrize("implementation", BOTH)
def test_kafka_python_reads_what_was_encoded(implementation: str, compression: str) -> None:
    one = encoder(implementation, 1, compression=compression, identity=IDENTITY)
    one.encode(pa.array(["k"] * 50), pa.array([b"v%d" % n for n in range(50)]))
    (batch,) = one.flush()
    records = MemoryRecords(bytes(batch.batch))
    found = records.next_batch()
    assert found.validate_crc()
    assert [record.value for record in found] == [b"v%d" % n for n in range(50)]


@pytest.mark.parametrize("implementation", BOTH)
def test_what_is_encoded_decodes_to_the_same_columns(implementation: str) -> None:
    one = encoder(implementation, 1, compression="zstd")
    keys = pa.array([None, b"", b"k"] * 100, pa.binary())
    values = pa.array([b"v", None, b""] * 100, pa.binary())
    headers = headers_array([None, [("a", b"1")], [("b", None), ("", b"")]] * 100)
    one.encode(keys, values, headers)
    (batch,) = one.flush()
    rows = decoder(implementation, ["key", "value", "headers"]).decode(batch.batch, 0, 300).rows
    assert rows.columns == [keys, values, headers]
