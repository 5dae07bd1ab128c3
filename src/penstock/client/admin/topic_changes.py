"""Requests that create and delete topics, and that give them more partitions."""

from collections.abc import Mapping, Sequence

from penstock.client.transport.connection import Connection
from penstock.client.values import CreatedTopic, NewTopic
from penstock.errors import KafkaError, from_code
from penstock.wire.messages import k19_create_topics, k20_delete_topics, k37_create_partitions


def check_new_topics(topics: Sequence[NewTopic]) -> None:
    """Raise TypeError about a name where a NewTopic belongs."""
    wrong = [topics] if isinstance(topics, str) else topics
    for each in wrong:
        if not isinstance(each, NewTopic):
            raise TypeError(
                f"create_topics() takes NewTopics, and {each!r} is none: create_topics("
                f"[NewTopic({str(each)!r}, partitions=3)]), from penstock import NewTopic"
            )


def ask_create_topics(
    connection: Connection, topics: Sequence[NewTopic], validate_only: bool, timeout_ms: int
) -> dict[str, CreatedTopic | KafkaError]:
    wire = k19_create_topics
    request = wire.CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    answer = connection.request(request, wire.CreateTopicsResponse)
    return {
        each.name: from_code(each.error_code, each.error_message)
        if each.error_code
        else CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
        for each in answer.topics
    }


def _creatable(topic: NewTopic) -> k19_create_topics.CreatableTopic:
    wire = k19_create_topics
    return wire.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            wire.CreatableReplicaAssignment(partition_index=partition, broker_ids=brokers)
            for partition, brokers in topic.assignments.items()
        ],
        configs=[
            wire.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def ask_delete_topics(
    connection: Connection, names: Sequence[str], timeout_ms: int
) -> dict[str, KafkaError | None]:
    wire = k20_delete_topics
    request = wire.DeleteTopicsRequest(
        topics=[wire.DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=timeout_ms,
    )
    answer = connection.request(request, wire.DeleteTopicsResponse)
    return {
        each.name or "": from_code(each.error_code, each.error_message) if each.error_code else None
        for each in answer.responses
    }


def ask_create_partitions(
    connection: Connection,
    totals: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]],
    validate_only: bool,
    timeout_ms: int,
) -> dict[str, KafkaError | None]:
    wire = k37_create_partitions
    request = wire.CreatePartitionsRequest(
        topics=[
            wire.CreatePartitionsTopic(
                name=name,
                count=total,
                assignments=[
                    wire.CreatePartitionsAssignment(broker_ids=list(brokers))
                    for brokers in assignments[name]
                ]
                if name in assignments
                else None,
            )
            for name, total in totals.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    answer = connection.request(request, wire.CreatePartitionsResponse)
    return {
        each.name: from_code(each.error_code, each.error_message) if each.error_code else None
        for each in answer.results
    }
