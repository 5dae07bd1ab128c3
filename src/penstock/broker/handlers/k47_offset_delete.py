"""OffsetDelete, v0: forget offsets of topics that the group is no longer subscribed to.

Unknown partitions are rejected one by one; an error of the group rejects the whole request.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import client_error_code
from penstock.broker.request import ClientRequest
from penstock.errors import InvalidGroupId, KafkaError, UnknownTopicOrPartition
from penstock.wire.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: OffsetDeleteRequest
) -> OffsetDeleteResponse | None:
    if not message.group_id:
        return OffsetDeleteResponse(error_code=InvalidGroupId.code)
    rejected: dict[str, OffsetDeleteResponseTopic] = {}
    wanted = OffsetDeleteRequest(group_id=message.group_id)
    for topic in message.topics:
        partitions = _partitions(broker, topic.name)
        known: list[OffsetDeleteRequestPartition] = []
        for each in topic.partitions:
            if each.partition_index in partitions:
                known.append(each)
                continue
            answer = rejected.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name))
            answer.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=each.partition_index, error_code=UnknownTopicOrPartition.code
                )
            )
        if known:
            wanted.topics.append(OffsetDeleteRequestTopic(name=topic.name, partitions=known))

    def done(result: OffsetDeleteResponse | KafkaError) -> None:
        request.reply(_joined(result, rejected))

    coordinators = broker.coordinators
    try:
        coordinators.group_runtime(message.group_id).submit(
            coordinators.call(request, wanted), done
        )
    except KafkaError as error:
        done(error)
    return None


def _partitions(broker: "Broker", name: str) -> Container[int]:
    topic = broker.image.topics.get(name)
    return () if topic is None else topic.partitions


def _joined(
    result: OffsetDeleteResponse | KafkaError, rejected: dict[str, OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    if isinstance(result, KafkaError):
        return OffsetDeleteResponse(error_code=client_error_code(result))
    for topic in result.topics:
        if topic.name in rejected:
            rejected[topic.name].partitions.extend(topic.partitions)
        else:
            rejected[topic.name] = topic
    return OffsetDeleteResponse(topics=list(rejected.values()))
