"""DescribeTopicPartitions, v0: topics and their partitions, in pages (KIP-966)."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, groupby
from typing import TYPE_CHECKING

from penstock.broker.handlers.k03_metadata import offline_replicas, serving
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.image import Topic
from penstock.controller.topic_names import check_topic_name
from penstock.credentials.acls import AclResourceType
from penstock.errors import (
    InvalidRequest,
    InvalidTopic,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import INTERNAL_TOPICS
from penstock.security.permissions import DESCRIBE_TOPIC
from penstock.wire.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

TOPICS_PER_SLICE = 100
NAMES_PER_CHUNK = 500


def handle(
    broker: "Broker", request: ClientRequest, message: DescribeTopicPartitionsRequest
) -> Slices[DescribeTopicPartitionsResponse]:
    every = not message.topics
    cursor = message.cursor
    asked = broker.image.topics if every else (topic.name for topic in message.topics)
    names = yield from _in_order(asked, "" if cursor is None else cursor.topic_name)
    first = 0
    if cursor is not None:
        start = next(names, None)
        found = start == cursor.topic_name
        if cursor.partition_index < 0 or not (found or every):
            return (yield from _rejection(message))
        first = cursor.partition_index if found else 0
        names = names if start is None else chain([start], names)
    page_max = broker.config.integer("max.request.partition.size.limit")
    left = max(1, min(message.response_partition_limit, page_max))
    response = DescribeTopicPartitionsResponse()
    hidden: list[str] = []
    for place, name in enumerate(names):
        if place % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
            yield None
        if not broker.access.allows(request, DESCRIBE_TOPIC, name, quiet=every):
            if not every:
                hidden.append(name)
            continue
        operations = broker.access.operations(request, AclResourceType.TOPIC, name)
        topic = broker.image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name, operations))
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = [index for index in topic.partitions if index >= first]
        response.topics.append(_topic(broker, topic, page[:left], operations))
        if len(page) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=page[left])
            break
        left -= len(page)
        first = 0
    # Behind the others, like absent ones: the place of a hidden topic tells nothing.
    denial = TopicAuthorizationFailed.code
    response.topics += [
        DescribeTopicPartitionsResponseTopic(error_code=denial, name=name) for name in hidden
    ]
    return response


def _in_order(asked: Iterable[str], start: str) -> Slices[Iterator[str]]:
    """Return the names from `start` on, each once and in order, without a long sort."""
    chunks: list[list[str]] = [[]]
    for name in asked:
        if len(chunks[-1]) == NAMES_PER_CHUNK:
            chunks[-1].sort()
            chunks.append([])
            yield None
        if name >= start:
            chunks[-1].append(name)
    chunks[-1].sort()
    return (name for name, _equal in groupby(merge(*chunks)))


def _rejection(message: DescribeTopicPartitionsRequest) -> Slices[DescribeTopicPartitionsResponse]:
    """Reject a cursor that is from no answer of this broker."""
    response = DescribeTopicPartitionsResponse()
    for number, each in enumerate(message.topics, 1):
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(error_code=InvalidRequest.code, name=each.name)
        )
        if not number % TOPICS_PER_SLICE:
            yield None
    return response


def _missing(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    code = UnknownTopicOrPartition.code
    try:
        check_topic_name(name)
    except InvalidTopic:
        code = InvalidTopic.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=operations
    )


def _topic(
    broker: "Broker", topic: Topic, indexes: list[int], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    described = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )
    for index in indexes:
        state = topic.partitions[index]
        offline = offline_replicas(broker, topic, state)
        code, leader = serving(broker, topic, state, offline)
        described.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.eligible_leaders),
                last_known_elr=list(state.last_known_leaders),
                offline_replicas=offline,
            )
        )
    return described
