"""SyncGroup and Heartbeat for classic groups, and what silence leads to."""

import pytest
from classic_story import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Member,
    Story,
    assigned_by,
    stable,
)

from penstock.wire.codec import read, write
from penstock.wire.messages.k14_sync_group import SyncGroupResponse


def completing(story: Story, *names: str) -> list[Member]:
    """Everybody has joined; the first of them is to assign."""
    members = [Member(story, name) for name in names]
    for member in members:
        member.join()
    while members[0].joined.waits:
        story.pass_ms(DELAY_MS)
    for member in members:
        member.learn_id()
    story.take_records()
    assert story.group.state_name == "CompletingRebalance"
    return members


# The assignment


def test_followers_wait_for_the_leader() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    assert bob.sync().waits
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    assert (alice.synced.answer.assignment, bob.synced.answer.assignment) == (b"A", b"B")
    assert story.group.state_name == "Stable"


def test_a_follower_that_comes_after_the_leader_need_not_wait() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    assert bob.sync().answer.assignment == b"B"


def test_whom_the_leader_forgot_has_nothing() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    alice.sync({alice.member_id: b"A", "somebody-else": b"X"})
    assert bob.sync().answer.assignment == b""
    assert story.members == [alice.member_id, bob.member_id]


def test_what_a_follower_assigns_is_ignored() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    assert bob.sync({alice.member_id: b"?", bob.member_id: b"?"}).waits
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    assert bob.synced.answer.assignment == b"B"


def test_a_second_assignment_of_the_same_generation_is_ignored() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    assert alice.sync({alice.member_id: b"?"}).answer.assignment == b"A"
    assert bob.sync().answer.assignment == b"B"


