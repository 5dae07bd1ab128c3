"""Heartbeat, v0-v4: keeps a member of a classic group alive; the answer announces a rebalance.

v3: static members.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    InvalidGroupId,
    KafkaError,
)
from penstock.security.permissions import READ_GROUP
from penstock.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: HeartbeatRequest
) -> HeartbeatResponse | None:
    if not broker.access.allows(request, READ_GROUP, message.group_id):
        return HeartbeatResponse(error_code=GroupAuthorizationFailed.code)
    if not message.group_id:
        return HeartbeatResponse(error_code=InvalidGroupId.code)
    broker.coordinators.ask_group(message.group_id, request, message, _rejected)
    return None


def _rejected(error: KafkaError) -> HeartbeatResponse:
    if isinstance(error, CoordinatorLoadInProgress):
        return HeartbeatResponse()  # sessions start again after a load: this member is in time
    return HeartbeatResponse(error_code=error.code)
