"""Groups change between the classic and the consumer protocol, while their members work."""

from dataclasses import replace
from typing import Any

import pytest
from consumer_story import (
    CLASSIC_SESSION_MS,
    GROUP,
    REBALANCE_MS,
    Classic,
    Consumer,
    Story,
    assigned_in,
    assignment_bytes,
    error_of,
    settle,
)

from penstock.coordinator.groups.classic import ClassicGroup
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.messages.k14_sync_group import SyncGroupRequestAssignment


def story_with(**settings: Any) -> Story:
    story = Story(**settings)
    story.make_topic("t", 4)
    return story


@pytest.fixture
def story() -> Story:
    return story_with()


def classic_pair(story: Story, **shape: Any) -> tuple[Classic, Classic]:
    """Two members at rest: the first has t-0 and t-1, the second the rest."""
    first = Classic(story, "c1", "t", **{k: f"{v}1" for k, v in shape.items()})
    second = Classic(story, "c2", "t", **{k: f"{v}2" for k, v in shape.items()})
    waiting = [first.join(), second.join()]
    story.pass_ms(1)
    if isinstance(waiting[0], list) and waiting[0]:
        first.joined(waiting[0])
    if first.beat() == "REBALANCE_IN_PROGRESS":
        waiting = [first.ask_to_join(), second.ask_to_join()]
        story.pass_ms(1)
    for member, answer in zip((first, second), waiting, strict=True):
        member.joined(answer)
    assigned = [
        SyncGroupRequestAssignment(
            member_id=first.member_id, assignment=assignment_bytes("t-0", "t-1")
        ),
        SyncGroupRequestAssignment(
            member_id=second.member_id, assignment=assignment_bytes("t-2", "t-3")
        ),
    ]
    # Whoever leads brings the assignment; the other one waits for it or gets it at once.
    syncs = [first.sync(assigned), second.sync(assigned)]
    first.synced(syncs[0])
    second.synced(syncs[1])
    assert (first.has, second.has) == (["t-0", "t-1"], ["t-2", "t-3"])
    return first, second


def classic_group(story: Story) -> ClassicGroup:
    group = story.machine.group(GROUP)
    assert isinstance(group, ClassicGroup)
    return group


# Empty groups


def test_an_empty_classic_group_becomes_a_consumer_group_whatever_the_policy() -> None:
    story = story_with(migration_policy="disabled")
    first, second = classic_pair(story)
    first.leave()
    second.leave()
    assert (story.kind, story.group_state) == ("classic", "Empty")
    assert Consumer(story, "a", "t").join().error == "NONE"
    assert story.kind == "consumer"
    story.restart()
    assert story.kind == "consumer"


def test_a_group_that_only_holds_offsets_becomes_one_and_keeps_them(story: Story) -> None:
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    )
    request = OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic])
    story.ask(request, 9)
    assert story.kind == "classic"
    Consumer(story, "a", "t").join()
    assert story.kind == "consumer"
    story.restart()
    assert story.kind == "consumer"
    assert story.machine.state.offsets.groups() == [GROUP]


def test_an_empty_consumer_group_becomes_a_classic_group_whatever_the_policy() -> None:
    story = story_with(migration_policy="disabled")
    Consumer(story, "a", "t").join().leave()
    member = Classic(story, "c", "t")
    waiting = member.join()
    story.pass_ms(1)
    member.joined(waiting)
    assert story.kind == "classic"
    story.restart()
    assert story.kind == "classic"


def test_the_epochs_of_an_empty_group_go_on_when_its_protocol_changes(story: Story) -> None:
    """Else a late commit of a member could be taken for one of its next life."""
    first = Consumer(story, "a", "t").join()
    first_epoch = first.epoch
    first.leave()
    member = Classic(story, "c", "t")
    assert error_of(member.ask_to_join()) == "MEMBER_ID_REQUIRED"
    story.restart()
    waiting = member.join()
    story.pass_ms(1)
    member.joined(waiting)
    assert member.generation > first_epoch
    member.leave()
    story.restart()
    assert Consumer(story, "a", "t").join().epoch > member.generation


def test_a_classic_member_with_an_id_finds_nobody_in_an_empty_consumer_group(
    story: Story,
) -> None:
    Consumer(story, "a", "t").join().leave()
    member = Classic(story, "c", "t")
    member.member_id = "old"
    assert error_of(member.ask_to_join()) == "UNKNOWN_MEMBER_ID"
    assert story.kind == "consumer"


