"""Plans of a reset: where each partition goes, and plans as files."""

import pytest

from penstock.cli.group.reset_plan import (
    Aim,
    OffsetMove,
    PlannedOffsets,
    ResetRejected,
    ResetTo,
    ShiftBy,
    ToListed,
    ToOffset,
    ToTime,
    from_csv,
    plan_moves,
    to_csv,
)
from penstock.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


def new_offset(aim: Aim, known: PlannedOffsets) -> int:
    (move,) = plan_moves(aim, {ORDERS: known})
    return move.offset


@pytest.mark.parametrize(
    ("aim", "offset"),
    [
        (ResetTo.EARLIEST, 10),
        (ResetTo.LATEST, 90),
        (ResetTo.CURRENT, 40),
        (ToOffset(55), 55),
        (ShiftBy(5), 45),
        (ShiftBy(-5), 35),
        (ToListed({ORDERS: 77}), 77),
    ],
)
def test_a_partition_goes_where_it_was_told(aim: Aim, offset: int) -> None:
    assert new_offset(aim, PlannedOffsets(log_start=10, log_end=90, committed=40)) == offset


def test_a_time_is_the_first_record_at_or_after_it() -> None:
    assert new_offset(ToTime(5), PlannedOffsets(10, 90, 40, at_time=33)) == 33


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert new_offset(ToTime(5), PlannedOffsets(10, 90, 40, at_time=None)) == 90


def test_what_is_not_committed_begins_at_the_end_when_the_rest_stays() -> None:
    assert new_offset(ResetTo.CURRENT, PlannedOffsets(10, 90, None)) == 90


def test_what_is_not_committed_cannot_be_shifted() -> None:
    with pytest.raises(ResetRejected, match="orders-0 has no committed offset to shift"):
        new_offset(ShiftBy(1), PlannedOffsets(10, 90, None))


@pytest.mark.parametrize(
    ("aim", "offset", "note"),
    [
        (ToOffset(91), 90, "91 is after the log's end, 90 is taken"),
        (ToOffset(9), 10, "9 is before the log's start, 10 is taken"),
        (ShiftBy(-1000), 10, "-960 is before the log's start, 10 is taken"),
        (ShiftBy(10**30), 90, f"{10**30 + 40} is after the log's end, 90 is taken"),
        (ToOffset(90), 90, None),
        (ToOffset(10), 10, None),
    ],
)
def test_an_offset_outside_the_log_becomes_the_nearest_inside(
    aim: Aim, offset: int, note: str | None
) -> None:
    (move,) = plan_moves(aim, {ORDERS: PlannedOffsets(10, 90, 40)})
    assert (move.offset, move.note) == (offset, note)


def test_a_committed_offset_outside_the_log_does_not_stay() -> None:
    assert new_offset(ResetTo.CURRENT, PlannedOffsets(log_start=50, log_end=90, committed=40)) == 50


def test_moves_are_in_order_of_partitions() -> None:
    places = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 9)]
    moves = plan_moves(ResetTo.EARLIEST, dict.fromkeys(places, PlannedOffsets(0, 1, None)))
    assert [str(move.partition) for move in moves] == ["a-9", "a-10", "b-0"]


def test_an_exported_plan_is_read_back() -> None:
    moves = [OffsetMove(ORDERS, 3, 5, 5), OffsetMove(TopicPartition("orders", 1), None, 7, 7)]
    text = to_csv(moves)
    assert text == "orders,0,5\norders,1,7\n"
    assert from_csv(text, "any") == {ORDERS: 5, TopicPartition("orders", 1): 7}


def test_kafkas_own_export_quotes_long_names() -> None:
    name = "a-topic-of-more-than-24-characters"
    assert from_csv(f'"{name}",3,44\r\n\r\n', "any") == {TopicPartition(name, 3): 44}


def test_lines_with_a_group_count_for_that_group() -> None:
    text = "mine,orders,0,5\nother,orders,0,6\n"
    assert from_csv(text, "mine") == {ORDERS: 5}
    with pytest.raises(ResetRejected, match="no line is for third"):
        from_csv(text, "third")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders,0\n", "line 1: must be topic,partition,offset"),
        ("orders,0,5\norders,x,5\n", "line 2: must be topic,partition,offset"),
        ("orders,0,-5\n", "line 1: must be"),
        (",0,5\n", "line 1: must be"),
        ("orders,0,5\norders,0,6\n", "line 2: orders-0 was in an earlier line"),
        ("", "no line is for mine"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(text: str, complaint: str) -> None:
    with pytest.raises(ResetRejected, match=complaint):
        from_csv(text, "mine")
