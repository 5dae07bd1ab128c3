"""CreateTopics, DeleteTopics, CreatePartitions, Metadata and DescribeTopicPartitions."""

from typing import Any

import pytest
from api_asking import (
    QUESTIONS_MAX,
    Asker,
    asking,
    batch,
    find_coordinator,
    new_topic,
    produce,
    topic_id,
    unused_name,
    versions,
)

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k75_describe_topic_partitions as k75

pytest_plugins = ["api_fixtures"]

NEWEST = 7
DEFAULT = -1
NO_OPERATIONS = -0x80000000
TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
UNKNOWN_ID = b"u" * 16


# -- CreateTopics


def _wanted(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> k19.CreatableTopic:
    return k19.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor, **more
    )


def _assigned(name: str, *replicas: tuple[int, list[int]]) -> k19.CreatableTopic:
    assignments = [
        k19.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in replicas
    ]
    return _wanted(name, DEFAULT, DEFAULT, assignments=assignments)


def _create(
    asker: Asker, *topics: k19.CreatableTopic, version: int = NEWEST, validate_only: bool = False
) -> list[k19.CreatableTopicResult]:
    request = k19.CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    made: list[k19.CreatableTopicResult] = asker.ask(request, version).topics
    return made


def _exists(asker: Asker, name: str) -> bool:
    return topic_id(asker, name) != bytes(16)


@pytest.mark.parametrize("version", versions(19))
def test_a_topic_can_be_used_as_soon_as_it_is_made(asker: Asker, version: int) -> None:
    name = unused_name()
    [made] = _create(asker, _wanted(name, 2), version=version)
    assert made.error_code == 0
    assert produce(asker, name, batch(b"a"), partition=1).error_code == 0


@pytest.mark.parametrize("version", [5, 6, 7])
def test_what_was_made_comes_back_from_v5_on(asker: Asker, version: int) -> None:
    config = k19.CreatableTopicConfig(name="retention.ms", value="1000")
    wanted = _wanted(unused_name(), 3, configs=[config])
    [made] = _create(asker, wanted, version=version)
    configs = {each.name: (each.value, each.config_source) for each in made.configs or []}
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert configs["retention.ms"] == ("1000", TOPIC_SOURCE)
    assert configs["cleanup.policy"] == ("delete", DEFAULT_SOURCE)


def test_an_internal_key_comes_back_only_where_it_was_set(asker: Asker) -> None:
    config = k19.CreatableTopicConfig(name="internal.segment.bytes", value="100000")
    [plain] = _create(asker, _wanted(unused_name()))
    [special] = _create(asker, _wanted(unused_name(), configs=[config]))
    assert "internal.segment.bytes" not in {each.name for each in plain.configs or []}
    assert ("internal.segment.bytes", "100000") in {
        (each.name, each.value) for each in special.configs or []
    }


def test_the_id_comes_back_from_v7_on(asker: Asker) -> None:
    name = unused_name()
    [made] = _create(asker, _wanted(name))
    assert made.topic_id == topic_id(asker, name) != bytes(16)


@pytest.mark.parametrize("version", versions(19))
def test_validate_only_makes_nothing(asker: Asker, version: int) -> None:
    name = unused_name()
    [made] = _create(asker, _wanted(name, 3), version=version, validate_only=True)
    assert made.error_code == 0
    assert not _exists(asker, name)


@pytest.mark.parametrize("version", range(4, 8))
def test_counts_of_minus_1_mean_the_defaults(asker: Asker, version: int) -> None:
    name = unused_name()
    [made] = _create(asker, _wanted(name, DEFAULT, DEFAULT), version=version)
    assert made.error_code == 0
    assert _exists(asker, name)


def test_replicas_can_be_placed_by_hand(asker: Asker) -> None:
    [made] = _create(asker, _assigned(unused_name(), (0, [1]), (1, [1])))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)


@pytest.mark.parametrize(
    "replicas",
    [
        pytest.param([(0, [1]), (2, [1])], id="a gap"),
        pytest.param([(0, [1]), (0, [1])], id="a partition twice"),
        pytest.param([(0, [1, 1])], id="a broker twice"),
        pytest.param([(0, [7])], id="an unknown broker"),
        pytest.param([(0, [])], id="no broker"),
    ],
)
def test_a_bad_placement_is_refused(asker: Asker, replicas: list[tuple[int, list[int]]]) -> None:
    name = unused_name()
    [made] = _create(asker, _assigned(name, *replicas))
    assert made.error_code == errors.InvalidReplicaAssignment.code
    assert not _exists(asker, name)