def test_a_classic_member_that_is_refused_leaves_an_empty_consumer_group_as_it_is() -> None:
    story = story_with(session_timeout_ms_min=20_000)
    Consumer(story, "a", "t").join().leave()
    assert error_of(Classic(story, "c", "t").ask_to_join()) == "INVALID_SESSION_TIMEOUT"
    assert story.kind == "consumer"


# Upgrade


def test_the_first_member_of_the_consumer_protocol_upgrades_the_group(story: Story) -> None:
    first, second = classic_pair(story)
    newcomer = Consumer(story, "a", "t").join()
    assert newcomer.error == "NONE"
    assert story.kind == "consumer"
    assert {first.member_id, second.member_id, "a"} == set(story.group.members)


def test_members_keep_their_partitions_and_their_generation(story: Story) -> None:
    first, second = classic_pair(story)
    Consumer(story, "a", "t").join()
    assert story.group.epoch == first.generation + 1
    for member in (first, second):
        kept = story.group.members[member.member_id]
        assert kept.epoch == member.generation
        assert kept.classic is not None
        [partitions] = kept.assigned.values()
        assert [f"t-{each}" for each in sorted(partitions)] == member.has


def test_an_upgrade_is_one_batch_that_survives_a_restart(story: Story) -> None:
    classic_pair(story)
    before = len(story.log)
    story.take_records()
    Consumer(story, "a", "t").join()
    assert len(story.log) == before + 1
    assert story.take_kinds()[0] == "-GroupMetadata"
    members = set(story.group.members)
    story.restart()
    assert set(story.group.members) == members


def test_classic_members_are_told_to_rejoin_and_get_the_new_assignment(story: Story) -> None:
    first, second = classic_pair(story)
    newcomer = Consumer(story, "a", "t").join()
    for _ in range(5):
        for member in (first, second):
            if member.beat() == "REBALANCE_IN_PROGRESS":
                assert error_of(member.join()) == "NONE"
                assert error_of(member.sync()) == "NONE"
        newcomer.report()
    assert story.group_state == "Stable"
    assert sorted(first.has + second.has + newcomer.has) == ["t-0", "t-1", "t-2", "t-3"]
    assert first.generation == second.generation == newcomer.epoch


def test_whoever_waits_in_a_rebalance_is_told_to_rejoin(story: Story) -> None:
    first, _ = classic_pair(story)
    third = Classic(story, "c3", "t")
    waiting = third.join()
    assert waiting == []
    assert first.beat() == "REBALANCE_IN_PROGRESS"
    Consumer(story, "a", "t").join()
    [answer] = waiting
    assert error_of(answer) == "REBALANCE_IN_PROGRESS"
    assert answer.member_id == third.member_id
    assert error_of(third.join()) == "NONE"


def test_a_member_that_waits_with_another_protocol_than_the_groups_is_upgraded_too(
    story: Story,
) -> None:
    first = Classic(story, "c1", "t", protocols=("range", "roundrobin"))
    waiting = first.join()
    story.pass_ms(1)
    first.joined(waiting)
    all_of_it = assignment_bytes("t-0", "t-1", "t-2", "t-3")
    mine = SyncGroupRequestAssignment(member_id=first.member_id, assignment=all_of_it)
    first.synced(first.sync([mine]))
    second = Classic(story, "c2", "t", protocols=("roundrobin",))
    assert second.join() == []
    assert Consumer(story, "a", "t").join().error == "NONE"
    assert story.kind == "consumer"


def test_a_group_that_has_never_been_assigned_can_be_upgraded(story: Story) -> None:
    member = Classic(story, "c", "t")
    waiting = member.join()
    newcomer = Consumer(story, "a", "t").join()
    assert error_of(member.joined(waiting)) == "REBALANCE_IN_PROGRESS"
    assert len(newcomer.has) + len(story.group.target_of(member.member_id)) > 0
    assert story.kind == "consumer"


def test_a_static_member_that_upgrades_an_unassigned_group_gets_the_partitions(
    story: Story,
) -> None:
    member = Classic(story, "c", "t", instance_id="i")
    member.joined(member.join())
    back = Consumer(story, "a", "t", instance_id="i").join()
    assert (back.error, back.has) == ("NONE", ["t-0", "t-1", "t-2", "t-3"])


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_an_upgrade(policy: str) -> None:
    story = story_with(migration_policy=policy)
    first, _ = classic_pair(story)
    newcomer = Consumer(story, "a", "t").join()
    assert newcomer.error == "GROUP_ID_NOT_FOUND"
    assert "policy" in newcomer.answer.message
    assert (story.kind, first.beat()) == ("classic", "NONE")


