"""Subscriptions by regular expression: resolved after they come, followed as topics come and go."""

import pytest
from consumer_story import Consumer, Story, settle

from penstock.coordinator.groups.timers import REJECTED_RETRY_MS
from penstock.coordinator.patterns.automaton import EFFORT_MAX
from penstock.errors import KafkaStorageError
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


FOO = ["foo-0", "foo-1", "foobar-0", "foobar-1"]


def test_the_first_answer_to_a_new_expression_has_epoch_1_and_no_topics(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    assert (member.epoch, member.told) == (1, [])
    assert story.take_kinds() == ["MemberMetadata", "CurrentMemberAssignment"]


def test_the_resolution_raises_the_epoch_without_a_heartbeat(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join()
    story.take_records()
    story.pass_ms(0)
    assert story.take_kinds() == ["RegularExpression", "Metadata"]
    assert story.group.epoch == 2


def test_the_next_heartbeat_gets_the_topics_of_the_expression(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    assert (member.epoch, member.has) == (2, FOO)


def test_one_event_resolves_the_expressions_of_all_members(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join()
    Consumer(story, "b", regex="bar").join()
    story.take_records()
    story.pass_ms(0)
    assert story.take_kinds() == ["RegularExpression", "RegularExpression", "Metadata"]


def test_a_resolution_without_topics_raises_no_epoch(story: Story) -> None:
    Consumer(story, "a", regex="ba").join()
    story.take_records()
    story.pass_ms(0)
    assert story.take_kinds() == ["RegularExpression"]


def test_names_beside_an_unresolved_expression_are_given_out_at_once(story: Story) -> None:
    member = Consumer(story, "a", "bar", regex="foo").join()
    assert (member.epoch, member.has) == (2, ["bar-0", "bar-1"])


def test_an_expression_that_waits_for_its_resolution_is_resolved_after_a_restart(
    story: Story,
) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.restart()
    story.pass_ms(0)
    assert member.beat().has == FOO


def test_a_resolution_that_the_log_refuses_is_tried_again(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join()
    story.refusal = KafkaStorageError()
    story.pass_ms(0)
    story.refusal = None
    assert member.beat().has == []
    story.pass_ms(REJECTED_RETRY_MS)
    assert member.beat().has == FOO


def test_an_expression_whose_last_member_left_is_not_resolved(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join().leave()
    story.take_records()
    story.pass_ms(0)
    assert story.take_records() == []


def test_partitions_of_the_old_expression_go_before_the_new_one_is_resolved(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join_resolved()
    member.beat(subscribed_topic_regex="foo|x")
    assert (member.epoch, member.told) == (2, [])


def test_another_expression_without_topics_raises_the_epoch_if_the_first_had_some(
    story: Story,
) -> None:
    member = Consumer(story, "a", regex="foo").join_resolved()
    member.beat(subscribed_topic_regex="x")
    story.pass_ms(0)
    assert story.group.epoch == 3


def test_the_whole_name_has_to_match(story: Story) -> None:
    assert Consumer(story, "a", regex="ba").join_resolved().has == []


def test_what_was_found_is_kept_in_a_record(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join_resolved()
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
    member = Consumer(story, "a", "bar", regex="foo").join_resolved()
    assert sorted(member.has) == ["bar-0", "bar-1", "foo-0", "foo-1"]


def test_a_second_member_with_the_expression_writes_no_second_record(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join_resolved()
    story.take_records()
    Consumer(story, "b", regex="foo.*").join()
    assert "RegularExpression" not in story.take_kinds()


def test_members_with_different_expressions_share_what_both_match(story: Story) -> None:
    first = Consumer(story, "a", regex="foo.*").join_resolved()
    second = Consumer(story, "b", regex=".*bar").join_resolved()
    settle(story, first, second)
    assert len(first.has) == len(second.has) == 3


# Topics come and go


def test_a_new_topic_that_matches_is_a_new_epoch_at_once(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    story.take_records()
    story.make_topic("food", 1)
    assert story.take_kinds() == ["RegularExpression", "Metadata"]
    assert "food-0" in member.beat().has


def test_a_new_topic_that_does_not_match_changes_nothing(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    story.take_records()
    story.make_topic("other", 1)
    member.beat()
    assert story.take_records() == []


def test_a_topic_that_matched_and_is_deleted_goes(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    story.delete_topic("foobar")
    member.beat()
    settle(story, member)
    assert member.has == ["foo-0", "foo-1"]


def test_a_topic_that_matched_and_grows_is_given_out_anew(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join_resolved()
    story.make_topic("foo", 3)
    assert member.beat().has == ["foo-0", "foo-1", "foo-2"]


def test_what_came_while_nobody_coordinated_is_found(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    story.cluster.make("food", 1)
    story.restart()
    assert "food-0" in member.beat().has


def test_every_so_often_all_names_are_looked_at_again(story: Story) -> None:
    member = Consumer(story, "a", regex="foo.*").join_resolved()
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
    member = Consumer(story, "a", regex="foo.*").join_resolved()
    story.take_records()
    member.beat(subscribed_topic_regex="bar")
    story.pass_ms(0)
    assert {"RegularExpression", "-RegularExpression"} <= set(story.take_kinds())
    settle(story, member)
    assert member.has == ["bar-0", "bar-1"]
    assert list(story.group.regexes) == ["bar"]


def test_an_expression_that_others_use_stays(story: Story) -> None:
    first, second = (
        Consumer(story, "a", regex="foo").join_resolved(),
        Consumer(story, "b", regex="foo").join(),
    )
    first.beat(subscribed_topic_regex="bar")
    story.pass_ms(0)
    assert sorted(story.group.regexes) == ["bar", "foo"]
    second.leave()
    assert list(story.group.regexes) == ["bar"]


def test_an_empty_expression_ends_the_subscription(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join_resolved()
    member.beat(subscribed_topic_regex="")
    settle(story, member)
    assert member.has == []
    assert story.group.regexes == {}


def test_the_last_member_takes_its_expression_with_it(story: Story) -> None:
    member = Consumer(story, "a", regex="foo").join_resolved()
    story.take_records()
    member.leave()
    assert "-RegularExpression" in story.take_kinds()
    assert story.group.regexes == {}


def test_a_static_member_that_returns_keeps_its_expression(story: Story) -> None:
    first = Consumer(story, "a", regex="foo", instance_id="i").join_resolved()
    first.leave(-2)
    story.take_records()
    back = Consumer(story, "b", regex="foo", instance_id="i").join()
    assert back.has == ["foo-0", "foo-1"]
    assert not {"RegularExpression", "-RegularExpression"} & set(story.take_kinds())


def test_a_group_counts_as_subscribed_to_what_its_expressions_match(story: Story) -> None:
    Consumer(story, "a", regex="foo.*").join_resolved()
    assert story.group.is_subscribed_to("foobar")
    assert not story.group.is_subscribed_to("bar")
