"""OffsetFetch: what is told, and what is said about the rest."""

import pytest
from offset_story import Story

from penstock.coordinator.events import GroupRequest
from penstock.errors import GroupIdNotFound, StaleMemberEpoch, UnstableOffsetCommit
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)

OLD_ID, NEW_ID = b"old " * 4, b"new " * 4
UNKNOWN = -1


@pytest.fixture
def story() -> Story:
    return Story()


def only_partition(answer: OffsetFetchResponseGroup) -> OffsetFetchResponsePartitions:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition


def test_what_was_never_committed_has_no_offset_and_no_error(story: Story) -> None:
    story.commit("g", {("orders", 0): 5})
    asked = [("orders", 0), ("orders", 1), ("bills", 0)]
    assert story.fetch("g", asked) == {
        ("orders", 0): 5,
        ("orders", 1): UNKNOWN,
        ("bills", 0): UNKNOWN,
    }
    told = only_partition(story.fetch_group("g", [("bills", 0)]))
    assert told == OffsetFetchResponsePartitions(
        partition_index=0,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=0,
    )


def test_a_group_that_nobody_knows_has_no_offsets_and_no_error(story: Story) -> None:
    assert story.fetch("nobody", [("orders", 0)]) == {("orders", 0): UNKNOWN}
    assert story.fetch("nobody", None) == {}


def test_a_dead_group_answers_like_one_that_nobody_knows(story: Story) -> None:
    story.consumers("g")
    story.commit("g", {("orders", 0): 5})
    story.consumers("g").refusal = GroupIdNotFound()
    assert story.fetch("g", [("orders", 0)]) == {("orders", 0): UNKNOWN}
    assert story.fetch("g", None) == {}


def test_whoever_is_no_member_any_more_is_told_nothing(story: Story) -> None:
    story.consumers("g")
    story.commit("g", {("orders", 0): 5})
    story.consumers("g").refusal = StaleMemberEpoch()
    answer = story.fetch_group("g", [("orders", 0)])
    assert (answer.error_code, answer.topics) == (StaleMemberEpoch.code, [])


def test_the_error_of_one_group_does_not_concern_the_others(story: Story) -> None:
    story.consumers("bad").refusal = StaleMemberEpoch()
    story.commit("good", {("orders", 0): 5})
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("bad", "good")]
    outcome = story.work.fetch(GroupRequest(OffsetFetchRequest(groups=groups), 9))
    assert outcome.reply is not None
    bad, good = outcome.reply.groups
    assert (bad.group_id, bad.error_code) == ("bad", StaleMemberEpoch.code)
    assert (good.group_id, good.error_code) == ("good", 0)
    assert only_partition(good).committed_offset == 5


def test_a_fetch_writes_nothing(story: Story) -> None:
    story.fetch("g", [("orders", 0)])
    assert story.written == []
    assert story.state.groups == {}


# Transactions


def test_whoever_needs_a_stable_offset_is_told_to_wait_for_the_transaction(story: Story) -> None:
    story.commit("g", {("orders", 0): 5, ("orders", 1): 6})
    story.commit_in_transaction(77, "g", {("orders", 0): 8})
    answer = story.fetch_group("g", None, stable=True)
    held, free = answer.topics[0].partitions
    assert (held.error_code, held.committed_offset) == (UnstableOffsetCommit.code, -1)
    assert (free.error_code, free.committed_offset) == (0, 6)


def test_whoever_does_not_need_it_is_told_the_committed_offset(story: Story) -> None:
    story.commit("g", {("orders", 0): 5})
    story.commit_in_transaction(77, "g", {("orders", 0): 8})
    assert story.fetch("g", [("orders", 0)]) == {("orders", 0): 5}


def test_a_place_that_is_only_held_is_unstable_too(story: Story) -> None:
    story.commit_in_transaction(77, "g", {("orders", 0): 8})
    told = only_partition(story.fetch_group("g", [("orders", 0)], stable=True))
    assert told.error_code == UnstableOffsetCommit.code
    assert story.fetch("g", None, stable=True) == {}


# Topic ids


def test_an_offset_of_an_older_topic_of_that_name_is_not_told(story: Story) -> None:
    story.topics.make("orders", OLD_ID)
    story.commit("g", {("orders", 0): 5})
    answer = story.fetch_group("g", [("orders", 0)], topic_id=NEW_ID)
    assert answer.topics[0].topic_id == NEW_ID
    assert only_partition(answer).committed_offset == UNKNOWN
    answer = story.fetch_group("g", [("orders", 0)], topic_id=OLD_ID)
    assert only_partition(answer).committed_offset == 5


def test_without_an_id_on_either_side_the_name_is_enough(story: Story) -> None:
    story.topics.make("orders", OLD_ID)
    story.commit("g", {("orders", 0): 5, ("bills", 0): 6})
    assert story.fetch("g", [("orders", 0)]) == {("orders", 0): 5}
    answer = story.fetch_group("g", [("bills", 0)], topic_id=NEW_ID)
    assert only_partition(answer).committed_offset == 6
