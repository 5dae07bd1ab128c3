"""Record bytes to Arrow columns: the same rows as the plain codec, by either implementation."""

from typing import Any

import pyarrow as pa
import pytest
from bulk_records import (
    ALL_COLUMNS,
    BOTH,
    NOW_MS,
    Built,
    batches,
    decoder,
    rows_of_built,
    sealed,
)
from hypothesis import given
from hypothesis import strategies as st

from penstock.bulk.decode import last_offset_of
from penstock.wire.batch import (
    ABORT_MARKER,
    COMMIT_MARKER,
    CorruptBatch,
    Record,
    build_batch,
    build_marker,
    stamp_append_time,
)
from penstock.wire.compression import NAMES, TooLarge

EVERYTHING = 2**62


def listed(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows with plain numbers for times: Python's datetime ends with the year 9999."""
    rows.validate(full=True)
    if "timestamp" in rows.schema.names:
        place = rows.schema.names.index("timestamp")
        rows = rows.set_column(place, "timestamp", rows.column(place).cast(pa.int64()))
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def batch(first: int, count: int, **how: Any) -> bytes:
    records = [Record(first + n, NOW_MS + n, None, b"v%d" % (first + n)) for n in range(count)]
    return build_batch(records, base_offset=first, **how)


def offsets(rows: pa.RecordBatch) -> list[int]:
    found: list[int] = rows.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("implementation", BOTH)
@given(built=batches())
def test_rows_are_what_the_plain_codec_was_given(implementation: str, built: list[Built]) -> None:
    data = b"".join(each.data for each in built)
    decoded = decoder(implementation).decode(data, 0, EVERYTHING)
    assert listed(decoded.rows) == rows_of_built(built)
    assert decoded.next_offset == (built[-1].records[-1].offset + 1 if built else 0)


@pytest.mark.parametrize("implementation", BOTH)
@given(built=batches(), columns=st.permutations(ALL_COLUMNS), count=st.integers(0, 8))
def test_only_the_columns_asked_for_come_and_in_that_order(
    implementation: str, built: list[Built], columns: list[str], count: int
) -> None:
    asked = columns[:count]
    data = b"".join(each.data for each in built)
    one = decoder(implementation, asked)
    rows = one.decode(data, 0, EVERYTHING).rows
    assert rows.schema.names == asked and rows.schema == one.schema
    expected = [{name: row[name] for name in asked} for row in rows_of_built(built)]
    assert listed(rows) == (expected if asked else [])


@pytest.mark.parametrize("implementation", BOTH)
@given(built=batches(), data=st.data())
def test_rows_outside_of_the_range_stay_away(
    implementation: str, built: list[Built], data: st.DataObject
) -> None:
    expected = rows_of_built(built)
    places = [row["offset"] for row in expected] or [0]
    start = data.draw(st.sampled_from(places)) + data.draw(st.integers(-1, 1))
    end = data.draw(st.sampled_from(places)) + data.draw(st.integers(-1, 1))
    found = decoder(implementation).decode(b"".join(each.data for each in built), start, end)
    assert listed(found.rows) == [row for row in expected if start <= row["offset"] < end]


@pytest.mark.parametrize("implementation", BOTH)
def test_an_answer_that_is_cut_gives_its_whole_batches(implementation: str) -> None:
    whole, more = batch(10, 5), batch(15, 5)
    for kept in range(len(more)):
        decoded = decoder(implementation).decode(whole + more[:kept], 10, EVERYTHING)
        assert offsets(decoded.rows) == [10, 11, 12, 13, 14]
        assert decoded.next_offset == 15


@pytest.mark.parametrize("implementation", BOTH)
def test_an_answer_without_a_whole_batch_gives_nothing(implementation: str) -> None:
    for data in (b"", batch(10, 5)[:-1]):
        decoded = decoder(implementation).decode(data, 12, EVERYTHING)
        assert decoded.rows.num_rows == 0 and decoded.next_offset == 12
        assert decoded.rows.schema.names == ALL_COLUMNS


@pytest.mark.parametrize("implementation", BOTH)
def test_bytes_come_in_any_kind_of_buffer(implementation: str) -> None:
    data = batch(0, 3)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(b"xy" + data)[2:]):
        assert offsets(decoder(implementation).decode(buffer, 0, 3).rows) == [0, 1, 2]


