"""FindCoordinator, v0-v6: which broker answers for a group or a transactional id.  v4: batched.

The first question makes the internal topic. As in Kafka its answer does not wait for that: the
client is told COORDINATOR_NOT_AVAILABLE and asks again.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.controller.image import NO_LEADER
from penstock.coordinator.partitions import partition_for
from penstock.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from penstock.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.security.permissions import DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID
from penstock.wire.messages.k10_find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

TOPICS = {0: CONSUMER_OFFSETS_TOPIC, 1: TRANSACTION_STATE_TOPIC}  # by kind of key
NEEDS = {0: DESCRIBE_GROUP, 1: DESCRIBE_TRANSACTIONAL_ID}
BATCHED_FROM = 4
NO_NODE = -1
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)


def handle(
    broker: "Broker", request: ClientRequest, message: FindCoordinatorRequest
) -> FindCoordinatorResponse | None:
    topic = TOPICS.get(message.key_type)
    batched = request.api_version >= BATCHED_FROM
    keys = message.coordinator_keys if batched else [message.key]
    if topic is None:
        error = InvalidRequest(f"{_MALFORMED} There is no key type {message.key_type} here")
        return _response([_rejected(key, error) for key in keys], batched)
    need = NEEDS[message.key_type]
    allowed = broker.access.allowed_names(request, need, keys)
    denial = need.error()
    if topic not in broker.image.topics:
        absence = broker.coordinators.begin_topic(topic) if allowed else denial
        missing = [_rejected(key, absence if key in allowed else denial) for key in keys]
        return _response(missing, batched)
    wanted = topic

    def answer() -> None:
        found = [
            _find(broker, request, wanted, key) if key in allowed else _rejected(key, denial)
            for key in keys
        ]
        request.reply(_response(found, batched))

    # A topic that was just made: its files follow within milliseconds.
    broker.replicas.when_settled(answer)
    return None


def _find(broker: "Broker", request: ClientRequest, topic: str, key: str) -> Coordinator:
    found = broker.image.topics[topic]
    index = partition_for(key, len(found.partitions))
    leader = found.partitions[index].leader
    node = broker.image.brokers.get(leader)
    endpoint = node.endpoint(request.connection.listener.name) if node else None
    if leader == NO_LEADER or endpoint is None:
        return _rejected(key, CoordinatorNotAvailable(f"{topic}-{index} has no leader"))
    if leader == broker.node_id and not broker.coordinators.has_machine(topic, index):
        return _rejected(key, CoordinatorNotAvailable(f"{topic}-{index} cannot be used yet"))
    return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)


def _rejected(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=error.code, error_message=error.message
    )


def _response(found: list[Coordinator], batched: bool) -> FindCoordinatorResponse:
    if batched:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
