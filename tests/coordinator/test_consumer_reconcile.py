"""Members are led to what they are to have, one step after the other."""

import pytest
from consumer_story import Consumer, Story, settle

from penstock.coordinator.groups.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.groups.consumer.reconcile import Goal, reconcile
from penstock.errors import FencedMemberEpoch
from penstock.wire.messages.k68_consumer_group_heartbeat import TopicPartitions

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
T, U = b"t" * 16, b"u" * 16


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def state_of(story: Story, member: Consumer) -> MemberState:
    return story.group.members[member.member_id].state


# Two members


def test_a_newcomer_waits_until_the_others_have_given_back(story: Story) -> None:
    Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    assert (newcomer.has, newcomer.epoch) == ([], 3)
    assert state_of(story, newcomer) is UNRELEASED
    assert story.group_state == "Reconciling"


def test_who_has_too_much_is_told_what_it_keeps_and_stays_in_its_epoch(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", "t").join()
    first.beat()
    assert (first.told, first.epoch) == (["t-0", "t-1"], 2)
    assert state_of(story, first) is UNREVOKED


def test_it_is_told_once(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    Consumer(story, "b", "t").join()
    first.beat()
    assert first.beat().told is None


def test_as_long_as_it_does_not_report_nothing_moves(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    for _ in range(3):
        first.beat()
        assert newcomer.report().has == []
    assert first.epoch == 2


def test_as_long_as_it_reports_what_it_is_to_give_back_nothing_moves(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    everything = first.owned()
    for _ in range(3):
        first.say(topic_partitions=everything)
        assert newcomer.report().has == []


def test_when_it_has_given_back_its_epoch_rises_and_the_newcomer_gets_them(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    first.beat()
    assert first.report().epoch == 3
    assert newcomer.beat().told == ["t-2", "t-3"]
    assert story.group_state == "Stable"


def test_what_is_free_is_given_at_once_and_the_rest_later(story: Story) -> None:
    story.make_topic("u", 4)
    first, second = Consumer(story, "a", "t", "u").join(), Consumer(story, "b", "t", "u").join()
    settle(story, first, second)
    third = Consumer(story, "c", "t", "u").join()
    first.report()
    first.report()  # the first has given back, the second has not
    third.report()
    assert third.has
    assert state_of(story, third) is UNRELEASED
    second.report()
    second.report()
    third.report()
    assert state_of(story, third) is STABLE


def test_a_member_that_leaves_makes_its_partitions_free_at_once(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    first.leave()
    assert newcomer.beat().has == ["t-0", "t-1", "t-2", "t-3"]


def test_a_target_that_changes_back_gives_back_what_was_revoked(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    newcomer = Consumer(story, "b", "t").join()
    first.beat()
    newcomer.leave()
    assert first.report().has == ["t-0", "t-1", "t-2", "t-3"]
    assert story.group_state == "Stable"


def test_a_member_may_fall_behind_by_several_epochs(story: Story) -> None:
    first = Consumer(story, "a", "t").join()
    others = [Consumer(story, name, "t").join() for name in "bcd"]
    settle(story, first, *others)
    assert {first.epoch, *(each.epoch for each in others)} == {story.group.epoch}
    assert sorted(first.has + [each for other in others for each in other.has]) == [
        "t-0",
        "t-1",
        "t-2",
        "t-3",
    ]


def test_an_unchanged_heartbeat_writes_nothing(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.take_records()
    assert member.beat().told is None
    assert story.take_records() == []


def test_a_full_heartbeat_is_always_told_its_assignment(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert member.full().told == ["t-0", "t-1", "t-2", "t-3"]


def test_who_reports_less_than_it_has_is_told_again(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    assert member.report().told is None
    assert member.say(topic_partitions=[]).told == ["t-0", "t-1", "t-2", "t-3"]


# Subscriptions


def test_a_topic_that_is_no_longer_wanted_goes(story: Story) -> None:
    story.make_topic("u", 2)
    member = Consumer(story, "a", "t", "u").join()
    member.beat(subscribed_topic_names=["u"])
    assert member.told == ["u-0", "u-1"]
    settle(story, member)
    assert member.has == ["u-0", "u-1"]


def test_a_topic_that_is_newly_wanted_comes(story: Story) -> None:
    story.make_topic("u", 1)
    member = Consumer(story, "a", "t").join()
    assert member.beat(subscribed_topic_names=["t", "u"]).told == [
        "t-0",
        "t-1",
        "t-2",
        "t-3",
        "u-0",
    ]


def test_a_new_subscription_is_a_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    member.beat(subscribed_topic_names=["other"])
    assert story.group.epoch == 3


def test_another_client_or_rack_is_a_record_but_no_new_epoch(story: Story) -> None:
    member = Consumer(story, "a", "t").join()
    story.take_records()
    member.beat(rack_id="r2")
    assert story.take_kinds() == ["MemberMetadata"]
    assert story.group.epoch == 2


def test_what_a_request_leaves_out_stays_as_it_was(story: Story) -> None:
    member = Consumer(story, "a", "t", assignor="range").join(rack_id="r1")
    member.beat(subscribed_topic_names=["t", "u"])
    kept = story.group.members["a"]
    assert (kept.rack_id, kept.assignor, kept.rebalance_timeout_ms) == ("r1", "range", 60_000)


# Single steps


def goal(epoch: int, *partitions: int, topics: frozenset[bytes] = frozenset({T})) -> Goal:
    return Goal(epoch, {T: frozenset(partitions)}, topics, subscription_changed=False)


def member_at(epoch: int, *partitions: int, state: MemberState = STABLE) -> ConsumerMember:
    owned = {T: dict.fromkeys(partitions, epoch)} if partitions else {}
    return ConsumerMember("m", epoch=epoch, previous_epoch=epoch, state=state, assigned=owned)


def nobody(_topic_id: bytes, _partition: int) -> str | None:
    return None


def somebody(_topic_id: bytes, _partition: int) -> str | None:
    return "somebody"


def test_a_stable_member_at_its_target_takes_no_step() -> None:
    member = member_at(5, 0, 1)
    assert reconcile(member, goal(5, 0, 1), nobody, None) is member


def test_a_partition_remembers_the_epoch_in_which_it_came() -> None:
    moved = reconcile(member_at(5, 0, 1), goal(7, 0, 1, 2), nobody, None)
    assert moved.assigned == {T: {0: 5, 1: 5, 2: 7}}


def test_what_a_member_no_longer_reports_needs_no_revocation() -> None:
    reported = [TopicPartitions(topic_id=T, partitions=[0])]
    moved = reconcile(member_at(5, 0, 1), goal(7, 0), nobody, reported)
    assert (moved.state, moved.epoch, moved.revoking) == (STABLE, 7, {})


def test_a_target_in_a_topic_that_is_not_wanted_any_more_counts_for_nothing() -> None:
    moved = reconcile(member_at(5), goal(7, 0, topics=frozenset({U})), nobody, None)
    assert (moved.assigned, moved.state, moved.epoch) == ({}, STABLE, 7)


def test_a_member_that_waits_moves_to_the_epoch_of_its_target() -> None:
    moved = reconcile(member_at(5), goal(7, 0), somebody, None)
    assert (moved.state, moved.epoch, moved.assigned) == (UNRELEASED, 7, {})


def test_a_change_of_subscription_drops_topics_even_without_a_new_target() -> None:
    member = ConsumerMember("m", epoch=5, assigned={T: {0: 5}, U: {1: 5}})
    wish = Goal(5, {T: frozenset({0})}, frozenset({T}), subscription_changed=True)
    moved = reconcile(member, wish, nobody, None)
    assert (moved.state, moved.assigned, moved.revoking) == (UNREVOKED, {T: {0: 5}}, {U: {1: 5}})


def test_a_change_of_subscription_adds_to_what_is_being_revoked() -> None:
    member = ConsumerMember(
        "m", epoch=5, state=UNREVOKED, assigned={U: {1: 5}}, revoking={T: {0: 5}, U: {0: 5}}
    )
    wish = Goal(6, {}, frozenset(), subscription_changed=True)
    moved = reconcile(member, wish, nobody, None)
    assert moved.revoking == {T: {0: 5}, U: {0: 5, 1: 5}}


def test_what_was_dropped_and_is_not_reported_is_gone_at_once() -> None:
    member = ConsumerMember("m", epoch=5, assigned={T: {0: 5}, U: {1: 5}})
    wish = Goal(5, {T: frozenset({0})}, frozenset({T}), subscription_changed=True)
    moved = reconcile(member, wish, nobody, [TopicPartitions(topic_id=T, partitions=[0])])
    assert (moved.state, moved.assigned, moved.revoking) == (STABLE, {T: {0: 5}}, {})


def test_a_member_in_a_state_of_a_newer_server_has_to_rejoin_with_nothing() -> None:
    member = member_at(5, 0, state=UNKNOWN)
    with pytest.raises(FencedMemberEpoch):
        reconcile(member, goal(6, 0), nobody, None)
    assert reconcile(member, goal(6, 0), nobody, []).state is STABLE
