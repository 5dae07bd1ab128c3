"""Classic groups in their records: what is read back is what was written."""

import pytest
from classic_story import GROUP, Member, Story, assigned_by, stable, subscription

from penstock.coordinator.batches import value_version
from penstock.coordinator.groups.classic import ClassicGroup, ClassicState
from penstock.coordinator.groups.classic.generation import SUBSCRIPTION_BYTES_READ_MAX
from penstock.coordinator.groups.classic.group_record import generation_of, record_of
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    read_coordinator_key,
    read_coordinator_value,
    write_coordinator_value,
)
from penstock.wire.records.group import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def group_of(value: GroupMetadataValue, group_id: str = GROUP) -> ClassicGroup:
    return ClassicGroup(group_id, generation_of(value))


def test_a_group_at_rest_comes_back_as_it_was() -> None:
    story = Story()
    alice = Member(story, "alice", topics=("a", "b"))
    bob = Member(story, "bob", instance_id="box-2", topics=("c",))
    stable(story, alice, bob)
    before = record_of(GROUP, story.group.current)
    story.restart()
    assert story.group.state is ClassicState.STABLE
    assert story.group.current.subscribed_topics == frozenset({"a", "b", "c"})
    since_ms = story.group.rest.since_ms
    assert since_ms is not None and since_ms <= story.now_ms
    assert isinstance(before.value, GroupMetadataValue)
    before.value.current_state_timestamp = since_ms
    assert record_of(GROUP, story.group.current) == before


def test_a_rebalance_that_was_under_way_is_undone_by_a_restart() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice, bob)
    asked = bob.ask_to_join()
    alice.ask_to_join()
    Member(story, "carol").join()
    story.restart()
    assert asked.error == "NONE"
    assert (story.group.state_name, story.group.generation) == ("Stable", 1)
    assert story.members == [alice.member_id, bob.member_id]
    assert bob.sync(generation=1).answer.assignment == assigned_by("bob")


def test_after_a_restart_only_the_protocol_of_the_generation_is_known() -> None:
    story = Story()
    alice = Member(story, "alice", protocols=("range", "sticky"))
    bob = Member(story, "bob", protocols=("range", "sticky"))
    stable(story, alice, bob)
    story.restart()
    assert bob.ask_to_join().waits  # so what it offers is news
    alice.ask_to_join()
    assert bob.joined.error == "NONE"


def test_an_empty_group_comes_back_empty_since_the_same_time() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    since_ms = story.now_ms
    story.pass_ms(1_000_000)
    story.restart()
    assert (story.group.state_name, story.group.generation) == ("Empty", 2)
    assert story.group.empty_since_ms == since_ms


def test_a_tombstone_forgets_the_group() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    group = story.group
    [tombstone] = group.tombstones()
    assert tombstone == CoordinatorRecord(GroupMetadataKey(group=GROUP))
    story.work.replay(tombstone)
    assert story.state.groups == {}


def test_a_tombstone_of_a_group_that_nobody_knows_does_nothing() -> None:
    story = Story()
    story.work.replay(CoordinatorRecord(GroupMetadataKey(group="other")))
    assert story.state.groups == {}


def test_a_record_of_another_hand_replaces_what_is_in_memory() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    value = GroupMetadataValue(protocol_type="consumer", generation=7)
    story.work.replay(CoordinatorRecord(GroupMetadataKey(group=GROUP), value))
    assert (story.group.state_name, story.group.generation) == ("Empty", 7)


def test_a_group_that_only_held_offsets_gives_way_to_its_record() -> None:
    story = Story()
    story.state.groups[GROUP] = ClassicGroup(GROUP)
    value = GroupMetadataValue(protocol_type="consumer", generation=7)
    story.work.replay(CoordinatorRecord(GroupMetadataKey(group=GROUP), value))
    assert story.group.protocol_type == "consumer"


def test_a_refused_append_is_the_end_of_the_machine() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    [expiry] = story.group.timers.values()
    outcome = story.work.handle_timer(expiry, story.now_ms)
    assert outcome is not None and outcome.records
    assert outcome.volatile


def test_old_records_without_a_rebalance_timeout_use_the_session_timeout() -> None:
    member = MemberMetadata(member_id="a", session_timeout=9_000, subscription=b"")
    group = group_of(GroupMetadataValue(protocol="range", members=[member]))
    assert group.members["a"].rebalance_timeout_ms == 9_000
    assert group.rest.since_ms is None


def test_a_timeout_below_zero_in_an_older_log_counts_as_none() -> None:
    member = MemberMetadata(member_id="a", session_timeout=-2, rebalance_timeout=-(2**31))
    group = group_of(GroupMetadataValue(protocol="range", members=[member]))
    assert group.members["a"].rebalance_timeout_ms == 0
    assert group.members["a"].session_timeout_ms == 0


