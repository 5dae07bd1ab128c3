"""Requests about topics: create, delete, add partitions, and describe in pages.

The pages have the replicas that may lead although they are not in sync (KIP-966).
"""

from collections.abc import Mapping, Sequence

from penstock.client.transport.connection import Connection
from penstock.client.values import CreatedTopic, NewTopic, PartitionDescription, TopicDescription
from penstock.errors import KafkaError, UnknownTopicOrPartition, error_of, from_code
from penstock.wire.messages import (
    k19_create_topics,
    k20_delete_topics,
    k37_create_partitions,
    k75_describe_topic_partitions,
)


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
        each.name: error_of(each.error_code, each.error_message)
        or CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
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
        each.name or "": error_of(each.error_code, each.error_message) for each in answer.responses
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
    return {each.name: error_of(each.error_code, each.error_message) for each in answer.results}


NAMES_PER_REQUEST_MAX = 1_000


def ask_topic_pages(
    connection: Connection, names: Sequence[str], page_partitions: int
) -> dict[str, TopicDescription | KafkaError]:
    """Ask page by page for all topics; a server may use smaller pages."""
    found: dict[str, TopicDescription | KafkaError] = {}
    # The server walks names in order and continues at a name, so the slices are sorted.
    wanted = sorted(dict.fromkeys(names))
    for first in range(0, len(wanted), NAMES_PER_REQUEST_MAX):
        _ask_slice(
            connection, wanted[first : first + NAMES_PER_REQUEST_MAX], page_partitions, found
        )
    missing = UnknownTopicOrPartition("the server did not mention it")
    return {name: found.get(name, missing) for name in names}


def _ask_slice(
    connection: Connection,
    names: Sequence[str],
    page_partitions: int,
    found: dict[str, TopicDescription | KafkaError],
) -> None:
    wire = k75_describe_topic_partitions
    cursor: k75_describe_topic_partitions.Cursor | None = None
    while True:
        request = wire.DescribeTopicPartitionsRequest(
            topics=[wire.TopicRequest(name=name) for name in names],
            response_partition_limit=page_partitions,
            cursor=cursor,
        )
        answer = connection.request(request, wire.DescribeTopicPartitionsResponse)
        for told in answer.topics:
            _merge(found, told)
        after = answer.next_cursor
        # A cursor that does not move would repeat for ever.
        if after is None or (cursor is not None and _place(after) <= _place(cursor)):
            return
        cursor = after


def _place(cursor: k75_describe_topic_partitions.Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _merge(
    found: dict[str, TopicDescription | KafkaError],
    told: k75_describe_topic_partitions.DescribeTopicPartitionsResponseTopic,
) -> None:
    """Add a page of a topic to its earlier pages."""
    name = told.name or ""
    if told.error_code:
        found[name] = from_code(told.error_code)
        return
    before = found.get(name)
    partitions = before.partitions if isinstance(before, TopicDescription) else ()
    more = (_partition(each) for each in told.partitions)
    found[name] = TopicDescription(name, told.topic_id, told.is_internal, (*partitions, *more))


def _partition(
    told: k75_describe_topic_partitions.DescribeTopicPartitionsResponsePartition,
) -> PartitionDescription:
    return PartitionDescription(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        tuple(told.eligible_leader_replicas or ()),
        tuple(told.last_known_elr or ()),
    )
