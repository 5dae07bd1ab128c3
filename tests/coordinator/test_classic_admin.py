"""DescribeGroups, ListGroups and DeleteGroups within one coordinator partition."""

from collections.abc import Sequence
from typing import Any

import pytest
from classic_story import DELAY_MS, GROUP, SESSION_MS, Member, Story, assigned_by, name_of, stable

from penstock.coordinator.groups.classic import ClassicGroup
from penstock.coordinator.groups.group import Kind
from penstock.coordinator.records import CoordinatorRecord
from penstock.errors import NonEmptyGroup
from penstock.wire.codec import read, write
from penstock.wire.messages.k15_describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.wire.messages.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.wire.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.wire.records.group import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
)


class OtherGroup:
    """A group of the other kind, as far as these questions need one."""

    def __init__(self, group_id: str, state_name: str, *, empty: bool) -> None:
        self.group_id = group_id
        self.state_name = state_name
        self.is_empty = empty

    protocol_type = "consumer"
    empty_since_ms = None

    @property
    def kind(self) -> Kind:
        return "consumer"

    def check_commit(self, *_: Any, **__: Any) -> None: ...

    def check_fetch(self, *_: Any) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(topic)

    def check_delete(self) -> None:
        if not self.is_empty:
            raise NonEmptyGroup(self.group_id)

    def tombstones(self) -> Sequence[CoordinatorRecord]:
        return [CoordinatorRecord(ConsumerGroupMetadataKey(group_id=self.group_id))]


def other(story: Story, group_id: str, state_name: str, *, empty: bool = False) -> None:
    story.state.groups[group_id] = OtherGroup(group_id, state_name, empty=empty)


# DescribeGroups


def test_a_stable_group_is_described_with_all_that_its_members_said_and_got() -> None:
    story = Story()
    alice = Member(story, "alice")
    bob = Member(story, "bob", instance_id="box-2", topics=("b",))
    stable(story, alice, bob)
    told = story.described()
    assert (told.error_code, told.group_id, told.group_state) == (0, GROUP, "Stable")
    assert (told.protocol_type, told.protocol_data) == ("consumer", "range")
    [_, member] = told.members
    assert (member.member_id, member.group_instance_id) == (bob.member_id, "box-2")
    assert (member.client_id, member.client_host) == ("bob", "/bob")
    assert member.member_metadata == story.group.members[bob.member_id].metadata("range")
    assert member.member_assignment == assigned_by("bob")


def test_a_group_that_rebalances_has_no_protocol_and_no_metadata() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.join()
    told = story.described()
    assert (told.group_state, told.protocol_type, told.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [each.member_metadata for each in told.members] == [b""]
    story.pass_ms(DELAY_MS)
    assert story.described().group_state == "CompletingRebalance"


def test_an_empty_group_is_described_as_such() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    told = story.described()
    assert (told.error_code, told.group_state, told.members) == (0, "Empty", [])


@pytest.mark.parametrize("version", range(6))
def test_before_v6_a_group_that_is_not_there_is_dead(version: int) -> None:
    told = Story().described("nobody", version)
    assert (told.error_code, told.group_state, told.group_id) == (0, "Dead", "nobody")


def test_from_v6_on_it_is_not_found() -> None:
    told = Story().described("nobody", 6)
    assert (name_of(told.error_code), told.group_state) == ("GROUP_ID_NOT_FOUND", "Dead")
    assert told.error_message == "Group nobody not found."


def test_a_group_of_another_kind_is_not_found_either() -> None:
    story = Story()
    other(story, "modern", "Stable")
    assert name_of(story.described("modern", 6).error_code) == "GROUP_ID_NOT_FOUND"
    assert story.described("modern", 5).group_state == "Dead"


@pytest.mark.parametrize("version", range(7))
def test_every_version_can_carry_a_description(version: int) -> None:
    story = Story()
    stable(story, Member(story, "alice", instance_id="box-1"))
    answer = story.ask(DescribeGroupsRequest(groups=[GROUP, "nobody"]), version).answer
    told = read(DescribeGroupsResponse, version, write(answer, version))
    assert [each.group_state for each in told.groups] == ["Stable", "Dead"]


# ListGroups


def listed(
    story: Story, states: Sequence[str] = (), kinds: Sequence[str] = (), version: int = 5
) -> list[ListedGroup]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(kinds))
    groups: list[ListedGroup] = story.ask(request, version).answer.groups
    return groups


