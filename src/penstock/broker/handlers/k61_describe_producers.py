"""DescribeProducers, v0: producers of a partition, and their open transactions."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.controller.topic_names import check_topic_name
from penstock.errors import (
    KafkaError,
    KafkaStorageError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.log.producers import (
    COORDINATOR_EPOCH,
    EPOCH,
    LAST_SEQUENCE,
    LAST_TIMESTAMP,
    TXN_FIRST_OFFSET,
)
from penstock.security.permissions import READ_TOPIC
from penstock.wire.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

PRODUCERS_PER_SLICE = 200


def handle(
    broker: "Broker", request: ClientRequest, message: DescribeProducersRequest
) -> Slices[DescribeProducersResponse]:
    broker.append_now()
    response = DescribeProducersResponse()
    for topic in message.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in dict.fromkeys(topic.partition_indexes):
            answer.partitions.append((yield from _describe(broker, request, topic.name, index)))
    return response


def _describe(
    broker: "Broker", request: ClientRequest, topic: str, index: int
) -> Slices[PartitionResponse]:
    response = PartitionResponse(partition_index=index)
    try:
        check_topic_name(topic)
        if not broker.access.allows(request, READ_TOPIC, topic):
            raise TopicAuthorizationFailed
        response.active_producers = yield from _producers(broker, topic, index)
    except KafkaError as error:
        response.error_code = error.code
        response.error_message = error.message
    return response


def _producers(broker: "Broker", topic: str, index: int) -> Slices[list[ProducerState]]:
    """Return the producers of a partition. Any replica answers, so that operators can compare."""
    if topic not in broker.image.topics:
        raise UnknownTopicOrPartition(f"there is no topic {topic!r}")
    partition = broker.replicas.by_name.get(topic, {}).get(index)
    if partition is None:
        partition = broker.find(topic, index)
    if partition.directory.failed:
        raise KafkaStorageError(f"{partition} is offline: {partition.directory.failed}")
    found = []
    for producer_id, state in list(partition.log.producers.states.items()):
        found.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state[EPOCH],
                last_sequence=state[LAST_SEQUENCE],
                last_timestamp=state[LAST_TIMESTAMP],
                coordinator_epoch=state[COORDINATOR_EPOCH],
                current_txn_start_offset=state[TXN_FIRST_OFFSET],
            )
        )
        if not len(found) % PRODUCERS_PER_SLICE:
            yield None
    return found