def test_a_placement_and_counts_together_are_refused(asker: Asker) -> None:
    wanted = _assigned(unused_name(), (0, [1]))
    wanted.num_partitions = 1
    assert _create(asker, wanted)[0].error_code == errors.InvalidRequest.code


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        pytest.param(_wanted("bad name"), errors.InvalidTopic, id="a space in the name"),
        pytest.param(_wanted("."), errors.InvalidTopic, id="a dot"),
        pytest.param(_wanted(""), errors.InvalidTopic, id="no name"),
        pytest.param(_wanted("x" * 250), errors.InvalidTopic, id="a long name"),
        pytest.param(_wanted("fine", 0), errors.InvalidPartitions, id="no partitions"),
        pytest.param(_wanted("fine", -2), errors.InvalidPartitions, id="-2 partitions"),
        pytest.param(_wanted("fine", 1, 0), errors.InvalidReplicationFactor, id="no replicas"),
        pytest.param(_wanted("fine", 1, 2), errors.InvalidReplicationFactor, id="two replicas"),
        pytest.param(
            _wanted("fine", configs=[k19.CreatableTopicConfig(name="zork", value="1")]),
            errors.InvalidConfig,
            id="an unknown key",
        ),
        pytest.param(
            _wanted("fine", configs=[k19.CreatableTopicConfig(name="retention.ms", value="x")]),
            errors.InvalidConfig,
            id="a bad value",
        ),
        pytest.param(
            _wanted("fine", configs=[k19.CreatableTopicConfig(name="retention.ms", value=None)]),
            errors.InvalidConfig,
            id="a null value",
        ),
    ],
)
@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_topic_that_cannot_be_made_is_refused(
    asker: Asker, wanted: k19.CreatableTopic, error: type[errors.KafkaError], version: int
) -> None:
    [made] = _create(asker, wanted, version=version)
    assert made.error_code == error.code
    assert made.error_message


def test_a_topic_that_exists_is_refused(asker: Asker, topic: str) -> None:
    assert _create(asker, _wanted(topic))[0].error_code == errors.TopicAlreadyExists.code


def test_a_topic_that_is_named_twice_is_not_made(asker: Asker) -> None:
    twice, once = unused_name(), unused_name()
    made = _create(asker, _wanted(twice), _wanted(once), _wanted(twice))
    codes = {each.name: each.error_code for each in made}
    assert codes == {twice: errors.InvalidRequest.code, once: 0}
    assert not _exists(asker, twice)


def test_names_that_differ_in_a_dot_only_collide(asker: Asker) -> None:
    name = unused_name("a")
    _create(asker, _wanted(f"{name}.b"))
    [made] = _create(asker, _wanted(f"{name}_b"))
    assert made.error_code == errors.InvalidTopic.code


def test_a_refused_topic_does_not_stop_the_others(asker: Asker, topic: str) -> None:
    name = unused_name()
    _create(asker, _wanted(topic), _wanted(name))
    assert _exists(asker, name)


# -- DeleteTopics


def _by(name: str | None = None, known: bytes = bytes(16)) -> k20.DeleteTopicState:
    return k20.DeleteTopicState(name=name, topic_id=known)


def _delete(asker: Asker, *states: k20.DeleteTopicState) -> list[k20.DeletableTopicResult]:
    request = k20.DeleteTopicsRequest(topics=list(states), timeout_ms=5_000)
    results: list[k20.DeletableTopicResult] = asker.ask(request, 6).responses
    return results


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(asker: Asker, topic: str, version: int) -> None:
    request = k20.DeleteTopicsRequest(topic_names=[topic, "no-such-topic"], timeout_ms=5_000)
    codes = {each.name: each.error_code for each in asker.ask(request, version).responses}
    assert codes == {topic: 0, "no-such-topic": errors.UnknownTopicOrPartition.code}
    assert not _exists(asker, topic)


