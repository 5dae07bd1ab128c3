"""What a micro-batch takes, and who reads what of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.raw.range_progress import OffsetRange
from penstock.model import ZERO_ID, TopicPartition
from penstock.spark.options.source import BatchLimits
from penstock.spark.source.batch_shares import RECORDS_PER_TASK_MIN, deal, holds_back, limited
from penstock.spark.source.data_loss import DataLoss, Losses, base_of, unknown_to, within_log
from penstock.spark.source.positions import BadPosition, Position

A, B, C = (TopicPartition("t", number) for number in range(3))
OLD, NEW = b"o" * 16, b"n" * 16
OFFSETS = st.integers(0, 10**7)


def still_asked(_: TopicPartition) -> bool:
    return True


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", n), 100, 100 + size) for n, size in enumerate(sizes)]


def sizes_of(dealt: list[list[OffsetRange]]) -> list[int]:
    return [sum(each.end - each.start for each in task) for task in dealt]


# -- limits


def test_each_partition_gets_its_share_of_a_limit() -> None:
    assert limited({A: 0, B: 0}, {A: 300, B: 100}, 40) == {A: 30, B: 10}


def test_a_partition_with_little_is_not_forgotten() -> None:
    assert limited({A: 0, B: 0}, {A: 10**6, B: 1}, 10)[B] == 1


def test_what_is_below_the_limit_is_taken_whole() -> None:
    assert limited({A: 5, B: 0}, {A: 9, B: 3}, 10) == {A: 9, B: 3}


@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.tuples(OFFSETS, OFFSETS), min_size=1),
    st.integers(1, 10**7),
)
def test_a_limited_batch_stays_within_what_is_there(
    spans: dict[TopicPartition, tuple[int, int]], most: int
) -> None:
    start = {each: low for each, (low, _) in spans.items()}
    latest = {each: low + size for each, (low, size) in spans.items()}
    end = limited(start, latest, most)
    assert all(start[each] <= end[each] <= latest[each] for each in spans)
    assert sum(end.values()) - sum(start.values()) <= most + len(spans)
    assert end != start or start == latest


def test_a_batch_waits_until_it_is_worth_it() -> None:
    assert holds_back({A: 0}, {A: 5}, BatchLimits(None, 10, 1_000), waited_ms=999)


def test_a_batch_does_not_wait_longer_than_told() -> None:
    assert not holds_back({A: 0}, {A: 5}, BatchLimits(None, 10, 1_000), waited_ms=1_000)


def test_a_batch_that_is_large_enough_does_not_wait() -> None:
    assert not holds_back({A: 0}, {A: 10}, BatchLimits(None, 10, 1_000), waited_ms=0)


# -- tasks


def test_few_records_of_many_partitions_go_into_one_task() -> None:
    assert len(deal(ranges(*[10] * 50), 4, None, None)) == 1


def test_many_records_of_one_partition_keep_every_core_busy() -> None:
    assert sizes_of(deal(ranges(4_000_000), 4, None, None)) == [1_000_000] * 4


def test_a_task_is_worth_its_start() -> None:
    dealt = deal(ranges(RECORDS_PER_TASK_MIN * 3), 8, None, None)
    assert min(sizes_of(dealt)) >= RECORDS_PER_TASK_MIN


def test_min_partitions_asks_for_more_tasks() -> None:
    assert len(deal(ranges(100), 1, 7, None)) == 7


def test_a_task_has_at_most_so_many_records() -> None:
    assert max(sizes_of(deal(ranges(95, 7), 1, None, 10))) <= 10


def test_nothing_to_read_needs_no_task() -> None:
    assert deal(ranges(0, 0), 4, 3, None) == []


@given(
    st.lists(st.integers(0, 300_000), max_size=8),
    st.integers(1, 8),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1_000, 100_000),
)
def test_every_offset_is_read_by_exactly_one_task(
    sizes: list[int], cores: int, tasks_min: int | None, records_max: int | None
) -> None:
    asked = ranges(*sizes)
    dealt = sorted(
        (part for task in deal(asked, cores, tasks_min, records_max) for part in task),
        key=lambda part: (part.partition, part.start),
    )
    joined: dict[TopicPartition, tuple[int, int]] = {}
    for part in dealt:
        low, high = joined.get(part.partition, (part.start, part.start))
        assert part.start == high, "no gap and no overlap"
        joined[part.partition] = (low, part.end)
    assert joined == {e.partition: (e.start, e.end) for e in asked if e.end > e.start}


# -- positions


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-1"]), st.integers(0, 20)),
        st.integers(0, 2**62),
    )
)
def test_a_position_comes_back_from_its_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    position = Position(offsets, {each.topic: OLD for each in offsets})
    assert Position.from_json(position.to_json()) == position


def test_a_position_of_sparks_own_source_is_understood() -> None:
    assert Position.from_json({"t": {"0": 5}}) == Position({A: 5})


@pytest.mark.parametrize("wrong", [{"t": 5}, {"t": {"zero": 5}}, {"t": {"0": "x"}}])
def test_what_is_no_position_is_refused(wrong: dict[str, dict[str, int | str]]) -> None:
    with pytest.raises(BadPosition, match="checkpoint"):
        Position.from_json(wrong)


# -- what is gone


STRICT, LENIENT = Losses(fail=True), Losses(fail=False)


def test_a_new_partition_is_read_from_its_beginning() -> None:
    start, now = Position({A: 5}), Position({A: 9, B: 4})
    assert unknown_to(start, now) == [B]
    assert base_of(start, now, {B: 2}, STRICT, still_asked) == {A: 5, B: 2}


@pytest.mark.parametrize(
    ("start", "now", "words"),
    [
        (Position({A: 5, B: 5}), Position({A: 9}), "t-1 were deleted"),
        (Position({A: 5}, {"t": OLD}), Position({A: 9}, {"t": NEW}), "created again"),
        (Position({A: 5}), Position({A: 3}), "ends at 3"),
    ],
)
def test_a_loss_stops_the_query_with_its_reason(start: Position, now: Position, words: str) -> None:
    earliest = dict.fromkeys(unknown_to(start, now), 0)
    with pytest.raises(DataLoss, match=words):
        base_of(start, now, earliest, STRICT, still_asked)


def test_a_topic_made_anew_is_read_from_its_beginning_if_losses_may_be() -> None:
    start, now = Position({A: 5}, {"t": OLD}), Position({A: 9}, {"t": NEW})
    assert base_of(start, now, dict.fromkeys(unknown_to(start, now), 0), LENIENT, still_asked) == {
        A: 0
    }


def test_a_log_that_has_shrunk_is_read_on_from_its_end_if_losses_may_be() -> None:
    assert base_of(Position({A: 5}), Position({A: 3}), {}, LENIENT, still_asked) == {A: 3}


def test_not_knowing_a_topics_id_is_no_loss() -> None:
    start, now = Position({A: 5}, {"t": ZERO_ID}), Position({A: 9}, {"t": NEW})
    assert base_of(start, now, {}, STRICT, still_asked) == {A: 5}


def test_what_a_query_does_not_subscribe_to_any_more_was_not_deleted() -> None:
    start, now = Position({A: 5, B: 5}), Position({A: 9})
    with pytest.raises(DataLoss, match=r"t-1 .*does not subscribe to them any more.*failOnData"):
        base_of(start, now, {}, STRICT, lambda each: each != B)


def test_a_loss_that_is_met_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    losses = Losses(fail=False)
    for _ in range(2):
        base_of(Position({A: 5}), Position({A: 3}), {}, losses, still_asked)
    assert len(caplog.messages) == 1


def test_offsets_after_the_end_of_a_log_are_refused_by_the_option_that_says_them() -> None:
    with pytest.raises(DataLoss, match=r"startingOffsets says 1000 for t-0, which ends at 3\. Say"):
        within_log({A: 1000}, {A: 3}, "startingOffsets", STRICT)


def test_offsets_after_the_end_of_a_log_are_its_end_if_losses_may_be() -> None:
    assert within_log({A: 1000, B: 1}, {A: 3, B: 3}, "endingOffsets", LENIENT) == {A: 3, B: 1}
