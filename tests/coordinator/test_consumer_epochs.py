"""Epochs: who is fenced, when a group moves on, and how often it is assigned anew."""

import pytest
from consumer_story import GROUP, Consumer, Story, settle


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


# Fencing


def test_a_stranger_is_unknown(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert Consumer(story, "b", "t").beat(member_epoch=2).error == "UNKNOWN_MEMBER_ID"


def test_an_epoch_from_the_future_is_fenced(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert member.report(member_epoch=3).error == "FENCED_MEMBER_EPOCH"


def test_an_old_epoch_is_fenced(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    member.beat(subscribed_topic_names=["t", "u"])
    member.beat(subscribed_topic_names=["t"])
    assert member.epoch == 4
    assert member.report(member_epoch=2).error == "FENCED_MEMBER_EPOCH"


def test_the_epoch_before_will_do_with_nothing_but_what_is_assigned_now(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    owned = member.owned()
    member.beat(subscribed_topic_names=["t", "u"])
    assert member.epoch == 3
    lost = member.say(member_epoch=2, topic_partitions=owned)
    assert (lost.error, lost.epoch) == ("NONE", 3)


def test_the_epoch_before_is_fenced_if_the_member_has_something_else(story: Story) -> None:
    story.make_topic("u", 1)
    member = Consumer(story, "a", "t", "u").join()
    everything = member.owned()
    member.beat(subscribed_topic_names=["t"])
    settle(story, member)
    assert member.say(member_epoch=2, topic_partitions=everything).error == "FENCED_MEMBER_EPOCH"


def test_the_epoch_before_is_fenced_if_the_member_does_not_say_what_it_has(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    member.beat(subscribed_topic_names=["t", "u"])
    assert member.beat(member_epoch=2).error == "FENCED_MEMBER_EPOCH"


def test_a_fenced_member_rejoins_and_goes_on(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert member.report(member_epoch=9).error == "FENCED_MEMBER_EPOCH"
    assert member.join().has == ["t-0", "t-1", "t-2", "t-3"]


# Topics


def test_a_topic_that_grows_is_a_new_epoch_with_the_next_heartbeat(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.make_topic("t", 5)
    assert story.group.epoch == 2
    assert member.beat().told == ["t-0", "t-1", "t-2", "t-3", "t-4"]
    assert story.group.epoch == 3


def test_a_topic_that_appears_is_given_out(story: Story) -> None:
    member = Consumer(story, "a", "t", "later").join()
    story.make_topic("later", 1)
    assert "later-0" in member.beat().has


def test_a_topic_that_is_deleted_goes_from_its_members(story: Story) -> None:
    story.make_topic("u", 1)
    member = Consumer(story, "a", "t", "u").join()
    story.delete_topic("u")
    member.beat()
    settle(story, member)
    assert member.has == ["t-0", "t-1", "t-2", "t-3"]


def test_a_topic_that_is_made_anew_is_another_one(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    before = story.cluster.topics["t"].topic_id
    story.delete_topic("t")
    story.make_topic("t", 4)
    member.beat()
    settle(story, member)
    assert list(story.group.members["a"].assigned) != [before]


def test_racks_that_change_are_a_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.make_topic("t", 4, "rack-1")
    member.beat()
    assert story.group.epoch == 3


def test_topics_of_others_leave_a_group_alone(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.take_records()
    story.make_topic("u", 4)
    member.beat()
    assert story.take_records() == []


def test_news_of_a_topic_that_has_not_changed_is_no_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.make_topic("t", 4)
    member.beat()
    assert story.group.epoch == 2


def test_what_happened_to_topics_while_nobody_coordinated_is_found_out(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.cluster.make("t", 5)
    story.restart()
    assert member.beat().has == ["t-0", "t-1", "t-2", "t-3", "t-4"]


def test_a_restart_alone_is_no_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.restart()
    story.take_records()
    member.beat()
    assert story.take_records() == []


# How often


@pytest.fixture
def slow() -> Story:
    story = Story(assignment_interval_ms=1_000)
    story.make_topic("t", 4)
    return story


def test_the_first_target_is_computed_at_once(slow: Story) -> None:
    assert len(Consumer(slow, "a", "t").join().has) == 4


def test_the_next_target_waits_for_its_interval(slow: Story) -> None:
    Consumer(slow, "a", "t").join()
    newcomer = Consumer(slow, "b", "t").join()
    assert slow.group_state == "Assigning"
    assert (newcomer.epoch, newcomer.has) == (2, [])
    slow.pass_ms(999)
    newcomer.beat()
    assert slow.group_state == "Assigning"
    slow.pass_ms(1)
    newcomer.beat()
    assert slow.group_state == "Reconciling"


def test_a_crowd_is_assigned_in_one_go(slow: Story) -> None:
    crowd = [Consumer(slow, name, "t").join() for name in "abcd"]
    slow.pass_ms(1_000)
    settle(slow, *crowd)
    assert slow.group.epoch == 5
    assert [len(each.has) for each in crowd] == [1, 1, 1, 1]


def test_what_is_unsubscribed_goes_before_the_next_target(slow: Story) -> None:
    slow.make_topic("u", 1)
    member = Consumer(slow, "a", "t", "u").join()
    assert member.beat(subscribed_topic_names=["u"]).told == ["u-0"]
    assert slow.group_state == "Assigning"


def test_a_group_may_set_its_own_interval(slow: Story) -> None:
    slow.cluster.configs[GROUP] = {"consumer.assignment.interval.ms": "0"}
    Consumer(slow, "a", "t").join()
    Consumer(slow, "b", "t").join()
    assert slow.group_state == "Reconciling"


def test_an_interval_that_changes_for_all_groups_counts_at_the_next_heartbeat(slow: Story) -> None:
    Consumer(slow, "a", "t").join()
    newcomer = Consumer(slow, "b", "t").join()
    slow.cluster.assignment_interval_ms = 10
    slow.pass_ms(9)
    newcomer.beat()
    assert slow.group_state == "Assigning"
    slow.pass_ms(1)
    newcomer.beat()
    assert slow.group_state == "Reconciling"


def test_the_interval_survives_a_restart(slow: Story) -> None:
    Consumer(slow, "a", "t").join()
    slow.restart()
    Consumer(slow, "b", "t").join()
    assert slow.group_state == "Assigning"


def test_a_clock_that_is_set_back_does_not_hold_up_a_group(slow: Story) -> None:
    Consumer(slow, "a", "t").join()
    slow.now_ms -= 3_600_000
    Consumer(slow, "b", "t").join()
    assert slow.group_state == "Reconciling"
