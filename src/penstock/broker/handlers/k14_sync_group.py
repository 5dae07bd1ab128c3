"""SyncGroup, v0-v5: the leader brings the assignment of a generation, members take theirs.

Answered when the leader has spoken.  v3: static members.  v5: protocol type and name are a must.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    InconsistentGroupProtocol,
    InvalidGroupId,
    KafkaError,
    RebalanceInProgress,
)
from penstock.security.permissions import READ_GROUP
from penstock.wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

PROTOCOL_FROM = 5


def handle(
    broker: "Broker", request: ClientRequest, message: SyncGroupRequest
) -> SyncGroupResponse | None:
    def may_have() -> bool:
        return broker.access.allows(request, READ_GROUP, message.group_id)

    unnamed = message.protocol_type is None or message.protocol_name is None
    if unnamed and request.api_version >= PROTOCOL_FROM:
        return SyncGroupResponse(error_code=InconsistentGroupProtocol.code)
    if not may_have():
        return SyncGroupResponse(error_code=GroupAuthorizationFailed.code)
    if not message.group_id:
        return SyncGroupResponse(error_code=InvalidGroupId.code)
    broker.coordinators.ask_group(message.group_id, request, message, _rejected, may_have)
    return None


def _rejected(error: KafkaError) -> SyncGroupResponse:
    if isinstance(error, CoordinatorLoadInProgress):
        # Clients do not expect this error here. The rebalance is lost with the former coordinator,
        # so they join again.
        return SyncGroupResponse(error_code=RebalanceInProgress.code)
    return SyncGroupResponse(error_code=error.code)
