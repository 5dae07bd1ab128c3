"""Which topics are in use by a consumer group: what keeps their offsets from expiring."""

from collections import UserDict

import pytest
from consumer_story import Consumer, Story

from penstock.coordinator.groups.consumer.member import ConsumerMember


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def test_a_topic_is_in_use_while_a_member_is_subscribed_to_it(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert story.group.is_subscribed_to("t")
    assert not story.group.is_subscribed_to("u")
    member.beat(subscribed_topic_names=["u"])
    assert not story.group.is_subscribed_to("t")
    assert story.group.is_subscribed_to("u")
    member.leave()
    assert not story.group.is_subscribed_to("u")


def test_so_are_the_topics_that_match_an_expression(story: Story) -> None:
    member = Consumer(story, "a", regex="t.*").join_resolved()
    assert story.group.is_subscribed_to("t")
    assert not story.group.is_subscribed_to("tt")
    story.make_topic("tt", 1)
    assert story.group.is_subscribed_to("tt")
    member.leave()
    assert not story.group.is_subscribed_to("t")


def test_members_are_asked_once_however_often_the_question_comes(story: Story) -> None:
    Consumer(story, "a", "t").join()
    group = story.group
    assert group.is_subscribed_to("t")

    class Untouchable(UserDict[str, ConsumerMember]):
        def values(self) -> None:  # type: ignore[override]
            raise AssertionError("a sweep asks for every offset")

    group.members = Untouchable(group.members)  # type: ignore[assignment]
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
