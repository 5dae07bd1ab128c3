"""JoinGroup for classic groups: ids, protocols, limits, and what each version is told."""

import pytest
from classic_story import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Member,
    Story,
    stable,
)

from penstock.coordinator.groups.classic.join_group import NEW_MEMBER_JOIN_TIMEOUT_MS
from penstock.wire.codec import read, write
from penstock.wire.messages.k11_join_group import JoinGroupResponse

JOIN_VERSIONS = range(10)


# Member ids


def test_a_new_dynamic_member_is_told_its_id_first() -> None:
    asked = Member(Story(), "alice").ask_to_join()
    assert asked.error == "MEMBER_ID_REQUIRED"
    assert asked.answer.member_id == "alice-00000000-0000-0000-0000-000000000001"


def test_with_that_id_it_may_join() -> None:
    story = Story()
    alice = Member(story, "alice")
    assert alice.join().waits
    assert story.members == [alice.member_id]


@pytest.mark.parametrize("version", range(4))
def test_before_v4_a_new_member_is_in_at_once(version: int) -> None:
    story = Story()
    asked = Member(story, "alice", version=version).ask_to_join()
    story.pass_ms(DELAY_MS)
    assert asked.error == "NONE"
    assert asked.answer.member_id.startswith("alice-")


def test_a_static_member_needs_no_second_question_and_is_named_after_its_instance() -> None:
    story = Story()
    asked = Member(story, "alice", instance_id="box-1").ask_to_join()
    story.pass_ms(DELAY_MS)
    assert asked.answer.member_id == "box-1-00000000-0000-0000-0000-000000000001"


def test_an_id_that_was_never_used_expires_with_its_session() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.member_id = alice.ask_to_join().answer.member_id
    story.pass_ms(SESSION_MS)
    assert story.group.pending == {}
    assert alice.ask_to_join().error == "UNKNOWN_MEMBER_ID"


def test_a_group_waits_for_those_who_were_given_an_id() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.member_id = bob.ask_to_join().answer.member_id
    assert alice.ask_to_join().waits
    bob.ask_to_join()
    assert (alice.joined.error, bob.joined.error) == ("NONE", "NONE")


def test_a_group_stops_waiting_when_that_id_expires() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.ask_to_join()
    asked = alice.ask_to_join()
    story.pass_ms(SESSION_MS)
    assert asked.error == "NONE"


def test_an_id_out_of_thin_air_is_refused() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    mallory = Member(story, "mallory")
    mallory.member_id = "mallory-1"
    asked = mallory.ask_to_join()
    assert (asked.error, asked.answer.member_id) == ("UNKNOWN_MEMBER_ID", "mallory-1")


def test_an_id_does_not_make_a_group() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.member_id = "alice-1"
    assert alice.ask_to_join().error == "UNKNOWN_MEMBER_ID"
    assert story.state.groups == {}


def test_the_id_of_a_dynamic_member_cannot_be_taken_with_an_instance_id() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.member_id = alice.ask_to_join().answer.member_id
    alice.instance_id = "box-1"
    assert alice.ask_to_join().error == "UNKNOWN_MEMBER_ID"


# Limits


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_range_is_refused(session_ms: int) -> None:
    story = Story()
    asked = Member(story, "alice", session_ms=session_ms).ask_to_join()
    assert asked.error == "INVALID_SESSION_TIMEOUT"
    assert story.state.groups == {}


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_timeout_at_the_edge_is_fine(session_ms: int) -> None:
    asked = Member(Story(), "alice", session_ms=session_ms).ask_to_join()
    assert asked.error == "MEMBER_ID_REQUIRED"


def test_a_full_group_takes_no_more() -> None:
    story = Story(size_max=2)
    stable(story, Member(story, "alice"), Member(story, "bob"))
    assert Member(story, "carol").join().error == "GROUP_MAX_SIZE_REACHED"


