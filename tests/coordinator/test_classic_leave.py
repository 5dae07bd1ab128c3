"""LeaveGroup for classic groups."""

import pytest
from classic_story import GROUP, SESSION_MS, Member, Story, name_of, stable

from penstock.wire.codec import read, write
from penstock.wire.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)


def send_away(story: Story, *identities: tuple[str, str | None]) -> list[str]:
    members = [MemberIdentity(member_id=i, group_instance_id=s) for i, s in identities]
    answer = story.ask(LeaveGroupRequest(group_id=GROUP, members=members), 5).answer
    assert [(each.member_id, each.group_instance_id) for each in answer.members] == list(identities)
    return [name_of(each.error_code) for each in answer.members]


def test_the_others_rebalance_when_one_leaves() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    assert bob.leave() == "NONE"
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"
    assert story.members == [alice.member_id]


def test_when_the_last_one_leaves_the_group_is_empty_and_that_is_written() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    value = story.written()
    assert (value.generation, value.members, value.protocol_type) == (2, [], "consumer")
    assert story.timers == []


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.leave()
    bob.ask_to_join()
    assert bob.leads


@pytest.mark.parametrize("version", range(6))
def test_every_version_can_carry_its_answer(version: int) -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    assert alice.leave(version) == "NONE"
    assert alice.leave(version) == "UNKNOWN_MEMBER_ID"
    request = LeaveGroupRequest(group_id=GROUP, member_id=alice.member_id)
    request.members = [MemberIdentity(member_id=alice.member_id)]
    answer = story.ask(request, version).answer
    told = read(LeaveGroupResponse, version, write(answer, version))
    assert (told.error_code, len(told.members)) == ((25, 0) if version < 3 else (0, 1))


def test_a_group_that_does_not_exist_is_told_per_member() -> None:
    story = Story()
    assert send_away(story, ("a", None), ("b", None)) == ["UNKNOWN_MEMBER_ID"] * 2
    assert story.state.groups == {}


def test_each_member_of_a_batch_has_its_own_error() -> None:
    story = Story()
    alice = Member(story, "alice")
    bob = Member(story, "bob", instance_id="box-2")
    carol = Member(story, "carol", instance_id="box-3")
    stable(story, alice, bob, carol)
    assert send_away(
        story,
        (alice.member_id, None),
        ("nobody", None),
        ("", "box-2"),
        ("", "box-9"),
        ("another-id", "box-3"),
        ("", None),
    ) == [
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "FENCED_INSTANCE_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert story.members == [carol.member_id]


def test_a_batch_makes_one_rebalance() -> None:
    story = Story()
    members = [Member(story, name) for name in ("alice", "bob", "carol")]
    stable(story, *members)
    send_away(story, *((member.member_id, None) for member in members[1:]))
    members[0].ask_to_join()
    assert members[0].generation == 2


def test_the_same_member_twice_in_a_batch_leaves_once() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    identity = (alice.member_id, None)
    assert send_away(story, identity, identity) == ["NONE", "UNKNOWN_MEMBER_ID"]


def test_a_batch_of_refusals_changes_nothing() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    send_away(story, ("nobody", None))
    assert alice.heartbeat() == "NONE"


def test_a_pending_member_may_leave_without_a_rebalance() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.member_id = bob.ask_to_join().answer.member_id
    assert bob.leave() == "NONE"
    assert story.group.pending == {}
    assert alice.heartbeat() == "NONE"
    assert len(story.timers) == 1


def test_a_rebalance_that_waited_for_a_pending_member_ends_when_that_leaves() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.member_id = bob.ask_to_join().answer.member_id
    asked = alice.ask_to_join()
    bob.leave()
    assert asked.error == "NONE"


def test_a_rebalance_ends_when_the_last_that_has_not_rejoined_leaves() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    asked = alice.ask_to_join()
    bob.leave()
    assert asked.error == "NONE"


def test_whoever_leaves_while_it_waits_to_join_is_told_to_begin_anew() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    asked = alice.ask_to_join()
    alice.leave()
    assert (asked.error, asked.answer.member_id) == ("UNKNOWN_MEMBER_ID", "")


def test_whoever_leaves_while_it_waits_for_its_assignment_is_told_so() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.ask_to_join()
    bob.topics = ("other",)
    bob.ask_to_join()
    alice.ask_to_join()
    asked = bob.sync()
    assert asked.waits
    bob.leave()
    assert asked.error == "UNKNOWN_MEMBER_ID"


def test_the_first_member_may_leave_before_the_first_generation() -> None:
    story = Story()
    alice = Member(story, "alice")
    asked = alice.join()
    alice.leave()
    assert asked.error == "UNKNOWN_MEMBER_ID"
    story.pass_ms(SESSION_MS)
    assert (story.group.state_name, story.group.generation) == ("Empty", 1)
    assert story.timers == []


def test_somebody_else_may_come_in_its_place_before_the_first_generation() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob", protocols=("sticky",))
    alice.join()
    alice.leave()
    bob.join()
    story.pass_ms(SESSION_MS)
    assert bob.leads and bob.generation == 1
