"""Operators of a key, against plain models, through PySpark's own tester."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import LongType, Row

from penstock.streams.compilation.keyed import (
    LEFT_SIDE,
    RIGHT_SIDE,
    Reduce,
    StreamTableJoin,
    TableTableJoin,
    alone,
)

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LONG = alone(LongType())


def row(side: int, value: int | None, order: int) -> Row:
    left, right = (value, None) if side == LEFT_SIDE else (None, value)
    time = START + datetime.timedelta(seconds=order)
    return Row(key="k", _side=side, _order=order, value=left, right=right, timestamp=time)


def join(keep_unmatched: bool = False) -> TwsTester:
    return TwsTester(StreamTableJoin(LONG, keep_unmatched))


def pairs(rows: Any) -> list[tuple[Any, Any]]:
    return [(each["value"], each["right"]) for each in rows]


def test_table_rows_come_first_within_a_batch() -> None:
    found = join().test("k", [row(LEFT_SIDE, 1, 0), row(RIGHT_SIDE, 10, 5)])
    assert pairs(found) == [(1, 10)]


def test_of_a_table_the_last_row_of_a_batch_counts() -> None:
    rows = [row(RIGHT_SIDE, 11, 6), row(LEFT_SIDE, 1, 9), row(RIGHT_SIDE, 10, 5)]
    assert pairs(join().test("k", rows)) == [(1, 11)]


def test_a_table_is_kept_for_later_batches() -> None:
    tester = join()
    tester.test("k", [row(RIGHT_SIDE, 10, 0)])
    assert pairs(tester.test("k", [row(LEFT_SIDE, 1, 1)])) == [(1, 10)]


def test_a_row_without_a_value_deletes() -> None:
    tester = join()
    tester.test("k", [row(RIGHT_SIDE, 10, 0)])
    tester.test("k", [row(RIGHT_SIDE, None, 1)])
    assert pairs(tester.test("k", [row(LEFT_SIDE, 1, 2)])) == []


def test_a_left_join_keeps_what_has_no_partner() -> None:
    assert pairs(join(keep_unmatched=True).test("k", [row(LEFT_SIDE, 1, 0)])) == [(1, None)]


def test_records_of_a_stream_come_out_in_the_order_of_their_times() -> None:
    rows = [row(LEFT_SIDE, 2, 2), row(RIGHT_SIDE, 10, 0), row(LEFT_SIDE, 1, 1)]
    assert pairs(join().test("k", rows)) == [(1, 10), (2, 10)]


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from([LEFT_SIDE, RIGHT_SIDE]), st.none() | st.integers(0, 3))),
    max_size=8,
)


@given(BATCHES, st.sampled_from(["inner", "left", "outer"]))
def test_a_join_of_tables_is_the_join_of_their_last_values(batches: Any, kind: str) -> None:
    tester = TwsTester(
        TableTableJoin(LONG, LONG, needs_left=kind != "outer", needs_right=kind == "inner")
    )
    held: dict[int, int | None] = {LEFT_SIDE: None, RIGHT_SIDE: None}
    result: tuple[Any, Any] | None = None
    order = 0
    for batch in batches:
        rows = []
        for side, value in batch:
            held[side] = value
            rows.append(row(side, value, order := order + 1))
        if rows:
            for out in tester.test("k", rows):
                result = None if out["deleted"] else (out["value"], out["right"])
        left, right = held[LEFT_SIDE], held[RIGHT_SIDE]
        there = {
            "inner": left is not None and right is not None,
            "left": left is not None,
            "outer": left is not None or right is not None,
        }[kind]
        assert result == ((left, right) if there else None)


def test_reduce_folds_in_the_order_of_times() -> None:
    tester = TwsTester(
        Reduce(LONG, lambda one, two: one * 10 + two, make=None, final=False, windowed=False)
    )
    rows = [row(LEFT_SIDE, 3, 3), row(LEFT_SIDE, 1, 1), row(LEFT_SIDE, 2, 2)]
    assert [each["value"] for each in tester.test("k", rows)] == [123]
    assert [each["value"] for each in tester.test("k", [row(LEFT_SIDE, 4, 4)])] == [1234]


@given(st.lists(st.lists(st.integers(-5, 5)), max_size=6))
def test_reduce_is_the_sum_over_all_batches(batches: list[list[int]]) -> None:
    tester = TwsTester(
        Reduce(LONG, lambda one, two: one + two, make=None, final=False, windowed=False)
    )
    newest: int | None = None
    order = 0
    for batch in batches:
        rows = [row(LEFT_SIDE, value, order := order + 1) for value in batch]
        for out in tester.test("k", rows) if rows else []:
            newest = out["value"]
    every = [value for batch in batches for value in batch]
    assert newest == (sum(every) if every else None)


def test_reduce_skips_records_without_a_value() -> None:
    tester = TwsTester(Reduce(LONG, max, make=None, final=False, windowed=False))
    assert [each["value"] for each in tester.test("k", [row(LEFT_SIDE, None, 1)])] == []


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_tables_that_never_held_anything_join_to_nothing(kind: str) -> None:
    tester = TwsTester(
        TableTableJoin(LONG, LONG, needs_left=kind != "outer", needs_right=kind == "inner")
    )
    assert list(tester.test("k", [row(LEFT_SIDE, None, 1)])) == []
