"""CreatePartitions, v0-v3: gives topics more partitions. Answered by the controller."""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: CreatePartitionsRequest) -> None:
    def refused(error: KafkaError) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=[_refused(topic, error) for topic in wanted])

    wanted = message.topics
    promised, too_many = broker.room.promise((each.name, _more(broker, each)) for each in wanted)
    without = [_refused(each, too_many[each.name]) for each in wanted if each.name in too_many]
    wanted = message.topics = [each for each in wanted if each.name not in too_many]

    def answered(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        broker.room.kept(promised)
        response.results += without
        return response

    if wanted:
        broker.ask_controller(request, message, refused, answered)
    else:
        request.reply(answered(CreatePartitionsResponse()))


def _more(broker: "Broker", topic: CreatePartitionsTopic) -> int:
    known = broker.image.topics.get(topic.name)
    return 0 if known is None else topic.count - len(known.partitions)


def _refused(topic: CreatePartitionsTopic, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=error.code, error_message=error.message
    )