def test_members_of_a_full_group_may_rejoin() -> None:
    story = Story(size_max=2)
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    alice.ask_to_join()
    bob.ask_to_join()
    assert (alice.joined.error, bob.joined.error) == ("NONE", "NONE")


def test_a_static_member_may_return_to_a_full_group() -> None:
    story = Story(size_max=1)
    stable(story, Member(story, "alice", instance_id="box-1"))
    assert Member(story, "alice", instance_id="box-1").ask_to_join().error == "NONE"


def test_of_those_who_rejoin_a_group_that_is_too_large_the_last_have_to_go() -> None:
    story = Story()
    members = [Member(story, name) for name in ("alice", "bob", "carol")]
    stable(story, *members)
    story.settings = Story(size_max=2).settings
    story.restart()
    assert story.group.state_name == "PreparingRebalance"
    asked = [member.ask_to_join() for member in members]
    assert [each.error for each in asked] == ["NONE", "NONE", "GROUP_MAX_SIZE_REACHED"]
    assert story.members == [members[0].member_id, members[1].member_id]


def test_the_last_free_place_goes_to_whoever_joins_first() -> None:
    story = Story(size_max=2)
    stable(story, Member(story, "alice"))
    bob, carol = Member(story, "bob"), Member(story, "carol")
    for member in (bob, carol):
        member.member_id = member.ask_to_join().answer.member_id
    bob.ask_to_join()
    story.pass_ms(SESSION_MS)
    assert story.group.pending == {}
    assert carol.ask_to_join().error != "NONE"


# Protocols


def test_a_member_without_a_protocol_type_is_refused() -> None:
    asked = Member(Story(), "alice", protocol_type="").ask_to_join()
    assert asked.error == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_member_without_a_protocol_is_refused() -> None:
    asked = Member(Story(), "alice", protocols=()).ask_to_join()
    assert asked.error == "INCONSISTENT_GROUP_PROTOCOL"


def test_all_members_have_one_protocol_type() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    asked = Member(story, "worker", protocol_type="connect").ask_to_join()
    assert asked.error == "INCONSISTENT_GROUP_PROTOCOL"


def test_an_empty_group_may_be_used_with_another_protocol_type() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    stable(story, Member(story, "worker", protocol_type="connect"))
    assert story.group.protocol_type == "connect"


def test_a_new_member_must_share_a_protocol_with_everybody() -> None:
    story = Story()
    alice = Member(story, "alice", protocols=("range", "sticky"))
    bob = Member(story, "bob", protocols=("sticky", "roundrobin"))
    stable(story, alice, bob)
    assert Member(story, "carol", protocols=("range",)).join().error == (
        "INCONSISTENT_GROUP_PROTOCOL"
    )


def test_a_rejoining_member_must_share_one_too() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    bob.protocols = ("sticky",)
    asked = bob.ask_to_join()
    assert asked.error == "INCONSISTENT_GROUP_PROTOCOL"
    assert asked.answer.member_id == bob.member_id


def test_the_protocol_with_the_most_votes_among_those_all_support_wins() -> None:
    story = Story()
    stable(
        story,
        Member(story, "alice", protocols=("range", "sticky", "roundrobin")),
        Member(story, "bob", protocols=("sticky", "range")),
        Member(story, "carol", protocols=("roundrobin", "sticky", "range")),
    )
    # carol's first choice is not bob's at all, so her vote goes to sticky.
    assert story.group.protocol_name == "sticky"


def test_of_two_protocols_with_as_many_votes_the_group_keeps_the_one_it_has() -> None:
    story = Story()
    alice = Member(story, "alice", protocols=("range", "sticky"), instance_id="box-1")
    bob = Member(story, "bob", protocols=("sticky", "range"), instance_id="box-2")
    stable(story, alice, bob)
    assert story.group.protocol_name == "range"
    again = Member(story, "alice", protocols=("range", "sticky"), instance_id="box-1")
    assert again.ask_to_join().error == "NONE"


