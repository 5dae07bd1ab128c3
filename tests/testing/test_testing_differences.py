"""Differences between records in words."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.records import Record
from penstock.testing.differences import SHOWN_MAX, difference

VALUES = st.lists(st.sampled_from([b"a", b"b", b"c", None]), max_size=8)


def records(*partitions: Sequence[object]) -> list[Record[object, object]]:
    """Of topic `t`, each partition with its values in order; a pair is a key and a value."""
    found: list[Record[object, object]] = []
    for number, values in enumerate(partitions):
        for offset, said in enumerate(values):
            key, value = said if isinstance(said, tuple) else (None, said)
            found.append(Record("t", number, offset, key, value))
    return found


def text_of(found: list[Record[object, object]], *expected: object) -> str:
    differs = difference(found, expected)
    assert differs is not None
    return str(differs)


@given(VALUES)
def test_the_same_records_do_not_differ(values: list[bytes | None]) -> None:
    assert difference(records(values), values) is None


@given(st.lists(st.integers(), unique=True, max_size=8), st.data())
def test_any_way_of_dealing_records_to_partitions_keeps_their_order(
    values: list[int], data: st.DataObject
) -> None:
    dealt: list[list[object]] = [[], [], []]
    for value in values:
        dealt[data.draw(st.integers(0, 2))].append(value)
    assert difference(records(*dealt), values) is None


@given(VALUES, VALUES)
def test_missing_and_unexpected_are_what_one_side_has_more_of(
    found: list[bytes | None], expected: list[bytes | None]
) -> None:
    differs = difference(records(found), expected, in_order=False)
    missing = len(differs.missing) if differs else 0
    unexpected = len(differs.unexpected) if differs else 0
    surplus = list(found)
    lacking = 0
    for each in expected:
        if each in surplus:
            surplus.remove(each)
        else:
            lacking += 1
    assert (missing, unexpected) == (lacking, len(surplus))


@given(st.permutations(range(6)))
def test_a_partition_that_is_not_in_order_is_told(order: list[int]) -> None:
    differs = difference(records(order), range(6))
    assert (differs is None) == (order == sorted(order))
    assert difference(records(order), range(6), in_order=False) is None


def test_each_line_says_what_and_where() -> None:
    found = records([b"a", b"x", (b"k", b"c"), b"d", b"b"])
    assert text_of(found, b"a", b"b", (b"k", b"c"), b"d", b"e").splitlines() == [
        "1 missing, 1 unexpected, 1 out of order (5 expected, 5 found)",
        "  missing      #4 b'e'",
        "  unexpected   t-0@1 b'x'",
        "  out of order t-0@4 b'b' was expected as #1",
    ]


def test_a_key_counts_where_one_is_expected() -> None:
    found = records([(b"k", b"a")])
    assert difference(found, [b"a"]) is None
    assert difference(found, [("k", "a")]) is None
    assert "missing      #0 key b'other' value b'a'" in text_of(found, ("other", "a"))
    assert "unexpected   t-0@0 key b'k' value b'a'" in text_of(found, ("other", "a"))


def test_text_stands_for_its_bytes_and_values_for_themselves() -> None:
    assert difference(records([b"\xc3\xa4", "ä"]), ["ä", "ä"]) is None
    assert difference(records([{"b": 1, "a": 2}, 1]), [{"a": 2, "b": 1.0}, 1.0]) is None
    assert difference(records([None]), [None]) is None


def test_equal_records_in_two_partitions_are_never_out_of_order() -> None:
    found = records([b"a", b"b"], [b"a", b"c"])
    assert difference(found, [b"a", b"c", b"a", b"b"]) is None


def test_long_values_and_long_lists_are_cut() -> None:
    found = records([b"." * 10_000 for _ in range(SHOWN_MAX + 3)])
    lines = text_of(found).splitlines()
    assert len(lines) == SHOWN_MAX + 2
    assert lines[-1].endswith("... and 3 more")
    assert max(map(len, lines)) < 300


@pytest.mark.parametrize("expected", [[b"a", b"b"], [b"b"]])
def test_only_what_is_missing_may_still_come(expected: list[bytes]) -> None:
    differs = difference(records([b"a"]), expected)
    assert differs is not None
    assert differs.may_still_come == (b"b" in expected)
