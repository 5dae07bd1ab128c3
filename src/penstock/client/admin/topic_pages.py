"""Topics in pages, with the replicas that may lead although they are not in sync (KIP-966)."""

from collections.abc import Sequence

from penstock.client.transport.connection import Connection
from penstock.client.values import PartitionDescription, TopicDescription
from penstock.errors import KafkaError, UnknownTopicOrPartition, from_code
from penstock.wire.messages import k75_describe_topic_partitions

NAMES_PER_REQUEST_MAX = 1_000


def ask_topic_pages(
    connection: Connection, names: Sequence[str], page_partitions: int
) -> dict[str, TopicDescription | KafkaError]:
    """Page by page until all are told; a server may make its pages smaller."""
    found: dict[str, TopicDescription | KafkaError] = {}
    # The server goes through names in order, and goes on at a name: so do the slices.
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
        # One that does not move would be followed for ever.
        if after is None or (cursor is not None and _place(after) <= _place(cursor)):
            return
        cursor = after


def _place(cursor: k75_describe_topic_partitions.Cursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _merge(
    found: dict[str, TopicDescription | KafkaError],
    told: k75_describe_topic_partitions.DescribeTopicPartitionsResponseTopic,
) -> None:
    """A topic that does not fit on one page goes on on the next."""
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
