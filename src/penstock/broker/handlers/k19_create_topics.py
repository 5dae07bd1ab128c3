"""CreateTopics, v2-v7.  v5: what was made comes back.  v7: topic ids.  The controller answers.

A topic with more partitions than this node can open files for is refused alone.
"""

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
        return CreateTopicsResponse(topics=[_refused(topic, error) for topic in wanted] + without)

    wanted = message.topics
    without: list[CreatableTopicResult] = []
    if message.timeout_ms <= 0:
        request.reply(refused(RequestTimedOut("the request leaves no time to create anything")))
        return
    promised, too_large = broker.room.promise(
        (topic.name, _partitions(broker, topic)) for topic in wanted
    )
    without = [_refused(each, too_large[each.name]) for each in wanted if each.name in too_large]
    wanted = message.topics = [topic for topic in wanted if topic.name not in too_large]

    def answered(response: CreateTopicsResponse) -> CreateTopicsResponse:
        broker.room.kept(promised)
        told = {topic.name for topic in response.topics}
        response.topics += [each for each in without if each.name not in told]
        return response

    if wanted:
        broker.ask_controller(request, message, refused, answered, message.timeout_ms)
    else:
        request.reply(answered(CreateTopicsResponse()))


def _refused(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)


def _partitions(broker: "Broker", topic: CreatableTopic) -> int:
    """How many would be new."""
    if topic.name in broker.image.topics:
        return 0
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else broker.settings.partitions_default