def test_too_many_members_are_not_upgraded() -> None:
    story = story_with(consumer_size_max=1)
    classic_pair(story)
    assert Consumer(story, "a", "t").join().error == "GROUP_ID_NOT_FOUND"


def test_members_that_are_no_consumers_are_not_upgraded(story: Story) -> None:
    classic_pair(story)
    classic_group(story).rest.protocol_type = "connect"
    assert Consumer(story, "a", "t").join().error == "GROUP_ID_NOT_FOUND"


def test_malformed_members_are_not_upgraded(story: Story) -> None:
    first, _ = classic_pair(story)
    member = classic_group(story).members[first.member_id]
    classic_group(story).change().put(replace(member, assignment=b"\x00\x03\x00"))
    newcomer = Consumer(story, "a", "t").join()
    assert newcomer.error == "GROUP_ID_NOT_FOUND"
    assert "malformed" in newcomer.answer.message


def test_an_upgrade_that_fails_changes_nothing(story: Story) -> None:
    first, _ = classic_pair(story)
    timers = dict(story.timers)
    assert Consumer(story, "a", regex="(").join().error == "INVALID_REGULAR_EXPRESSION"
    assert (story.kind, story.timers) == ("classic", timers)
    assert first.beat() == "NONE"


def test_the_sessions_of_classic_members_go_on(story: Story) -> None:
    first, second = classic_pair(story)
    newcomer = Consumer(story, "a", "t").join()
    story.pass_ms(CLASSIC_SESSION_MS - 1)
    assert first.beat() == "REBALANCE_IN_PROGRESS"
    story.pass_ms(1)
    assert set(story.group.members) == {first.member_id, newcomer.member_id}
    assert second.beat() == "UNKNOWN_MEMBER_ID"
    assert not [name for name in story.timers if name.startswith("classic")]


# Classic members inside


def mixed(story: Story) -> tuple[Consumer, Classic]:
    """One of each, at rest."""
    consumer = Consumer(story, "a", "t").join()
    classic = Classic(story, "c", "t")
    classic.join()
    classic.sync()
    for _ in range(5):
        consumer.report()
        if classic.beat() == "REBALANCE_IN_PROGRESS":
            classic.join()
            classic.sync()
    assert story.group_state == "Stable"
    return consumer, classic


def test_a_classic_member_may_join_a_consumer_group(story: Story) -> None:
    consumer, classic = mixed(story)
    assert sorted(consumer.has + classic.has) == ["t-0", "t-1", "t-2", "t-3"]
    assert len(classic.has) == 2


def test_nobody_leads_and_nobody_waits(story: Story) -> None:
    Consumer(story, "a", "t").join()
    answer = Classic(story, "c", "t").join()
    assert (answer.leader, answer.members) == ("", [])
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_new_classic_member_is_told_its_id_first(story: Story) -> None:
    Consumer(story, "a", "t").join()
    classic = Classic(story, "c", "t")
    answer = classic.ask_to_join()
    assert error_of(answer) == "MEMBER_ID_REQUIRED"
    assert answer.member_id
    assert list(story.group.members) == ["a"]
    assert error_of(Classic(story, "d", "t").ask_to_join(version=3)) == "NONE"


def test_the_description_tells_the_kinds_apart(story: Story) -> None:
    _, classic = mixed(story)
    kinds = {each.member_id: each.member_type for each in story.described().members}
    assert kinds == {"a": 1, classic.member_id: 0}


def test_another_generation_is_illegal(story: Story) -> None:
    _, classic = mixed(story)
    classic.generation += 1
    assert classic.beat() == "ILLEGAL_GENERATION"
    assert error_of(classic.sync()) == "ILLEGAL_GENERATION"


def test_a_member_of_the_consumer_protocol_is_unknown_to_classic_requests(story: Story) -> None:
    consumer, classic = mixed(story)
    classic.member_id, classic.generation = "a", consumer.epoch
    assert classic.beat() == "UNKNOWN_MEMBER_ID"
    assert error_of(classic.sync()) == "UNKNOWN_MEMBER_ID"


