"""CreatePartitions, v0-v3: gives topics more partitions. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: CreatePartitionsRequest) -> None:
    def refused(error: KafkaError) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
                for topic in message.topics
            ]
        )

    wanted = 0
    for topic in message.topics:
        known = broker.image.topics.get(topic.name)
        wanted += max(0, topic.count - len(known.partitions)) if known is not None else 0
    try:
        broker.hosting.check_room(wanted)
    except KafkaError as error:
        request.reply(refused(error))
        return
    broker.ask_controller(request, message, refused)
