"""Static members go and come back; their partitions wait for them."""

import pytest
from consumer_story import SESSION_MS, Consumer, Story, settle


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def two(story: Story) -> tuple[Consumer, Consumer]:
    first = Consumer(story, "a", "t", instance_id="i1").join()
    second = Consumer(story, "b", "t", instance_id="i2").join()
    settle(story, first, second)
    return first, second


def test_a_static_member_that_leaves_for_a_while_moves_nothing(story: Story) -> None:
    first, second = two(story)
    epoch = story.group.epoch
    assert first.leave(-2).answer.member_epoch == -2
    assert story.group.epoch == epoch
    assert second.report().told is None


def test_it_comes_back_with_another_id_and_gets_what_it_had(story: Story) -> None:
    first, _ = two(story)
    had, epoch = first.has, story.group.epoch
    first.leave(-2)
    back = Consumer(story, "a2", "t", instance_id="i1").join()
    assert (back.has, back.epoch) == (had, epoch)
    assert story.group.epoch == epoch
    assert sorted(story.group.members) == ["a2", "b"]
    assert story.group_state == "Stable"


def test_what_replaces_it_is_written_in_the_order_that_replay_needs(story: Story) -> None:
    first, _ = two(story)
    first.leave(-2)
    story.take_records()
    Consumer(story, "a2", "t", instance_id="i1").join()
    kinds = story.take_kinds()
    assert kinds[:3] == ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata"]
    assert kinds[3:6] == ["MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment"]
    story.restart()
    assert sorted(story.group.members) == ["a2", "b"]
    assert story.group_state == "Stable"


def test_while_its_old_self_is_there_the_instance_is_taken(story: Story) -> None:
    two(story)
    assert Consumer(story, "a2", "t", instance_id="i1").join().error == "UNRELEASED_INSTANCE_ID"


def test_the_old_self_is_fenced_once_the_new_one_is_there(story: Story) -> None:
    first, _ = two(story)
    epoch = first.epoch
    first.leave(-2)
    Consumer(story, "a2", "t", instance_id="i1").join()
    assert first.beat(member_epoch=epoch).error == "FENCED_INSTANCE_ID"
    assert first.leave().error == "FENCED_INSTANCE_ID"


def test_who_left_for_a_while_is_at_no_epoch(story: Story) -> None:
    first, _ = two(story)
    epoch = first.epoch
    first.leave(-2)
    assert first.beat(member_epoch=epoch).error == "FENCED_MEMBER_EPOCH"


def test_an_unknown_instance_is_an_unknown_member(story: Story) -> None:
    two(story)
    stranger = Consumer(story, "a", "t", instance_id="i9")
    assert stranger.beat(member_epoch=2).error == "UNKNOWN_MEMBER_ID"
    assert stranger.leave(-2).error == "UNKNOWN_MEMBER_ID"


def test_who_does_not_come_back_in_time_is_out(story: Story) -> None:
    first, second = two(story)
    first.leave(-2)
    story.pass_ms(SESSION_MS - 1)
    second.beat()
    assert "a" in story.group.members
    story.pass_ms(1)
    assert "a" not in story.group.members
    assert len(second.beat().has) == 4


def test_the_new_self_has_a_session_of_its_own(story: Story) -> None:
    first, second = two(story)
    first.leave(-2)
    story.pass_ms(SESSION_MS - 1)
    second.beat()
    Consumer(story, "a2", "t", instance_id="i1").join()
    story.pass_ms(SESSION_MS - 1)
    assert "a2" in story.group.members


def test_what_it_was_to_give_back_is_given_back_when_it_leaves_for_a_while(story: Story) -> None:
    first = Consumer(story, "a", "t", instance_id="i1").join()
    newcomer = Consumer(story, "b", "t").join()
    first.beat()
    first.leave(-2)
    assert newcomer.beat().has == ["t-2", "t-3"]


def test_it_may_come_back_with_another_subscription(story: Story) -> None:
    story.make_topic("u", 1)
    first, second = two(story)
    first.leave(-2)
    back = Consumer(story, "a2", "u", instance_id="i1").join()
    settle(story, back, second)
    assert back.has == ["u-0"]
    assert len(second.has) == 4


def test_leaving_for_good_frees_the_instance(story: Story) -> None:
    first, _ = two(story)
    first.leave()
    assert Consumer(story, "a2", "t", instance_id="i1").join().error == "NONE"


# One member under another instance id: Kafka 4.3.1 lets it in, too, but never frees the first.


def renamed(story: Story) -> Consumer:
    member = Consumer(story, "a", "t", instance_id="i1").join()
    member.instance_id = "i2"
    return member.join()


def test_a_member_may_come_with_another_instance_id(story: Story) -> None:
    member = renamed(story)
    assert (member.error, len(member.has)) == ("NONE", 4)
    assert story.group.static_ids == {"i2": "a"}
    assert member.beat().error == "NONE"


def test_the_instance_that_it_had_is_free(story: Story) -> None:
    renamed(story)
    assert Consumer(story, "b", "t", instance_id="i1").join().error == "NONE"
    assert story.group.static_ids == {"i2": "a", "i1": "b"}


def test_it_is_unknown_under_the_instance_that_it_had(story: Story) -> None:
    member = renamed(story)
    member.instance_id = "i1"
    assert member.beat().error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("restarts", [False, True])
def test_when_it_leaves_both_instances_are_free(story: Story, restarts: bool) -> None:
    renamed(story).leave()
    if restarts:
        story.restart()
    assert story.group.static_ids == {}
    assert Consumer(story, "b", "t", instance_id="i1").join().error == "NONE"
    assert Consumer(story, "c", "t", instance_id="i2").join().error == "NONE"


def test_a_member_may_take_the_place_of_another_instance_that_has_left_for_a_while(
    story: Story,
) -> None:
    first, second = two(story)
    had = second.has
    second.leave(-2)
    first.instance_id = "i2"
    assert first.join().error == "NONE"
    assert story.group.static_ids == {"i2": "a"}
    settle(story, first)
    assert set(had) < set(first.has) and len(first.has) == 4