def test_a_sync_in_another_protocol_is_refused(story: Story) -> None:
    _, classic = mixed(story)
    classic.protocols = ("roundrobin",)
    assert error_of(classic.sync()) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_protocol_that_other_classic_members_do_not_know_is_refused(story: Story) -> None:
    mixed(story)
    other = Classic(story, "d", "t", protocols=("roundrobin",))
    assert error_of(other.join()) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_new_epoch_is_no_reason_to_rejoin_before_there_is_a_target_for_it() -> None:
    story = story_with(assignment_interval_ms=1_000)
    consumer = Consumer(story, "a", "t").join()
    classic = Classic(story, "c", "t")
    classic.join()
    assert story.group_state == "Assigning"
    assert classic.beat() == "NONE"
    story.pass_ms(1_000)
    consumer.report()
    assert classic.beat() == "REBALANCE_IN_PROGRESS"


def test_classic_members_that_are_among_themselves_see_to_the_target() -> None:
    story = story_with(migration_policy="upgrade")
    consumer, classic = mixed(story)
    consumer.leave()
    assert classic.beat() == "REBALANCE_IN_PROGRESS"
    classic.join()
    classic.sync()
    assert len(classic.has) == 4
    assert story.group_state == "Stable"


def test_a_sync_after_a_newer_epoch_is_told_to_rejoin(story: Story) -> None:
    consumer, classic = mixed(story)
    classic.join()
    consumer.beat(subscribed_topic_names=["t", "u"])
    assert error_of(classic.sync()) == "REBALANCE_IN_PROGRESS"


def test_a_classic_member_that_does_not_sync_in_time_is_out(story: Story) -> None:
    consumer, classic = mixed(story)
    classic.join()
    for _ in range(REBALANCE_MS // 5_000):
        story.pass_ms(5_000)
        consumer.beat()
        classic.beat()
    assert list(story.group.members) == ["a"]


def test_a_classic_member_that_does_not_rejoin_in_time_is_out(story: Story) -> None:
    consumer, classic = mixed(story)
    consumer.beat(subscribed_topic_names=["t", "u"])
    for _ in range(REBALANCE_MS // 5_000):
        assert classic.beat() == "REBALANCE_IN_PROGRESS"
        story.pass_ms(5_000)
        consumer.beat()
    assert list(story.group.members) == ["a"]


def test_a_classic_member_may_leave_and_the_group_stays(story: Story) -> None:
    consumer, classic = mixed(story)
    assert classic.leave() == "NONE"
    assert classic.leave() == "UNKNOWN_MEMBER_ID"
    assert len(consumer.beat().has) == 4
    assert classic.leave(version=2) == "UNKNOWN_MEMBER_ID"


def test_an_administrator_may_remove_members_of_both_protocols(story: Story) -> None:
    story.make_topic("u", 1)
    static = Consumer(story, "s", "t", instance_id="i").join()
    _, classic = mixed_with(story, static)
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id=classic.member_id),
            MemberIdentity(member_id="nobody"),
        ],
    )
    answer = story.ask(request, 5)
    assert [error_of(each) for each in answer.members] == ["NONE", "NONE", "UNKNOWN_MEMBER_ID"]
    assert list(story.group.members) == ["a"]


def mixed_with(story: Story, *others: Consumer) -> tuple[Consumer, Classic]:
    consumer = Consumer(story, "a", "t").join()
    settle(story, consumer, *others)
    classic = Classic(story, "c", "t")
    classic.join()
    return consumer, classic


def test_a_classic_member_may_not_join_where_groups_do_not_migrate() -> None:
    story = story_with(migration_policy="disabled")
    Consumer(story, "a", "t").join()
    assert error_of(Classic(story, "c", "t").join()) == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_session_timeout_out_of_bounds_is_refused() -> None:
    story = story_with(session_timeout_ms_min=CLASSIC_SESSION_MS + 1)
    Consumer(story, "a", "t").join()
    assert error_of(Classic(story, "c", "t").join()) == "INVALID_SESSION_TIMEOUT"


# Downgrade


def test_when_the_last_of_the_consumer_protocol_leaves_the_group_is_classic_again(
    story: Story,
) -> None:
    consumer, classic = mixed(story)
    consumer.leave()
    assert story.kind == "classic"
    group = classic_group(story)
    assert list(group.members) == [classic.member_id]
    assert (group.generation, group.protocol_name) == (classic.generation, "range")
    assert group.state_name == "PreparingRebalance"


