"""CreatePartitions, v0-v3: gives topics more partitions. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError
from penstock.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: ClientRequest, message: CreatePartitionsRequest) -> None:
    def rejected(error: KafkaError) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=[_rejected(each, error) for each in message.topics])

    broker.ask_controller(request, message, rejected)


def _rejected(topic: CreatePartitionsTopic, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=error.code, error_message=error.message
    )
