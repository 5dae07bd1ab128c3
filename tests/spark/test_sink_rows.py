"""Rows on their way into the sink: topics, columns, and the digest that recognises them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from penstock.bulk.columns import HEADERS_TYPE
from penstock.spark.sink.checkpoint import can_read, offsets_of
from penstock.spark.sink.digest import digest_of
from penstock.spark.sink.rows import MissingColumn, NoTopic, check_columns, parts_of
from penstock.spark.sink.task import DIGEST_MODULUS

Header = dict[str, object]
Row = tuple[bytes | None, bytes | None, list[Header] | None, int | None]
BINARIES = some.none() | some.binary(max_size=12)
HEADER = some.fixed_dictionaries({"key": some.text(max_size=4), "value": BINARIES})
ROWS = some.lists(
    some.tuples(
        BINARIES, BINARIES, some.none() | some.lists(HEADER, max_size=3), some.none() | some.just(3)
    ),
    max_size=12,
)


# Numpy and Arrow take their time when they are first used.
UNHURRIED = settings(deadline=None)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    keys, values, headers, partitions = ([row[each] for row in rows] for each in range(4))
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, HEADERS_TYPE),
            "partition": pa.array(partitions, pa.int32()),
        }
    )


def digest(*batches: pa.RecordBatch, topic: str = "t") -> int:
    parts = [part for batch in batches for part in parts_of(batch, topic)]
    return sum(digest_of(part) for part in parts) % DIGEST_MODULUS


@UNHURRIED
@given(ROWS, some.randoms(use_true_random=False), some.integers(0, 12))
def test_a_digest_knows_neither_order_nor_tasks(rows: list[Row], chance: Random, cut: int) -> None:
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert digest(batch_of(rows)) == digest(batch_of(shuffled[:cut]), batch_of(shuffled[cut:]))


@UNHURRIED
@given(ROWS, ROWS)
def test_other_rows_have_another_digest(rows: list[Row], others: list[Row]) -> None:
    same = sorted(map(repr, rows)) == sorted(map(repr, others))
    assert (digest(batch_of(rows)) == digest(batch_of(others))) == same


@UNHURRIED
@given(ROWS, some.integers(0, 5))
def test_a_cut_array_has_the_digest_of_a_copy(rows: list[Row], start: int) -> None:
    assert digest(batch_of(rows).slice(start)) == digest(batch_of(rows[start:]))


def test_bytes_do_not_move_between_columns_or_rows() -> None:
    def of(*pairs: tuple[bytes, bytes]) -> int:
        return digest(batch_of([(key, value, None, None) for key, value in pairs]))

    assert of((b"ab", b"c")) != of((b"a", b"bc"))
    assert of((b"a", b""), (b"b", b"")) != of((b"ab", b""), (b"", b""))
    assert of((b"", b"\0")) != of((b"", b""))
    assert digest(batch_of([(b"a", b"b", None, None)]), topic="u") != of((b"a", b"b"))


def test_strings_and_bytes_are_the_same_rows() -> None:
    texts = pa.record_batch({"value": pa.array(["x", "yz"])})
    assert digest(texts) == digest(pa.record_batch({"value": pa.array([b"x", b"yz"])}))


# ---- topics and columns


def test_rows_go_to_the_topic_of_the_option_whatever_they_say() -> None:
    batch = pa.record_batch({"topic": ["a", "b"], "value": [b"1", b"2"]})
    assert [(part.topic, part.rows) for part in parts_of(batch, "c")] == [("c", 2)]


def test_rows_are_sorted_by_the_topic_that_they_name() -> None:
    batch = pa.record_batch({"Topic": ["a", "b", "a"], "VALUE": [b"1", b"2", b"3"]})
    found = {part.topic: part.value.to_pylist() for part in parts_of(batch, None)}
    assert found == {"a": [b"1", b"3"], "b": [b"2"]}


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.record_batch({"topic": ["a", None], "value": [b"1", b"2"]})
    with pytest.raises(NoTopic, match="null"):
        list(parts_of(batch, None))


def test_columns_are_checked_before_anything_runs() -> None:
    check_columns(["KEY", "Value", "other"], "t")
    with pytest.raises(MissingColumn, match="no column value, only id"):
        check_columns(["id"], "t")
    with pytest.raises(NoTopic):
        check_columns(["value"], None)
    with pytest.raises(MissingColumn, match="2 columns value"):
        check_columns(["value", "VALUE"], "t")


# ---- the checkpoint


def entry(folder: Path, batch_id: int, *offsets: str, time: int = 0) -> None:
    (folder / "offsets").mkdir(exist_ok=True)
    lines = ["v1", f'{{"batchTimestampMs":{time}}}', *offsets]
    (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))


def test_a_batch_is_known_by_where_it_begins_and_ends(tmp_path: Path) -> None:
    entry(tmp_path, 0, '{"t":{"0":5}}')
    entry(tmp_path, 1, '{"t":{"0":9}}')
    first, second = offsets_of(str(tmp_path), 0), offsets_of(f"file://{tmp_path}/", 1)
    assert first != second
    entry(tmp_path, 1, '{"t":{"0":9}}', time=99)
    assert offsets_of(str(tmp_path), 1) == second, "planned again, with the same offsets"
    entry(tmp_path, 1, '{"t":{"0":10}}')
    assert offsets_of(str(tmp_path), 1) != second
    entry(tmp_path, 1, '{"t":{"0":9}}')
    entry(tmp_path, 0, '{"t":{"0":4}}')
    assert offsets_of(str(tmp_path), 1) != second


def test_a_checkpoint_that_cannot_be_read_is_noticed(tmp_path: Path) -> None:
    assert not can_read(None)
    assert not can_read(str(tmp_path))
    assert not can_read("unheard-of://x/y")
    entry(tmp_path, 0, "{}")
    assert can_read(str(tmp_path)) and can_read(f"file:{tmp_path}")
    with pytest.raises(OSError, match="offsets"):
        offsets_of(str(tmp_path), 7)
