"""DeleteTopics, v1-v6.  v5: error texts.  v6: by topic id.  Answered by the controller.

Topics that the caller may not delete are rejected before anything is known of them. Then the
results are sorted: their order does not tell which topics exist.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import KafkaError, TopicAuthorizationFailed
from penstock.model import ZERO_ID
from penstock.security.permissions import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC
from penstock.wire.messages.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: DeleteTopicsRequest
) -> DeleteTopicsResponse | None:
    denials = _take_out_denied(broker, request, message)

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

    def joined(answer: DeleteTopicsResponse) -> DeleteTopicsResponse:
        if denials:
            answer.responses += denials
            answer.responses.sort(key=lambda each: (each.name or "", each.topic_id))
        return answer

    if denials and not (message.topics or message.topic_names):
        return joined(DeleteTopicsResponse())
    broker.ask_controller(
        request, message, rejected, joined, mutations=_partitions(broker, message)
    )
    return None


def _partitions(broker: "Broker", message: DeleteTopicsRequest) -> int:
    """Return the number of partitions that a request deletes."""
    image = broker.image
    names = [each.name or image.topic_names.get(each.topic_id, "") for each in message.topics]
    known = map(image.topics.get, dict.fromkeys([*names, *message.topic_names]))
    return sum(len(topic.partitions) for topic in known if topic is not None)


def _take_out_denied(
    broker: "Broker", request: ClientRequest, message: DeleteTopicsRequest
) -> list[DeletableTopicResult]:
    """Take the topics that the caller may not delete out of a request; return their results."""
    access = broker.access
    if access.allows_on_cluster(request, DELETE_CLUSTER, quiet=True):
        return []
    denials: list[DeletableTopicResult] = []

    def may_delete(wanted: DeleteTopicState) -> bool:
        by_id = wanted.name is None
        if by_id == (wanted.topic_id == ZERO_ID):
            return True  # neither, or both: the controller says so
        name = broker.image.topic_names.get(wanted.topic_id) if by_id else wanted.name
        if name is None:
            return True
        visible = access.allows(request, DESCRIBE_TOPIC, name, quiet=True)
        if visible and name not in broker.image.topics:
            return True  # the controller says that it is unknown
        if access.allows(request, DELETE_TOPIC, name) and (visible or by_id):
            return True
        denials.append(
            DeletableTopicResult(
                name=name if visible or not by_id else None,
                topic_id=wanted.topic_id,
                error_code=TopicAuthorizationFailed.code,
                error_message=TopicAuthorizationFailed.summary(),
            )
        )
        return False

    message.topics = [each for each in message.topics if may_delete(each)]
    message.topic_names = [
        each for each in message.topic_names if may_delete(DeleteTopicState(name=each))
    ]
    return denials
