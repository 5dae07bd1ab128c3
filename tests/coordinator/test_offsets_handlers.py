"""The handlers of OffsetCommit, OffsetFetch and OffsetDelete, in every version."""

from typing import Any

import pytest
from offset_requests import Coordinator, OffsetBroker
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
def broker() -> OffsetBroker:
    broker = OffsetBroker()
    broker.topic("orders", ORDERS, 3)
    broker.topic("bills", BILLS, 1)
    return broker


def commit(
    broker: OffsetBroker,
    version: int,
    topics: dict[str, list[int]],
    group_id: str = "g",
    **member: Any,
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
    response = broker.ask(message, version)
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
    broker: OffsetBroker, version: int, topics: dict[str, list[int]] | None, group_id: str = "g"
) -> Any:
    """The answer for one group, in whatever place this version has for it."""
    response = broker.ask(fetch_request(version, topics, group_id), version)
    if version < 8:
        return response
    (answer,) = response.groups
    assert answer.group_id == group_id
    return answer


# OffsetCommit


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_every_version_commits(broker: OffsetBroker, version: int) -> None:
    codes = commit(broker, version, {"orders": [0, 2], "bills": [0]})
    assert codes == {("orders", 0): 0, ("orders", 2): 0, ("bills", 0): 0}
    expected = {("orders", 0): 100, ("orders", 2): 102, ("bills", 0): 100}
    assert broker.story.fetch("g", None) == expected


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_the_id_of_the_topic_is_kept_whoever_named_it(broker: OffsetBroker, version: int) -> None:
    commit(broker, version, {"orders": [0]})
    assert broker.story.values[0].topic_id == ORDERS


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_does_not_exist_is_refused_and_the_rest_committed(
    broker: OffsetBroker, version: int
) -> None:
    unknown = UnknownTopicOrPartition.code
    codes = commit(broker, version, {"gone": [0, 1], "orders": [3, 1], "bills": [0]})
    gone = UnknownTopicId.code if version == 10 else unknown
    assert codes == {
        ("gone", 0): gone,
        ("gone", 1): gone,
        ("orders", 3): unknown,
        ("orders", 1): 0,
        ("bills", 0): 0,
    }
    assert broker.story.fetch("g", None) == {("orders", 1): 101, ("bills", 0): 100}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_nobody_is_asked_if_nothing_exists(broker: OffsetBroker, version: int) -> None:
    commit(broker, version, {"gone": [0]})
    assert broker.ask(OffsetCommitRequest(group_id="g"), version).topics == []
    assert broker.first.calls == []


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_the_group_refuses_is_told_per_partition(broker: OffsetBroker, version: int) -> None:
    broker.story.classic("g")
    codes = commit(broker, version, {"orders": [0, 9]}, member_id="zombie")
    assert codes == {
        ("orders", 0): UnknownMemberId.code,
        ("orders", 9): UnknownTopicOrPartition.code,
    }


def test_members_and_retention_reach_the_group(broker: OffsetBroker) -> None:
    commit(broker, 4, {"orders": [0]}, retention_time_ms=99)
    assert broker.story.values[0].expire_timestamp == broker.story.now_ms + 99
    broker.story.classic("g")
    codes = commit(broker, 9, {"orders": [0]}, member_id="m", generation_id_or_member_epoch=5)
    assert codes == {("orders", 0): 0}


def test_a_commit_for_another_coordinator_is_told_per_partition(broker: OffsetBroker) -> None:
    codes = commit(broker, 9, {"orders": [0, 1]}, "elsewhere")
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
    broker: OffsetBroker, refusal: type[KafkaError], told_as: type[KafkaError]
) -> None:
    broker.first.error = refusal()
    assert commit(broker, 9, {"orders": [0]}) == {("orders", 0): told_as.code}
    assert delete(broker, {"orders": [0]}) == (told_as.code, {})
    assert fetch(broker, 9, {"orders": [0]}).error_code == told_as.code


# OffsetFetch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_version_fetches(broker: OffsetBroker, version: int) -> None:
    commit(broker, 9, {"orders": [0, 1]})
    answer = fetch(broker, version, {"orders": [1, 2], "bills": [0]})
    assert answer.error_code == 0
    assert told(answer) == {("orders", 1): (101, 0), ("orders", 2): (-1, 0), ("bills", 0): (-1, 0)}


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_no_topics_means_all_of_them(broker: OffsetBroker, version: int) -> None:
    commit(broker, 9, {"orders": [0, 1], "bills": [0]})
    answer = fetch(broker, version, None)
    assert told(answer) == {
        ("orders", 0): (100, 0),
        ("orders", 1): (101, 0),
        ("bills", 0): (100, 0),
    }


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_error_of_the_group_is_in_the_place_of_its_version(
    broker: OffsetBroker, version: int
) -> None:
    broker.story.consumers("g").refusal = StaleMemberEpoch()
    answer = fetch(broker, version, {"orders": [0, 1]})
    code = StaleMemberEpoch.code
    if version == 1:
        assert told(answer) == {("orders", 0): (-1, code), ("orders", 1): (-1, code)}
    else:
        assert (answer.error_code, answer.topics) == (code, [])


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_error_of_the_coordinator_is_in_the_same_place(
    broker: OffsetBroker, version: int
) -> None:
    broker.first.error = CoordinatorLoadInProgress()
    answer = fetch(broker, version, {"orders": [0]})
    code = CoordinatorLoadInProgress.code
    if version == 1:
        assert told(answer) == {("orders", 0): (-1, code)}
    else:
        assert (answer.error_code, answer.topics) == (code, [])


