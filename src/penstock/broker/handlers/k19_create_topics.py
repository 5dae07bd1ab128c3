"""CreateTopics, v2-v7.  v5: what was made comes back.  v7: topic ids.

The controller answers, some topics at a time. A request for more than 10,000 partitions is refused.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.broker.request_pieces import Cut, Level, answer_in_pieces
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
REFUSALS_PER_SLICE = 500
CUT = Cut((Level("topics", "topics", ("name",)),), folds=False, items=4)


def handle(
    broker: "Broker", request: Request, message: CreateTopicsRequest
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
        response.topics.append(_refused(topic, error))
        if not len(response.topics) % REFUSALS_PER_SLICE:
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


def _create(broker: "Broker", part: Request, message: CreateTopicsRequest) -> Slices[None]:
    def refused(error: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[_refused(topic, error) for topic in message.topics])

    broker.ask_controller(part, message, refused, timeout_ms=message.timeout_ms)
    yield None


def _refused(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
