"""The follower of a partition: what it asks, and what it does with an answer."""

import pytest
from replica_driver import StoredRecords, answer, batch, follower_of, offsets_of

from penstock.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InconsistentTopicId,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.replication.follower import BACKOFF_MS, FollowerState, PartitionFollower
from penstock.replication.follower_steps import (
    Append,
    AskEnd,
    AskStart,
    FailReplica,
    NewLeaderNeeded,
    StartAt,
    TruncateTo,
    WaitUntil,
)
from penstock.replication.watermarks import follower_watermark, restart_watermark

NOW = 1000.0


def diverged(log: StoredRecords, epoch: int, end: int) -> object:
    """Return the step after the leader says where an epoch ends in its log."""
    follower = follower_of(log)
    return follower.answered(log.end_offset, 5, answer(diverging=(epoch, end)), NOW)


def out_of_range(log: StoredRecords) -> PartitionFollower:
    """Return a follower that asks the leader for its log end."""
    follower = follower_of(log)
    error = answer(error=OffsetOutOfRange.code)
    assert follower.answered(log.end_offset, 5, error, NOW) == AskEnd(5)
    return follower


# Rule 11: divergence


def test_a_follower_cuts_what_its_leader_lacks_of_an_epoch() -> None:
    assert diverged(StoredRecords((4, 0), end=20), 4, 15) == TruncateTo(15)


def test_a_follower_cuts_an_epoch_that_its_leader_does_not_know() -> None:
    assert diverged(StoredRecords((3, 0), (4, 12), end=20), 3, 18) == TruncateTo(12)


def test_a_follower_without_the_leaders_epoch_cuts_to_the_end_of_its_next_smaller_one() -> None:
    assert diverged(StoredRecords((1, 0), (4, 12), end=20), 3, 18) == TruncateTo(12)


def test_a_follower_without_a_smaller_epoch_cuts_to_the_start_of_its_first_one() -> None:
    assert diverged(StoredRecords((4, 12), start=12, end=20), 3, 18) == TruncateTo(12)
    assert diverged(StoredRecords((4, 12), start=12, end=20), 3, 10) == TruncateTo(10)


def test_a_follower_without_epochs_cuts_to_the_leaders_end() -> None:
    assert diverged(StoredRecords(end=20), 3, 18) == TruncateTo(18)


def test_a_truncation_never_lengthens_the_log() -> None:
    assert diverged(StoredRecords((3, 0), end=20), 3, 30) == TruncateTo(20)


def test_a_follower_asks_again_with_its_new_last_epoch() -> None:
    log = StoredRecords((1, 0), (4, 12), end=20)
    follower = follower_of(log)
    assert follower.last_fetched_epoch == 4
    step = follower.answered(20, 5, answer(diverging=(3, 18)), NOW)
    assert isinstance(step, TruncateTo)
    log.truncate_to(step.offset)
    follower.finished()
    assert (log.end_offset, follower.last_fetched_epoch) == (12, 1)


def test_a_follower_with_epochs_never_cuts_to_the_high_watermark() -> None:
    assert follower_of(StoredRecords((4, 0), end=20)).first_step(high_watermark=10) is None


def test_a_log_without_epochs_is_cut_at_the_high_watermark_first() -> None:
    assert follower_of(StoredRecords(end=20)).first_step(high_watermark=10) == TruncateTo(10)
    assert follower_of(StoredRecords(end=20)).first_step(high_watermark=20) is None


def test_a_diverging_answer_moves_no_high_watermark() -> None:
    log = StoredRecords((4, 0), end=20)
    follower = follower_of(log)
    follower.answered(20, 5, answer(diverging=(4, 15), watermark=18), NOW)
    assert follower.leader_watermark == -1


# Rule 12: answers to the present question, and batches of higher epochs


def test_an_answer_to_another_offset_does_not_count() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    assert follower.answered(15, 5, answer(batch(15, 5)), NOW) is None


def test_an_answer_of_another_leader_epoch_does_not_count() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.follow(2, 6)
    assert follower.answered(20, 5, answer(batch(20, 5)), NOW) is None


def test_an_answer_to_a_busy_follower_does_not_count() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(diverging=(4, 15)), NOW)
    assert follower.answered(20, 5, answer(batch(20, 5)), NOW) is None


def test_batches_of_a_higher_epoch_are_left_out() -> None:
    assert offsets_of(batch(0, 4) + batch(1, 5) + batch(2, 6), 5) == [0, 1]


def test_batches_behind_one_of_a_higher_epoch_are_left_out() -> None:
    assert offsets_of(batch(0, 6) + batch(1, 5), 5) == []


def test_an_incomplete_last_batch_is_left_out() -> None:
    assert offsets_of(batch(0, 5) + batch(1, 5)[:-1], 5) == [0]


def test_the_received_bytes_stay_untouched() -> None:
    log = StoredRecords((4, 0), end=20)
    data = answer(batch(20, 5), batch(21, 6), watermark=21)
    step = follower_of(log).answered(20, 5, data, NOW)
    assert isinstance(step, Append)
    assert step.records.obj is data.records
    assert bytes(step.records) == batch(20, 5)


def test_records_that_are_no_batches_are_asked_for_again() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    step = follower.answered(20, 5, answer(bytes(80)), NOW)
    assert isinstance(step, WaitUntil)


# Rule 13: high watermark and log start


def test_an_answer_brings_the_high_watermark_and_the_log_start() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    step = follower.answered(20, 5, answer(watermark=18, log_start=3), NOW)
    assert isinstance(step, Append)
    assert (len(step.records), step.high_watermark, step.log_start) == (0, 18, 3)