def test_offsets_of_a_deleted_topic_are_told_by_name_but_not_by_id(broker: OffsetBroker) -> None:
    broker.story.commit("g", {("gone", 0): 5, ("orders", 0): 6})
    assert told(fetch(broker, 9, {"gone": [0]})) == {("gone", 0): (5, 0)}
    assert told(fetch(broker, 9, None)) == {("gone", 0): (5, 0), ("orders", 0): (6, 0)}
    assert told(fetch(broker, 10, None)) == {("orders", 0): (6, 0)}


def test_an_id_that_nobody_has_is_told_per_topic(broker: OffsetBroker) -> None:
    commit(broker, 10, {"orders": [0]})
    answer = fetch(broker, 10, {"gone": [0, 1], "orders": [0]})
    code = UnknownTopicId.code
    assert told(answer) == {
        ("orders", 0): (100, 0),
        ("gone", 0): (-1, code),
        ("gone", 1): (-1, code),
    }


@pytest.mark.parametrize("version", [9, 10])
def test_the_member_is_made_known_to_the_group(broker: OffsetBroker, version: int) -> None:
    message = fetch_request(version, {"orders": [0]}, "g")
    message.groups[0].member_id, message.groups[0].member_epoch = "m", 7
    broker.ask(message, version)
    (asked,) = broker.first.calls[-1].message.groups
    assert (asked.member_id, asked.member_epoch) == ("m", 7)


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_stability_is_asked_for(broker: OffsetBroker, version: int) -> None:
    message = fetch_request(version, None, "g")
    message.require_stable = True
    broker.ask(message, version)
    assert broker.first.calls[-1].message.require_stable


# Several coordinators


def second(broker: OffsetBroker, *group_ids: str) -> Coordinator:
    other = Coordinator(Story())
    for group_id in group_ids:
        broker.coordinators[group_id] = other
    return other


@pytest.mark.parametrize("version", [8, 9, 10])
def test_each_coordinator_is_asked_once_and_answers_keep_the_order(
    broker: OffsetBroker, version: int
) -> None:
    other = second(broker, "b", "d")
    for group_id in ("a", "c"):
        broker.story.commit(group_id, {("orders", 0): ord(group_id)})
    for group_id in ("b", "d"):
        other.story.commit(group_id, {("orders", 0): ord(group_id)})
    response = broker.ask(fetch_request(version, {"orders": [0]}, "a", "b", "c", "d"), version)
    assert [each.group_id for each in response.groups] == ["a", "b", "c", "d"]
    offsets = [each.topics[0].partitions[0].committed_offset for each in response.groups]
    assert offsets == [ord(each) for each in "abcd"]
    assert (len(broker.first.calls), len(other.calls)) == (1, 1)


def test_the_answer_waits_for_the_last_coordinator(broker: OffsetBroker) -> None:
    other = second(broker, "b")
    other.holds_back = True
    broker.send(fetch_request(9, {"orders": [0]}, "a", "b"), 9)
    assert broker.replies == []
    other.let_go()
    (response,) = broker.replies
    assert [each.group_id for each in response.groups] == ["a", "b"]


def test_a_coordinator_elsewhere_does_not_spoil_the_others(broker: OffsetBroker) -> None:
    second(broker, "b").error = CoordinatorLoadInProgress()
    commit(broker, 9, {"orders": [0]}, "a")
    response = broker.ask(fetch_request(9, {"orders": [0]}, "elsewhere", "a", "b"), 9)
    codes = [each.error_code for each in response.groups]
    assert codes == [NotCoordinator.code, 0, CoordinatorLoadInProgress.code]
    assert told(response.groups[1]) == {("orders", 0): (100, 0)}


def test_a_group_that_is_named_twice_is_answered_twice(broker: OffsetBroker) -> None:
    commit(broker, 9, {"orders": [0, 1]})
    message = fetch_request(9, {"orders": [0]}, "g", "g")
    message.groups[1].topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[1])]
    first, again = broker.ask(message, 9).groups
    assert told(first) == {("orders", 0): (100, 0)}
    assert told(again) == {("orders", 1): (101, 0)}


def test_no_groups_get_no_answers(broker: OffsetBroker) -> None:
    assert broker.ask(OffsetFetchRequest(), 9).groups == []


# OffsetDelete


def delete(
    broker: OffsetBroker, topics: dict[str, list[int]], group_id: str = "g"
) -> tuple[int, Told]:
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
    response = broker.ask(message, 0)
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
    return response.error_code, codes


def test_offsets_are_deleted_and_what_does_not_exist_is_refused(broker: OffsetBroker) -> None:
    commit(broker, 9, {"orders": [0, 1]})
    unknown = UnknownTopicOrPartition.code
    assert delete(broker, {"gone": [0], "orders": [1, 3]}) == (
        0,
        {("gone", 0): unknown, ("orders", 1): 0, ("orders", 3): unknown},
    )
    assert broker.story.fetch("g", None) == {("orders", 0): 100}


def test_what_is_wrong_with_the_group_is_told_once(broker: OffsetBroker) -> None:
    assert delete(broker, {"orders": [1], "gone": [0]}) == (GroupIdNotFound.code, {})
    assert delete(broker, {"orders": [1]}, "elsewhere") == (NotCoordinator.code, {})
    assert delete(broker, {"orders": [1]}, "") == (InvalidGroupId.code, {})
