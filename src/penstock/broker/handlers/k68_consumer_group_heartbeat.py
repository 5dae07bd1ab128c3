"""ConsumerGroupHeartbeat, v0-v1: a member joins, stays or leaves, and learns what it has.

v1: subscription by regular expression; the member makes its own id.
UNSUPPORTED_VERSION before every other check where the consumer protocol is off: by group.version 0
or by group.coordinator.rebalance.protocols. More than 25,000 topic names, or names that fit into no
record, are rejected before their group sees them.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import (
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnsupportedVersion,
)
from penstock.security.permissions import DESCRIBE_TOPIC, READ_GROUP
from penstock.wire.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Of one member's topics, with two for each length: as much as a record holds by default.
NAME_CHARACTERS_MAX = 1024 * 1024
# A subscription becomes one record, written in one turn.
SUBSCRIBED_NAMES_MAX = 25_000


def handle(
    broker: "Broker", request: ClientRequest, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | None:
    if not broker.coordinators.serves_consumer_protocol:
        return ConsumerGroupHeartbeatResponse(error_code=UnsupportedVersion.code)
    access, names = broker.access, message.subscribed_topic_names or ()
    if not access.allows(request, READ_GROUP, message.group_id):
        return _rejected(GroupAuthorizationFailed())
    if not message.group_id:
        return _rejected(InvalidRequest("GroupId can't be empty."))
    left = NAME_CHARACTERS_MAX - 2 * len(names)
    if len(names) > SUBSCRIBED_NAMES_MAX or sum(map(len, names)) > left:
        return _rejected(
            UnknownServerError("SubscribedTopicNames are too long. Subscribe to a pattern instead.")
        )
    if not all(access.allows(request, DESCRIBE_TOPIC, each) for each in dict.fromkeys(names)):
        return _rejected(TopicAuthorizationFailed())
    broker.coordinators.ask_group(message.group_id, request, message, _rejected)
    return None


def _rejected(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
