"""Subscriptions by regular expression: found when they come, followed as topics come and go."""

import pytest
from consumer_story import Consumer, Story, settle

from penstock.coordinator.patterns.automaton import EFFORT_MAX
from penstock.wire.records.group import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

REFRESH_MS = 600_000


@pytest.fixture
def story() -> Story:
    story = Story()
    for name in ("foo", "foobar", "bar"):
        story.make_topic(name, 2)
    return story


def test_the_topics_of_an_expression_are_given_out_at_once(story: Story) -> None:
    assert Consumer(story, "a", regex="foo.*").join().has == [
        "foo-0",
        "foo-1",
        "foobar-0",
        "foobar-1",
    ]


def test_the_whole_name_has_to_match(story: Story) -> None:
    assert Consumer(story, "a", regex="ba").join().has == []


def test_what_was_found_is_kept_in_a_record(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join()
    [record] = [
        each
        for each in story.take_records()
        if isinstance(each.key, ConsumerGroupRegularExpressionKey)
    ]
    assert record.value == ConsumerGroupRegularExpressionValue(
        topics=["foo", "foobar"], version=0, timestamp=story.now_ms
    )


def test_what_is_no_expression_is_refused_and_changes_nothing(story: Story) -> None:
    member = Consumer(story, "a", regex="foo(").join()
    assert member.error == "INVALID_REGULAR_EXPRESSION"
    assert "parenthesis" in member.answer.message
    assert story.kind == "none"
    assert story.take_records() == []


def test_an_expression_that_takes_too_long_to_look_for_is_refused(story: Story) -> None:
    # Far more different sets of nodes than are remembered: each name begins anew.
    for number in range(3_000):
        name = f"{number * 2654435761 % 2**24:024b}".replace("0", "a").replace("1", "b")
        story.cluster.make(f"{name}{number}", 1)
    assert EFFORT_MAX < 3_000 * 24 * 4
    member = Consumer(story, "a", regex="[ab]*a[ab]{14}.*").join()
    assert member.error == "INVALID_REGULAR_EXPRESSION"


def test_names_and_an_expression_may_go_together(story: Story) -> None:
    member = Consumer(story, "a", "bar", regex="foo").join()
    assert sorted(member.has) == ["bar-0", "bar-1", "foo-0", "foo-1"]


def test_a_second_member_with_the_expression_writes_no_second_record(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join()
    story.take_records()
    Consumer(story, "b", regex="foo.*").join()
    assert "RegularExpression" not in story.take_kinds()


def test_members_with_different_expressions_share_what_both_match(story: Story) -> None:
    first = Consumer(story, "a", regex="foo.*").join()
    second = Consumer(story, "b", regex=".*bar").join()
    settle(story, first, second)
    assert len(first.has) == len(second.has) == 3


# Topics come and go


def test_a_new_topic_that_matches_is_a_new_epoch_at_once(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.take_records()
    story.make_topic("food", 1)
    assert story.take_kinds() == ["RegularExpression", "Metadata"]
    assert "food-0" in member.beat().has


def test_a_new_topic_that_does_not_match_changes_nothing(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.take_records()
    story.make_topic("other", 1)
    member.beat()
    assert story.take_records() == []


def test_a_topic_that_matched_and_is_deleted_goes(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.delete_topic("foobar")
    member.beat()
    settle(story, member)
    assert member.has == ["foo-0", "foo-1"]


def test_a_topic_that_matched_and_grows_is_given_out_anew(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join()
    story.make_topic("foo", 3)
    assert member.beat().has == ["foo-0", "foo-1", "foo-2"]


def test_what_came_while_nobody_coordinated_is_found(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.cluster.make("food", 1)
    story.restart()
    assert "food-0" in member.beat().has


def test_every_so_often_all_names_are_looked_at_again(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    for _ in range(REFRESH_MS // 30_000):
        story.pass_ms(30_000)
        member.beat()
    story.take_records()
    member.beat()
    assert story.take_records() == []
    story.pass_ms(1)
    member.beat()
    assert story.take_kinds() == ["RegularExpression"]


# Expressions come and go


def test_another_expression_takes_the_place_of_the_first(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.take_records()
    member.beat(subscribed_topic_regex="bar")
    assert {"RegularExpression", "-RegularExpression"} <= set(story.take_kinds())
    settle(story, member)
    assert member.has == ["bar-0", "bar-1"]
    assert list(story.group.regexes) == ["bar"]


def test_an_expression_that_others_use_stays(story: Story) -> None:
    first, second = (
        Consumer(story, "a", regex="foo").join(),
        Consumer(story, "b", regex="foo").join(),
    )
    first.beat(subscribed_topic_regex="bar")
    assert sorted(story.group.regexes) == ["bar", "foo"]
    second.leave()
    assert list(story.group.regexes) == ["bar"]


def test_an_empty_expression_ends_the_subscription(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join()
    member.beat(subscribed_topic_regex="")
    settle(story, member)
    assert member.has == []
    assert story.group.regexes == {}


def test_the_last_member_takes_its_expression_with_it(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join()
    story.take_records()
    member.leave()
    assert "-RegularExpression" in story.take_kinds()
    assert story.group.regexes == {}


def test_a_static_member_that_returns_keeps_its_expression(story: Story) -> None:
    first = Consumer(story, "a", regex="foo", instance_id="i").join()
    first.leave(-2)
    story.take_records()
    back = Consumer(story, "b", regex="foo", instance_id="i").join()
    assert back.has == ["foo-0", "foo-1"]
    assert not {"RegularExpression", "-RegularExpression"} & set(story.take_kinds())


def test_a_group_counts_as_subscribed_to_what_its_expressions_match(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join()
    assert story.group.is_subscribed_to("foobar")
    assert not story.group.is_subscribed_to("bar")
