"""Which dead letters are meant, which were replayed, and what is written again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.records import Headers, Record
from penstock.retry.dead_letter import (
    REPLAYED,
    Choice,
    Letter,
    NoChoice,
    OffsetRanges,
    mark_of,
    parse_partition_offsets,
    parse_ranges,
    ranges_of,
    ranges_text,
    read_mark,
)
from penstock.retry.retry_headers import Trail, read_trail

OFFSETS = st.sets(st.integers(0, 60))


def dead(
    offset: int = 4, key: bytes | None = b"k", cause: str = "ValueError: no", own: Headers = ()
) -> Record[bytes, bytes]:
    trail = Trail("orders", 1, 77, 1_000, "billing", 3, None, 10, 20, cause)
    return Record("orders.billing.dead", 1, offset, key, b"v", trail.headers(own))


@given(OFFSETS)
def test_offsets_are_read_back_from_their_text(offsets: set[int]) -> None:
    ranges = ranges_of(offsets)
    if offsets:
        assert parse_ranges(ranges_text(ranges)) == ranges
    assert {each for each in range(70) if each in OffsetRanges(ranges)} == offsets


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=15))
def test_ranges_may_overlap_and_come_in_any_order(said: list[tuple[int, int]]) -> None:
    offsets = OffsetRanges((low, low + more) for low, more in said)
    model = {each for low, more in said for each in range(low, low + more + 1)}
    assert {each for each in range(60) if each in offsets} == model
    assert offsets.ranges == ranges_of(model)


@given(OFFSETS.filter(bool))
def test_a_mark_is_read_back(offsets: set[int]) -> None:
    write = mark_of("orders.billing.dead", 1, offsets)
    record = Record[bytes, bytes](write.topic, 1, 99, write.key, write.value, write.headers)
    assert OffsetRanges(read_mark(record) or ()).ranges == ranges_of(offsets)
    assert write.partition == 1


def test_a_letter_is_no_mark_whatever_its_headers_say() -> None:
    record = dead(own=mark_of("t", 0, [1]).headers)
    assert read_mark(record) is None and read_mark(dead()) is None


@pytest.mark.parametrize("said", ["", "x", "5-", "-5", "9-5", "1,,2", "1.5"])
def test_what_is_no_range_is_refused(said: str) -> None:
    with pytest.raises(NoChoice):
        parse_ranges(said)


def test_places_are_partitions_with_offsets_or_whole_ones() -> None:
    topic_partitions = parse_partition_offsets(["0:5-9,12", "0:20", "3"])
    assert topic_partitions[0].ranges == [(5, 9), (12, 12), (20, 20)]
    assert 10**15 in topic_partitions[3]
    with pytest.raises(NoChoice):
        parse_partition_offsets(["orders"])


def test_all_conditions_of_a_choice_have_to_hold() -> None:
    letter = Letter.of(dead())
    assert Choice().holds(letter)
    assert Choice(parse_partition_offsets(["1:4"]), frozenset([b"k"]), "VALUEerror").holds(letter)
    for other in (
        Choice(parse_partition_offsets(["0"])),
        Choice(parse_partition_offsets(["1:5"])),
        Choice(keys=frozenset([b"other"])),
        Choice(cause="KeyError"),
        Choice(replayed=True),
    ):
        assert not other.holds(letter)
    replayed = Letter.of(dead(), replayed=True)
    assert not Choice().holds(replayed) and Choice(replayed=None).holds(replayed)


def test_a_letter_that_is_tried_again_begins_at_the_first_step() -> None:
    write = Letter.of(dead(own=(("own", b"1"),))).again("orders.billing.retry.5s", 999)
    trail = read_trail(write.headers)
    assert (trail.attempts, trail.due_ms, trail.cause) == (0, 999, "")
    assert (trail.topic, trail.partition, trail.offset) == ("orders", 1, 77)
    assert (write.key, write.value, write.partition) == (b"k", b"v", 1)
    assert dict(write.headers)["own"] == b"1"
    assert dict(write.headers)[REPLAYED] == b"orders.billing.dead-1@4"


def test_a_letter_for_the_source_carries_its_own_headers_and_where_it_was() -> None:
    own = (("own", b"1"), (REPLAYED, b"an earlier one"))
    write = Letter.of(dead(own=own)).to_source()
    assert (write.topic, write.partition) == ("orders", 1)
    assert write.headers == (("own", b"1"), (REPLAYED, b"orders.billing.dead-1@4"))


def test_what_others_have_put_there_has_no_trail() -> None:
    letter = Letter.of(Record("orders.billing.dead", 0, 0, None, b"?"))
    assert letter.trail is None and Choice().holds(letter) and not Choice(cause="x").holds(letter)
