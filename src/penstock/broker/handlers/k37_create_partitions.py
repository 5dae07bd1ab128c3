"""CreatePartitions, v0-v3: gives topics more partitions.

The controller answers, one topic at a time. A request for more than 10,000 partitions is rejected.
"""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.handlers.k19_create_topics import (
    PARTITIONS_PER_REQUEST_MAX,
    REJECTIONS_PER_SLICE,
)
from penstock.broker.request import ClientRequest
from penstock.broker.request_pieces import Equals, Level, PieceRule, answer_in_pieces
from penstock.broker.sliced_work import Slices
from penstock.errors import KafkaError, PolicyViolation, TopicAuthorizationFailed
from penstock.security.permissions import ALTER_TOPIC
from penstock.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

CUT = PieceRule((Level("topics", "results", ("name",)),), equals=Equals.TOGETHER, items=1)


def handle(
    broker: "Broker", request: ClientRequest, message: CreatePartitionsRequest
) -> Slices[CreatePartitionsResponse]:
    if not _is_too_large(broker, message):
        created: CreatePartitionsResponse = yield from answer_in_pieces(
            request, message, CUT, partial(_create, broker)
        )
        return created
    error = PolicyViolation("Excessively large number of partitions per request.")
    response = CreatePartitionsResponse()
    for topic in message.topics:
        response.results.append(_rejected(topic, error))
        if not len(response.results) % REJECTIONS_PER_SLICE:
            yield None
    return response


def _is_too_large(broker: "Broker", message: CreatePartitionsRequest) -> bool:
    return _partitions(broker, message) > PARTITIONS_PER_REQUEST_MAX


def _partitions(broker: "Broker", message: CreatePartitionsRequest) -> int:
    """Return the number of partitions that a request asks for, or some number that is too large."""
    partitions = 0
    for wanted in message.topics:
        topic = broker.image.topics.get(wanted.name)
        partitions += 1 if topic is None else max(1, wanted.count - len(topic.partitions))
        if partitions > PARTITIONS_PER_REQUEST_MAX:
            break
    return partitions


def _create(
    broker: "Broker", part: ClientRequest, message: CreatePartitionsRequest
) -> Slices[None]:
    times = Counter(each.name for each in message.topics)
    denied = [
        each
        for each in message.topics
        if times[each.name] == 1 and not broker.access.allows(part, ALTER_TOPIC, each.name)
    ]
    denials = [_rejected(each, TopicAuthorizationFailed()) for each in denied]
    message.topics = [each for each in message.topics if each not in denied]

    def rejected(error: KafkaError) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=[_rejected(each, error) for each in message.topics])

    def joined(answer: CreatePartitionsResponse) -> CreatePartitionsResponse:
        answer.results += denials
        return answer

    if denials and not message.topics:
        part.reply(CreatePartitionsResponse(results=denials))
    else:
        partitions = _partitions(broker, message)
        broker.ask_controller(part, message, rejected, joined, mutations=partitions)
    yield None


def _rejected(topic: CreatePartitionsTopic, error: KafkaError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=error.code, error_message=error.message
    )
