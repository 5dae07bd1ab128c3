"""Who may commit offsets for a consumer group, and who is told them."""

import pytest
from consumer_story import Classic, Consumer, Story, error_of, settle

from penstock.coordinator.events import GroupRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest

Pairs = list[tuple[bytes, int]]


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def commits(
    story: Story,
    member_id: str,
    epoch: int,
    *,
    version: int = 9,
    in_txn: bool = False,
    partitions: Pairs | None = None,
) -> str:
    try:
        kind = TxnOffsetCommitRequest if in_txn else OffsetCommitRequest
        call = GroupRequest(kind(member_id=member_id), version)
        story.group.check_commit(call, epoch, partitions)
    except KafkaError as error:
        return error_of(error)
    return "NONE"


def fetches(story: Story, member_id: str | None, epoch: int) -> str:
    try:
        story.group.check_fetch(member_id, epoch)
    except KafkaError as error:
        return error_of(error)
    return "NONE"


def test_a_member_commits_in_its_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert commits(story, "a", member.epoch) == "NONE"


@pytest.mark.parametrize("epoch", [0, 1, 3, -1])
def test_another_epoch_is_stale(story: Story, epoch: int) -> None:
    Consumer(story, "a", "t").join()
    assert commits(story, "a", epoch) == "STALE_MEMBER_EPOCH"


def test_a_stranger_is_unknown(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert commits(story, "b", 2) == "UNKNOWN_MEMBER_ID"


def test_without_a_member_one_commits_to_an_empty_group_only(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert commits(story, "", -1) == "UNKNOWN_MEMBER_ID"
    member.leave()
    assert commits(story, "", -1) == "NONE"


def test_a_member_commits_with_a_version_that_knows_of_epochs(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert commits(story, "a", 2, version=8) == "UNSUPPORTED_VERSION"
    assert commits(story, "a", 2, version=3, in_txn=True) == "NONE"


def test_a_transaction_may_name_no_member(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert commits(story, "", -1, in_txn=True) == "NONE"


def test_an_epoch_that_has_passed_will_do_for_what_the_member_still_has(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    settle(story, member, newcomer)
    topic_id = story.cluster.topics["t"].topic_id
    assert member.epoch == 3
    assert commits(story, "a", 2, partitions=[(topic_id, 0), (topic_id, 1)]) == "NONE"
    assert commits(story, "a", 2, partitions=[(topic_id, 0), (topic_id, 2)]) == "STALE_MEMBER_EPOCH"
    assert commits(story, "a", 1, partitions=[(topic_id, 0)]) == "STALE_MEMBER_EPOCH"
    assert commits(story, "b", 2, partitions=[(topic_id, 2)]) == "STALE_MEMBER_EPOCH"
    assert commits(story, "a", 4, partitions=[(topic_id, 0)]) == "STALE_MEMBER_EPOCH"


def test_what_is_being_given_back_may_still_be_committed(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    Consumer(story, "b", "t").join()
    member.beat()
    topic_id = story.cluster.topics["t"].topic_id
    assert commits(story, "a", 2, partitions=[(topic_id, 3)]) == "NONE"


def test_a_member_is_told_offsets_in_its_epoch(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert fetches(story, "a", 2) == "NONE"
    assert fetches(story, "a", 1) == "STALE_MEMBER_EPOCH"
    assert fetches(story, "b", 2) == "UNKNOWN_MEMBER_ID"


def test_a_member_without_an_epoch_is_told_none(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert fetches(story, "a", -1) == "STALE_MEMBER_EPOCH"
    assert fetches(story, "b", -1) == "UNKNOWN_MEMBER_ID"


def test_who_names_no_member_is_told_offsets(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert fetches(story, None, -1) == "NONE"


def test_a_classic_member_of_the_group_has_a_generation(story: Story) -> None:
    Consumer(story, "a", "t").join()
    classic = Classic(story, "c", "t")
    classic.join()
    assert commits(story, classic.member_id, classic.generation, version=5) == "NONE"
    assert commits(story, classic.member_id, 1) == "ILLEGAL_GENERATION"
    assert fetches(story, classic.member_id, 1) == "ILLEGAL_GENERATION"
