"""Requests to the leader of partitions: where offsets are, and dropping what is before one."""

from collections.abc import Mapping

from penstock.client.transport.connection import Connection
from penstock.client.values import FoundOffset
from penstock.errors import KafkaError, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k02_list_offsets, k21_delete_records


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
        TopicPartition(topic.name, each.partition_index): from_code(each.error_code)
        if each.error_code
        else FoundOffset(each.offset, each.timestamp, each.leader_epoch)
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
        TopicPartition(topic.name, each.partition_index): from_code(each.error_code)
        if each.error_code
        else each.low_watermark
        for topic in answer.topics
        for each in topic.partitions
    }
