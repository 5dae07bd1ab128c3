"""OffsetCommit: what is kept, what is refused, and who may."""

import pytest
from offset_story import START_MS, Story

from penstock.coordinator.groups.classic import ClassicGroup, ClassicState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.timers import SessionExpired
from penstock.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from penstock.wire.records.group import OffsetCommitKey, OffsetCommitValue

ORDERS_ID = bytes(range(16))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_committed_offset_is_told_to_whoever_asks(story: Story) -> None:
    assert story.commit("g", {("orders", 0): 5, ("orders", 1): 6, ("bills", 0): 7}) == {
        ("orders", 0): 0,
        ("orders", 1): 0,
        ("bills", 0): 0,
    }
    assert story.fetch("g", None) == {("orders", 0): 5, ("orders", 1): 6, ("bills", 0): 7}


def test_a_later_commit_replaces_an_earlier_one_also_downwards(story: Story) -> None:
    story.commit("g", {("orders", 0): 5, ("orders", 1): 6})
    story.commit("g", {("orders", 0): 2})
    assert story.fetch("g", None) == {("orders", 0): 2, ("orders", 1): 6}


def test_commits_survive_a_restart(story: Story) -> None:
    story.commit("g", {("orders", 0): 5}, metadata="here", leader_epoch=3)
    story.restart()
    (topic,) = story.fetch_group("g", None).topics
    (told,) = topic.partitions
    assert (told.committed_offset, told.committed_leader_epoch, told.metadata) == (5, 3, "here")


def test_a_commit_is_one_record_per_partition(story: Story) -> None:
    story.topics.make("orders", ORDERS_ID)
    story.commit("g", {("orders", 4): 5}, metadata="here", leader_epoch=3)
    (record,) = story.written
    assert record.key == OffsetCommitKey(group="g", topic="orders", partition=4)
    assert record.value == OffsetCommitValue(
        offset=5,
        leader_epoch=3,
        metadata="here",
        commit_timestamp=START_MS,
        topic_id=ORDERS_ID,
    )


def test_no_metadata_is_empty_metadata(story: Story) -> None:
    story.commit("g", {("orders", 0): 5}, metadata=None)
    assert story.values[0].metadata == ""


def test_a_client_may_say_how_long_its_commit_is_to_be_kept(story: Story) -> None:
    story.topics.make("orders", ORDERS_ID)
    story.commit("g", {("orders", 0): 5}, version=4, retention_ms=1000)
    (value,) = story.values
    assert value.expire_timestamp == START_MS + 1000
    assert value.topic_id == bytes(16), "the version with an expiry has no place for an id"


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - START_MS, -(2**63)])
def test_a_commit_may_be_kept_for_as_long_as_a_client_can_say(
    story: Story, retention_ms: int
) -> None:
    story.commit("g", {("orders", 0): 5}, version=4, retention_ms=retention_ms)
    (value,) = story.values
    assert value.expire_timestamp == min(START_MS + retention_ms, 2**63 - 1)
    story.restart()
    assert story.fetch("g", None) == {("orders", 0): 5}


# Groups


def test_a_commit_to_a_group_that_nobody_knows_makes_one_to_hold_it(story: Story) -> None:
    story.commit("g", {("orders", 0): 5})
    group = story.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.is_empty, group.protocol_type) == (True, "")


def test_a_commit_that_is_refused_whole_makes_no_group() -> None:
    story = Story(GroupSettings(offset_metadata_bytes_max=3))
    story.commit("g", {("orders", 0): 5}, metadata="long")
    assert story.state.groups == {}


@pytest.mark.parametrize(
    ("version", "error"), [(8, IllegalGeneration), (9, GroupIdNotFound), (10, GroupIdNotFound)]
)
def test_a_generation_of_a_group_that_nobody_knows_is_refused(
    story: Story, version: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        story.commit("g", {("orders", 0): 5}, version=version, member_id="m", epoch=0)
    assert story.state.groups == {}


def test_a_member_commits_in_its_generation(story: Story) -> None:
    story.classic("g")
    story.commit("g", {("orders", 0): 5}, member_id="m", epoch=5)
    assert story.fetch("g", None) == {("orders", 0): 5}


def test_the_group_refuses_zombies(story: Story) -> None:
    group = story.classic("g")
    with pytest.raises(UnknownMemberId):
        story.commit("g", {("orders", 0): 5}, member_id="other", epoch=5)
    with pytest.raises(IllegalGeneration):
        story.commit("g", {("orders", 0): 5}, member_id="m", epoch=4)
    with pytest.raises(UnknownMemberId):
        story.commit("g", {("orders", 0): 5})
    group.change().state = ClassicState.COMPLETING_REBALANCE
    with pytest.raises(RebalanceInProgress):
        story.commit("g", {("orders", 0): 5}, member_id="m", epoch=5)
    assert story.fetch("g", None) == {}


def test_a_consumer_group_may_refuse_a_single_partition_and_so_the_commit(story: Story) -> None:
    story.topics.make("orders", ORDERS_ID)
    story.consumers("g").stale = ((ORDERS_ID, 1),)
    with pytest.raises(StaleMemberEpoch):
        story.commit("g", {("orders", 0): 5, ("orders", 1): 6}, member_id="m", epoch=4)
    story.commit("g", {("orders", 0): 5}, member_id="m", epoch=4)
    assert story.fetch("g", None) == {("orders", 0): 5}


# Metadata


def test_metadata_that_is_too_large_is_refused_per_partition() -> None:
    story = Story(GroupSettings(offset_metadata_bytes_max=4))
    too_large = OffsetMetadataTooLarge.code
    assert story.commit("g", {("orders", 0): 5}, metadata="1234") == {("orders", 0): 0}
    assert story.commit("g", {("orders", 0): 6}, metadata="12345") == {("orders", 0): too_large}
    assert story.written == []
    assert story.fetch("g", None) == {("orders", 0): 5}


def test_metadata_is_measured_in_utf_16_as_kafka_does() -> None:
    story = Story(GroupSettings(offset_metadata_bytes_max=4))
    assert story.commit("g", {("orders", 0): 5}, metadata="éééé") == {("orders", 0): 0}
    assert story.commit("g", {("orders", 0): 5}, metadata="🐘🐘") == {("orders", 0): 0}
    code = story.commit("g", {("orders", 0): 5}, metadata="🐘🐘c")
    assert code == {("orders", 0): OffsetMetadataTooLarge.code}


# Signs of life


def test_a_commit_of_a_classic_member_counts_as_a_heartbeat(story: Story) -> None:
    group = story.classic("g")
    expiry = SessionExpired("g", "m")
    group.timers[expiry.name] = expiry
    story.commit("g", {("orders", 0): 5}, member_id="m", epoch=5)
    due = story.timers[expiry.name]
    assert due.at_ms == START_MS + group.members["m"].session_timeout_ms
    assert due.event is expiry, "if the log refuses the commit, the old timer must still count"


def test_a_commit_from_outside_is_no_sign_of_life(story: Story) -> None:
    story.commit("g", {("orders", 0): 5})
    story.commit("g", {("orders", 0): 6})
    assert list(story.timers) == ["offset-check"]


def test_a_member_that_nobody_watches_is_not_watched_because_of_a_commit(story: Story) -> None:
    story.classic("g")
    story.commit("g", {("orders", 0): 5}, member_id="m", epoch=5)
    assert list(story.timers) == ["offset-check"]
