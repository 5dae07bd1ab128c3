"""ConsumerGroupDescribe, and what other requests learn of consumer groups."""

import pytest
from consumer_story import GROUP, Classic, Consumer, Story, settle

from penstock.wire.codec import write
from penstock.wire.messages.k16_list_groups import ListGroupsRequest
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeResponse


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def test_a_group_is_described_with_its_members_and_their_targets(story: Story) -> None:
    first = Consumer(story, "a", "t", instance_id="i").join(rack_id="r")
    newcomer = Consumer(story, "b", "t").join()
    described = story.described()
    assert (described.group_state, described.group_epoch) == ("Reconciling", 3)
    assert (described.assignment_epoch, described.assignor_name) == (3, "uniform")
    told = described.members[0]
    assert (told.member_id, told.instance_id, told.rack_id) == ("a", "i", "r")
    assert (told.client_id, told.client_host, told.member_epoch) == ("a", "/a", 2)
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == (["t"], "")
    assert story.spelled(told.assignment.topic_partitions) == first.has
    assert story.spelled(told.target_assignment.topic_partitions) == ["t-0", "t-1"]
    assert told.assignment.topic_partitions[0].topic_name == "t"
    assert described.members[1].member_id == newcomer.member_id
    assert described.members[1].member_type == 1


def test_what_has_not_been_given_back_is_described_as_still_there(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", "t").join()
    first.beat()
    told = story.described().members[0]
    assert story.spelled(told.assignment.topic_partitions) == ["t-0", "t-1", "t-2", "t-3"]


def test_states_follow_each_other() -> None:
    slow = Story(assignment_interval_ms=1_000)
    slow.make_topic("t", 4)
    first = Consumer(slow, "a", "t").join()
    states = [slow.group_state]
    second = Consumer(slow, "b", "t").join()
    states.append(slow.group_state)
    slow.pass_ms(1_000)
    second.beat()
    states.append(slow.group_state)
    settle(slow, first, second)
    states.append(slow.group_state)
    first.leave()
    second.leave()
    states.append(slow.group_state)
    assert states == ["Stable", "Assigning", "Reconciling", "Stable", "Empty"]


def test_a_group_that_is_not_there_is_not_found(story: Story) -> None:
    described = story.described("nobody")
    assert described.error_code == 69
    assert described.group_id == "nobody"


def test_a_classic_group_is_not_found_here(story: Story) -> None:
    member = Classic(story, "c", "t")
    member.join()
    assert story.kind == "classic"
    assert story.described().error_code == 69


def test_topics_that_are_gone_are_left_out(story: Story) -> None:
    Consumer(story, "a", "t").join()
    del story.cluster.topics["t"]
    assert story.described().members[0].assignment.topic_partitions == []


@pytest.mark.parametrize("version", [0, 1])
def test_a_description_can_be_written_in_every_version(story: Story, version: int) -> None:
    Consumer(story, "a", regex="t").join_resolved()
    write(ConsumerGroupDescribeResponse(groups=[story.described()]), version)


def test_a_consumer_group_is_listed_with_its_kind_and_state(story: Story) -> None:
    Consumer(story, "a", "t").join()
    [listed] = story.ask(ListGroupsRequest(), 5).groups
    assert (listed.group_id, listed.protocol_type) == (GROUP, "consumer")
    assert (listed.group_state, listed.group_type) == ("Stable", "consumer")


def test_a_group_in_use_is_not_deleted_and_an_empty_one_is(story: Story) -> None:
    member = Consumer(story, "a", regex="t").join_resolved()
    request = DeleteGroupsRequest(groups_names=[GROUP])
    assert story.ask(request, 2).results[0].error_code == 68
    member.leave()
    assert story.ask(request, 2).results[0].error_code == 0
    assert story.kind == "none"
    story.restart()
    assert story.kind == "none"
