"""CreateTopics, DeleteTopics, CreatePartitions."""

from typing import Any

import pytest
from controller_bench import Bench, manual

from penstock import errors
from penstock.controller.image import TOPIC, ConfigResourceId
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k46_list_partition_reassignments as k46


def test_a_new_topic_has_its_partitions_its_id_and_its_configs() -> None:
    bench = Bench()
    result = bench.create("orders", 3, 1, retention_ms="1000")
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 1)
    topic = bench.image.topics["orders"]
    assert topic.topic_id == result.topic_id
    assert list(topic.partitions) == [0, 1, 2]
    partition = topic.partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert partition.directories == bench.image.brokers[1].directories
    assert bench.image.config(ConfigResourceId(TOPIC, "orders")) == {"retention.ms": "1000"}
    assert bench.steps[-1].delta.created_topics == ("orders",)


def test_the_answer_tells_every_config_and_where_it_comes_from() -> None:
    result = Bench().create("orders", 1, 1, retention_ms="1000")
    assert result.configs is not None
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert told["retention.ms"] == ("1000", 1)
    assert told["cleanup.policy"] == ("delete", 5)


def test_minus_one_means_the_defaults() -> None:
    bench = Bench(num_partitions=4)
    assert bench.create("orders", -1, -1).num_partitions == 4


def test_validate_only_answers_and_changes_nothing() -> None:
    bench = Bench()
    request = k19.CreateTopicsRequest(
        topics=[k19.CreatableTopic(name="orders", num_partitions=2, replication_factor=1)],
        validate_only=True,
    )
    reply = bench.ask(request, 7)
    assert (reply.topics[0].error_code, reply.topics[0].num_partitions) == (0, 2)
    assert "orders" not in bench.image.topics


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", errors.InvalidTopic),
        (".", errors.InvalidTopic),
        ("..", errors.InvalidTopic),
        ("a b", errors.InvalidTopic),
        ("ä", errors.InvalidTopic),
        ("x" * 250, errors.InvalidTopic),
        ("taken", errors.TopicAlreadyExists),
        ("with.dot", errors.InvalidTopic),
        ("__cluster_metadata", errors.InvalidRequest),
    ],
)
def test_names_that_are_refused(name: str, error: type[errors.KafkaError]) -> None:
    bench = Bench()
    bench.create("taken")
    bench.create("with_dot")
    result = bench.create(name)
    assert result.error_code == error.code
    assert result.error_message


def test_names_in_one_request_collide_too() -> None:
    bench = Bench()
    topics = [
        k19.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("a.b", "a_b", "ab")
    ]
    reply = bench.ask(k19.CreateTopicsRequest(topics=topics), 7)
    assert [result.error_code for result in reply.topics] == [0, errors.InvalidTopic.code, 0]


def test_a_name_twice_in_one_request_is_refused_and_the_rest_is_made() -> None:
    bench = Bench()
    topics = [
        k19.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("twice", "once", "twice")
    ]
    reply = bench.ask(k19.CreateTopicsRequest(topics=topics), 7)
    codes = {result.name: result.error_code for result in reply.topics}
    assert codes == {"twice": errors.InvalidRequest.code, "once": 0}
    assert list(bench.image.topics) == ["once"]


@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, errors.InvalidPartitions),
        (-2, 1, errors.InvalidPartitions),
        (1, 0, errors.InvalidReplicationFactor),
        (1, -2, errors.InvalidReplicationFactor),
        (1, 2, errors.InvalidReplicationFactor),
        (10_001, 1, errors.PolicyViolation),
    ],
)
def test_counts_that_are_refused(
    partitions: int, factor: int, error: type[errors.KafkaError]
) -> None:
    assert Bench().create("orders", partitions, factor).error_code == error.code


def test_too_few_brokers_says_how_many_there_are() -> None:
    result = Bench().create("orders", 1, 3)
    assert result.error_message is not None
    assert "Unable to replicate the partition 3 time(s)" in result.error_message
    assert "only 1 broker(s) are registered" in result.error_message


def test_no_broker_means_no_topic() -> None:
    result = Bench(()).create("orders")
    assert result.error_code == errors.InvalidReplicationFactor.code


