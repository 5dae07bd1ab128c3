"""The handlers of OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

from typing import Any

import pytest
from offset_desk import Coordinator, Desk
from offset_story import Story

from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

ORDERS, BILLS, GONE = b"orders-id-orders", b"bills-id-bills-i", b"gone-id-gone-id-"
IDS = {"orders": ORDERS, "bills": BILLS, "gone": GONE}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
Told = dict[tuple[str, int], int]


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.topic("orders", ORDERS, 3)
    desk.topic("bills", BILLS, 1)
    return desk


def commit(
    desk: Desk, version: int, topics: dict[str, list[int]], group_id: str = "g", **member: Any
) -> Told:
    """Commits the offset 100 + partition everywhere; the error codes."""
    message = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=IDS[name],
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=100 + each)
                    for each in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
        **member,
    )
    response = desk.ask(message, version)
    assert len({(each.name, each.topic_id) for each in response.topics}) == len(response.topics)
    return {
        (each.name or NAMES[each.topic_id], partition.partition_index): partition.error_code
        for each in response.topics
        for partition in each.partitions
    }


def fetch_request(
    version: int, topics: dict[str, list[int]] | None, *group_ids: str
) -> OffsetFetchRequest:
    asked = [
        OffsetFetchRequestTopics(name=name, topic_id=IDS[name], partition_indexes=partitions)
        for name, partitions in (topics or {}).items()
    ]
    groups = [
        OffsetFetchRequestGroup(group_id=each, topics=None if topics is None else asked)
        for each in group_ids
    ]
    if version >= 8:
        return OffsetFetchRequest(groups=groups)
    old = [
        OffsetFetchRequestTopic(name=each.name, partition_indexes=each.partition_indexes)
        for each in asked
    ]
    return OffsetFetchRequest(group_id=group_ids[0], topics=None if topics is None else old)


def told(answer: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Offset and error code by place, of a group or of an old response."""
    return {
        (topic.name or NAMES[getattr(topic, "topic_id", b"")], each.partition_index): (
            each.committed_offset,
            each.error_code,
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def fetch(
    desk: Desk, version: int, topics: dict[str, list[int]] | None, group_id: str = "g"
) -> Any:
    """The answer for one group, in whatever place this version has for it."""
    response = desk.ask(fetch_request(version, topics, group_id), version)
    if version < 8:
        return response
    (answer,) = response.groups
    assert answer.group_id == group_id
    return answer


# OffsetCommit


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_every_version_commits(desk: Desk, version: int) -> None:
    codes = commit(desk, version, {"orders": [0, 2], "bills": [0]})
    assert codes == {("orders", 0): 0, ("orders", 2): 0, ("bills", 0): 0}
    expected = {("orders", 0): 100, ("orders", 2): 102, ("bills", 0): 100}
    assert desk.story.fetch("g", None) == expected


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_the_id_of_the_topic_is_kept_whoever_named_it(desk: Desk, version: int) -> None:
    commit(desk, version, {"orders": [0]})
    assert desk.story.values[0].topic_id == ORDERS


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_does_not_exist_is_refused_and_the_rest_committed(desk: Desk, version: int) -> None:
    unknown = UnknownTopicOrPartition.code
    codes = commit(desk, version, {"gone": [0, 1], "orders": [3, 1], "bills": [0]})
    gone = UnknownTopicId.code if version == 10 else unknown
    assert codes == {
        ("gone", 0): gone,
        ("gone", 1): gone,
        ("orders", 3): unknown,
        ("orders", 1): 0,
        ("bills", 0): 0,
    }
    assert desk.story.fetch("g", None) == {("orders", 1): 101, ("bills", 0): 100}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_nobody_is_asked_if_nothing_exists(desk: Desk, version: int) -> None:
    commit(desk, version, {"gone": [0]})
    assert desk.ask(OffsetCommitRequest(group_id="g"), version).topics == []
    assert desk.first.calls == []


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_the_group_refuses_is_told_per_partition(desk: Desk, version: int) -> None:
    desk.story.classic("g")
    codes = commit(desk, version, {"orders": [0, 9]}, member_id="zombie")
    assert codes == {
        ("orders", 0): UnknownMemberId.code,
        ("orders", 9): UnknownTopicOrPartition.code,
    }


def test_members_and_retention_reach_the_group(desk: Desk) -> None:
    commit(desk, 4, {"orders": [0]}, retention_time_ms=99)
    assert desk.story.values[0].expire_timestamp == desk.story.now_ms + 99
    desk.story.classic("g")
    codes = commit(desk, 9, {"orders": [0]}, member_id="m", generation_id_or_member_epoch=5)
    assert codes == {("orders", 0): 0}


def test_a_commit_for_another_coordinator_is_told_per_partition(desk: Desk) -> None:
    codes = commit(desk, 9, {"orders": [0, 1]}, "elsewhere")
    assert codes == {("orders", 0): NotCoordinator.code, ("orders", 1): NotCoordinator.code}


@pytest.mark.parametrize(
    ("refusal", "told_as"),
    [
        (NotEnoughReplicas, CoordinatorNotAvailable),
        (KafkaStorageError, NotCoordinator),
        (MessageTooLarge, UnknownServerError),
        (CoordinatorLoadInProgress, CoordinatorLoadInProgress),
    ],
)
def test_what_a_log_refuses_is_told_in_words_of_coordinators(
    desk: Desk, refusal: type[KafkaError], told_as: type[KafkaError]
) -> None:
    desk.first.error = refusal()
    assert commit(desk, 9, {"orders": [0]}) == {("orders", 0): told_as.code}
    assert delete(desk, {"orders": [0]}) == (told_as.code, {})
    assert fetch(desk, 9, {"orders": [0]}).error_code == told_as.code


# OffsetFetch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_version_fetches(desk: Desk, version: int) -> None:
    commit(desk, 9, {"orders": [0, 1]})
    answer = fetch(desk, version, {"orders": [1, 2], "bills": [0]})
    assert answer.error_code == 0
    assert told(answer) == {("orders", 1): (101, 0), ("orders", 2): (-1, 0), ("bills", 0): (-1, 0)}


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_no_topics_means_all_of_them(desk: Desk, version: int) -> None:
    commit(desk, 9, {"orders": [0, 1], "bills": [0]})
    answer = fetch(desk, version, None)
    assert told(answer) == {
        ("orders", 0): (100, 0),
        ("orders", 1): (101, 0),
        ("bills", 0): (100, 0),
    }


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_error_of_the_group_is_in_the_place_of_its_version(desk: Desk, version: int) -> None:
    desk.story.consumers("g").refusal = StaleMemberEpoch()
    answer = fetch(desk, version, {"orders": [0, 1]})
    code = StaleMemberEpoch.code
    if version == 1:
        assert told(answer) == {("orders", 0): (-1, code), ("orders", 1): (-1, code)}
    else:
        assert (answer.error_code, answer.topics) == (code, [])


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_error_of_the_coordinator_is_in_the_same_place(desk: Desk, version: int) -> None:
    desk.first.error = CoordinatorLoadInProgress()
    answer = fetch(desk, version, {"orders": [0]})
    code = CoordinatorLoadInProgress.code
    if version == 1:
        assert told(answer) == {("orders", 0): (-1, code)}
    else:
        assert (answer.error_code, answer.topics) == (code, [])


def test_offsets_of_a_deleted_topic_are_told_by_name_but_not_by_id(desk: Desk) -> None:
    desk.story.commit("g", {("gone", 0): 5, ("orders", 0): 6})
    assert told(fetch(desk, 9, {"gone": [0]})) == {("gone", 0): (5, 0)}
    assert told(fetch(desk, 9, None)) == {("gone", 0): (5, 0), ("orders", 0): (6, 0)}
    assert told(fetch(desk, 10, None)) == {("orders", 0): (6, 0)}


def test_an_id_that_nobody_has_is_told_per_topic(desk: Desk) -> None:
    commit(desk, 10, {"orders": [0]})
    answer = fetch(desk, 10, {"gone": [0, 1], "orders": [0]})
    code = UnknownTopicId.code
    assert told(answer) == {
        ("orders", 0): (100, 0),
        ("gone", 0): (-1, code),
        ("gone", 1): (-1, code),
    }


@pytest.mark.parametrize("version", [9, 10])
def test_the_member_is_made_known_to_the_group(desk: Desk, version: int) -> None:
    message = fetch_request(version, {"orders": [0]}, "g")
    message.groups[0].member_id, message.groups[0].member_epoch = "m", 7
    desk.ask(message, version)
    (asked,) = desk.first.calls[-1].message.groups
    assert (asked.member_id, asked.member_epoch) == ("m", 7)


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_stability_is_asked_for(desk: Desk, version: int) -> None:
    message = fetch_request(version, None, "g")
    message.require_stable = True
    desk.ask(message, version)
    assert desk.first.calls[-1].message.require_stable


# Several coordinators


def second(desk: Desk, *group_ids: str) -> Coordinator:
    other = Coordinator(Story())
    for group_id in group_ids:
        desk.coordinators[group_id] = other
    return other


@pytest.mark.parametrize("version", [8, 9, 10])
def test_each_coordinator_is_asked_once_and_answers_keep_the_order(
    desk: Desk, version: int
) -> None:
    other = second(desk, "b", "d")
    for group_id in ("a", "c"):
        desk.story.commit(group_id, {("orders", 0): ord(group_id)})
    for group_id in ("b", "d"):
        other.story.commit(group_id, {("orders", 0): ord(group_id)})
    response = desk.ask(fetch_request(version, {"orders": [0]}, "a", "b", "c", "d"), version)
    assert [each.group_id for each in response.groups] == ["a", "b", "c", "d"]
    offsets = [each.topics[0].partitions[0].committed_offset for each in response.groups]
    assert offsets == [ord(each) for each in "abcd"]
    assert (len(desk.first.calls), len(other.calls)) == (1, 1)


def test_the_answer_waits_for_the_last_coordinator(desk: Desk) -> None:
    other = second(desk, "b")
    other.holds_back = True
    desk.send(fetch_request(9, {"orders": [0]}, "a", "b"), 9)
    assert desk.replies == []
    other.let_go()
    (response,) = desk.replies
    assert [each.group_id for each in response.groups] == ["a", "b"]


def test_a_coordinator_elsewhere_does_not_spoil_the_others(desk: Desk) -> None:
    second(desk, "b").error = CoordinatorLoadInProgress()
    commit(desk, 9, {"orders": [0]}, "a")
    response = desk.ask(fetch_request(9, {"orders": [0]}, "elsewhere", "a", "b"), 9)
    codes = [each.error_code for each in response.groups]
    assert codes == [NotCoordinator.code, 0, CoordinatorLoadInProgress.code]
    assert told(response.groups[1]) == {("orders", 0): (100, 0)}


def test_a_group_that_is_named_twice_is_answered_twice(desk: Desk) -> None:
    commit(desk, 9, {"orders": [0, 1]})
    message = fetch_request(9, {"orders": [0]}, "g", "g")
    message.groups[1].topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[1])]
    first, again = desk.ask(message, 9).groups
    assert told(first) == {("orders", 0): (100, 0)}
    assert told(again) == {("orders", 1): (101, 0)}


def test_no_groups_get_no_answers(desk: Desk) -> None:
    assert desk.ask(OffsetFetchRequest(), 9).groups == []


# OffsetDelete


def delete(desk: Desk, topics: dict[str, list[int]], group_id: str = "g") -> tuple[int, Told]:
    message = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in topics.items()
        ],
    )
    response = desk.ask(message, 0)
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
    return response.error_code, codes


def test_offsets_are_deleted_and_what_does_not_exist_is_refused(desk: Desk) -> None:
    commit(desk, 9, {"orders": [0, 1]})
    unknown = UnknownTopicOrPartition.code
    assert delete(desk, {"gone": [0], "orders": [1, 3]}) == (
        0,
        {("gone", 0): unknown, ("orders", 1): 0, ("orders", 3): unknown},
    )
    assert desk.story.fetch("g", None) == {("orders", 0): 100}


def test_what_is_wrong_with_the_group_is_told_once(desk: Desk) -> None:
    assert delete(desk, {"orders": [1], "gone": [0]}) == (GroupIdNotFound.code, {})
    assert delete(desk, {"orders": [1]}, "elsewhere") == (NotCoordinator.code, {})
    assert delete(desk, {"orders": [1]}, "") == (InvalidGroupId.code, {})
