"""Topics in metadata, and requests to their leaders: offsets, and deletion of records."""

from collections.abc import Mapping, Sequence

from penstock.client.cluster.nodes import Nodes
from penstock.client.transport.connection import Connection
from penstock.client.values import FoundOffset, PartitionDescription, TopicDescription
from penstock.errors import KafkaError, UnknownTopicOrPartition, error_of, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k02_list_offsets, k21_delete_records
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)


def ask_all_topics(nodes: Nodes) -> list[TopicDescription]:
    """Return all topics without an error, sorted by name."""
    return sorted(
        (each for each in _ask(nodes, None).values() if not isinstance(each, KafkaError)),
        key=lambda topic: topic.name,
    )


def ask_topics(
    nodes: Nodes, names: Sequence[str], *, create: bool = False
) -> dict[str, TopicDescription | KafkaError]:
    """Return each topic, or its error.

    With `create`, a broker with auto.create.topics.enable creates missing topics, and shows them a
    little later.
    """
    found = _ask(nodes, names, create)
    missing = UnknownTopicOrPartition("the server did not mention it")
    return {name: found.get(name, missing) for name in names}


def _ask(
    nodes: Nodes, names: Sequence[str] | None, create: bool = False
) -> dict[str, TopicDescription | KafkaError]:
    asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = nodes.metadata(MetadataRequest(topics=asked, allow_auto_topic_creation=create))
    if answer.error_code:
        raise from_code(answer.error_code)
    return {
        each.name or "": error_of(each.error_code) or _described(each) for each in answer.topics
    }


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
            )
            for each in partitions
        ),
    )


def ask_offsets(
    connection: Connection,
    places: Mapping[TopicPartition, int],
    committed_only: bool,
    timeout_ms: int,
) -> dict[TopicPartition, FoundOffset | KafkaError]:
    wire = k02_list_offsets
    topics: dict[str, k02_list_offsets.ListOffsetsTopic] = {}
    for (name, partition), timestamp in places.items():
        topic = topics.setdefault(name, wire.ListOffsetsTopic(name=name))
        topic.partitions.append(
            wire.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    request = wire.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=list(topics.values()),
        timeout_ms=timeout_ms,
    )
    answer = connection.request(request, wire.ListOffsetsResponse)
    return {
        TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
        or FoundOffset(each.offset, each.timestamp, each.leader_epoch)
        for topic in answer.topics
        for each in topic.partitions
    }


def ask_delete_records(
    connection: Connection, before: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, int | KafkaError]:
    wire = k21_delete_records
    topics: dict[str, k21_delete_records.DeleteRecordsTopic] = {}
    for (name, partition), offset in before.items():
        topic = topics.setdefault(name, wire.DeleteRecordsTopic(name=name))
        topic.partitions.append(
            wire.DeleteRecordsPartition(partition_index=partition, offset=offset)
        )
    request = wire.DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=timeout_ms)
    answer = connection.request(request, wire.DeleteRecordsResponse)
    return {
        TopicPartition(topic.name, each.partition_index): error_of(each.error_code)
        or each.low_watermark
        for topic in answer.topics
        for each in topic.partitions
    }
