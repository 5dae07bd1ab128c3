"""Static members: they come back under a new id, and their old selves are fenced."""

from dataclasses import replace

import pytest
from classic_story import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Member,
    Story,
    assigned_by,
    finish_rebalance,
    stable,
    subscription,
)

from penstock.coordinator.groups.classic.rebalance import SILENT_JOIN_WAIT_MS_MIN
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol


def static(story: Story, name: str, **more: object) -> Member:
    return Member(story, name, instance_id=f"box of {name}", **more)  # type: ignore[arg-type]


def returned(old: Member) -> Member:
    """The same instance after a restart: it has forgotten its member id."""
    new = static(old.story, old.name, version=old.version)
    new.ask_to_join()
    if not new.joined.waits:
        new.learn_id()
    return new


# In a group at rest


def test_it_keeps_its_assignment_without_a_rebalance() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    again = returned(bob)
    assert again.joined.error == "NONE"
    assert again.member_id != bob.member_id
    assert again.generation == 1
    assert again.sync().answer.assignment == assigned_by("bob")
    assert alice.heartbeat() == "NONE"


def test_the_new_id_is_written() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    again = returned(bob)
    value = story.written()
    assert (value.generation, value.leader) == (1, alice.member_id)
    assert [(each.member_id, each.group_instance_id) for each in value.members] == [
        (alice.member_id, "box of alice"),
        (again.member_id, "box of bob"),
    ]
    assert value.members[1].assignment == assigned_by("bob")


def test_after_a_restart_of_the_coordinator_the_new_id_counts() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    again = returned(bob)
    story.restart()
    assert again.heartbeat() == "NONE"
    assert bob.heartbeat() == "FENCED_INSTANCE_ID"


def test_its_old_self_is_fenced_wherever_it_asks() -> None:
    story = Story()
    old = static(story, "alice")
    stable(story, old)
    new = returned(old)
    assert old.heartbeat() == "FENCED_INSTANCE_ID"
    assert old.sync().error == "FENCED_INSTANCE_ID"
    assert old.commits() == "FENCED_INSTANCE_ID"
    assert old.leave() == "FENCED_INSTANCE_ID"
    asked = old.ask_to_join()
    assert (asked.error, asked.answer.member_id) == ("FENCED_INSTANCE_ID", old.member_id)
    assert new.heartbeat() == new.commits() == "NONE"


def test_without_its_instance_id_the_old_self_is_unknown() -> None:
    story = Story()
    old = static(story, "alice")
    stable(story, old)
    returned(old)
    old.instance_id = None
    assert old.heartbeat() == "UNKNOWN_MEMBER_ID"


def test_its_session_begins_anew_and_the_old_one_ends_nothing() -> None:
    story = Story()
    old = static(story, "alice")
    stable(story, old)
    story.pass_ms(SESSION_MS - 1)
    new = returned(old)
    story.pass_ms(SESSION_MS - 1)
    assert new.heartbeat() == "NONE"
    assert len(story.timers) == 1


def test_a_leader_that_returns_is_told_to_leave_the_assignment_alone() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    again = returned(alice)
    answer = again.joined.answer
    assert answer.leader == again.member_id
    assert answer.skip_assignment
    assert {each.member_id for each in answer.members} == {again.member_id, bob.member_id}


def test_a_follower_that_returns_is_told_nothing_of_that_kind() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    answer = returned(bob).joined.answer
    assert (answer.leader, answer.skip_assignment, answer.members) == (alice.member_id, False, [])


@pytest.mark.parametrize("version", range(5, 9))
def test_before_v9_a_leader_that_returns_is_told_that_its_old_self_leads(version: int) -> None:
    story = Story()
    alice, bob = static(story, "alice", version=version), static(story, "bob")
    stable(story, alice, bob)
    again = returned(alice)
    answer = again.joined.answer
    assert (answer.leader, answer.members) == (alice.member_id, [])
    assert story.group.leader_id == again.member_id


def test_a_change_of_the_groups_protocol_takes_a_rebalance() -> None:
    story = Story()
    alice = static(story, "alice", protocols=("range", "sticky"))
    bob = static(story, "bob", protocols=("range", "sticky"))
    stable(story, alice, bob)
    again = static(story, "bob", protocols=("sticky",))
    assert again.ask_to_join().waits
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"
    alice.ask_to_join()
    assert again.joined.answer.protocol_name == "sticky"


def test_another_subscription_takes_a_rebalance() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    again = static(story, "bob", topics=("t", "more"))
    assert again.ask_to_join().waits
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"


def test_topics_in_another_order_do_not() -> None:
    story = Story()
    stable(story, static(story, "alice", topics=("a", "b")))
    assert static(story, "alice", topics=("b", "a")).ask_to_join().error == "NONE"


