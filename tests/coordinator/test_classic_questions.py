"""What other parts of the coordinator ask a classic group: commits, fetches, deletion."""

import pytest
from classic_story import DELAY_MS, GROUP, Member, Story, stable

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.group import CoordinatedGroup
from penstock.errors import (
    IllegalGeneration,
    NonEmptyGroup,
    UnknownMemberId,
)
from penstock.wire.messages.k08_offset_commit import OffsetCommitRequest
from penstock.wire.messages.k28_txn_offset_commit import TxnOffsetCommitRequest

NO_GENERATION = -1


def commit(
    group: ClassicGroup,
    generation: int = NO_GENERATION,
    member_id: str = "",
    instance_id: str | None = None,
    *,
    in_txn: bool = False,
) -> None:
    kind = TxnOffsetCommitRequest if in_txn else OffsetCommitRequest
    message = kind(member_id=member_id, group_instance_id=instance_id)
    group.check_commit(GroupRequest(message, 9), generation)


# A group that only holds offsets


def test_a_group_with_nothing_but_an_id_holds_offsets() -> None:
    group: CoordinatedGroup = ClassicGroup(GROUP)
    assert (group.group_id, group.kind) == (GROUP, "classic")
    assert (group.state_name, group.protocol_type) == ("Empty", "")
    assert group.is_empty
    assert group.empty_since_ms is None
    assert not group.is_subscribed_to("t")


def test_anybody_without_a_generation_commits_to_an_empty_group() -> None:
    commit(ClassicGroup(GROUP))
    commit(ClassicGroup(GROUP), member_id="whoever")


def test_nobody_with_a_generation_does() -> None:
    with pytest.raises(UnknownMemberId):
        commit(ClassicGroup(GROUP), generation=0, member_id="whoever")


# Commits to a group with members


def test_members_of_the_current_generation_commit() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    assert alice.commits() == bob.commits() == "NONE"


def test_a_member_of_an_older_generation_does_not() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.ask_to_join()
    alice.sync({})
    assert alice.commits(generation=1) == "ILLEGAL_GENERATION"
    assert alice.commits() == "NONE"


def test_a_member_commits_while_the_others_rejoin() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    Member(story, "bob").join()
    assert alice.commits() == "NONE"


def test_a_member_waits_with_commits_until_it_has_its_assignment() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.join()
    story.pass_ms(DELAY_MS)
    assert alice.commits() == "REBALANCE_IN_PROGRESS"


def test_a_transaction_does_not_wait_for_it() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.join()
    story.pass_ms(DELAY_MS)
    commit(story.group, 1, alice.member_id, in_txn=True)


def test_whoever_has_left_does_not_commit() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    bob.leave()
    assert bob.commits() == "UNKNOWN_MEMBER_ID"


def test_a_consumer_that_assigns_itself_does_not_commit_to_a_group_in_use() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    with pytest.raises(UnknownMemberId):
        commit(story.group)


def test_an_old_transactional_producer_names_no_member_and_may() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    commit(story.group, in_txn=True)


def test_a_transaction_that_names_a_member_is_held_to_it() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    with pytest.raises(IllegalGeneration):
        commit(story.group, 0, alice.member_id, in_txn=True)
    with pytest.raises(IllegalGeneration):
        commit(story.group, NO_GENERATION, alice.member_id, in_txn=True)
    with pytest.raises(UnknownMemberId):
        commit(story.group, 1, "nobody", in_txn=True)


# Fetches and deletion


def test_offsets_are_told_to_anybody() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    story.group.check_fetch(None, -1)
    story.group.check_fetch("whoever", 5)


def test_an_empty_group_may_be_deleted() -> None:
    ClassicGroup(GROUP).check_delete()


def test_a_group_in_use_may_not_be_deleted_in_any_state() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.join()
    states = []
    for step in (lambda: story.pass_ms(DELAY_MS), alice.sync, lambda: None):
        states.append(story.group.state_name)
        with pytest.raises(NonEmptyGroup):
            story.group.check_delete()
        step()
    assert states == ["PreparingRebalance", "CompletingRebalance", "Stable"]


# Subscriptions


def test_topics_of_the_current_generation_are_in_use() -> None:
    story = Story()
    alice = Member(story, "alice", topics=("a",))
    stable(story, alice, Member(story, "bob", topics=("b",)))
    assert story.group.is_subscribed_to("a")
    assert story.group.is_subscribed_to("b")
    assert not story.group.is_subscribed_to("c")


def test_before_the_first_generation_any_topic_may_be() -> None:
    story = Story()
    Member(story, "alice", topics=("a",)).join()
    assert story.group.is_subscribed_to("c")


def test_of_an_empty_group_none_is() -> None:
    story = Story()
    alice = Member(story, "alice", topics=("a",))
    stable(story, alice)
    alice.leave()
    assert not story.group.is_subscribed_to("a")
