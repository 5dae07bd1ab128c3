"""DeleteTopics, v1-v6.  v5: error texts.  v6: by topic id.  Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: DeleteTopicsRequest) -> None:
    def rejected(error: KafkaError) -> DeleteTopicsResponse:
        named = [DeleteTopicState(name=name) for name in message.topic_names]
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(
                    name=each.name,
                    topic_id=each.topic_id,
                    error_code=error.code,
                    error_message=error.message,
                )
                for each in message.topics or named
            ]
        )

    broker.ask_controller(request, message, rejected)
