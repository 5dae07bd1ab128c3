"""OffsetForLeaderEpoch, v2-v4: where an epoch ended, for clients that check for truncation."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError, TopicAuthorizationFailed
from penstock.security.permissions import CLUSTER_ACTION, DESCRIBE_TOPIC
from penstock.wire.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    broker.append_now()
    response = OffsetForLeaderEpochResponse()
    access = broker.access
    every = access.allows_on_cluster(request, CLUSTER_ACTION, quiet=True)
    for topic in message.topics:
        if every or access.allows(request, DESCRIBE_TOPIC, topic.topic):
            ends = [_end(broker, topic.topic, each) for each in topic.partitions]
        else:
            code = TopicAuthorizationFailed.code
            ends = [
                EpochEndOffset(partition=each.partition, error_code=code)
                for each in topic.partitions
            ]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return response


def _end(broker: "Broker", topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = broker.find(topic, wanted.partition, wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.epoch_end(wanted.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
