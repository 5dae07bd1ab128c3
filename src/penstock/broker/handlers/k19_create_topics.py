"""CreateTopics, v2-v7.  v5: the answer has the settings of each topic.  v7: topic ids.

The controller answers, some topics at a time. A request for more than 10,000 partitions is
rejected.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.request_pieces import Equals, Level, PieceRule, answer_in_pieces
from penstock.broker.sliced_work import Slices
from penstock.errors import KafkaError, PolicyViolation, RequestTimedOut
from penstock.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# As in Kafka, whose controller writes a request as one batch.
PARTITIONS_PER_REQUEST_MAX = 10_000
REJECTIONS_PER_SLICE = 500
CUT = PieceRule((Level("topics", "topics", ("name",)),), equals=Equals.TOGETHER, items=4)


def handle(
    broker: "Broker", request: ClientRequest, message: CreateTopicsRequest
) -> Slices[CreateTopicsResponse]:
    error: KafkaError | None = None
    if message.timeout_ms <= 0:
        error = RequestTimedOut("the request leaves no time to create anything")
    elif _is_too_large(broker, message):
        error = PolicyViolation("Excessively large number of partitions per request.")
    if error is None:
        created: CreateTopicsResponse = yield from answer_in_pieces(
            request, message, CUT, partial(_create, broker)
        )
        return created
    response = CreateTopicsResponse()
    for topic in message.topics:
        response.topics.append(_rejected(topic, error))
        if not len(response.topics) % REJECTIONS_PER_SLICE:
            yield None
    return response


def _is_too_large(broker: "Broker", message: CreateTopicsRequest) -> bool:
    default = broker.config.integer("num.partitions")
    partitions = 0
    for topic in message.topics:
        wanted = default if topic.num_partitions < 0 else topic.num_partitions
        partitions += len(topic.assignments) or max(1, wanted)
        if partitions > PARTITIONS_PER_REQUEST_MAX:
            return True
    return False


def _create(broker: "Broker", part: ClientRequest, message: CreateTopicsRequest) -> Slices[None]:
    def rejected(error: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[_rejected(topic, error) for topic in message.topics])

    broker.ask_controller(part, message, rejected, timeout_ms=message.timeout_ms)
    yield None


def _rejected(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