def test_the_assignment_is_written_once_with_every_member() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    since_ms = story.now_ms
    bob.sync()
    assert story.take_records() == []
    story.pass_ms(100)
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    value = story.written()
    assert (value.protocol_type, value.protocol, value.generation) == ("consumer", "range", 1)
    assert (value.leader, value.current_state_timestamp) == (alice.member_id, since_ms)
    assert [(each.member_id, each.assignment) for each in value.members] == [
        (alice.member_id, b"A"),
        (bob.member_id, b"B"),
    ]
    stored = value.members[1]
    assert (stored.client_id, stored.client_host) == ("bob", "/bob")
    assert (stored.session_timeout, stored.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert stored.subscription == story.group.members[bob.member_id].metadata("range")


@pytest.mark.parametrize("version", range(6))
def test_every_version_can_carry_its_answer(version: int) -> None:
    story = Story()
    (alice,) = completing(story, "alice")
    answer = alice.sync({alice.member_id: b"A"}, version=version).answer
    told = read(SyncGroupResponse, version, write(answer, version))
    assert (told.error_code, told.assignment) == (0, b"A")
    assert told.protocol_type == ("consumer" if version >= 5 else None)
    assert told.protocol_name == ("range" if version >= 5 else None)


# Refusals


def test_during_a_rebalance_there_is_nothing_to_sync() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    Member(story, "bob").join()
    assert alice.sync().error == "REBALANCE_IN_PROGRESS"


def test_a_sync_of_another_generation_is_refused() -> None:
    story = Story()
    alice, _bob = completing(story, "alice", "bob")
    assert alice.sync({}, generation=0).error == "ILLEGAL_GENERATION"
    assert alice.sync({}, generation=2).error == "ILLEGAL_GENERATION"


def test_a_sync_of_nobody_we_know_is_refused() -> None:
    story = Story()
    completing(story, "alice")
    mallory = Member(story, "mallory")
    assert mallory.sync(generation=1).error == "UNKNOWN_MEMBER_ID"


def test_a_sync_with_a_group_that_does_not_exist_is_refused() -> None:
    assert Member(Story(), "alice").sync(generation=1).error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        ("consumer", "range", "NONE"),
        (None, None, "NONE"),
        ("connect", "range", "INCONSISTENT_GROUP_PROTOCOL"),
        ("consumer", "sticky", "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_type_and_name_of_the_protocol_must_be_the_groups_if_they_are_told(
    protocol_type: str | None, protocol_name: str | None, error: str
) -> None:
    story = Story()
    (alice,) = completing(story, "alice")
    asked = alice.sync({}, protocol_type=protocol_type, protocol_name=protocol_name)
    assert asked.error == error


def test_whoever_syncs_twice_is_answered_twice() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    first, second = bob.sync(), bob.sync()
    assert first.error == "REBALANCE_IN_PROGRESS"
    alice.sync({bob.member_id: b"B"})
    assert second.answer.assignment == b"B"


# Members who do not sync


def test_a_member_that_never_syncs_is_out_when_the_rebalance_timeout_ends() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    alice.sync({alice.member_id: b"A", bob.member_id: b"B"})
    for _ in range(REBALANCE_MS // 5_000):
        assert alice.heartbeat() == bob.heartbeat() == "NONE"
        story.pass_ms(5_000)
    assert story.members == [alice.member_id]
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"


def test_a_leader_that_never_syncs_is_out_and_the_others_begin_again() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    bob.sync()
    for _ in range(REBALANCE_MS // 5_000):
        assert alice.heartbeat() == "NONE"
        story.pass_ms(5_000)
    assert bob.synced.error == "REBALANCE_IN_PROGRESS"
    assert story.members == [bob.member_id]
    bob.ask_to_join()
    assert bob.leads and bob.generation == 2


def test_when_all_have_synced_that_timer_is_gone() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    assert any("sync" in name for name in story.timers)
    alice.sync({})
    bob.sync()
    assert not any("sync" in name for name in story.timers)


# Heartbeats and sessions


def test_a_member_that_sends_heartbeats_stays() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    for _ in range(10):
        story.pass_ms(SESSION_MS - 1)
        assert alice.heartbeat() == "NONE"
    assert story.members == [alice.member_id]


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    story = Story()
    alice, bob = Member(story, "alice", session_ms=60_000), Member(story, "bob")
    stable(story, alice, bob)
    story.pass_ms(SESSION_MS - 1)
    assert alice.heartbeat() == "NONE"
    story.pass_ms(1)
    assert story.members == [alice.member_id]
    assert alice.heartbeat() == "REBALANCE_IN_PROGRESS"


def test_when_the_last_one_falls_silent_the_group_is_empty_and_that_is_written() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    story.pass_ms(SESSION_MS)
    value = story.written()
    assert (value.members, value.generation) == ([], 2)
    assert (value.protocol, value.leader, value.protocol_type) == (None, None, "consumer")
    assert value.current_state_timestamp == story.now_ms
    assert story.group.empty_since_ms == story.now_ms


def test_whoever_waits_for_the_others_to_join_need_not_send_heartbeats() -> None:
    story = Story()
    alice = Member(story, "alice")
    bob = Member(story, "bob", session_ms=300_000)
    stable(story, alice, bob)
    asked = alice.ask_to_join()
    story.pass_ms(REBALANCE_MS)
    assert asked.error == "NONE"
    assert story.members == [alice.member_id]


def test_whoever_waits_for_its_assignment_need_not_send_heartbeats() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    bob.sync()
    for _ in range(4):
        story.pass_ms(SESSION_MS - 1)
        alice.heartbeat()
    alice.sync({bob.member_id: b"B"})
    story.pass_ms(SESSION_MS - 1)
    assert bob.heartbeat() == "NONE"


def test_after_it_has_its_assignment_it_must_again() -> None:
    story = Story()
    alice, bob = completing(story, "alice", "bob")
    bob.sync()
    for _ in range(4):
        story.pass_ms(SESSION_MS - 1)
        alice.heartbeat()
    alice.sync({bob.member_id: b"B"})
    for _ in range(4):
        story.pass_ms(SESSION_MS // 2)
        alice.heartbeat()
    assert story.members == [alice.member_id]


def test_a_member_may_send_heartbeats_before_it_has_its_assignment() -> None:
    story = Story()
    alice, _bob = completing(story, "alice", "bob")
    assert alice.heartbeat() == "NONE"


def test_a_silent_leader_ends_the_wait_of_those_who_have_synced() -> None:
    story = Story()
    _alice, bob = completing(story, "alice", "bob")
    bob.sync()
    story.pass_ms(SESSION_MS)
    assert bob.synced.error == "REBALANCE_IN_PROGRESS"


def test_a_heartbeat_of_another_generation_is_refused_and_saves_nobody() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    story.pass_ms(SESSION_MS - 1)
    assert alice.heartbeat(0) == "ILLEGAL_GENERATION"
    story.pass_ms(1)
    assert story.group.state_name == "Empty"


def test_a_heartbeat_of_nobody_we_know_is_refused() -> None:
    story = Story()
    assert Member(story, "alice").heartbeat(1) == "UNKNOWN_MEMBER_ID"
    stable(story, Member(story, "bob"))
    assert Member(story, "alice").heartbeat(1) == "UNKNOWN_MEMBER_ID"


def test_after_a_restart_everybody_has_a_whole_session_timeout_again() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    story.pass_ms(SESSION_MS - 1)
    story.restart()
    story.pass_ms(SESSION_MS - 1)
    assert alice.heartbeat() == "NONE"
    story.pass_ms(1)
    assert story.members == [alice.member_id]


def test_after_a_restart_everybody_has_the_assignment_still() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    story.restart()
    assert bob.sync().answer.assignment == assigned_by("bob")
