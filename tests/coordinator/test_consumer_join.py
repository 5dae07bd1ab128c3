"""Members of consumer groups come: what they must say, and what they get."""

from typing import Any

import pytest
from consumer_story import GROUP, REBALANCE_MS, Consumer, Story, settle

from penstock.coordinator.groups.consumer.member_resolution import new_member_id
from penstock.wire.messages.k68_consumer_group_heartbeat import TopicPartitions
from penstock.wire.records.group import ConsumerGroupMemberMetadataValue


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def test_the_first_member_gets_everything_at_once(story: Story) -> None:
    alone = Consumer(story, "a", "t").join()
    assert alone.error == "NONE"
    assert alone.has == ["t-0", "t-1", "t-2", "t-3"]
    assert story.group_state == "Stable"


def test_a_group_begins_at_epoch_1_and_its_first_member_brings_2(story: Story) -> None:
    alone = Consumer(story, "a", "t").join()
    assert alone.epoch == story.group.epoch == 2


def test_the_answer_tells_how_often_to_report(story: Story) -> None:
    assert Consumer(story, "a", "t").join().answer.heartbeat_interval_ms == 5_000


def test_a_join_writes_who_came_the_epoch_the_target_and_what_it_has(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert story.take_kinds() == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]


def test_the_record_of_a_member_holds_all_that_it_said(story: Story) -> None:
    Consumer(story, "a", "t", assignor="range").join(rack_id="r1")
    value = story.take_records()[0].value
    assert value == ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id="r1",
        client_id="a",
        client_host="/a",
        subscribed_topic_names=["t"],
        subscribed_topic_regex="",
        rebalance_timeout_ms=REBALANCE_MS,
        server_assignor="range",
        classic_member_metadata=None,
    )


def test_a_member_of_version_0_is_given_an_id(story: Story) -> None:
    member = Consumer(story, "", "t", version=0).join()
    assert len(member.member_id) == 22
    assert list(story.group.members) == [member.member_id]


def test_an_id_never_begins_with_a_dash() -> None:
    assert not new_member_id(b"\xfb" + bytes(15)).startswith("-")


def test_a_member_of_version_1_brings_its_id(story: Story) -> None:
    assert Consumer(story, "", "t").join().error == "INVALID_REQUEST"
    assert Consumer(story, "mine", "t").join().member_id == "mine"


def test_a_topic_that_is_not_there_yet_gives_nothing(story: Story) -> None:
    member = Consumer(story, "a", "later").join()
    assert (member.error, member.has) == ("NONE", [])


def test_one_may_be_a_member_without_any_subscription(story: Story) -> None:
    member = Consumer(story, "a").join()
    assert (member.error, member.has) == ("NONE", [])
    assert story.group_state == "Stable"


def test_a_join_that_is_repeated_because_its_answer_was_lost_is_answered_the_same(
    story: Story,
) -> None:
    member = Consumer(story, "a", "t").join()
    first = member.answer
    story.take_records()
    assert member.join().answer == first
    assert story.take_records() == []


def test_a_member_may_rejoin_at_any_time_and_gets_its_partitions_again(story: Story) -> None:
    first, second = Consumer(story, "a", "t").join(), Consumer(story, "b", "t").join()
    settle(story, first, second)
    had = first.has
    assert first.join().has == had
    assert story.group_state == "Stable"


def test_a_full_group_takes_nobody_in() -> None:
    story = Story(consumer_size_max=1)
    assert Consumer(story, "a", "t").join().error == "NONE"
    assert Consumer(story, "b", "t").join().error == "GROUP_MAX_SIZE_REACHED"
    assert Consumer(story, "a", "t").join().error == "NONE"