def test_a_follower_without_new_records_is_not_busy() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(watermark=18), NOW)
    assert follower.state is FollowerState.FETCHING


def test_a_follower_with_new_records_is_busy_until_they_count() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(batch(20, 5)), NOW)
    assert not follower.is_ready(NOW)
    follower.finished()
    assert follower.is_ready(NOW)


@pytest.mark.parametrize(("leader", "expected"), [(10, 10), (30, 20), (2, 5)])
def test_the_high_watermark_of_a_follower_is_the_leaders_within_the_log(
    leader: int, expected: int
) -> None:
    assert follower_watermark(leader, 5, 20) == expected


def test_the_lag_counts_committed_records_of_the_leader() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(watermark=27), NOW)
    assert follower.lag == 7


# Rule 14: out of range


def test_out_of_range_a_follower_asks_for_the_leaders_end() -> None:
    out_of_range(StoredRecords((4, 0), end=20))


def test_a_log_longer_than_the_leaders_is_cut() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    assert follower.end_known(5, 15) == TruncateTo(15)


def test_a_shorter_log_asks_for_the_leaders_start() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    assert follower.end_known(5, 50) == AskStart(5)


def test_a_log_that_ends_before_the_leaders_start_begins_there() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    follower.end_known(5, 50)
    assert follower.start_known(5, 30) == StartAt(30)


def test_a_log_that_reaches_the_leaders_start_goes_on() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    follower.end_known(5, 50)
    assert follower.start_known(5, 20) is None
    assert follower.state is FollowerState.FETCHING


def test_offsets_of_another_epoch_do_not_count() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    follower.follow(2, 6)
    assert follower.end_known(5, 15) is None
    assert follower.start_known(5, 30) is None


def test_an_empty_log_takes_a_first_batch_that_begins_before_its_start() -> None:
    follower = follower_of(StoredRecords(start=12, end=12))
    step = follower.answered(12, 5, answer(batch(10, 5, records=4), log_start=12), NOW)
    assert isinstance(step, Append)
    assert step.restart_at == 10


def test_a_log_whose_records_the_leader_has_all_deleted_begins_anew() -> None:
    follower = follower_of(StoredRecords((4, 0), start=5, end=12))
    step = follower.answered(12, 5, answer(batch(10, 5, records=4), log_start=12), NOW)
    assert isinstance(step, Append)
    assert step.restart_at == 10


@pytest.mark.parametrize(
    ("log", "first"),
    [(StoredRecords((4, 0), start=5, end=12), 10), (StoredRecords(start=12, end=12), 8)],
)
def test_any_other_batch_before_the_end_fails_the_replica(log: StoredRecords, first: int) -> None:
    follower = follower_of(log)
    step = follower.answered(12, 5, answer(batch(first, 5, records=4)), NOW)
    assert isinstance(step, FailReplica)
    assert follower.state is FollowerState.FAILED


# Errors


@pytest.mark.parametrize(
    "error",
    [
        UnknownLeaderEpoch(),
        NotLeaderOrFollower(),
        UnknownTopicOrPartition(),
        UnknownTopicId(),
        InconsistentTopicId(),
        KafkaStorageError(),
        UnknownServerError(),
    ],
)
def test_an_error_that_passes_delays_the_next_fetch(error: KafkaError) -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    step = follower.answered(20, 5, answer(error=error.code), NOW)
    assert isinstance(step, WaitUntil)
    assert step.until_ms == NOW + BACKOFF_MS
    assert not follower.is_ready(NOW)
    assert follower.is_ready(NOW + BACKOFF_MS)


def test_a_fenced_epoch_is_over() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    step = follower.answered(20, 5, answer(error=FencedLeaderEpoch.code), NOW)
    assert step == NewLeaderNeeded(5)
    assert not follower.is_ready(NOW + 10 * BACKOFF_MS)


def test_another_leader_epoch_ends_a_failure() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(error=FencedLeaderEpoch.code), NOW)
    assert follower.follow(2, 6)
    assert follower.is_ready(NOW)


def test_another_leader_epoch_does_not_end_a_change_of_the_log() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(diverging=(4, 15)), NOW)
    follower.follow(2, 6)
    assert not follower.is_ready(NOW)


def test_the_same_leader_epoch_changes_nothing() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(error=FencedLeaderEpoch.code), NOW)
    assert not follower.follow(2, 5)
    assert follower.state is FollowerState.FAILED


def test_a_question_that_fails_is_asked_again_by_the_next_fetch() -> None:
    follower = out_of_range(StoredRecords((4, 0), end=20))
    assert isinstance(follower.question_failed(5, NotLeaderOrFollower(), NOW), WaitUntil)


def test_damaged_records_are_asked_for_again() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(batch(20, 5)), NOW)
    assert isinstance(follower.append_failed(CorruptMessage(), NOW), WaitUntil)


def test_a_log_that_cannot_be_written_fails_the_replica() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.answered(20, 5, answer(batch(20, 5)), NOW)
    assert isinstance(follower.append_failed(KafkaStorageError(), NOW), FailReplica)


# Rule 15: a restart


@pytest.mark.parametrize(("checkpoint", "expected"), [(10, 10), (30, 20), (2, 5)])
def test_the_high_watermark_after_a_restart_is_that_of_the_checkpoint(
    checkpoint: int, expected: int
) -> None:
    assert restart_watermark(checkpoint, 5, 20) == expected


# Durability


def test_a_follower_that_waits_for_a_sync_is_not_asked_for() -> None:
    follower = follower_of(StoredRecords((4, 0), end=20))
    follower.begin_work()
    assert not follower.is_ready(NOW)
    follower.finished()
    assert follower.is_ready(NOW)