def test_a_topic_is_deleted_by_id(asker: Asker, topic: str) -> None:
    known = topic_id(asker, topic)
    [gone] = _delete(asker, _by(known=known))
    assert (gone.error_code, gone.name, gone.topic_id) == (0, topic, known)
    assert not _exists(asker, topic)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        pytest.param(_by(known=UNKNOWN_ID), errors.UnknownTopicId, id="an unknown id"),
        pytest.param(_by("zork"), errors.UnknownTopicOrPartition, id="an unknown name"),
        pytest.param(_by("zork", UNKNOWN_ID), errors.InvalidRequest, id="name and id"),
        pytest.param(_by(), errors.InvalidRequest, id="neither name nor id"),
    ],
)
def test_a_topic_that_is_not_there_cannot_be_deleted(
    asker: Asker, state: k20.DeleteTopicState, error: type[errors.KafkaError]
) -> None:
    assert [each.error_code for each in _delete(asker, state)] == [error.code]


@pytest.mark.parametrize("how", ["names", "ids", "name and id"])
def test_a_topic_that_is_named_twice_is_not_deleted(asker: Asker, topic: str, how: str) -> None:
    name, known = _by(topic), _by(known=topic_id(asker, topic))
    states = {"names": (name, name), "ids": (known, known), "name and id": (name, known)}[how]
    assert [each.error_code for each in _delete(asker, *states)] == [errors.InvalidRequest.code]
    assert _exists(asker, topic)


def test_a_name_can_be_used_again_with_another_id(
    asker: Asker, topic: str, penstock_cluster: Cluster
) -> None:
    produce(asker, topic, batch(b"old"))
    before = topic_id(asker, topic)
    _delete(asker, _by(topic))
    penstock_cluster.create_topic(topic)
    assert topic_id(asker, topic) != before
    assert produce(asker, topic, batch(b"new")).base_offset == 0


# -- CreatePartitions


def _grow(
    asker: Asker,
    name: str,
    count: int,
    *,
    replicas: list[list[int]] | None = None,
    version: int = 3,
    validate_only: bool = False,
) -> int:
    assignments = None
    if replicas is not None:
        assignments = [k37.CreatePartitionsAssignment(broker_ids=each) for each in replicas]
    wanted = k37.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    request = k37.CreatePartitionsRequest(
        topics=[wanted], timeout_ms=5_000, validate_only=validate_only
    )
    [one] = asker.ask(request, version).results
    code: int = one.error_code
    return code


@pytest.mark.parametrize("version", versions(37))
@pytest.mark.parametrize("replicas", [None, [[1], [1]]], ids=["placed", "by hand"])
def test_new_partitions_can_be_used_at_once(
    asker: Asker, topic: str, version: int, replicas: list[list[int]] | None
) -> None:
    assert _grow(asker, topic, 3, replicas=replicas, version=version) == 0
    assert produce(asker, topic, batch(b"a"), partition=2).error_code == 0


@pytest.mark.parametrize("version", versions(37))
def test_validate_only_adds_no_partitions(asker: Asker, topic: str, version: int) -> None:
    assert _grow(asker, topic, 3, version=version, validate_only=True) == 0
    code = produce(asker, topic, batch(b"a"), partition=1).error_code
    assert code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_partitions_cannot_become_fewer(
    asker: Asker, penstock_cluster: Cluster, count: int
) -> None:
    topic = new_topic(penstock_cluster, partitions=2)
    assert _grow(asker, topic, count) == errors.InvalidPartitions.code


@pytest.mark.parametrize("replicas", [[[9]], [[1, 1]], [[]], [], [[1], [1]]], ids=str)
def test_new_partitions_need_a_sound_placement(
    asker: Asker, topic: str, replicas: list[list[int]]
) -> None:
    code = _grow(asker, topic, 2, replicas=replicas)
    assert code == errors.InvalidReplicaAssignment.code