PARTITIONS_WHILE_JOINING = "TopicPartitions must be empty when (re-)joining."


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"topic_partitions": None}, PARTITIONS_WHILE_JOINING),
        ({"topic_partitions": [TopicPartitions(partitions=[1])]}, PARTITIONS_WHILE_JOINING),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        ({"member_epoch": -1, "member_id": ""}, "MemberId can't be empty."),
        ({"member_epoch": 7, "member_id": ""}, "MemberId can't be empty."),
    ],
)
def test_a_request_that_leaves_out_what_it_must_say_is_refused(
    story: Story, fields: dict[str, Any], what: str
) -> None:
    request: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **fields,
    }
    member = Consumer(story, "a", "t", version=0).say(**request)
    assert member.error == "INVALID_REQUEST"
    assert what in member.answer.message


def test_to_leave_a_group_that_is_not_there_is_refused_with_kafkas_sentence(story: Story) -> None:
    member = Consumer(story, "a", "t").say(member_epoch=-1)
    assert member.error == "GROUP_ID_NOT_FOUND"
    assert member.answer.message.startswith("Group ")


def test_an_assignor_that_is_not_offered_is_refused(story: Story) -> None:
    member = Consumer(story, "a", "t", assignor="mine").join()
    assert member.error == "UNSUPPORTED_ASSIGNOR"
    assert "uniform, range" in member.answer.message


def test_the_assignor_that_most_members_ask_for_is_used(story: Story) -> None:
    for name, assignor in (("a", "range"), ("b", "range"), ("c", "uniform")):
        Consumer(story, name, "t", assignor=assignor).join()
    assert story.described().assignor_name == "range"


def test_without_a_wish_the_first_of_the_configured_assignors_is_used() -> None:
    by_class = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    story = Story(assignors=(by_class, "uniform"))
    Consumer(story, "a", "t").join()
    assert story.described().assignor_name == "range"


def test_an_assignor_that_is_not_there_is_answered_with_those_that_are(story: Story) -> None:
    member = Consumer(story, "a", "t", assignor="mine").join()
    assert member.answer.message == (
        "ServerAssignor mine is not supported. Supported assignors: uniform, range."
    )


def test_a_pattern_that_stands_for_no_topic_yet_raises_no_epoch(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    assert (member.epoch, member.has) == (1, [])
    story.make_topic("foo", 1)
    member.beat()
    assert (member.epoch, member.has) == (2, ["foo-0"])


def test_a_heartbeat_to_a_group_that_is_not_there_finds_none(story: Story) -> None:
    member = Consumer(story, "a", "t")
    assert member.beat(member_epoch=3).error == "GROUP_ID_NOT_FOUND"
    assert member.leave().error == "GROUP_ID_NOT_FOUND"


def test_who_leaves_is_out_and_the_others_go_on_without_it(story: Story) -> None:
    first, second = Consumer(story, "a", "t").join(), Consumer(story, "b", "t").join()
    settle(story, first, second)
    assert second.leave().answer.member_epoch == -1
    assert list(story.group.members) == ["a"]
    assert story.group_state == "Assigning"
    assert first.beat().has == ["t-0", "t-1", "t-2", "t-3"]


def test_a_leave_writes_tombstones_and_a_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.take_records()
    member.leave()
    assert story.take_kinds() == [
        "-CurrentMemberAssignment",
        "-TargetAssignmentMember",
        "-MemberMetadata",
        "Metadata",
    ]
    assert story.group_state == "Empty"
    assert story.timers.keys() <= {"offset-check"}


def test_who_is_no_member_cannot_leave(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert Consumer(story, "b", "t").leave().error == "UNKNOWN_MEMBER_ID"


def test_an_empty_group_is_taken_over_with_its_epoch(story: Story) -> None:
    Consumer(story, "a", "t").join().leave()
    before = story.group.epoch
    assert Consumer(story, "b", "t").join().epoch == before + 1
    assert list(story.group.members) == ["b"]


def test_two_groups_have_nothing_to_do_with_each_other(story: Story) -> None:
    Consumer(story, "a", "t").join()
    other = Consumer(story, "a", "t", group_id="other").join()
    assert other.has == ["t-0", "t-1", "t-2", "t-3"]
    other.leave()
    assert list(story.group.members) == ["a"]
    assert story.machine.group("other") is not story.machine.group(GROUP)