def test_a_bad_config_refuses_the_topic() -> None:
    bench = Bench()
    assert bench.create("orders", no_such="1").error_code == errors.InvalidConfig.code
    assert bench.create("orders", retention_ms="x").error_code == errors.InvalidConfig.code
    assert not bench.image.topics


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    bench = Bench((1, 2, 3))
    result = manual(bench, {1: [2, 3], 0: [3, 1]})
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    partitions = bench.image.topics["orders"].partitions
    assert [partitions[index].replicas for index in (0, 1)] == [(3, 1), (2, 3)]
    assert partitions[0].leader == 3


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ({0: [9]}, errors.InvalidReplicaAssignment),
        ({0: []}, errors.InvalidReplicaAssignment),
        ({0: [1, 1]}, errors.InvalidReplicaAssignment),
        ({0: [1, 2], 1: [1]}, errors.InvalidReplicaAssignment),
        ({0: [1], 2: [2]}, errors.InvalidReplicaAssignment),
    ],
)
def test_manual_assignments_that_are_refused(
    assignment: dict[int, list[int]], error: type[errors.KafkaError]
) -> None:
    assert manual(Bench((1, 2, 3)), assignment).error_code == error.code


def test_a_manual_assignment_with_counts_contradicts_itself() -> None:
    result = manual(Bench(), {0: [1]}, num_partitions=1)
    assert result.error_code == errors.InvalidRequest.code


def test_deleting_by_name_and_by_id() -> None:
    bench = Bench()
    first = bench.create("first", retention_ms="5").topic_id
    bench.create("second")
    by_name = bench.ask(k20.DeleteTopicsRequest(topic_names=["second"]), 5)
    assert by_name.responses[0].error_code == 0
    by_id = bench.ask(
        k20.DeleteTopicsRequest(topics=[k20.DeleteTopicState(name=None, topic_id=first)]), 6
    )
    assert (by_id.responses[0].error_code, by_id.responses[0].name) == (0, "first")
    assert not bench.image.topics
    assert not bench.image.topic_names
    assert ConfigResourceId(TOPIC, "first") not in bench.image.configs
    assert bench.steps[-1].delta.deleted_topics == (("first", first),)


def test_deleting_what_is_not_there() -> None:
    bench = Bench()
    states = [
        k20.DeleteTopicState(name="nothing"),
        k20.DeleteTopicState(name=None, topic_id=bytes([7]) * 16),
        k20.DeleteTopicState(name="both", topic_id=bytes([7]) * 16),
        k20.DeleteTopicState(name=None),
    ]
    reply = bench.ask(k20.DeleteTopicsRequest(topics=states), 6)
    assert [response.error_code for response in reply.responses] == [
        errors.UnknownTopicOrPartition.code,
        errors.UnknownTopicId.code,
        errors.InvalidRequest.code,
        errors.InvalidRequest.code,
    ]


@pytest.mark.parametrize(
    ("version", "error"), [(2, errors.InvalidRequest), (3, errors.TopicDeletionDisabled)]
)
def test_deletion_can_be_forbidden(version: int, error: type[errors.KafkaError]) -> None:
    bench = Bench(delete_topic_enable=False)
    bench.create("orders")
    reply = bench.ask(k20.DeleteTopicsRequest(topic_names=["orders"]), version)
    assert reply.responses[0].error_code == error.code
    assert "orders" in bench.image.topics


def grow(bench: Bench, count: int, assignments: Any = None, validate_only: bool = False) -> Any:
    topic = k37.CreatePartitionsTopic(name="orders", count=count, assignments=assignments)
    request = k37.CreatePartitionsRequest(topics=[topic], validate_only=validate_only)
    return bench.ask(request, 3).results[0]


def test_partitions_are_added_behind_those_there_are() -> None:
    bench = Bench()
    bench.create("orders", 2)
    assert grow(bench, 5, validate_only=True).error_code == 0
    assert len(bench.image.topics["orders"].partitions) == 2
    assert grow(bench, 5).error_code == 0
    assert list(bench.image.topics["orders"].partitions) == [0, 1, 2, 3, 4]
    assert bench.steps[-1].delta.changed_partitions == (("orders", (2, 3, 4)),)
    assert bench.steps[-1].delta.created_topics == ()


def test_partitions_can_be_assigned_by_hand() -> None:
    bench = Bench((1, 2))
    bench.create("orders", 1)
    wanted = [k37.CreatePartitionsAssignment(broker_ids=[2])]
    assert grow(bench, 2, wanted).error_code == 0
    assert bench.image.topics["orders"].partitions[1].replicas == (2,)
    assert grow(bench, 4, wanted).error_code == errors.InvalidReplicaAssignment.code


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_count_that_is_not_more_is_refused(count: int) -> None:
    bench = Bench()
    bench.create("orders", 2)
    assert grow(bench, count).error_code == errors.InvalidPartitions.code


def test_nothing_to_grow() -> None:
    assert grow(Bench(), 2).error_code == errors.UnknownTopicOrPartition.code


def test_no_reassignment_is_under_way() -> None:
    bench = Bench()
    bench.create("orders", 2)
    assert bench.ask(k46.ListPartitionReassignmentsRequest(topics=None)).topics == []
