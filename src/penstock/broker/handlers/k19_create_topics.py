"""CreateTopics, v2-v7.  v5: what was made comes back.  v7: topic ids.  The controller answers."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError, RequestTimedOut
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
        return CreateTopicsResponse(topics=[_refused(topic, error) for topic in message.topics])

    if message.timeout_ms <= 0:
        request.reply(refused(RequestTimedOut("the request leaves no time to create anything")))
        return
    broker.ask_controller(request, message, refused, timeout_ms=message.timeout_ms)


def _refused(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
