"""CreateTopics, v2-v7.  v5: what was made comes back.  v7: topic ids.  The controller answers."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k19_create_topics import (
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

    broker.ask_controller(request, message, refused)
