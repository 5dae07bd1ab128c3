"""The leader of a partition: high watermark, in-sync set, fetches of followers."""

import pytest
from replica_driver import LAG_MS, LedPartition

from penstock.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotLeaderOrFollower,
    OperationNotAttempted,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.replication.follower_progress import FetchContact
from penstock.replication.isr_proposal import IsrProposal
from penstock.replication.leader import PartitionLeader

# Rule 1: the maximal set, and replicas about to join


def test_the_high_watermark_is_the_smallest_end_of_the_set() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.fetch(2, 15)
    assert led.fetch(3, 12)
    assert led.watermark == 12


def test_the_leaders_own_unsynced_records_do_not_count() -> None:
    led = LedPartition()
    led.whole(10)
    led.leader.appended(20)
    led.whole(20)
    assert led.watermark == 10
    assert led.leader.advance(20, led.now)


def test_the_high_watermark_waits_for_a_replica_that_a_pending_change_adds() -> None:
    led = LedPartition(isr=(1, 2))
    led.whole(10)
    assert led.proposed(3) == (1, 2, 3)
    led.append(20)
    led.now += 10 * LAG_MS
    led.fetch(2, 20)
    assert led.watermark == 10


def test_the_high_watermark_waits_for_a_replica_that_a_pending_change_removes() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.now += 10 * LAG_MS
    led.fetch(2, 20)
    assert led.shrunk() == (1, 2)
    led.fetch(2, 20)
    assert led.watermark == 10


def test_the_high_watermark_waits_for_a_caught_up_replica_outside_the_set() -> None:
    led = LedPartition(isr=(1, 2))
    led.whole(10)
    led.append(20)
    led.fetch(2, 20)
    assert led.watermark == 10


def test_the_high_watermark_does_not_wait_for_a_fenced_replica_outside_the_set() -> None:
    led = LedPartition(isr=(1, 2), is_eligible=lambda replica, _epoch: replica != 3)
    led.whole(10)
    led.append(20)
    assert led.fetch(2, 20)


def test_the_high_watermark_does_not_wait_for_a_replica_that_lags_outside_the_set() -> None:
    led = LedPartition(isr=(1, 2))
    led.whole(10)
    led.append(20)
    led.now += 2 * LAG_MS
    assert led.fetch(2, 20)


def test_within_an_epoch_the_high_watermark_never_moves_back() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.whole(20)
    led.fetch(2, 11)
    assert led.watermark == 20


# Rule 2: min.insync.replicas


def test_below_min_insync_replicas_the_high_watermark_stands_still() -> None:
    led = LedPartition(isr=(1,))
    assert not led.append(20)
    assert led.watermark == 10


def test_a_pending_member_does_not_count_towards_min_insync_replicas() -> None:
    led = LedPartition(isr=(1,))
    led.fetch(2, 10)
    assert led.proposed(2) == (1, 2)
    led.append(20)
    assert not led.fetch(2, 20)


def test_the_high_watermark_moves_once_the_set_is_large_enough() -> None:
    led = LedPartition(isr=(1,))
    led.append(20)
    led.fetch(2, 20)
    assert led.leader.update(21, (1, 2), (1, 2, 3), led.now)
    assert led.watermark == 20


# Rule 3: acks=all


def test_acks_all_is_rejected_by_the_committed_set() -> None:
    led = LedPartition(isr=(1,))
    led.fetch(2, 10)
    led.proposed(2)
    assert led.leader.below_min_insync


def test_a_committed_record_is_acknowledged_by_the_maximal_set() -> None:
    led = LedPartition(isr=(1,))
    assert led.leader.below_min_insync_at_ack
    led.fetch(2, 10)
    led.proposed(2)
    assert not led.leader.below_min_insync_at_ack


# Rule 4: a new leader


def test_a_new_leader_knows_no_end_of_a_follower() -> None:
    led = LedPartition()
    assert not led.append(20)
    assert [each.end for each in led.leader.followers.values()] == [-1, -1]


def test_members_of_the_set_are_caught_up_when_a_leadership_begins() -> None:
    led = LedPartition()
    led.append(20)
    led.now += LAG_MS
    assert led.shrunk() is None
    led.now += 1
    assert led.shrunk() == (1,)


def test_other_replicas_were_never_caught_up_when_a_leadership_begins() -> None:
    led = LedPartition(isr=(1, 2))
    led.append(20)
    assert led.fetch(2, 20)


