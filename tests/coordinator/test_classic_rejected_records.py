"""The log does not take the record of a classic group: whoever asked hears of it, and nothing is
lost but what was to be written."""

from classic_story import (
    REBALANCE_MS,
    SESSION_MS,
    Member,
    Story,
    finish_rebalance,
    stable,
)

from penstock.errors import MessageTooLarge


def _joined(story: Story, *members: Member) -> None:
    """An empty group whose members are in its first generation, and have nothing to do yet."""
    for member in members:
        member.join()
    while any(member.joined.waits for member in members):
        story.pass_ms(1_000)
    for member in members:
        member.learn_id()


def test_everybody_who_waits_for_an_assignment_hears_that_it_is_refused() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    _joined(story, alice, bob)
    bob.sync()
    story.refusal = MessageTooLarge()
    alice.sync({})
    assert (alice.synced.error, bob.synced.error) == ("MESSAGE_TOO_LARGE", "MESSAGE_TOO_LARGE")


def test_nobody_has_an_assignment_that_was_refused() -> None:
    story = Story()
    alice = Member(story, "alice")
    _joined(story, alice)
    story.refusal = MessageTooLarge()
    alice.sync({alice.member_id: b"all of it"})
    assert story.group.members[alice.member_id].assignment == b""


def test_members_whose_assignment_was_refused_keep_their_places_and_rejoin() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    _joined(story, alice, bob)
    story.refusal = MessageTooLarge()
    alice.sync({})
    story.refusal = None
    assert story.group.state_name == "PreparingRebalance"
    assert (alice.heartbeat(), bob.heartbeat()) == ("REBALANCE_IN_PROGRESS",) * 2
    for member in (alice, bob):
        member.ask_to_join()
    finish_rebalance(alice, bob)
    assert story.group.generation == 2


def test_a_later_generation_whose_assignment_is_refused_does_not_fall_back() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.join()
    alice.ask_to_join()
    bob.learn_id()
    story.refusal = MessageTooLarge()
    alice.sync({})
    story.refusal = None
    assert sorted(story.group.members) == sorted([alice.member_id, bob.member_id])
    for member in (alice, bob):
        member.ask_to_join()
    finish_rebalance(alice, bob)
    assert story.group.generation == 3


def test_members_whose_assignment_was_refused_are_watched_still() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    _joined(story, alice, bob)
    bob.sync()
    story.refusal = MessageTooLarge()
    alice.sync({})
    story.refusal = None
    story.pass_ms(SESSION_MS - 1)
    alice.ask_to_join()
    story.pass_ms(1)
    assert story.members == [alice.member_id]
    assert not alice.joined.waits
    story.pass_ms(REBALANCE_MS + SESSION_MS)
    assert story.group.state_name == "Empty"


def test_whoever_waits_in_a_group_that_could_not_be_born_hears_why() -> None:
    story = Story()
    story.refusal = MessageTooLarge()
    assert Member(story, "alice", version=2).join().error == "MESSAGE_TOO_LARGE"
    assert story.state.groups == {}
    assert story.timers == []


def test_a_rejected_record_leaves_the_generation_at_rest_as_it_was() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    rest = story.group.rest
    story.refusal = MessageTooLarge()
    story.pass_ms(SESSION_MS)  # the session of the last member expires
    assert story.group.rest is rest
    assert (story.group.next, story.group.state_name) == (None, "Stable")
