"""RevokeProducer, v0: this leader vouches no longer for a producer, up to an epoch.

Batches that were accepted before belong to the transaction: they are written before the answer
leaves. Partitions that another node leads get NOT_LEADER_OR_FOLLOWER.
"""

from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import errors_by_topic
from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.model import TopicPartition
from penstock.wire.messages.k10000_revoke_producer import (
    RevokeProducerRequest,
    RevokeProducerResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def denied(message: RevokeProducerRequest, error: KafkaError) -> RevokeProducerResponse:
    """Return the error for each partition."""
    codes = {
        TopicPartition(topic.name, index): error.code
        for topic in message.topics
        for index in topic.partition_indexes
    }
    return RevokeProducerResponse(topics=errors_by_topic(codes))


def handle(
    broker: "Broker", _request: ClientRequest, message: RevokeProducerRequest
) -> RevokeProducerResponse:
    partitions = [
        TopicPartition(topic.name, index)
        for topic in message.topics
        for index in topic.partition_indexes
    ]
    errors = broker.coordinators.markers.here.revoke(
        message.producer_id, message.producer_epoch, partitions
    )
    codes = {each: 0 if error is None else error.code for each, error in errors.items()}
    return RevokeProducerResponse(topics=errors_by_topic(codes))