@pytest.mark.parametrize("implementation", BOTH)
def test_a_broken_checksum_names_topic_partition_and_offset(implementation: str) -> None:
    bad = bytearray(batch(10, 5))
    bad[-2] ^= 1
    with pytest.raises(CorruptBatch, match=r"orders-3 at offset 10: .*checksum"):
        decoder(implementation).decode(batch(5, 5) + bad, 0, EVERYTHING)
    assert decoder(implementation, check_crc=False).decode(bad, 0, 99).next_offset == 15


@pytest.mark.parametrize("implementation", BOTH)
def test_a_batch_beyond_the_end_is_stepped_over_unseen(implementation: str) -> None:
    bad = bytearray(batch(15, 5))
    bad[-1] ^= 1
    decoded = decoder(implementation).decode(batch(10, 5) + bad, 10, 15)
    assert offsets(decoded.rows) == [10, 11, 12, 13, 14] and decoded.next_offset == 20


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("implementation", BOTH)
def test_an_old_message_format_is_named(implementation: str, magic: int) -> None:
    for size in (40, 200):
        old = bytearray(size)
        old[11], old[16] = size - 12, magic
        with pytest.raises(CorruptBatch, match=f"orders-3.* message format {magic}"):
            decoder(implementation).decode(bytes(old), 0, 9)


@pytest.mark.parametrize("implementation", BOTH)
def test_noise_is_no_batch(implementation: str) -> None:
    with pytest.raises(CorruptBatch, match="no record batch"):
        decoder(implementation).decode(bytes(8) + b"\xff" * 100, 0, 9)


@pytest.mark.parametrize("codec", range(1, 5), ids=NAMES[1:])
@pytest.mark.parametrize("implementation", BOTH)
def test_a_batch_that_grows_too_large_is_refused(implementation: str, codec: int) -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(100_000))], compression=codec)
    with pytest.raises(CorruptBatch, match=r"orders-3 at offset 0: .*beyond 50000 bytes"):
        decoder(implementation, output_bytes_max=50_000).decode(data, 0, 9)