def test_a_request_for_too_many_partitions_adds_none(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    """The limit holds for a request, not for each of its topics."""
    topics = [new_topic(penstock_cluster) for _ in range(2)]
    wanted = [
        k37.CreatePartitionsTopic(name=each, count=5_002, assignments=None) for each in topics
    ]
    request = k37.CreatePartitionsRequest(topics=wanted, timeout_ms=5_000)
    codes = [each.error_code for each in asker.ask(request, 3).results]
    assert codes == [errors.PolicyViolation.code] * 2


def test_an_unknown_topic_cannot_grow(asker: Asker) -> None:
    assert _grow(asker, "no-such-topic", 3) == errors.UnknownTopicOrPartition.code


def test_a_topic_that_is_named_twice_does_not_grow(asker: Asker, topic: str) -> None:
    wanted = k37.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    request = k37.CreatePartitionsRequest(topics=[wanted, wanted], timeout_ms=5_000)
    results = asker.ask(request, 3).results
    assert [each.error_code for each in results] == [errors.InvalidRequest.code]


# -- Metadata


def _metadata(
    asker: Asker, *names: str, version: int = 12, create: bool = False
) -> k03.MetadataResponse:
    request = k03.MetadataRequest(
        topics=[k03.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )
    answer = asker.ask(request, version)
    assert isinstance(answer, k03.MetadataResponse)
    return answer


@pytest.mark.parametrize("version", versions(3))
def test_metadata_names_leaders_and_where_they_listen(
    asker: Asker, topic: str, version: int, penstock_cluster: Cluster
) -> None:
    answer = _metadata(asker, topic, version=version)
    [one] = answer.topics
    [broker] = answer.brokers
    assert (broker.host, broker.port) == penstock_cluster.address
    assert (one.error_code, one.name) == (0, topic)
    assert [(each.leader_id, each.isr_nodes) for each in one.partitions] == [(1, [1])]
    assert (answer.cluster_id is not None) == (version >= 2)
    assert (one.topic_id != bytes(16)) == (version >= 10)


@pytest.mark.parametrize("version", versions(3))
def test_all_topics_can_be_asked_for(asker: Asker, topic: str, version: int) -> None:
    request = k03.MetadataRequest(topics=[] if version == 0 else None)
    assert topic in {each.name for each in asker.ask(request, version).topics}


@pytest.mark.parametrize("version", versions(3)[1:])
def test_no_topics_can_be_asked_for(asker: Asker, version: int) -> None:
    answer = _metadata(asker, version=version)
    assert answer.topics == []
    assert len(answer.brokers) == 1


@pytest.mark.parametrize("version", versions(3))
def test_a_topic_is_made_when_it_is_asked_for(asker: Asker, version: int) -> None:
    name = unused_name()
    [first] = _metadata(asker, name, version=version, create=True).topics
    assert (first.error_code, first.partitions) == (errors.UnknownTopicOrPartition.code, [])
    _until_usable(asker, name, version)
    assert produce(asker, name, batch(b"a")).error_code == 0


def _until_usable(asker: Asker, name: str, version: int) -> None:
    """Ask as clients do, until the topic has its leaders."""
    for _ in range(QUESTIONS_MAX):
        [one] = _metadata(asker, name, version=version, create=True).topics
        if not one.error_code and all(not each.error_code for each in one.partitions):
            return
        unknown = errors.UnknownTopicOrPartition.code
        assert one.error_code in (0, unknown), "no other error on the way"
    raise AssertionError(f"{name} is not made")


def test_the_first_question_for_a_coordinator_does_not_wait() -> None:
    with Cluster() as cluster, asking(cluster) as fresh:
        asked = k10.FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
        found = fresh.ask(asked, 6).coordinators
        missing = errors.CoordinatorNotAvailable.code
        assert [(each.key, each.error_code, each.node_id) for each in found] == [
            ("a", missing, -1),
            ("b", missing, -1),
        ]
        find_coordinator(fresh, 0, "a")
        [topic] = _metadata(fresh, "__consumer_offsets").topics
        assert (topic.error_code, topic.is_internal) == (0, True)


def test_an_unknown_kind_of_coordinator_is_refused_with_kafkas_sentence(asker: Asker) -> None:
    asked = k10.FindCoordinatorRequest(key_type=9, coordinator_keys=["a"])
    [found] = asker.ask(asked, 6).coordinators
    assert found.error_code == errors.InvalidRequest.code
    assert (found.error_message or "").startswith("This most likely occurs because of a request")


def test_the_second_question_tells_why_there_is_no_coordinator() -> None:
    with Cluster({"offsets.topic.replication.factor": 3}) as cluster, asking(cluster) as fresh:
        asked = k10.FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
        for _ in range(QUESTIONS_MAX):
            [found] = fresh.ask(asked, 6).coordinators
            assert found.error_code == errors.CoordinatorNotAvailable.code
            if "cannot be made" in (found.error_message or ""):
                break
        assert "replication factor" in (found.error_message or "").lower()


@pytest.mark.parametrize("version", range(4, 14))
def test_a_client_can_refuse_that_a_topic_is_made(asker: Asker, version: int) -> None:
    [one] = _metadata(asker, unused_name(), version=version).topics
    assert one.error_code == errors.UnknownTopicOrPartition.code


@pytest.mark.parametrize("version", versions(3))
def test_a_bad_name_is_not_made(asker: Asker, version: int) -> None:
    [one] = _metadata(asker, "bad name", version=version, create=True).topics
    assert one.error_code == errors.InvalidTopic.code


def test_a_topic_that_is_asked_for_twice_is_told_once(asker: Asker, topic: str) -> None:
    assert [each.name for each in _metadata(asker, topic, topic).topics] == [topic]


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_can_be_asked_for_by_id(asker: Asker, topic: str, version: int) -> None:
    known = topic_id(asker, topic)
    wanted = [k03.MetadataRequestTopic(name=None, topic_id=each) for each in (known, UNKNOWN_ID)]
    answer = asker.ask(k03.MetadataRequest(topics=wanted), version)
    told = {each.topic_id: (each.error_code, each.name) for each in answer.topics}
    unknown = errors.UnknownTopicId.code
    assert told == {known: (0, topic), UNKNOWN_ID: (unknown, None)}


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", ["named", None])
def test_ids_are_refused_before_v12(asker: Asker, version: int, name: str | None) -> None:
    wanted = k03.MetadataRequestTopic(name=name, topic_id=UNKNOWN_ID)
    [one] = asker.ask(k03.MetadataRequest(topics=[wanted]), version).topics
    assert one.error_code == errors.InvalidRequest.code


@pytest.mark.parametrize("version", [8, 9, 10])
def test_what_may_be_done_is_told_on_request(asker: Asker, topic: str, version: int) -> None:
    request = k03.MetadataRequest(
        topics=[k03.MetadataRequestTopic(name=topic)],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = asker.ask(request, version)
    assert answer.cluster_authorized_operations > 0
    assert answer.topics[0].topic_authorized_operations > 0
    assert _metadata(asker, topic).topics[0].topic_authorized_operations == NO_OPERATIONS


# -- DescribeTopicPartitions


def _page(
    asker: Asker, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> k75.DescribeTopicPartitionsResponse:
    request = k75.DescribeTopicPartitionsRequest(
        topics=[k75.TopicRequest(name=name) for name in names], response_partition_limit=limit
    )
    if cursor is not None:
        request.cursor = k75.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    answer = asker.ask(request, 0)
    assert isinstance(answer, k75.DescribeTopicPartitionsResponse)
    return answer


def test_pages_go_through_all_partitions(asker: Asker, penstock_cluster: Cluster) -> None:
    names = sorted(new_topic(penstock_cluster, partitions=5) for _ in range(2))
    seen: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(5):
        page = _page(asker, *names, limit=2, cursor=cursor)
        found = [(topic.name, p.partition_index) for topic in page.topics for p in topic.partitions]
        assert len(found) == 2
        seen += found
        following = page.next_cursor
        cursor = None if following is None else (following.topic_name, following.partition_index)
    assert cursor is None
    assert seen == [(name, index) for name in names for index in range(5)]


def test_a_page_is_no_longer_than_the_node_allows() -> None:
    with Cluster({"max.request.partition.size.limit": 3}) as cluster, asking(cluster) as asker:
        page = _page(asker, new_topic(cluster, partitions=5))
        assert [each.partition_index for each in page.topics[0].partitions] == [0, 1, 2]
        assert page.next_cursor is not None and page.next_cursor.partition_index == 3


def test_topics_come_in_order_of_their_names(asker: Asker, penstock_cluster: Cluster) -> None:
    names = [new_topic(penstock_cluster) for _ in range(3)]
    told = [each.name for each in _page(asker, *sorted(names, reverse=True)).topics]
    assert told == sorted(names)


def test_unknown_topics_are_told_beside_the_known_ones(asker: Asker, topic: str) -> None:
    codes = {each.name: each.error_code for each in _page(asker, topic, "zork", "bad name").topics}
    unknown, invalid = errors.UnknownTopicOrPartition.code, errors.InvalidTopic.code
    assert codes == {topic: 0, "zork": unknown, "bad name": invalid}


@pytest.mark.parametrize("cursor", [("0-elsewhere", 0), ("zzz-elsewhere", 0), (None, -1)], ids=str)
def test_a_cursor_that_nobody_gave_is_refused(
    asker: Asker, topic: str, cursor: tuple[str | None, int]
) -> None:
    [one] = _page(asker, topic, cursor=(cursor[0] or topic, cursor[1])).topics
    assert (one.error_code, one.partitions) == (errors.InvalidRequest.code, [])