def test_a_leader_in_another_epoch_keeps_the_ends() -> None:
    led = LedPartition()
    led.whole(10)
    led.leader.begin(6, 21, (1, 2, 3), (1, 2, 3), 10, led.now)
    led.leader.appended(20)
    assert [each.end for each in led.leader.followers.values()] == [10, 10]


def test_a_leader_in_another_epoch_begins_the_times_again() -> None:
    led = LedPartition()
    led.append(20)
    led.now += 2 * LAG_MS
    led.leader.begin(6, 21, (1, 2, 3), (1, 2, 3), 20, led.now)
    assert led.shrunk() is None


def test_a_leader_that_followed_in_between_knows_no_end() -> None:
    led = LedPartition()
    led.whole(10)
    led.leader.follow(6, 21, (1, 2, 3))
    led.leader.begin(7, 22, (1, 2, 3), (1, 2, 3), 10, led.now)
    assert [each.end for each in led.leader.followers.values()] == [-1, -1]


def test_a_leader_that_has_missed_an_epoch_knows_no_end() -> None:
    led = LedPartition()
    led.append(20)
    led.fetch(2, 20)
    led.fetch(3, 10)
    led.leader.begin(7, 22, (1, 2), (1, 2, 3), 20, led.now)  # replica 3 has led in epoch 6
    assert not led.leader.advance(20, led.now)
    assert [each.end for each in led.leader.followers.values()] == [-1, -1]


def test_no_replica_may_lead_with_unknown_records_once_all_in_sync_have_fetched() -> None:
    led = LedPartition()
    led.fetch(2, 5)
    assert not led.leader.is_followed
    led.fetch(3, 5)
    assert led.leader.is_followed


def test_below_min_insync_replicas_an_eligible_replica_may_have_unknown_records() -> None:
    led = LedPartition(isr=(1,))
    assert not led.leader.is_followed


def test_an_epoch_begins_at_the_log_end() -> None:
    led = LedPartition(end=30, watermark=10)
    assert led.leader.epoch_start == 30


def test_another_epoch_ends_a_pending_change() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    led.proposed(3)
    led.leader.begin(6, 21, (1, 2), (1, 2, 3), 10, led.now)
    assert led.leader.pending is None
    assert led.leader.maximal_isr == (1, 2)


def test_while_a_node_follows_it_keeps_the_high_watermark() -> None:
    led = LedPartition()
    led.leader.follow(6, 21, (1, 2, 3))
    assert led.watermark == 10
    assert led.leader.isr == ()


# Rule 5: to join


def test_a_replica_at_the_high_watermark_joins() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal == IsrProposal(5, 20, ((1, -1), (2, -1), (3, 7)))


def test_a_replica_below_the_high_watermark_does_not_join() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 9)
    assert led.proposed(3) is None


def test_a_replica_below_the_start_of_the_epoch_does_not_join() -> None:
    led = LedPartition(isr=(1, 2), end=30, watermark=10)
    led.fetch(3, 29)
    assert led.proposed(3) is None
    led.fetch(3, 30)
    assert led.proposed(3) == (1, 2, 3)


def test_a_replica_that_has_not_fetched_does_not_join() -> None:
    led = LedPartition(isr=(1, 2), end=0, watermark=0)
    assert led.proposed(3) is None


def test_an_ineligible_broker_does_not_join() -> None:
    led = LedPartition(isr=(1, 2), is_eligible=lambda _replica, _epoch: False)
    led.fetch(3, 10)
    assert led.proposed(3) is None


def test_a_broker_joins_with_the_epoch_of_its_fetch() -> None:
    asked: list[tuple[int, int]] = []

    def is_eligible(replica: int, epoch: int) -> bool:
        asked.append((replica, epoch))
        return epoch == 8

    led = LedPartition(isr=(1, 2), is_eligible=is_eligible)
    led.fetch(3, 10, epoch=7)
    assert led.proposed(3) is None
    assert (3, 7) in asked
    led.fetch(3, 10, epoch=8)
    assert led.proposed(3) == (1, 2, 3)


# Rule 6: to leave


def test_a_replica_that_lags_leaves() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.fetch(2, 20)
    led.now += LAG_MS + 1
    led.fetch(2, 20)
    assert led.shrunk() == (1, 2)


def test_a_replica_at_the_leaders_end_never_leaves() -> None:
    led = LedPartition()
    led.append(20)
    led.whole(20)
    led.now += 10 * LAG_MS
    assert led.shrunk() is None


def test_a_replica_at_the_end_of_the_fetch_before_is_caught_up() -> None:
    led = LedPartition()
    led.whole(10)
    end = 10
    for _ in range(10):
        led.now += LAG_MS / 2
        led.append(end + 10)
        led.whole(end)  # always one append behind
        end += 10
    assert led.shrunk() is None


