"""DescribeTopicPartitions, v0: topics and their partitions, in pages (KIP-966)."""

from typing import TYPE_CHECKING

from penstock.broker.authorized import TOPIC_OPERATIONS
from penstock.broker.handlers.k03_metadata import offline_replicas, serving
from penstock.broker.request import Request
from penstock.broker.sliced_work import Slices
from penstock.controller.image import Topic
from penstock.controller.topic_names import check_topic_name
from penstock.errors import InvalidRequest, InvalidTopic, UnknownTopicOrPartition
from penstock.model import INTERNAL_TOPICS
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


def handle(
    broker: "Broker", _request: Request, message: DescribeTopicPartitionsRequest
) -> Slices[DescribeTopicPartitionsResponse]:
    every = not message.topics
    names = sorted(broker.image.topics if every else {topic.name for topic in message.topics})
    first = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        found = bool(names) and names[0] == message.cursor.topic_name
        if message.cursor.partition_index < 0 or not (found or every):
            return _refusal(message)
        first = message.cursor.partition_index if found else 0
    page_max = broker.config.integer("max.request.partition.size.limit")
    left = max(1, min(message.response_partition_limit, page_max))
    response = DescribeTopicPartitionsResponse()
    for place, name in enumerate(names):
        if place % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
            yield None
        topic = broker.image.topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = [index for index in topic.partitions if index >= first]
        response.topics.append(_topic(broker, topic, page[:left]))
        if len(page) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=page[left])
            break
        left -= len(page)
        first = 0
    return response


def _refusal(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor that no answer of ours has given."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=InvalidRequest.code, name=each.name)
            for each in message.topics
        ]
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = UnknownTopicOrPartition.code
    try:
        check_topic_name(name)
    except InvalidTopic:
        code = InvalidTopic.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


def _topic(
    broker: "Broker", topic: Topic, indexes: list[int]
) -> DescribeTopicPartitionsResponseTopic:
    described = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
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
