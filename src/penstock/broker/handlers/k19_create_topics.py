"""CreateTopics, v2-v7.  v5: the answer has the settings of each topic.  v7: topic ids.

The controller answers, some topics at a time. A request for more than 10,000 partitions is
rejected. A caller who may not describe the configuration of a topic gets it without its settings.
"""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.request_pieces import Equals, Level, PieceRule, answer_in_pieces
from penstock.broker.sliced_work import Slices
from penstock.errors import (
    NONE,
    KafkaError,
    PolicyViolation,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.security.permissions import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
)
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
DENIED = "Authorization failed."
UNKNOWN = -1
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
    return _partitions(broker, message) > PARTITIONS_PER_REQUEST_MAX


def _partitions(broker: "Broker", message: CreateTopicsRequest) -> int:
    """Return the number of partitions that a request asks for, or some number that is too large."""
    default = broker.config.integer("num.partitions")
    partitions = 0
    for topic in message.topics:
        wanted = default if topic.num_partitions < 0 else topic.num_partitions
        partitions += len(topic.assignments) or max(1, wanted)
        if partitions > PARTITIONS_PER_REQUEST_MAX:
            break
    return partitions


def _create(broker: "Broker", part: ClientRequest, message: CreateTopicsRequest) -> Slices[None]:
    denied = _denied(broker, part, message)
    denials = [_rejected(topic, TopicAuthorizationFailed(DENIED)) for topic in denied]
    message.topics = [each for each in message.topics if each not in denied]

    def rejected(error: KafkaError) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[_rejected(topic, error) for topic in message.topics])

    def visible(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        for each in answer.topics:
            if each.error_code == NONE and not broker.access.allows(
                part, DESCRIBE_TOPIC_CONFIGS, each.name, quiet=True
            ):
                each.topic_config_error_code = TopicAuthorizationFailed.code
                each.num_partitions = each.replication_factor = UNKNOWN
                each.configs = []
        answer.topics += denials
        return answer

    if message.topics or not denials:
        partitions = _partitions(broker, message)
        broker.ask_controller(
            part, message, rejected, visible, message.timeout_ms, mutations=partitions
        )
    else:
        part.reply(CreateTopicsResponse(topics=denials))
    yield None


def _denied(
    broker: "Broker", part: ClientRequest, message: CreateTopicsRequest
) -> list[CreatableTopic]:
    """Return the topics that the caller may not create. Duplicates and the name of the
    metadata log get another error."""
    if broker.access.allows_on_cluster(part, CREATE_CLUSTER, quiet=True):
        return []
    times = Counter(each.name for each in message.topics)
    return [
        each
        for each in message.topics
        if times[each.name] == 1
        and each.name != CLUSTER_METADATA_TOPIC
        and not broker.access.allows(part, CREATE_TOPIC, each.name)
    ]


def _rejected(topic: CreatableTopic, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