def test_a_replica_behind_the_end_of_the_fetch_before_lags() -> None:
    led = LedPartition()
    led.whole(10)
    end = 10
    for _ in range(10):
        led.now += LAG_MS / 2
        led.append(end + 20)
        led.whole(end - 1)
        end += 10
    assert led.shrunk() == (1,)


def test_fetches_of_a_session_keep_an_idle_partition_caught_up() -> None:
    led = LedPartition()
    led.whole(10)
    for _ in range(10):
        led.now += LAG_MS
        led.beat(2)
        led.beat(3)
    led.append(20)
    assert led.shrunk() is None
    led.now += LAG_MS + 1
    assert led.shrunk() == (1,)


def test_a_session_that_no_longer_has_the_partition_does_not_keep_it_caught_up() -> None:
    led = LedPartition()
    led.whole(10)
    led.leader.forget_session(2, led.contacts[2])
    led.append(20)
    led.now += LAG_MS + 1
    led.beat(2)
    assert led.shrunk() == (1,)


def test_a_fetch_of_another_session_counts_from_its_own_arrival() -> None:
    led = LedPartition()
    led.whole(10)
    led.now += LAG_MS
    led.contacts[2] = FetchContact(led.now)
    led.fetch(2, 10)
    led.append(20)
    led.now += 1
    assert led.shrunk() == (1, 2)


def test_a_session_looks_again_at_partitions_that_another_session_has_fetched() -> None:
    led = LedPartition()
    led.whole(10)
    newer = led.contacts[2]
    led.contacts[2] = FetchContact(led.now)
    led.fetch(2, 4)
    assert newer.arrive(led.now)
    assert not newer.arrive(led.now)


def test_a_session_looks_at_nothing_again_that_only_its_own_fetches_concern() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.whole(20)
    assert not led.contacts[2].arrive(led.now)


def test_a_fetch_that_names_nothing_brings_the_epoch_of_its_broker() -> None:
    led = LedPartition(isr=(1, 2), is_eligible=lambda _replica, epoch: epoch == 8)
    led.whole(10)
    led.leader.note_epoch(3, 8, led.contacts[3])
    assert led.proposed(3) == (1, 2, 3)


def test_a_fetch_of_a_new_incarnation_brings_no_epoch_to_the_progress_of_the_former_one() -> None:
    led = LedPartition(isr=(1, 2), is_eligible=lambda _replica, epoch: epoch == 8)
    led.whole(10)
    led.leader.note_epoch(3, 8, FetchContact(led.now))
    assert led.proposed(3) is None


def test_the_end_of_an_older_session_leaves_the_newer_one_caught_up() -> None:
    led = LedPartition()
    led.whole(10)
    led.leader.forget_session(2, FetchContact(led.now))
    led.now += 2 * LAG_MS
    led.beat(2)
    led.beat(3)
    led.append(20)
    assert led.shrunk() is None


# Rule 7: one change at a time, and its answers


def test_nothing_joins_while_a_change_is_pending() -> None:
    led = LedPartition(isr=(1,))
    led.whole(10)
    assert led.proposed(2) == (1, 2)
    assert led.proposed(3) is None


def test_nothing_leaves_while_a_change_is_pending() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    led.proposed(3)
    led.append(20)
    led.now += 10 * LAG_MS
    assert led.shrunk() is None


def test_an_accepted_change_is_committed() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    led.leader.accepted(proposal, 5, 21, (1, 2, 3))
    assert led.leader.isr == (1, 2, 3)
    assert led.leader.partition_epoch == 21
    assert led.leader.pending is None


def test_an_answer_with_an_equal_partition_epoch_is_a_success() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    led.leader.accepted(proposal, 5, 20, (1, 2, 3))
    assert led.leader.isr == (1, 2, 3)


def test_an_accepted_shrink_moves_the_high_watermark() -> None:
    led = LedPartition()
    led.whole(10)
    led.append(20)
    led.now += 10 * LAG_MS
    led.fetch(2, 20)
    proposal = led.leader.lagging(led.now, LAG_MS)
    assert proposal is not None
    assert led.leader.accepted(proposal, 5, 21, (1, 2))
    assert led.watermark == 20


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 21), (6, 21), (5, 19)])
def test_an_answer_of_other_epochs_changes_nothing(leader_epoch: int, partition_epoch: int) -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    led.leader.accepted(proposal, leader_epoch, partition_epoch, (1, 2, 3))
    assert led.leader.isr == (1, 2)
    assert led.leader.pending == proposal