def test_the_rest_rebalance_among_themselves(story: Story) -> None:
    consumer, classic = mixed(story)
    consumer.leave()
    assert classic.beat() == "REBALANCE_IN_PROGRESS"
    before = classic.generation
    assert error_of(classic.join()) == "NONE"
    assert classic.generation == before + 1
    assigned = SyncGroupRequestAssignment(
        member_id=classic.member_id, assignment=assignment_bytes("t-0", "t-1", "t-2", "t-3")
    )
    assert error_of(classic.sync([assigned])) == "NONE"
    assert story.group_state == "Stable"


def test_a_downgrade_is_one_batch_that_survives_a_restart(story: Story) -> None:
    consumer, classic = mixed(story)
    before = len(story.log)
    consumer.leave()
    assert len(story.log) == before + 1
    story.restart()
    group = classic_group(story)
    assert list(group.members) == [classic.member_id]
    assert assigned_in(group.members[classic.member_id].assignment) == classic.has


def test_a_restart_before_the_rest_have_rebalanced_begins_the_rebalance_again(
    story: Story,
) -> None:
    consumer, classic = mixed(story)
    consumer.leave()
    story.restart()
    assert classic.beat() == "REBALANCE_IN_PROGRESS"


def test_a_downgrade_without_a_rebalance_is_stable_after_a_restart(story: Story) -> None:
    classic_pair(story, instance_id="i")
    Consumer(story, "a", "t", instance_id="i1").join()
    Classic(story, "c1", "t", instance_id="i1").join()
    story.restart()
    assert story.group_state == "Stable"


def test_a_silent_member_downgrades_the_group_too(story: Story) -> None:
    _, classic = mixed(story)
    for _ in range(10):
        story.pass_ms(5_000)
        if story.kind == "consumer":
            classic.beat()
    assert story.kind == "classic"
    assert not [name for name in story.timers if name.startswith("consumer")]


@pytest.mark.parametrize("policy", ["upgrade"])
def test_the_policy_may_forbid_a_downgrade(policy: str) -> None:
    story = story_with(migration_policy=policy)
    consumer, classic = mixed(story)
    consumer.leave()
    assert story.kind == "consumer"
    assert list(story.group.members) == [classic.member_id]


def test_with_another_member_of_the_consumer_protocol_the_group_stays(story: Story) -> None:
    consumer, _ = mixed(story)
    Consumer(story, "b", "t").join()
    consumer.leave()
    assert story.kind == "consumer"


def test_classic_members_among_themselves_become_a_classic_group_when_one_leaves() -> None:
    """They were not allowed to when the last of the others left."""
    story = story_with(migration_policy="upgrade")
    consumer, classic = mixed(story)
    other = Classic(story, "d", "t")
    other.join()
    consumer.leave()
    assert story.kind == "consumer"
    story.settings = replace(story.settings, migration_policy="bidirectional")
    story.restart()
    assert classic.leave() == "NONE"
    assert story.kind == "classic"
    assert list(classic_group(story).members) == [other.member_id]


# Static members that change their protocol


def test_a_static_member_may_come_back_with_the_other_protocol(story: Story) -> None:
    first, second = classic_pair(story, instance_id="i")
    back = Consumer(story, "a", "t", instance_id="i1").join()
    assert (back.error, back.has) == ("NONE", ["t-0", "t-1"])
    assert set(story.group.members) == {"a", second.member_id}
    assert first.beat() == "FENCED_INSTANCE_ID"


def test_the_last_of_the_consumer_protocol_may_come_back_as_a_classic_member(
    story: Story,
) -> None:
    classic_pair(story, instance_id="i")
    Consumer(story, "a", "t", instance_id="i1").join()
    assert story.kind == "consumer"
    back = Classic(story, "c1", "t", instance_id="i1")
    answer = back.join()
    assert (error_of(answer), story.kind) == ("NONE", "classic")
    assert error_of(back.sync()) == "NONE"
    assert back.has == ["t-0", "t-1"]
    assert story.group_state == "Stable"
    story.restart()
    assert story.kind == "classic"


def test_an_upgrade_that_is_not_allowed_is_refused_in_kafkas_words() -> None:
    story = story_with(migration_policy="disabled")
    classic_pair(story)
    answer = Consumer(story, "a", "t").join().answer
    assert error_of(answer) == "GROUP_ID_NOT_FOUND"
    assert answer.message.startswith(
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is "
        "disabled."
    )


def test_an_empty_classic_group_keeps_its_generation_when_a_member_without_topics_comes(
    story: Story,
) -> None:
    first, second = classic_pair(story)
    first.leave()
    second.leave()
    assert Consumer(story, "a").join().epoch == story.group.epoch > 1
    story.restart()
    assert story.group.epoch == story.group.target_epoch
