"""CreateTopics, v2-v7.  v5: what was made comes back.  v7: topic ids.  The controller answers."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: CreateTopicsRequest) -> None:
    def refused(error: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
                for topic in message.topics
            ]
        )

    try:
        broker.hosting.check_room(sum(_partitions(broker, topic) for topic in message.topics))
    except KafkaError as error:
        request.reply(refused(error))
        return
    broker.ask_controller(request, message, refused)


def _partitions(broker: "Broker", topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else broker.settings.partitions_default