def test_metadata_that_is_no_subscription_does_not_either() -> None:
    story = Story()
    alice = static(story, "alice", protocol_type="connect")
    stable(story, alice)
    again = static(story, "alice", protocol_type="connect", topics=("other offsets",))
    assert again.ask_to_join().error == "NONE"


def test_a_consumer_that_cannot_be_understood_any_more_keeps_its_place() -> None:
    story = Story()
    alice = static(story, "alice")
    stable(story, alice)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        group_instance_id=alice.instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"?")],
    )
    assert story.ask(request, 9).error == "NONE"
    assert story.group.is_subscribed_to("any topic")


def test_a_member_that_returns_may_say_the_rest_of_its_subscription_anew() -> None:
    story = Story()
    alice = static(story, "alice")
    stable(story, alice)
    member = story.group.members[alice.member_id]
    older = member.protocols[0]._replace(metadata=subscription("t", version=0))
    story.group.change().put(replace(member, protocols=(older,)))
    assert returned(alice).joined.error == "NONE"


# While the group rebalances


def test_the_join_of_its_old_self_is_fenced() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    waiting = alice.ask_to_join()
    again = returned(alice)
    assert (waiting.error, waiting.answer.member_id) == ("FENCED_INSTANCE_ID", alice.member_id)
    assert waiting.answer.protocol_name is None
    bob.ask_to_join()
    finish_rebalance(again, bob)
    assert again.leads


def test_the_sync_of_its_old_self_is_fenced_and_everybody_begins_again() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    alice.ask_to_join()
    waiting = bob.sync()
    again = returned(bob)
    assert waiting.error == "FENCED_INSTANCE_ID"
    assert again.joined.waits
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"
    alice.ask_to_join()
    finish_rebalance(alice, again)


def test_two_new_instances_with_one_id_leave_the_later_one() -> None:
    story = Story()
    first, second = static(story, "alice"), static(story, "alice")
    first.ask_to_join()
    second.ask_to_join()
    assert first.joined.error == "FENCED_INSTANCE_ID"
    story.pass_ms(DELAY_MS)
    finish_rebalance(second)
    assert len(story.members) == 1


def test_it_need_not_rejoin_before_the_rebalance_timeout_to_stay() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob", session_ms=300_000)
    stable(story, alice, bob)
    alice.ask_to_join()
    story.pass_ms(REBALANCE_MS)
    assert alice.joined.error == "NONE"
    assert bob.member_id in story.members


def test_if_only_silent_ones_are_left_the_rebalance_waits_for_their_sessions() -> None:
    story = Story()
    alice = Member(story, "alice", session_ms=300_000)
    bob = static(story, "bob", session_ms=300_000)
    stable(story, alice, bob)
    alice.ask_to_join()
    alice.leave()
    story.pass_ms(REBALANCE_MS)
    assert (story.group.state_name, story.members) == ("PreparingRebalance", [bob.member_id])
    bob.ask_to_join()
    finish_rebalance(bob)


@pytest.mark.parametrize("rebalance_ms", [-(2**31), -1, 0])
@pytest.mark.parametrize("restarts", [False, True])
def test_silent_ones_that_ask_for_no_time_to_rejoin_are_looked_after_now_and_then(
    rebalance_ms: int, restarts: bool
) -> None:
    story = Story()
    alice = Member(story, "alice")
    bob = static(story, "bob", rebalance_ms=rebalance_ms)
    stable(story, alice, bob)
    if restarts:
        story.restart()
    alice.leave()
    looks = story.wakes
    story.pass_ms(SESSION_MS - 1)
    assert (story.group.state_name, story.members) == ("PreparingRebalance", [bob.member_id])
    assert story.wakes - looks <= SESSION_MS // SILENT_JOIN_WAIT_MS_MIN
    story.pass_ms(1)
    assert story.group.state_name == "Empty"


def test_its_session_ends_like_any_other() -> None:
    story = Story()
    alice = static(story, "alice")
    stable(story, alice)
    story.pass_ms(SESSION_MS)
    assert story.group.state_name == "Empty"
    assert story.group.static_ids == {}


def test_one_that_has_left_comes_back_as_a_new_member() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    stable(story, alice, bob)
    bob.leave()
    alice.ask_to_join()
    finish_rebalance(alice)
    assert returned(bob).joined.waits
    assert story.group.state_name == "PreparingRebalance"


def test_one_that_returns_before_it_has_synced_is_still_waited_for() -> None:
    story = Story()
    alice, bob = static(story, "alice"), static(story, "bob")
    alice.ask_to_join()
    bob.ask_to_join()
    story.pass_ms(2 * DELAY_MS)
    for member in (alice, bob):
        member.learn_id()
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    again = returned(bob)
    assert list(story.group.unsynced) == [again.member_id]
    assert again.sync().answer.assignment == b"B"
    assert not any("sync" in name for name in story.timers)
