"""OffsetForLeaderEpoch, v2-v4: where an epoch ended, for clients that check for truncation."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
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
    broker: "Broker", _request: ClientRequest, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    broker.append_now()
    response = OffsetForLeaderEpochResponse()
    for topic in message.topics:
        ends = [_end(broker, topic.topic, each) for each in topic.partitions]
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
