"""How a classic group comes from one generation to the next."""

from classic_story import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Member,
    Story,
    finish_rebalance,
    stable,
)

from penstock.coordinator.groups.classic.generation import GENERATION_MAX
from penstock.coordinator.groups.timers import JoinExpired, SyncExpired


def three(story: Story) -> tuple[Member, Member, Member]:
    members = Member(story, "alice"), Member(story, "bob"), Member(story, "carol")
    stable(story, *members)
    return members


# The first generation of an empty group


def test_an_empty_group_waits_a_little_for_more_members() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.join()
    story.pass_ms(DELAY_MS - 1)
    assert alice.joined.waits
    story.pass_ms(1)
    assert alice.generation == 1


def test_a_member_that_comes_meanwhile_makes_it_wait_longer() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    alice.join()
    story.pass_ms(DELAY_MS - 1)
    bob.join()
    story.pass_ms(DELAY_MS)
    assert alice.joined.waits
    story.pass_ms(1)
    assert (alice.generation, bob.generation) == (1, 1)


def test_it_never_waits_longer_than_the_rebalance_timeout() -> None:
    story = Story()
    first = Member(story, "first", rebalance_ms=7_000)
    first.join()
    for number in range(6):
        story.pass_ms(1_000)
        Member(story, f"late-{number}", rebalance_ms=7_000).join()
    story.pass_ms(999)
    assert first.joined.waits
    story.pass_ms(1)
    assert first.generation == 1
    assert len(first.joined.answer.members) == 7


def test_the_delay_may_be_nothing() -> None:
    story = Story(initial_rebalance_delay_ms=0)
    alice = Member(story, "alice")
    alice.join()
    story.pass_ms(0)
    assert alice.generation == 1


def test_a_group_that_has_members_does_not_wait_for_more() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.join()
    assert bob.joined.waits
    alice.ask_to_join()
    assert (alice.generation, bob.generation) == (2, 2)


# Who triggers one


def test_a_new_member_does() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    Member(story, "bob").join()
    assert story.group.state_name == "PreparingRebalance"
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"


def test_a_leader_that_rejoins_does_even_if_nothing_of_it_has_changed() -> None:
    story = Story()
    alice, _bob, _carol = three(story)
    assert alice.ask_to_join().waits
    assert story.group.state_name == "PreparingRebalance"


def test_a_follower_that_rejoins_unchanged_is_told_the_current_generation() -> None:
    story = Story()
    alice, bob, _carol = three(story)
    asked = bob.ask_to_join()
    assert (asked.error, asked.answer.generation_id) == ("NONE", 1)
    assert (asked.answer.leader, asked.answer.members) == (alice.member_id, [])
    assert story.group.state_name == "Stable"


def test_a_follower_with_another_subscription_does() -> None:
    story = Story()
    _alice, bob, _carol = three(story)
    bob.topics = ("other",)
    assert bob.ask_to_join().waits
    assert story.group.state_name == "PreparingRebalance"


def test_while_the_leader_assigns_a_member_may_ask_again_for_what_it_was_told() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    alice.join()
    bob.join()
    story.pass_ms(DELAY_MS)
    story.pass_ms(DELAY_MS)
    alice.learn_id()
    first, again = alice.joined.answer, alice.ask_to_join().answer
    assert again == first
    assert len(again.members) == 2
    assert story.group.state_name == "CompletingRebalance"


def test_while_the_leader_assigns_another_subscription_begins_again() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    parked = bob.sync()
    alice.topics = ("other",)
    assert alice.ask_to_join().waits
    assert parked.error == "REBALANCE_IN_PROGRESS"
    assert story.group.state_name == "PreparingRebalance"


# How it ends


def test_it_ends_as_soon_as_everybody_has_rejoined() -> None:
    story = Story()
    alice, bob, carol = three(story)
    for member in (alice, bob):
        member.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    assert alice.joined.waits
    carol.ask_to_join()
    assert {alice.generation, bob.generation, carol.generation} == {2}


def test_whoever_has_not_rejoined_when_time_is_up_is_out() -> None:
    story = Story()
    alice, bob, carol = three(story)
    alice.ask_to_join()
    bob.ask_to_join()
    for _ in range(REBALANCE_MS // 5_000):
        assert carol.heartbeat(1) == "REBALANCE_IN_PROGRESS"
        story.pass_ms(5_000)
    assert (alice.generation, bob.generation) == (2, 2)
    assert story.members == [alice.member_id, bob.member_id]
    assert carol.heartbeat(2) == "UNKNOWN_MEMBER_ID"


def test_the_longest_rebalance_timeout_of_all_members_counts() -> None:
    story = Story()
    alice = Member(story, "alice", rebalance_ms=20_000, session_ms=300_000)
    bob = Member(story, "bob", rebalance_ms=90_000, session_ms=300_000)
    stable(story, alice, bob)
    asked = alice.ask_to_join()
    story.pass_ms(89_999)
    assert asked.waits
    story.pass_ms(1)
    assert asked.error == "NONE"


def test_if_the_leader_has_not_rejoined_another_leads() -> None:
    story = Story()
    alice, bob, carol = three(story)
    bob.topics = ("other",)
    bob.ask_to_join()
    carol.ask_to_join()
    story.pass_ms(SESSION_MS)
    assert alice.member_id not in story.members
    assert bob.leads and not carol.leads
    finish_rebalance(bob, carol)


def test_nobody_is_left_if_nobody_rejoins() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    bob.topics = ("other",)
    bob.ask_to_join()
    bob.leave()
    story.pass_ms(SESSION_MS)
    assert story.group.state_name == "Empty"
    assert story.group.generation == 2


def test_after_the_largest_generation_comes_the_first() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    story.group.rest.number = GENERATION_MAX
    alice.ask_to_join()
    assert alice.generation == 1


def test_a_timer_that_was_replaced_means_nothing_even_if_it_goes_off() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    [late] = story.group.timers.values()
    alice.heartbeat()
    outcome = story.work.handle_timer(late, story.now_ms)
    assert outcome is not None and not outcome.records and not outcome.timers
    assert story.members == [alice.member_id]


def test_so_it_is_with_the_timers_of_joins_and_syncs() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    joins = story.group.timers[JoinExpired(GROUP).name]
    bob.topics = ("other",)
    bob.ask_to_join()
    syncs = story.group.timers[SyncExpired(GROUP).name]
    alice.topics = ("other",)
    alice.ask_to_join()
    for late in (joins, syncs):
        outcome = story.work.handle_timer(late, story.now_ms)
        assert outcome is not None and not outcome.answers
    assert story.members == [alice.member_id, bob.member_id]
    assert story.group.state_name == "PreparingRebalance"


def test_a_rebalance_stops_waiting_for_the_syncs_of_the_last_one() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    assert any("sync" in name for name in story.timers)
    bob.leave()
    assert not any("sync" in name for name in story.timers)


def test_a_rebalance_that_is_broken_off_leaves_nobody_an_assignment() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    bob.leave()
    assert [each.member_assignment for each in story.described().members] == [b""]


def test_events_of_others_are_left_to_them() -> None:
    assert Story().work.handle_timer("something else", 0) is None


def test_the_timers_of_an_empty_group_are_gone() -> None:
    story = Story()
    for member in three(story):
        member.leave()
    assert story.group.state_name == "Empty"
    assert story.timers == []


def test_a_group_at_rest_has_one_timer_per_member() -> None:
    story = Story()
    three(story)
    assert len(story.timers) == 3
