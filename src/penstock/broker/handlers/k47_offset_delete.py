"""OffsetDelete, v0: forget offsets of topics that the group is no longer subscribed to.

Unknown partitions are rejected one by one; an error of the group rejects the whole request.
"""

from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import client_error_code, codes_of, errors_by_topic
from penstock.broker.request import ClientRequest
from penstock.errors import (
    GroupAuthorizationFailed,
    InvalidGroupId,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import TopicPartition
from penstock.security.permissions import DELETE_GROUP, READ_TOPIC
from penstock.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: OffsetDeleteRequest
) -> OffsetDeleteResponse | None:
    if not broker.access.allows(request, DELETE_GROUP, message.group_id):
        return OffsetDeleteResponse(error_code=GroupAuthorizationFailed.code)
    if not message.group_id:
        return OffsetDeleteResponse(error_code=InvalidGroupId.code)
    rejected: dict[TopicPartition, int] = {}
    wanted = OffsetDeleteRequest(group_id=message.group_id)
    for topic in message.topics:
        found = broker.image.topics.get(topic.name)
        allowed = broker.access.allows(request, READ_TOPIC, topic.name)
        known: list[OffsetDeleteRequestPartition] = []
        for each in topic.partitions:
            if not allowed:
                place = TopicPartition(topic.name, each.partition_index)
                rejected[place] = TopicAuthorizationFailed.code
            elif found is not None and each.partition_index in found.partitions:
                known.append(each)
            else:
                place = TopicPartition(topic.name, each.partition_index)
                rejected[place] = UnknownTopicOrPartition.code
        if known:
            wanted.topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))

    def done(result: OffsetDeleteResponse | KafkaError) -> None:
        if isinstance(result, KafkaError):
            request.reply(OffsetDeleteResponse(error_code=client_error_code(result)))
        else:
            codes = {**rejected, **codes_of(result.topics)}
            request.reply(OffsetDeleteResponse(topics=errors_by_topic(codes)))

    broker.coordinators.submit(message.group_id, request, wanted, done)
    return None