def test_an_answer_to_a_change_that_is_over_changes_nothing() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    led.leader.update(21, (1, 2), (1, 2, 3), led.now)
    led.leader.accepted(proposal, 5, 22, (1, 2, 3))
    assert led.leader.isr == (1, 2)


@pytest.mark.parametrize("error", [IneligibleReplica(), OperationNotAttempted()])
def test_a_change_that_was_not_made_goes_back_to_the_committed_set(error: KafkaError) -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    assert not led.leader.rejected(proposal, error)
    assert led.leader.pending is None
    assert led.leader.maximal_isr == (1, 2)


@pytest.mark.parametrize(
    "error",
    [
        FencedLeaderEpoch(),
        InvalidRequest(),
        InvalidUpdateVersion(),
        NewLeaderElected(),
        UnknownTopicId(),
        UnknownTopicOrPartition(),
    ],
)
def test_a_change_that_may_have_been_made_waits_for_the_image(error: KafkaError) -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    assert not led.leader.rejected(proposal, error)
    assert 3 in led.leader.maximal_isr
    led.leader.update(21, (1, 2), (1, 2, 3), led.now)
    assert 3 not in led.leader.maximal_isr


@pytest.mark.parametrize("error", [UnknownServerError(), NotLeaderOrFollower(), None])
def test_a_change_is_sent_again_after_any_other_error(error: KafkaError | None) -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    proposal = led.leader.joining(3, led.now)
    assert proposal is not None
    assert led.leader.rejected(proposal, error)
    assert led.leader.pending == proposal


def test_an_image_in_an_older_partition_epoch_is_no_news() -> None:
    led = LedPartition()
    led.leader.update(19, (1,), (1, 2, 3), led.now)
    assert led.leader.isr == (1, 2, 3)


def test_an_image_of_the_present_partition_epoch_leaves_a_change_pending() -> None:
    led = LedPartition(isr=(1, 2))
    led.fetch(3, 10)
    led.proposed(3)
    led.leader.update(20, (1, 2), (1, 2, 3), led.now)
    assert led.leader.maximal_isr == (1, 2, 3)


def test_a_replica_that_the_image_adds_may_fetch() -> None:
    led = LedPartition()
    led.leader.update(21, (1, 2, 3), (1, 2, 3, 4), led.now)
    led.leader.fetched(4, 7, 10, 0, led.now, FetchContact(led.now))
    assert led.proposed(4) == (1, 2, 3, 4)


# Rule 9: fetches of replicas


def test_a_broker_that_is_no_replica_has_to_come_again() -> None:
    led = LedPartition()
    with pytest.raises(UnknownLeaderEpoch):
        led.leader.fetched(4, 7, 10, 0, led.now, FetchContact(led.now))


def test_a_fetch_of_an_earlier_incarnation_is_rejected() -> None:
    led = LedPartition(live_epoch=lambda _replica: 8)
    with pytest.raises(NotLeaderOrFollower):
        led.fetch(2, 10, epoch=7)


def test_a_fetch_without_a_broker_epoch_passes() -> None:
    led = LedPartition(isr=(1, 2), live_epoch=lambda _replica: 8)
    led.fetch(3, 10, epoch=-1)
    assert led.proposed(3) == (1, 2, 3)


# Rule 15: latest


def test_the_latest_offset_is_unknown_until_earlier_epochs_are_committed() -> None:
    led = LedPartition(end=30, watermark=10)
    assert not led.leader.latest_is_known
    led.leader.advance(30, led.now)
    led.whole(30)
    assert led.leader.latest_is_known


# DeleteRecords


def test_the_low_watermark_is_the_smallest_log_start_of_live_replicas() -> None:
    led = LedPartition()
    led.fetch(2, 10, log_start=3)
    led.fetch(3, 10, log_start=4)
    assert led.leader.low_watermark(9) == 3


def test_the_low_watermark_does_not_wait_for_a_fenced_replica() -> None:
    led = LedPartition(live_epoch=lambda replica: -1 if replica == 2 else 7)
    led.fetch(2, 10, log_start=3)
    led.fetch(3, 10, log_start=4)
    assert led.leader.low_watermark(9) == 4


# A sole replica


def test_a_sole_replica_needs_no_notice_of_its_appends() -> None:
    sole = PartitionLeader(1, 0, (1,), 0, replicas=(1,))
    assert sole.advance(10)
    assert sole.high_watermark == 10