@pytest.mark.parametrize("leader", [None, "gone"])
def test_a_group_without_a_known_leader_takes_the_first_member(leader: str | None) -> None:
    members = [MemberMetadata(member_id="a"), MemberMetadata(member_id="b")]
    value = GroupMetadataValue(protocol="range", leader=leader, members=members)
    assert group_of(value).leader_id == "a"


def test_what_kafka_wrote_is_read_and_written_the_same() -> None:
    """A record of Apache Kafka 4.3.1: a stable group with a static and a dynamic member."""
    static_id = "i1-a73214d1-4067-4d75-a036-7eda5ca53c56"
    dynamic_id = "c0-088426df-5895-4310-9c4e-ce4efaecae4e"
    raw = bytes.fromhex(
        "00030008636f6e73756d657200000003000572616e6765002769312d61373332313464312d343036372d34"
        "6437352d613033362d376564613563613533633536000001a1df964ff200000002002769312d6137333231"
        "3464312d343036372d346437352d613033362d376564613563613533633536000269310002633100"
        "0a2f3132372e302e302e3100000bb8000005dc00000017000300000001000174ffffffff00000000ffffff"
        "ffffff00000004333a2334002763302d30383834323664662d353839352d343331302d396334652d636534"
        "656661656361653465ffff00026330000a2f3132372e302e302e3100000bb8000005dc0000001700030000"
        "0001000174ffffffff00000000ffffffffffff00000004333a2333"
    )
    key = read_coordinator_key(GROUP_RECORDS, bytes.fromhex("0002 0006 6f7264657273"))
    value, version = read_coordinator_value(GROUP_RECORDS, key, raw)
    assert isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue)
    group = group_of(value, key.group)
    assert (group.group_id, group.generation, group.leader_id) == (GROUP, 3, static_id)
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert group.current.subscribed_topics == frozenset({"t"})
    assert group.static_ids == {"i1": static_id}
    member = group.members[dynamic_id]
    assert (member.assignment, member.client_host) == (b"3:#3", "/127.0.0.1")
    again = record_of(GROUP, group.current)
    assert write_coordinator_value(again.value, version) == raw
    assert value_version(again.value) == version


def test_a_group_that_goes_takes_its_timers_along() -> None:
    story = Story()
    alice, bob = Member(story, "alice"), Member(story, "bob")
    stable(story, alice)
    bob.ask_to_join()
    alice.ask_to_join()
    assert sorted(story.group.timers) == story.timers


# What members are subscribed to


@pytest.mark.parametrize("version", range(4))
def test_topics_are_read_from_every_version_of_a_subscription(version: int) -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        protocol="range",
        members=[MemberMetadata(member_id="a", subscription=subscription("x", version=version))],
    )
    group = group_of(value)
    assert group.is_subscribed_to("x")
    assert not group.is_subscribed_to("y")


@pytest.mark.parametrize(
    "garbage", [b"", b"\0", b"\0\1\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\2a", b"\0\0\xff\xff\xff\xff"]
)
def test_of_a_consumer_that_cannot_be_understood_every_topic_may_be_in_use(garbage: bytes) -> None:
    good = MemberMetadata(member_id="a", subscription=subscription("x"))
    bad = MemberMetadata(member_id="b", subscription=garbage)
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=[good, bad])
    group = group_of(value)
    assert group.current.subscribed_topics is None
    assert group.is_subscribed_to("y")


def test_subscriptions_too_long_for_one_turn_may_have_every_topic_in_use() -> None:
    names = [f"{number:030}" for number in range(SUBSCRIPTION_BYTES_READ_MAX // 64)]
    members = [
        MemberMetadata(member_id=f"m{each}", subscription=subscription(*names, f"own-{each}"))
        for each in range(3)
    ]
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=members)
    assert group_of(value).is_subscribed_to("y")


def test_equal_subscriptions_count_once_towards_the_limit() -> None:
    names = [f"{number:030}" for number in range(SUBSCRIPTION_BYTES_READ_MAX // 64)]
    members = [
        MemberMetadata(member_id=f"m{each}", subscription=subscription(*names)) for each in range(3)
    ]
    value = GroupMetadataValue(protocol_type="consumer", protocol="range", members=members)
    assert not group_of(value).is_subscribed_to("y")


def test_members_of_another_protocol_type_are_not_looked_into() -> None:
    member = MemberMetadata(member_id="a", subscription=subscription("x"))
    value = GroupMetadataValue(protocol_type="connect", protocol="range", members=[member])
    assert not group_of(value).is_subscribed_to("x")
