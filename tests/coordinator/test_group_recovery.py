"""What an exception of our own costs: one group at most, on the runtime that a node has."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from consumer_story import CLASSIC_SESSION_MS, Classic, Cluster, Consumer, Story, error_of
from hostile_world import HostileWorld

from own_thread import patch_own_thread
from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import rebalance
from penstock.coordinator.groups.classic.join_group import ClassicJoin
from penstock.coordinator.groups.consumer import replay as consumer_replay
from penstock.coordinator.groups.consumer.member_update import MemberUpdater
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.groups.machine import GroupCoordinator
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.messages.k15_describe_groups import DescribeGroupsRequest
from penstock.wire.messages.k16_list_groups import ListGroupsRequest
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest
from penstock.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    write_coordinator_key,
    write_coordinator_value,
)
from penstock.wire.records.group import (
    ConsumerGroupMemberMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

BAD_METADATA = (-1472).to_bytes(2, "big", signed=True)
UNKNOWN_SERVER_ERROR = -1


# Classic members in a consumer group, by hand


class OddClassic(Classic):
    """Its second protocol says what no consumer can read."""

    def ask_to_join(self, version: int = 9) -> Any:
        whole = self.metadata()
        said = iter((whole, BAD_METADATA))
        self.metadata = lambda: next(said)  # type: ignore[method-assign]
        try:
            return super().ask_to_join(version)
        finally:
            del self.metadata


def odd(story: Story) -> OddClassic:
    member = OddClassic(story, "odd", "t")
    member.protocols = ["range", "roundrobin"]
    return member


def plain(story: Story) -> Classic:
    member = Classic(story, "plain", "t")
    member.protocols = ["roundrobin"]
    return member


@pytest.fixture
def story() -> Story:
    story = Story()
    story.make_topic("t", 4)
    return story


def test_every_protocol_of_a_classic_member_is_read_when_it_joins(story: Story) -> None:
    Consumer(story, "a", "t").join()
    assert error_of(odd(story).join()) == "INCONSISTENT_GROUP_PROTOCOL"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_becomes_classic_whatever_its_members_offer(story: Story, restarts: bool) -> None:
    """A classic group keeps metadata unread, and brings it along into the consumer group."""
    first = odd(story)
    first.join()
    last = Consumer(story, "a", "t").join()
    assert error_of(plain(story).join()) == "NONE"
    if restarts:
        story.restart()
    last.leave()
    assert story.kind == "classic"
    story.pass_ms(CLASSIC_SESSION_MS)


# On the runtime


class Groups(HostileWorld):
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.make("t", 2)
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        super().__init__(1, lambda: GroupCoordinator(settings, self.cluster), GROUP_RECORDS)

    def say(self, message: Any, version: int = 9) -> list[Any]:
        heard: list[Any] = []
        self.ask(GroupRequest(message, version, seed=self.chance.randbytes(16)), heard.append)
        return heard

    def join(self, group_id: str, member_id: str = "") -> list[Any]:
        """A JoinGroup of the version that needs no second one."""
        return self.say(
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0" + bytes(8))],
            ),
            3,
        )

    def beat(self, group_id: str) -> Any:
        [answer] = self.say(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id="m",
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            ),
            1,
        )
        return answer

    def commit(self, group_id: str) -> None:
        place = k08.OffsetCommitRequestPartition(committed_offset=5)
        topic = k08.OffsetCommitRequestTopic(name="t", partitions=[place])
        self.say(k08.OffsetCommitRequest(group_id=group_id, topics=[topic]))

    def committed(self, group_id: str) -> int:
        topic = k09.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        asked = k09.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
        [answer] = self.say(k09.OffsetFetchRequest(groups=[asked]))
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    def listed(self) -> dict[str, str]:
        [answer] = self.say(ListGroupsRequest())
        return {each.group_id: each.group_state for each in answer.groups}


@pytest.fixture
def groups(machine_failures: list[logging.LogRecord]) -> Groups:  # noqa: ARG001
    return Groups()


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("ours")


def twice_the_same_member() -> GroupMetadataValue:
    member = MemberMetadata(member_id="m", client_id="c", client_host="/h", subscription=b"")
    return GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=[member] * 2
    )


def test_a_failed_rebalance_costs_its_group_and_tells_its_members_to_ask_again(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = groups.join("good")
    with monkeypatch.context() as patch:
        complete = rebalance.complete
        patch.setattr(
            rebalance,
            "complete",
            lambda group, builder: fail() if group.group_id == "bad" else complete(group, builder),
        )
        first, second = groups.join("bad"), groups.join("bad")
        groups.time.advance(1)
    assert [error_of(each) for each in first + second] == ["COORDINATOR_NOT_AVAILABLE"] * 2
    groups.time.advance(1)
    assert error_of(waiting[0]) == "NONE"
    again = groups.join("bad")
    groups.time.advance(1)
    assert error_of(again[0]) == "NONE"


def test_a_poisoned_timer_is_tried_again_after_a_while_and_logged_once(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, machine_failures: list[logging.LogRecord]
) -> None:
    tries: list[int] = []

    def count_and_fail(*_: Any) -> None:
        tries.append(groups.time.now_ms)
        fail()

    groups.beat("bad")
    patch_own_thread(monkeypatch, MemberUpdater, "without", count_and_fail)
    groups.time.advance(600_000)
    assert 2 <= len(tries) <= 20
    assert len(machine_failures) == 1
    assert "group 'bad', ConsumerSessionExpired" in machine_failures[0].getMessage()


def test_a_consumer_group_that_was_to_become_classic_is_there_again(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.beat("g")
    groups.say(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), 1)
    patch_own_thread(monkeypatch, ClassicJoin, "join", fail)
    assert error_of(groups.join("g")[0]) == "UNKNOWN_SERVER_ERROR"
    assert groups.listed() == {"g": "Empty"}
    assert groups.beat("g").error_code == 0


@pytest.fixture
def with_bad_record(groups: Groups) -> Groups:
    """A log in which one group cannot be replayed."""
    groups.commit("bad")
    groups.beat("good")
    groups.log.append([CoordinatorRecord(GroupMetadataKey(group="bad"), twice_the_same_member())])
    groups.restart()
    return groups


def test_a_group_that_cannot_be_replayed_is_set_aside_and_the_others_are_served(
    with_bad_record: Groups,
) -> None:
    groups = with_bad_record
    assert groups.beat("good").error_code == 0
    [answer] = groups.join("bad")
    assert error_of(answer) == "UNKNOWN_SERVER_ERROR"
    assert "'bad' was set aside" in answer.message
    assert groups.committed("bad") == 5


def test_a_group_that_was_set_aside_is_listed_and_described_as_such(
    with_bad_record: Groups,
) -> None:
    [answer] = with_bad_record.say(DescribeGroupsRequest(groups=["bad"]), 6)
    assert answer.groups[0].error_code == UNKNOWN_SERVER_ERROR
    assert "delete the group" in answer.groups[0].error_message
    assert with_bad_record.listed()["bad"] == "Unknown"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_that_was_set_aside_can_be_deleted_and_begins_anew(
    with_bad_record: Groups, restarts: bool
) -> None:
    groups = with_bad_record
    [answer] = groups.say(DeleteGroupsRequest(groups_names=["bad"]), 2)
    assert [each.error_code for each in answer.results] == [0]
    if restarts:
        groups.restart()
    joined = groups.join("bad")
    groups.time.advance(1)
    assert error_of(joined[0]) == "NONE"


def test_a_later_record_of_a_classic_group_that_was_set_aside_heals_it(
    with_bad_record: Groups,
) -> None:
    groups = with_bad_record
    value = GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None)
    groups.log.append([CoordinatorRecord(GroupMetadataKey(group="bad"), value)])
    groups.restart()
    assert groups.listed()["bad"] == "Empty"


def test_a_consumer_group_that_cannot_be_replayed_leaves_no_key_behind_when_deleted(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.beat("bad")
    with monkeypatch.context() as patch:
        patch.setattr(consumer_replay, "_target", fail)
        groups.restart()
        assert groups.listed() == {"bad": "Unknown"}
        groups.say(DeleteGroupsRequest(groups_names=["bad"]), 2)
        assert groups.listed() == {}
    groups.restart()
    assert groups.listed() == {}
    left: Sequence[Any] = groups.log.read().next_slice()
    alive: dict[str, bool] = {}
    for record in (each for batch in left for each in batch.records):
        alive[repr(record.key)] = record.value is not None
    assert not any(alive.values())


# Values that cannot be read

METADATA_KEY = write_coordinator_key(GroupMetadataKey(group="bad"))
OFFSET_KEY = write_coordinator_key(OffsetCommitKey(group="bad", topic="t"))
LEGACY_KEY = write_coordinator_key(LegacyOffsetCommitKey(group="bad", topic="t"))
MEMBER_KEY = write_coordinator_key(ConsumerGroupMemberMetadataKey(group_id="bad", member_id="m"))
METADATA = write_coordinator_value(GroupMetadataValue(protocol_type="consumer"), 3)
OFFSET = write_coordinator_value(OffsetCommitValue(offset=6), 4)
UNREADABLE = {
    "truncated group metadata": (METADATA_KEY, METADATA[:-3]),
    "truncated offset": (OFFSET_KEY, OFFSET[:-3]),
    "truncated legacy offset": (LEGACY_KEY, OFFSET[:5]),
    "unknown version": (METADATA_KEY, b"\x00\x63" + bytes(20)),
    "unknown version of an offset": (OFFSET_KEY, b"\x00\x63" + bytes(20)),
    "empty value": (METADATA_KEY, b""),
    "empty offset": (OFFSET_KEY, b""),
    "garbage member": (MEMBER_KEY, b"\x00\x00\xff\xff\xff\xff\xff\xff"),
}


@pytest.fixture(params=UNREADABLE.values(), ids=list(UNREADABLE))
def with_unreadable_value(groups: Groups, request: pytest.FixtureRequest) -> Groups:
    groups.commit("bad")
    groups.beat("good")
    groups.log.append_raw(*request.param)
    groups.restart()
    return groups


def test_an_unreadable_value_costs_its_group_and_no_other(
    with_unreadable_value: Groups, machine_failures: list[logging.LogRecord]
) -> None:
    groups = with_unreadable_value
    assert groups.beat("good").error_code == 0
    [answer] = groups.join("bad")
    assert "'bad' was set aside" in answer.message
    assert groups.committed("bad") == 5
    assert [each.levelname for each in machine_failures] == ["ERROR"]


def test_a_group_with_an_unreadable_value_can_be_deleted_for_good(
    with_unreadable_value: Groups,
) -> None:
    groups = with_unreadable_value
    groups.say(DeleteGroupsRequest(groups_names=["bad"]), 2)
    assert "bad" not in groups.listed()
    groups.restart()
    assert "bad" not in groups.listed()
    joined = groups.join("bad")
    groups.time.advance(1)
    assert error_of(joined[0]) == "NONE"


@pytest.mark.parametrize(
    ("key", "value"),
    [(METADATA_KEY, METADATA), (OFFSET_KEY, OFFSET)],
    ids=["group metadata", "offset"],
)
def test_a_later_value_of_the_same_key_replaces_an_unreadable_one(
    groups: Groups, key: bytes, value: bytes
) -> None:
    groups.log.append_raw(key, value[:-3])
    groups.log.append_raw(key, value)
    groups.restart()
    assert groups.listed() == {"bad": "Empty"}


def test_an_unreadable_offset_of_a_transaction_costs_its_group_and_no_other(
    groups: Groups,
) -> None:
    groups.beat("good")
    groups.log.append_raw(OFFSET_KEY, OFFSET[:-3], transactional=True)
    groups.restart()
    assert groups.beat("good").error_code == 0
    assert groups.listed()["bad"] == "Unknown"


def test_several_unreadable_values_leave_no_key_behind_when_their_group_is_deleted(
    groups: Groups,
) -> None:
    for key, value in UNREADABLE.values():
        groups.log.append_raw(key, value)
    groups.restart()
    groups.say(DeleteGroupsRequest(groups_names=["bad"]), 2)
    groups.restart()
    assert groups.listed() == {}


@pytest.mark.parametrize(
    "key",
    [b"", b"\x00", METADATA_KEY[:-1], OFFSET_KEY[:-1]],
    ids=["empty", "half a type", "truncated", "truncated offset"],
)
def test_a_record_with_an_unreadable_key_is_passed_over(groups: Groups, key: bytes) -> None:
    groups.beat("good")
    groups.log.append_raw(key, METADATA)
    groups.restart()
    assert groups.beat("good").error_code == 0
    assert "bad" not in groups.listed()