def several() -> Story:
    story = Story()
    stable(story, Member(story, "alice"))
    story.state.groups["offsets only"] = ClassicGroup("offsets only")
    other(story, "modern", "Assigning")
    return story


def test_all_groups_are_listed() -> None:
    assert [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in listed(several())
    ] == [
        (GROUP, "consumer", "Stable", "classic"),
        ("offsets only", "", "Empty", "classic"),
        ("modern", "consumer", "Assigning", "consumer"),
    ]


@pytest.mark.parametrize(
    ("states", "kinds", "expected"),
    [
        (["Stable"], [], [GROUP]),
        (["STABLE", " empty "], [], [GROUP, "offsets only"]),
        (["assigning"], [], ["modern"]),
        (["no such state"], [], []),
        ([], ["classic"], [GROUP, "offsets only"]),
        ([], ["Consumer"], ["modern"]),
        ([], ["no such type"], []),
        (["Empty"], ["consumer"], []),
        (["Stable"], ["classic", "consumer"], [GROUP]),
    ],
)
def test_groups_are_found_by_state_and_type(
    states: list[str], kinds: list[str], expected: list[str]
) -> None:
    assert [each.group_id for each in listed(several(), states, kinds)] == expected


@pytest.mark.parametrize("version", range(6))
def test_every_version_can_carry_a_list(version: int) -> None:
    answer = several().ask(ListGroupsRequest(), version).answer
    told = read(ListGroupsResponse, version, write(answer, version))
    assert [each.group_id for each in told.groups] == [GROUP, "offsets only", "modern"]


# DeleteGroups


def delete(story: Story, *groups: str) -> list[tuple[str, str]]:
    results = story.ask(DeleteGroupsRequest(groups_names=list(groups)), 2).answer.results
    return [(each.group_id, name_of(each.error_code)) for each in results]


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    story = Story()
    alice = Member(story, "alice")
    stable(story, alice)
    alice.leave()
    key = OffsetCommitKey(group=GROUP, topic="t", partition=3)
    store = story.state.offsets
    store.put(GROUP, "t", 3, store.stored(OffsetCommitValue(offset=7)))
    story.take_records()
    assert delete(story, GROUP) == [(GROUP, "NONE")]
    assert story.take_records() == [
        CoordinatorRecord(key),
        CoordinatorRecord(GroupMetadataKey(group=GROUP)),
    ]
    assert story.state.groups == {}
    story.restart()
    assert story.state.groups == {}


def test_a_group_that_only_holds_offsets_is_deleted_too() -> None:
    story = Story()
    story.state.groups[GROUP] = ClassicGroup(GROUP)
    assert delete(story, GROUP) == [(GROUP, "NONE")]
    assert story.state.groups == {}


def test_a_group_in_use_is_not() -> None:
    story = Story()
    stable(story, Member(story, "alice"))
    assert delete(story, GROUP) == [(GROUP, "NON_EMPTY_GROUP")]
    assert story.take_records() == []


def test_a_group_that_is_not_there_is_not_found() -> None:
    assert delete(Story(), "nobody") == [("nobody", "GROUP_ID_NOT_FOUND")]


def test_each_group_has_its_own_result_and_a_name_that_is_said_twice_one() -> None:
    story = several()
    other(story, "modern and empty", "Empty", empty=True)
    assert delete(story, GROUP, "modern and empty", "nobody", "modern", "modern and empty") == [
        (GROUP, "NON_EMPTY_GROUP"),
        ("modern and empty", "NONE"),
        ("nobody", "GROUP_ID_NOT_FOUND"),
        ("modern", "NON_EMPTY_GROUP"),
    ]
    assert story.take_records() == [
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id="modern and empty"))
    ]


def test_whoever_was_about_to_join_a_deleted_group_begins_anew() -> None:
    story = Story()
    alice = Member(story, "alice")
    alice.member_id = alice.ask_to_join().answer.member_id
    assert delete(story, GROUP) == [(GROUP, "NONE")]
    assert story.timers == []
    story.pass_ms(SESSION_MS)
    assert alice.ask_to_join().error == "UNKNOWN_MEMBER_ID"
    alice.member_id = ""
    assert alice.join().waits


@pytest.mark.parametrize("version", range(3))
def test_every_version_can_carry_the_results(version: int) -> None:
    answer = Story().ask(DeleteGroupsRequest(groups_names=["nobody"]), version).answer
    told = read(DeleteGroupsResponse, version, write(answer, version))
    assert [each.group_id for each in told.results] == ["nobody"]
