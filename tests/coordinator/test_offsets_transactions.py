"""TxnOffsetCommit and markers: what a transaction commits counts when the transaction does."""

import pytest
from offset_story import START_MS, Story

from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.records import EndMarker, PendingOffset
from penstock.errors import (
    IllegalGeneration,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownMemberId,
)
from penstock.wire.records.group import OffsetCommitKey, OffsetCommitValue

ALICE, BOB = 77, 78
ORDERS = ("orders", 0)
ORDERS_ID = bytes(range(16))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_commit_in_a_transaction_is_a_pending_record_of_its_producer(story: Story) -> None:
    assert story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, metadata="m") == {ORDERS: 0}
    assert story.written == [
        PendingOffset(
            ALICE,
            0,
            OffsetCommitKey(group="g", topic="orders", partition=0),
            OffsetCommitValue(offset=5, metadata="m", commit_timestamp=START_MS),
        )
    ]


def test_it_does_not_count_before_the_transaction_is_committed(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5, ("bills", 1): 6})
    assert story.fetch("g", None) == {}
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 5, ("bills", 1): 6}


def test_it_never_counts_if_the_transaction_is_aborted(story: Story) -> None:
    story.commit("g", {ORDERS: 3})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.end(ALICE, committed=False)
    assert story.fetch("g", None, stable=True) == {ORDERS: 3}


def test_the_next_transaction_of_a_producer_begins_with_nothing(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.end(ALICE, committed=False)
    story.commit_in_transaction(ALICE, "g", {("bills", 1): 6})
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {("bills", 1): 6}


def test_the_last_of_several_commits_in_a_transaction_counts(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 4})
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 4}


def test_a_restart_in_the_middle_changes_nothing(story: Story) -> None:
    story.commit("g", {ORDERS: 3})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.restart()
    assert story.store.has_pending("g")
    assert story.fetch("g", None) == {ORDERS: 3}
    story.end(ALICE, committed=True)
    story.restart()
    assert story.fetch("g", None, stable=True) == {ORDERS: 5}


def test_the_marker_is_written_even_if_nothing_is_held(story: Story) -> None:
    story.end(ALICE, committed=True)
    assert story.written == [EndMarker(ALICE, 0, 3, committed=True, transactions_v2=True)]


def test_a_transaction_ends_for_its_own_producer_only(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit_in_transaction(BOB, "g", {("bills", 1): 6})
    story.end(BOB, committed=True)
    assert story.fetch("g", None) == {("bills", 1): 6}
    assert story.store.is_pending("g", *ORDERS)
    assert not story.store.is_pending("g", "bills", 1)


# Order


def test_a_plain_commit_that_was_written_later_is_not_overwritten(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit("g", {ORDERS: 9})
    assert story.store.is_pending("g", *ORDERS), "it stays unstable until the transaction ends"
    story.end(ALICE, committed=True)
    assert story.fetch("g", None, stable=True) == {ORDERS: 9}


def test_a_plain_commit_that_was_written_before_is_overwritten(story: Story) -> None:
    story.commit("g", {ORDERS: 9})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 5}


def test_a_commit_after_the_plain_one_counts_again(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit("g", {ORDERS: 9})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 7})
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 7}


def test_of_two_transactions_the_one_that_wrote_last_wins_not_the_one_that_ended_last(
    story: Story,
) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit_in_transaction(BOB, "g", {ORDERS: 6})
    story.end(BOB, committed=True)
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 6}


def test_of_two_transactions_the_aborted_one_overtakes_nobody(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit_in_transaction(BOB, "g", {ORDERS: 6})
    story.end(BOB, committed=False)
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 5}


def test_the_order_is_the_same_after_a_restart(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    story.commit_in_transaction(BOB, "g", {ORDERS: 6})
    story.end(BOB, committed=True)
    story.restart()
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {ORDERS: 6}


def test_a_deleted_offset_does_not_come_back_with_the_marker(story: Story) -> None:
    story.commit("g", {ORDERS: 3})
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5, ("bills", 1): 6})
    story.delete("g", [ORDERS])
    assert not story.store.is_pending("g", *ORDERS)
    story.end(ALICE, committed=True)
    assert story.fetch("g", None) == {("bills", 1): 6}


# Who may


def test_a_producer_without_a_group_makes_one_to_hold_its_offsets(story: Story) -> None:
    story.commit_in_transaction(ALICE, "g", {ORDERS: 5})
    assert story.state.groups["g"].is_empty


def test_a_generation_of_a_group_that_nobody_knows_is_illegal(story: Story) -> None:
    with pytest.raises(IllegalGeneration):
        story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, member_id="m", epoch=3)


def test_old_producers_name_no_member_and_may_commit_to_a_group_with_members(
    story: Story,
) -> None:
    story.classic("g")
    assert story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, version=2) == {ORDERS: 0}


def test_the_group_refuses_zombies(story: Story) -> None:
    story.classic("g")
    with pytest.raises(UnknownMemberId):
        story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, member_id="other", epoch=5)
    with pytest.raises(IllegalGeneration):
        story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, member_id="m", epoch=4)
    assert not story.store.has_pending("g")


def test_a_stale_member_epoch_is_told_as_a_generation(story: Story) -> None:
    story.consumers("g").refusal = StaleMemberEpoch("two epochs ago")
    with pytest.raises(IllegalGeneration, match="two epochs ago"):
        story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, member_id="m", epoch=4)


def test_a_stale_partition_is_told_as_a_generation(story: Story) -> None:
    story.topics.make("orders", ORDERS_ID)
    story.consumers("g").stale = ((ORDERS_ID, 0),)
    with pytest.raises(IllegalGeneration, match="somebody else"):
        story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, member_id="m", epoch=4)


def test_metadata_that_is_too_large_is_refused_per_partition() -> None:
    story = Story(GroupSettings(offset_metadata_bytes_max=3))
    codes = story.commit_in_transaction(ALICE, "g", {ORDERS: 5}, metadata="1234")
    assert codes == {ORDERS: OffsetMetadataTooLarge.code}
    assert story.written == []