@pytest.mark.parametrize("implementation", BOTH)
def test_an_answer_larger_than_a_column_is_refused(
    implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.bulk.packed.COLUMN_BYTES_MAX", 1000)
    data = build_batch([Record(0, NOW_MS, None, bytes(900))])
    decoder(implementation).decode(data, 0, 9)
    with pytest.raises(TooLarge, match="fetch fewer bytes"):
        decoder(implementation).decode(data + data, 0, 9)


@pytest.mark.parametrize("implementation", BOTH)
def test_append_time_is_the_time_of_all_records(implementation: str) -> None:
    stamped = stamp_append_time(batch(0, 2), NOW_MS + 77)
    rows = listed(decoder(implementation).decode(stamped + batch(2, 1), 0, 9).rows)
    assert [row["timestamp"] // 1000 - NOW_MS for row in rows] == [77, 77, 0]
    assert [row["timestampType"] for row in rows] == [1, 1, 0]


@pytest.mark.parametrize("implementation", BOTH)
def test_a_time_beyond_microseconds_is_refused_only_where_it_is_asked_for(
    implementation: str,
) -> None:
    for time in (2**60, -(2**60), 2**63 - 1):
        data = build_batch([Record(0, 5, None, b""), Record(1, time, None, b"")])
        assert decoder(implementation, ["value"]).decode(data, 0, 9).rows.num_rows == 2
        with pytest.raises(CorruptBatch, match="orders-3 at offset 0: a record at a time"):
            decoder(implementation, ["timestamp"]).decode(data, 0, 9)


@pytest.mark.parametrize("implementation", BOTH)
def test_offsets_that_end_beyond_64_bits_are_refused(implementation: str) -> None:
    data = batch(2**63 - 2, 2)
    with pytest.raises(CorruptBatch, match="offsets"):
        decoder(implementation).decode(data, 0, 2**63 - 1)


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
@pytest.mark.parametrize("implementation", BOTH)
def test_a_batch_that_compaction_emptied_moves_the_next_offset(
    implementation: str, codec: int
) -> None:
    emptied = bytearray(batch(0, 5)[:61])
    emptied[8:12] = (49).to_bytes(4)
    emptied[57:61] = bytes(4)
    emptied[22] = codec
    decoded = decoder(implementation).decode(sealed(bytes(emptied)), 0, 99)
    assert decoded.rows.num_rows == 0 and decoded.next_offset == 5


def transaction(producer_id: int, first: int, count: int) -> bytes:
    return batch(first, count, producer_id=producer_id, producer_epoch=0, transactional=True)


def marker(producer_id: int, offset: int, kind: int) -> bytes:
    return build_marker(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=1,
        timestamp=NOW_MS,
        base_offset=offset,
    )


STORY = b"".join(
    (
        transaction(1, 0, 2),
        transaction(2, 2, 2),
        batch(4, 1),
        transaction(1, 5, 1),
        marker(1, 6, ABORT_MARKER),
        transaction(1, 7, 2),
        marker(2, 9, COMMIT_MARKER),
        marker(1, 10, COMMIT_MARKER),
    )
)


@pytest.mark.parametrize("implementation", BOTH)
def test_an_aborted_transaction_ends_with_its_marker(implementation: str) -> None:
    decoded = decoder(implementation).decode(STORY, 0, EVERYTHING, [(1, 0)])
    assert offsets(decoded.rows) == [2, 3, 4, 7, 8]
    assert decoded.next_offset == 11


@pytest.mark.parametrize("implementation", BOTH)
def test_without_a_list_of_aborted_ones_only_markers_are_left_out(implementation: str) -> None:
    rows = decoder(implementation).decode(STORY, 0, EVERYTHING).rows
    assert offsets(rows) == [0, 1, 2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("implementation", BOTH)
def test_a_transaction_aborted_before_the_answer_begins_is_still_dropped(
    implementation: str,
) -> None:
    rest = STORY[len(transaction(1, 0, 2)) :]
    assert offsets(decoder(implementation).decode(rest, 2, 99, [(1, 0)]).rows) == [2, 3, 4, 7, 8]


@pytest.mark.parametrize("implementation", BOTH)
def test_the_second_transaction_of_a_producer_may_be_the_aborted_one(implementation: str) -> None:
    story = b"".join(
        (
            transaction(1, 0, 1),
            marker(1, 1, COMMIT_MARKER),
            transaction(1, 2, 1),
            marker(1, 3, ABORT_MARKER),
            transaction(1, 4, 1),
            marker(1, 5, ABORT_MARKER),
        )
    )
    decoded = decoder(implementation).decode(story, 0, 99, [(1, 4), (1, 2)])
    assert offsets(decoded.rows) == [0]


@given(built=batches(), cut=st.integers(0, 100))
def test_the_last_offset_is_found_without_decoding(built: list[Built], cut: int) -> None:
    data = b"".join(each.data for each in built)
    data = data[: len(data) - cut] if cut < len(data) else data
    found = last_offset_of(data)
    decoded = decoder("plain", ["offset"]).decode(data, 0, EVERYTHING)
    if found is None:
        assert decoded.next_offset == 0
    else:
        assert found[0] == decoded.next_offset
        assert last_offset_of(data[: found[1]]) == found
        assert len(data) - found[1] < max(len(each.data) for each in built)


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="colour"):
        decoder("plain", ["key", "colour"])
    with pytest.raises(ValueError, match="twice"):
        decoder("plain", ["key", "key"])


def test_the_schema_is_what_pyspark_makes_of_the_kafka_source() -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types")
    sql = pytest.importorskip("pyspark.sql.types")
    header = sql.StructType([sql.StructField("key", sql.StringType()),
                             sql.StructField("value", sql.BinaryType())])  # fmt: skip
    spark = sql.StructType(
        [
            sql.StructField("key", sql.BinaryType()),
            sql.StructField("value", sql.BinaryType()),
            sql.StructField("topic", sql.StringType()),
            sql.StructField("partition", sql.IntegerType()),
            sql.StructField("offset", sql.LongType()),
            sql.StructField("timestamp", sql.TimestampType()),
            sql.StructField("timestampType", sql.IntegerType()),
            sql.StructField("headers", sql.ArrayType(header)),
        ]
    )
    expected = types.to_arrow_schema(spark, timezone="UTC")
    schema = decoder("plain").schema
    assert expected.equals(schema, check_metadata=True)