def test_a_protocol_that_is_offered_twice_counts_once() -> None:
    story = Story()
    stable(story, Member(story, "alice", protocols=("range", "range", "sticky")))
    assert Member(story, "bob", protocols=("range",)).join().waits


# The answers


def test_only_the_leader_is_told_of_the_members() -> None:
    story = Story()
    alice = Member(story, "alice", topics=("a",))
    bob = Member(story, "bob", topics=("b",), instance_id="box-2")
    stable(story, alice, bob)
    told = alice.joined.answer.members
    assert [(each.member_id, each.group_instance_id) for each in told] == [
        (alice.member_id, None),
        (bob.member_id, "box-2"),
    ]
    assert told[1].metadata == story.group.members[bob.member_id].metadata("range")
    assert bob.joined.answer.members == []
    assert bob.joined.answer.leader == alice.member_id


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_every_version_can_carry_its_answer(version: int) -> None:
    story = Story()
    alice = Member(story, "alice", version=version)
    alice.join()
    story.pass_ms(DELAY_MS)
    answer = alice.joined.answer
    told = read(JoinGroupResponse, version, write(answer, version))
    assert (told.error_code, told.generation_id, told.protocol_name) == (0, 1, "range")
    assert told.protocol_type == ("consumer" if version >= 7 else None)
    assert told.leader == told.member_id == answer.member_id


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_without_a_protocol_its_name_is_empty_before_v7_and_null_from_then_on(
    version: int,
) -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.member_id = "alice-1"
    answer = alice.ask_to_join(version).answer
    assert answer.protocol_name == (None if version >= 7 else "")
    assert read(JoinGroupResponse, version, write(answer, version)).error_code == 25


@pytest.mark.parametrize(("version", "timeout_ms"), [(0, SESSION_MS), (1, REBALANCE_MS)])
def test_in_v0_the_session_timeout_is_the_rebalance_timeout(version: int, timeout_ms: int) -> None:
    story = Story()
    Member(story, "alice", version=version).ask_to_join()
    assert story.group.current.rebalance_timeout_ms == timeout_ms


# New members who wait


def test_a_new_member_that_waits_too_long_to_join_has_to_ask_again() -> None:
    story = Story()
    alice = Member(story, "alice", rebalance_ms=20 * 60_000, session_ms=1_800_000)
    bob = Member(story, "bob")
    stable(story, alice)
    asked = bob.join()
    story.pass_ms(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert (asked.error, asked.answer.member_id) == ("UNKNOWN_MEMBER_ID", "")
    assert story.members == [alice.member_id]


def test_whoever_asks_twice_is_answered_twice() -> None:
    story = Story()
    alice = Member(story, "alice")
    first = alice.join()
    second = alice.ask_to_join()
    assert first.error == "REBALANCE_IN_PROGRESS"
    story.pass_ms(DELAY_MS)
    assert second.error == "NONE"


# A group is born


def test_a_new_group_is_written_empty_before_anybody_is_in_it() -> None:
    story = Story()
    Member(story, "alice").ask_to_join()
    born = story.written()
    assert (born.protocol_type, born.generation, born.protocol, born.leader) == ("", 0, None, None)
    assert (born.members, born.current_state_timestamp) == ([], story.now_ms)


def test_a_group_that_holds_offsets_already_is_not_written_again() -> None:
    story = Story()
    Member(story, "alice").ask_to_join()
    story.take_records()
    Member(story, "bob").ask_to_join()
    assert story.take_records() == []


def test_a_restart_forgets_who_was_about_to_join() -> None:
    story = Story()
    alice = Member(story, "alice")
    asked = alice.join()
    story.restart()
    assert asked.error == "NOT_COORDINATOR"
    assert (story.group.group_id, story.group.state_name) == (GROUP, "Empty")
    assert alice.ask_to_join().error == "UNKNOWN_MEMBER_ID"
